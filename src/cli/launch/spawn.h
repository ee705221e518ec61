/* spawn.h: starts one rank. */
#ifndef RUEDA_CLI_LAUNCH_SPAWN_H
#define RUEDA_CLI_LAUNCH_SPAWN_H

#include "cli/launch/binding.h"
#include "cli/launch/host_job.h"
#include "cli/launch/memory.h"
#include "cli/launch/wire.h"

#include <signal.h>
#include <sys/resource.h>

/* What the ranks of a host share. */
typedef struct spawn_context {
    const host_job *job;
    const binding *binding;
    const memory_limits *memory;
    const char *meet;    /* where rank 0 is met; "": all ranks are here */
    const char *board;   /* where ranks find it, see boot/board.h; "": there is none */
    sigset_t mask;       /* the signal mask and limit of files that we were started with */
    struct rlimit files; /* */
    bool give_stdin;     /* rank 0 gets our stdin, otherwise none */
    int input;           /* what all ranks read instead; -1: nothing */
} spawn_context;

/* A process on its way to become a rank. */
typedef struct spawned {
    int pid;             /* or −errno: no process could be made, and nothing else is set */
    int out[WIRE_KINDS]; /* read ends of its output, non-blocking; −1: it has none of this kind */
    int report;          /* where it says why it cannot be executed */
} spawned;

/* Starts the host's rank `index` with the command of a step, in a session of its own, so that a
 * signal to its group reaches all it starts. It dies with its parent. Does not wait: many are started
 * faster so. */
spawned spawn_begin(const spawn_context *context, int index, int step);
/* Waits until it runs the command: its pid, or −errno: why the command cannot be executed. Then all is
 * closed. */
int spawn_await(const spawned *s);

/* Puts "NAME=VALUE" into the environment of this process. */
void spawn_set_variable(const char *assignment);

#endif
