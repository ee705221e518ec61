/* losses.c: see losses.h. */
#include "cli/launch/losses.h"

#include "cli/launch/hosts.h"

#include <stdio.h>

static bool is_on_this_machine(const launch_options *options)
{
    return options->host_count == 0 ||
           (options->host_count == 1 && hosts_is_here(options->hosts[0].name));
}

bool losses_allowed(const launch_options *options, char why[LOSSES_WHY_MAX])
{
    const int least = options->min_ranks;
    if (least > options->ranks)
        snprintf(why, LOSSES_WHY_MAX, "--min-np %d is more than the number of ranks, %d", least,
                 options->ranks);
    else if (least > 0 && !is_on_this_machine(options))
        snprintf(why, LOSSES_WHY_MAX,
                 "--min-np goes with this machine alone: elastic jobs are on one host so far");
    else
        return true;
    return false;
}

losses_tally losses_count(const blame_fate *fates, int count)
{
    losses_tally tally = {0};
    for (int r = 0; r < count; r++) {
        const bool failed = blame_has_failed(&fates[r]);
        tally.running += !fates[r].ended;
        tally.done += fates[r].ended && !failed;
        tally.start_failed |= failed && !fates[r].joined && fates[r].named >= 0;
    }
    return tally;
}

bool losses_survived(const launch_options *options, const losses_tally *tally)
{
    return options->min_ranks > 0 && !tally->start_failed &&
           tally->running + tally->done >= options->min_ranks;
}
