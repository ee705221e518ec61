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

/* How far the training is; all ranks agree on it. */
typedef struct place {
    int64_t epoch; /* from 0 */
    int64_t step;  /* done so far, in all epochs */
    int64_t seen;  /* images of this epoch, by all workers */
} place;
#define PLACE_NUMBERS (int64_t)(sizeof(place) / sizeof(int64_t))

typedef struct trainer {
    const settings *o;
    rueda_op op;
    const dataset *training, *test;
    int rank, workers; /* all workers of all ranks */
    int local;         /* those of this rank: rank · local, rank · local + 1, … */
    place at;
    int begins,
        share; /* the images of this epoch from there on were divided: so many for each worker */
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

/* Divides the images of this epoch that nobody has seen yet between the workers that there are now. */
void trainer_divide(trainer *t);
/* Steps that this division has left, and the whole run. */
int trainer_steps_left(const trainer *t);
int trainer_steps(const trainer *t);

#endif
