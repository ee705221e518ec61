/* scenarios.h: what a job does from rueda_init to rueda_shutdown, in steps that may fail.
 *
 * A step submits, waits and checks what came out; a wrong result ends the rank. It allocates nothing
 * itself and leaves nothing behind, whatever it returns.
 */
#ifndef RUEDA_TESTS_SCENARIOS_H
#define RUEDA_TESTS_SCENARIOS_H

#include "rueda.h"

#include <stdbool.h>

typedef rueda_status (*scenario_step)(int rank, int size);

#define SCENARIO_STEPS 16
#define SCENARIO_SETTINGS 4

typedef struct scenario {
    const char *name;
    bool with_init;                          /* what rueda_init asks for counts, too */
    int stride;                              /* every so many calls stand for all */
    int ranks;                               /* at least so many; 0: any number */
    const char *settings[SCENARIO_SETTINGS]; /* "NAME=value" … */
    scenario_step steps[SCENARIO_STEPS];     /* …, NULL */
} scenario;

extern const scenario scenarios[];
extern const int scenario_count;

/* Where the timeline of the current trial goes: the test sets it before the ranks start. */
extern char scenario_timeline[128];

#endif
