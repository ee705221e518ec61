/* shorten.h: as little of a failing trial as still fails. */
#ifndef RUEDA_SIM_SHORTEN_H
#define RUEDA_SIM_SHORTEN_H

#include "sim/run.h"

/* Leaves out whatever can be left out so that the seed still fails, if it does at all. */
void shorten(uint64_t seed, trial_limits *limits);
/* How a person runs just that. */
void shorten_command(uint64_t seed, const trial_limits *limits, char *text, size_t size);
/* Runs it in a process of its own, since it may crash, and shows it there. */
void shorten_show(uint64_t seed, const trial_limits *limits,
                  void (*show)(uint64_t seed, const run_result *result));

#endif
