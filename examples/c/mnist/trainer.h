/* trainer.h: what a rank holds while it trains. */
#ifndef MNIST_TRAINER_H
#define MNIST_TRAINER_H

#include "network.h"
#include "settings.h"

#include <rueda.h>

/* What is summed over all workers in each step, beside the update. */
typedef struct metrics {
    double loss, correct;
    double norms[TENSORS]; /* Σ‖update of a worker‖², for each tensor */
} metrics;
#define METRICS (int64_t)(sizeof(metrics) / sizeof(double))

typedef struct trainer {
    const settings *o;
    rueda_op op;
    const dataset *training, *test;
    int rank, workers; /* all workers of all ranks */
    int local;         /* those of this rank: rank · local, rank · local + 1, … */
    int share;         /* images of a worker in an epoch */
    int steps;         /* in the whole run */
    network *net;
    int *order;         /* of the training images in this epoch, the same on all ranks */
    int *test_order;    /* 0, 1, 2, … */
    float *parameters;  /* the same on all ranks after every step */
    float **updates;    /* of each local worker; the first is what is combined between ranks */
    float **velocities; /* momentum: of each local worker with Adasum, otherwise only the first */
    rueda_tensor tensors[TENSORS]; /* the first update, tensor by tensor */
    metrics sums;
} trainer;

/* False: out of memory. trainer_free is due in any case. */
bool trainer_init(trainer *t, const settings *o, const dataset *training, const dataset *test);
void trainer_free(trainer *t);

#endif
