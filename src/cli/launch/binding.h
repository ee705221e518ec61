/* binding.h: how the processors of a host are shared out among its ranks, so that they do not fight.
 *
 * Cores are taken in the order of the machine (hwloc, where the build found it: cores that share a
 * cache or a socket stand together), each rank gets a block of them. Without hwloc every processor
 * that we may use counts as a core. Workers that ask for a number of processors each get a block of
 * so many, which their ranks share out; if all blocks are more than there is, they overlap.
 */
#ifndef RUEDA_CLI_LAUNCH_BINDING_H
#define RUEDA_CLI_LAUNCH_BINDING_H

#include "cli/launcher.h"

#include <sched.h>

typedef struct binding {
    int threads;     /* a rank's share of cores, at least 1 */
    int ranks;       /* number of `sets`; 0: ranks run where they like */
    cpu_set_t *sets; /* where each rank runs */
} binding;

/* Shares out what this process may use. Returns a sentence for the user if the request cannot be met
 * (static), else NULL. */
const char *binding_plan(binding *b, launch_bind how, int ranks, const launch_worker *worker);
/* Binds the calling process as rank `index` of the host; nothing happens where it cannot be done. */
void binding_apply(const binding *b, int index);
void binding_free(binding *b);

#endif
