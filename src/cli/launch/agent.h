/* agent.h: runs a job's ranks on one host for the launcher: starts them, carries their output, tells
 * how they end, passes signals on.
 *
 * Here it is a child of the launcher, elsewhere `rueda agent` at the end of an ssh. Invariant: when
 * the connection to the launcher ends, for whatever reason, its ranks are killed; when the agent
 * itself is killed, its guard kills them.
 */
#ifndef RUEDA_CLI_LAUNCH_AGENT_H
#define RUEDA_CLI_LAUNCH_AGENT_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

typedef struct agent_options {
    int in, out;   /* to the launcher; close-on-exec, taken over; may be the same */
    sigset_t mask; /* what ranks get: the signal mask and the limit of files */
    struct rlimit files;
    bool give_stdin; /* rank 0 gets our stdin */
} agent_options;

/* Blocks until the launcher says farewell or is gone; returns the exit code. */
int agent_run(const agent_options *options);

#endif
