/* values.h: what a task's tensors hold, and what must come out, by plain calculation. */
#ifndef RUEDA_SIM_VALUES_H
#define RUEDA_SIM_VALUES_H

#include "sim/trial.h"

/* Elements of a rank's input and output of a task; 0 where it has none. */
uint64_t values_in_count(const trial *t, const task *k, int rank);
uint64_t values_out_count(const trial *t, const task *k, int rank);

/* Rows that member `from` has for member `to`: alltoall; scatter, where `from` is the root. */
uint64_t values_split(const task *k, int from, int to);

void values_fill(const trial *t, const task *k, int rank, void *input);
/* Whether the output is right; if not, `text` says where. */
bool values_check(const trial *t, const task *k, int rank, const void *output, char *text,
                  size_t size);

#endif
