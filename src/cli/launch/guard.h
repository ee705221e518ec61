/* guard.h: a process that outlives its agent by a moment, to end what a killed agent left.
 *
 * PR_SET_PDEATHSIG ends the ranks themselves, but not what they have started (a rank may be a shell
 * script). The guard sleeps on a pipe; when it closes without a farewell, the agent was killed,
 * and the guard kills the process groups it was told.
 */
#ifndef RUEDA_CLI_LAUNCH_GUARD_H
#define RUEDA_CLI_LAUNCH_GUARD_H

#include <sys/types.h>

typedef struct guard {
    pid_t pid; /* 0: none */
    int fd;
} guard;

/* Starts it for up to `groups` groups. Without a guard (no process to be had) the job still runs. */
guard guard_start(int groups);
void guard_add(const guard *g, pid_t group);
/* Those added so far have ended, and their numbers may soon be another's. */
void guard_forget(const guard *g);
/* Says farewell and waits for its end. */
void guard_dismiss(guard *g);

#endif
