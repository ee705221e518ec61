/* combine.h: what rueda_allreduce does between ranks, done between the workers inside one rank. A
 * process that stands in for N workers combines their updates by the lowest levels of the same binary
 * tree, and the library does the levels above; so the result is that of N times as many ranks. */
#ifndef MNIST_COMBINE_H
#define MNIST_COMBINE_H

#include "network.h"

#include <rueda.h>

/* Combines all into updates[0], the others are overwritten. Averages are only summed here: the caller
 * divides once, at the end. `workers` is a power of two. */
void combine_workers(rueda_op op, float *const *updates, int workers);

/* Adds the squared norm of each tensor of an update to `norms`. */
void add_norms(const float *update, double norms[TENSORS]);

#endif
