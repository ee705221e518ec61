/* progress.h: what a person sees while the network trains, and at the end. Only rank 0 shows it. */
#ifndef MNIST_PROGRESS_H
#define MNIST_PROGRESS_H

#include "record.h"

typedef struct progress {
    progress_mode mode; /* never AUTO */
    int epochs;
    double shown_at;                      /* seconds, of the last bar */
    int shown_tenth;                      /* of the last line */
    double loss, accuracy, orthogonality; /* running means */
    double test_accuracy;                 /* the last one */
} progress;

void progress_start(progress *p, const options *o, int ranks, int workers, int images);
void progress_step(progress *p, const step_record *r);
void progress_summary(const progress *p, const run_summary *s);

#endif
