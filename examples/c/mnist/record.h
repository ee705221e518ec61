/* record.h: what is known about a step, and about the whole run. */
#ifndef MNIST_RECORD_H
#define MNIST_RECORD_H

#include "network.h"
#include "options.h"

#include <math.h>

/* NAN stands for "not measured" everywhere. */
typedef struct step_record {
    int epoch, step;        /* from 1 */
    int steps;              /* in the whole run */
    double seconds;         /* of training, since its start; evaluation is not counted */
    double images;          /* trained on so far, by all workers */
    double rate;            /* learning rate */
    double loss, accuracy;  /* mean over all workers' batches of this step */
    double test_accuracy;   /* after this step */
    double orthogonality;   /* of the whole update */
    double tensor[TENSORS]; /* of each tensor */
} step_record;

typedef struct run_summary {
    rueda_op op;
    int ranks, workers, epochs;
    int steps;                         /* done; fewer than planned if the run diverged */
    bool diverged;                     /* the loss is no longer a number */
    double test_accuracy[MAX_EPOCHS];  /* after each epoch */
    double seconds, images_per_second; /* of training */
    double first, last;                /* orthogonality, mean of the first and the last tenth */
    double tensor_first[TENSORS], tensor_last[TENSORS];
} run_summary;

#endif
