/* measure.h: how well it goes. */
#ifndef MNIST_MEASURE_H
#define MNIST_MEASURE_H

#include "record.h"
#include "trainer.h"

/* Of the step that was combined last: the whole and each tensor. NAN without Adasum or with a single
 * worker. */
void measure_orthogonality(const trainer *t, step_record *r);

/* The share of test images that are read right; all ranks must call it. */
rueda_status measure_accuracy(trainer *t, double *accuracy);

/* Adds a step to the means of the first and the last tenth of the run. */
void measure_tenths(run_summary *s, const step_record *r);

#endif
