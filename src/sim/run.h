/* run.h: one trial from its beginning to its end, and what became of it. */
#ifndef RUEDA_SIM_RUN_H
#define RUEDA_SIM_RUN_H

#include "sim/trial.h"

#include <stdio.h>

/* What must be so: name, and how a failure calls it. README.md says where each is checked. */
#define INVARIANT_LIST(X)                                                                          \
    X(NONE, "all")                                                                                 \
    X(RESULTS, "results")                                                                          \
    X(MEMORY, "memory")                                                                            \
    X(AGREEMENT, "agreement")                                                                      \
    X(ASSERTION, "assertion")                                                                      \
    X(WORLD, "world")                                                                              \
    X(PROMPT, "prompt")                                                                            \
    X(STRANGER, "stranger")                                                                        \
    X(OVER, "over")                                                                                \
    X(FINISHED, "finished")                                                                        \
    X(NAMES, "names")                                                                              \
    X(TIMES, "times")                                                                              \
    X(LEAKS, "leaks")                                                                              \
    X(CRASH, "crash")

typedef enum invariant {
#define INVARIANT_ENUM(name, text) INVARIANT_##name,
    INVARIANT_LIST(INVARIANT_ENUM)
} invariant;

const char *invariant_name(invariant which);

#define RUN_STORY 16384 /* bytes, with the terminating zero */

typedef struct run_result {
    invariant failed;      /* INVARIANT_NONE: all is as it must be */
    char failure[1024];    /* how it is not so */
    char job[200];         /* what it was */
    char story[RUN_STORY]; /* what happened, a line each */
    uint64_t trace;        /* a hash of all that happened */
    uint64_t events, points;
    uint64_t world_ns; /* how long it took in the world */
} run_result;

/* `timeline`: a file for ui.perfetto.dev, or NULL; it does not change what happens. */
void run_trial(const trial *t, FILE *timeline, run_result *result);

#endif
