/* job.h: how a training program begins and ends. */
#ifndef EXAMPLES_JOB_H
#define EXAMPLES_JOB_H

#include "common/options.h"

/* True if all ranks say so. Otherwise the first of those that do not prints `why`: the launcher ends a
 * job with the first rank that fails, so nobody leaves before that. */
bool job_agrees(bool good, const char *why);

typedef struct program {
    const char *name;
    const char *about;   /* for --help */
    const option *table; /* what it understands */
    size_t option_count;
    int (*run)(void *options); /* returns the exit code */
    void *options;
} program;

/* The whole of main: joins the job, reads the words, runs, leaves. Returns the exit code. */
int job_main(const program *p, int argc, char **argv);

/* Writes floats to a file; false, and a sentence in `error`: it failed. */
bool job_save(const char *path, const float *values, size_t count, char *error, size_t bytes);

double job_now(void); /* seconds, of a clock that only goes forward */

#endif
