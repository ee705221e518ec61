/* many.h: many seeds, on several cores. */
#ifndef RUEDA_SIM_MANY_H
#define RUEDA_SIM_MANY_H

#include "sim/run.h"

#define MANY_WORKERS 256

/* Runs the seeds first..last; shows how far it is where stderr is a terminal. False: *failing is one that fails, the
 * lowest of those that were seen. A worker that crashes, or takes too long, has failed. */
bool many_run(uint64_t first, uint64_t last, int workers, const trial_limits *limits,
              uint64_t *failing);

#endif
