/* trainer.h: what a rank holds while it trains. */
#ifndef WORD2VEC_TRAINER_H
#define WORD2VEC_TRAINER_H

#include "common/record.h"
#include "pairs.h"
#include "settings.h"
#include "sparse.h"

#include <rueda.h>

enum { INPUT, OUTPUT, TABLES };

/* What is summed over all workers in each step. */
typedef struct metrics {
    double loss, pairs;
    double norms[TABLES]; /* Σ‖change by a worker‖², for each table */
} metrics;
#define METRICS (int64_t)(sizeof(metrics) / sizeof(double))

typedef struct trainer {
    const settings *o;
    const corpus *text;
    int rank, workers; /* all workers of all ranks */
    int local;         /* those of this rank: rank · local, rank · local + 1, … */
    int lines;         /* of a worker in a step */
    int steps;         /* in the whole run */
    int epoch_steps;   /* in an epoch */
    int epoch;         /* from 0 */
    int *order;        /* of the lines in this epoch, the same on all ranks */
    sampler negatives;
    float *keep; /* chance of each word to be trained on */
    pair_maker maker;
    size_t table;                /* floats in a table */
    float *parameters;           /* both tables; the same on all ranks after every step */
    float *d_center;             /* room for one row */
    float **updates;             /* adasum, average: what each local worker has changed; the first
                                    is what is combined between ranks */
    sparse gradients[TABLES];    /* gather: rows of all local workers */
    tensor_place places[TABLES]; /* of the tables in parameters and updates */
    rueda_tensor tensors[TABLES];
    subject about;
    metrics sums;
} trainer;

/* False: out of memory. trainer_free is due in any case. */
bool trainer_init(trainer *t, const settings *o, const corpus *text);
void trainer_free(trainer *t);

#endif
