/* combine.h: what rueda_allreduce does between ranks, done between the workers inside one rank. A
 * process that stands in for N workers combines their updates by the lowest levels of the same binary
 * tree, and the library does the levels above; so the result is that of N times as many ranks, and
 * with RUEDA_DETERMINISTIC=1 to the bit. Between ranks, N is a power of two for that. The library then takes
 * each rank for one worker: a worker whose update is zero counts where it would not as a rank of its own. */
#ifndef EXAMPLES_COMBINE_H
#define EXAMPLES_COMBINE_H

#include "common/record.h"

#include <rueda.h>

/* Combines all into updates[0], the others are overwritten; each tensor by itself. Averages are only
 * summed here: the caller divides once, at the end. With Adasum and more than one worker the squared norms of their updates are added to `norms`, for each tensor. */
void combine_workers(rueda_op op, const subject *about, float *const *updates, int workers,
                     double *norms);

/* ‖combined‖² / Σ‖update of a worker‖², for all and for each tensor, from the squared norms. */
void measure_orthogonality(const subject *about, const float *combined, const double *norms,
                           step_record *r);

/* The same as the library tells it, where it has combined everything itself. */
void ask_orthogonality(const subject *about, step_record *r);

void no_orthogonality(const subject *about, step_record *r); /* not measured */

#endif
