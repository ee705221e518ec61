/* losses.h: jobs that outlive some of their ranks: which job can, and when it goes on after a loss. */
#ifndef RUEDA_CLI_LAUNCH_LOSSES_H
#define RUEDA_CLI_LAUNCH_LOSSES_H

#include "cli/launch/blame.h"

#define LOSSES_WHY_MAX 128

/* False: a job like this cannot be elastic as it asks to be; `why` says so. */
bool losses_allowed(const launch_options *options, char why[LOSSES_WHY_MAX]);

/* What has become of the ranks of a step. */
typedef struct losses_tally {
    int running;
    int done;          /* have ended with 0 */
    bool start_failed; /* the first rueda_init of a rank has failed because of another rank */
} losses_tally;

losses_tally losses_count(const blame_fate *fates, int count);

/* Whether the ranks that are left go on. A job begins with all ranks, so it does not outlive a failed start. */
bool losses_survived(const launch_options *options, const losses_tally *tally);

#endif
