/* blame.c: see blame.h. */
#include "cli/launch/blame.h"

/* From the best reason to the poorest. */
typedef enum rank_state { KILLED, FAILED, DONE, RUNNING, STATES_FAILED = DONE } rank_state;

static rank_state state_of(const blame_fate *f)
{
    if (!f->ended)
        return RUNNING;
    return f->end.signal != 0 ? KILLED : f->end.exit_code != 0 ? FAILED : DONE;
}

bool blame_has_failed(const blame_fate *f)
{
    return state_of(f) < STATES_FAILED;
}

/* Follows the names; ranks that name each other in a circle name nobody. */
static int reason_of(const blame_fate *fates, int count, int rank)
{
    int reason = rank;
    for (int i = 0; i < count; i++) {
        const int named = fates[reason].named;
        if (named < 0 || named >= count)
            return reason;
        reason = named;
    }
    return rank;
}

/* The lower the better: what others name before what nobody does, a rank that was killed before one that
 * exited; and last those that have not failed. */
enum { NAMED, UNNAMED = NAMED + STATES_FAILED, UNFAILED = UNNAMED + STATES_FAILED };

static int grade(const blame_fate *fates, int failed, int culprit)
{
    const rank_state state = state_of(&fates[culprit]);
    return (state >= STATES_FAILED ? UNFAILED : culprit == failed ? UNNAMED : NAMED) + (int)state;
}

blame blame_find(const blame_fate *fates, int count)
{
    blame found = {.failed = -1, .culprit = -1};
    int best = 0;
    bool one_runs = false;
    for (int r = 0; r < count; r++) {
        one_runs |= !fates[r].ended;
        if (!blame_has_failed(&fates[r]) || fates[r].lost)
            continue;
        const int culprit = reason_of(fates, count, r), its = grade(fates, r, culprit);
        if (found.failed >= 0 &&
            (its > best || (its == best && fates[r].turn > fates[found.failed].turn)))
            continue;
        best = its;
        found = (blame){.failed = r, .culprit = culprit};
    }
    found.certain = found.failed >= 0 && (best < UNNAMED || !one_runs);
    if (found.failed >= 0 && blame_has_failed(&fates[found.culprit]))
        found.failed = found.culprit;
    return found;
}
