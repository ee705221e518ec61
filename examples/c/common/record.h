/* record.h: what is known about a step of training, and about the whole run. */
#ifndef EXAMPLES_RECORD_H
#define EXAMPLES_RECORD_H

#include "common/options.h"
#include "common/tensors.h"

#include <math.h>

/* What a program's records are about, for those that write them down. */
typedef struct subject {
    const char *title;          /* "MNIST" */
    const char *items;          /* what it trains on: "images" */
    const char *test;           /* what the test counts: "test accuracy" */
    bool has_accuracy;          /* of the items trained on */
    double guessing;            /* loss of a program that only guesses */
    double recovered;           /* one that ends below this has found back, whatever happened */
    const tensor_place *places; /* of the tensors whose steps are combined */
    int tensors;
} subject;

/* NAN stands for "not measured" everywhere. */
typedef struct step_record {
    int epoch, step;            /* from 1 */
    int steps;                  /* in the whole run */
    double seconds;             /* of training, since its start; tests are not counted */
    double items;               /* trained on so far, by all workers */
    double rate;                /* learning rate */
    double loss, accuracy;      /* mean over all workers' items of this step */
    double test;                /* the share that was right, after this step */
    double orthogonality;       /* of the whole update */
    double tensor[MAX_TENSORS]; /* of each tensor */
} step_record;

typedef enum run_outcome {
    RUN_TRAINED,
    RUN_GUESSES,  /* at the end it is hardly better than guessing */
    RUN_DIVERGED, /* the loss rose far above that of guessing, or is no longer a number */
} run_outcome;

typedef struct run_summary {
    rueda_op op;
    const char *how; /* the name of the operation, for people */
    int ranks, workers, epochs;
    int steps; /* done; fewer than planned if the loss is no longer a number */
    run_outcome outcome;
    double worst; /* the largest loss of a step, and which one it was */
    int worst_step;
    double loss;                      /* at the end, as a running mean */
    double test[MAX_EPOCHS];          /* after each epoch */
    double seconds, items_per_second; /* of training */
    double first, last;               /* orthogonality, mean of the first and the last tenth */
    double tensor_first[MAX_TENSORS], tensor_last[MAX_TENSORS];
} run_summary;

extern const char *const run_outcome_names[]; /* "trained", … */

void summary_start(run_summary *s, rueda_op op, const char *how, int workers, int epochs);

/* Takes a step into account; all ranks come to the same. */
void summary_step(run_summary *s, const subject *about, const step_record *r);

/* How it went, in a sentence. */
#define SENTENCE_BYTES 256
void summary_sentence(const run_summary *s, const subject *about, char sentence[SENTENCE_BYTES]);

#endif
