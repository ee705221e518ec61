/* blame.h: which rank is the reason why a job fails.
 *
 * A rank that loses a peer fails, too, and its end may be seen first. So all ends of a moment are looked
 * at together, with what each rank said before: the library notes whom it names (boot/board.h). */
#ifndef RUEDA_CLI_LAUNCH_BLAME_H
#define RUEDA_CLI_LAUNCH_BLAME_H

#include "cli/launcher.h"

/* What is known of a rank. */
typedef struct blame_fate {
    bool ended;
    launch_end end; /* when ended */
    int turn;       /* when ended: how many had ended before */
    int named;      /* the rank that it gave as its reason; -1: none */
    bool joined;    /* when ended: its first rueda_init was done */
    bool lost;      /* an elastic job has gone on without it: no reason by itself any more */
} blame_fate;

typedef struct blame {
    int failed; /* the rank whose exit code is the job's; -1: none has failed */
    int culprit; /* the reason: `failed` itself, or one that it names: that has ended with 0, or runs */
    bool certain; /* no end that is still to come changes it */
} blame;

bool blame_has_failed(const blame_fate *fate);
blame blame_find(const blame_fate *fates, int count);

#endif
