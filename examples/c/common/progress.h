/* progress.h: what a person sees while a program trains, and at the end. Only rank 0 shows it. */
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

#include "common/record.h"

typedef struct progress {
    const subject *about;
    progress_mode mode; /* never AUTO */
    int epochs, workers;
    double shown_at;                      /* seconds, of the last bar */
    int shown_tenth;                      /* of the last line */
    double loss, accuracy, orthogonality; /* running means */
} progress;

/* `what` is the first line: what is trained, on what, how. */
void progress_start(progress *p, const subject *about, const run_options *run, const run_summary *s,
                    const char *what);
/* Ranks of an elastic job were lost after `step`, and so many workers go on. Rank 0 may be another than before. */
void progress_change(progress *p, const run_options *run, int workers, int step);
void progress_step(progress *p, const step_record *r);
void progress_summary(const progress *p, const run_summary *s);

#endif
