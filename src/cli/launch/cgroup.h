/* cgroup.h: a bound on the memory of several processes together, by the kernel's control groups
 * (version 2, or the older memory controller).
 *
 * A group is made below our own, or beside it where the system has handed that over to the user (as
 * systemd does for sessions). Where neither may be written there is none, and the caller says so.
 */
#ifndef RUEDA_CLI_LAUNCH_CGROUP_H
#define RUEDA_CLI_LAUNCH_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct cgroup {
    char path[PATH_MAX]; /* "": there is none */
} cgroup;

/* What the group that we are in may use; INT64_MAX: as much as there is. */
int64_t cgroup_own_limit(void);

/* Makes one for memory of at most `bytes`, without swapping; `index` tells apart those of this
 * process. False: the system does not let us. */
bool cgroup_make(cgroup *g, int index, int64_t bytes);
/* Moves the calling process, and with it what it will start. */
bool cgroup_enter(const cgroup *g);
/* Whether a process in it was killed because its memory was used up. */
bool cgroup_was_full(const cgroup *g);
/* All processes in it have ended. */
void cgroup_remove(cgroup *g);

#endif
