/* bench_scenario.h: measurements that are no single collective: many tensors, mixed sizes, rest. */
#ifndef RUEDA_CLI_BENCH_SCENARIO_H
#define RUEDA_CLI_BENCH_SCENARIO_H

#include "cli/bench.h"

typedef struct bench_scenario {
    const char *name, *help;
    bool (*run)(const bench_options *o, const board *b); /* on every rank; rank 0 reports */
} bench_scenario;

/* NULL if there is none of that name. */
const bench_scenario *bench_scenario_find(const char *name);
/* All of them, ends with a NULL name. */
const bench_scenario *bench_scenario_list(void);

/* Prints rueda_error and returns false. */
bool bench_scenario_fail(const char *what);
/* One measured thing: as a line of a table, or as a JSON object. */
void bench_scenario_tell(const bench_options *o, const char *variant, const char *what,
                         double value, const char *unit);

bool scenario_tensors(const bench_options *o, const board *b);
bool scenario_behind(const bench_options *o, const board *b);
bool scenario_idle(const bench_options *o, const board *b);
bool scenario_startup(const bench_options *o, const board *b);
bool scenario_observe(const bench_options *o, const board *b);
bool scenario_sendrecv(const bench_options *o, const board *b);

#endif
