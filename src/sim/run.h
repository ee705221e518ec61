/* run.h: one trial from its beginning to its end, and what became of it. */
#ifndef RUEDA_SIM_RUN_H
#define RUEDA_SIM_RUN_H

#include "sim/trial.h"

typedef struct run_result {
    bool failed;
    char failure[1024]; /* which invariant did not hold */
    char job[200];      /* what it was */
    char story[16384];  /* what happened, a line each */
    uint64_t trace;     /* a hash of all that happened */
    uint64_t events, points;
    uint64_t world_ns; /* how long it took in the world */
} run_result;

void run_trial(const trial *t, const trial_limits *limits, run_result *result);

#endif
