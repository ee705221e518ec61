/* host_link.h: the launcher's end of one agent. Only host_link_finish_writing and host_link_close block, shortly. */
#ifndef RUEDA_CLI_LAUNCH_HOST_LINK_H
#define RUEDA_CLI_LAUNCH_HOST_LINK_H

#include "cli/launch/host_job.h"
#include "cli/launch/wire.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#define LINK_ANSWER_MAX 4096 /* bytes kept of what a host says instead of an agent's hello */

typedef enum host_link_state {
    LINK_CONNECTING, /* the agent has not greeted */
    LINK_PREPARING,  /* it has the job */
    LINK_READY,      /* no step is under way */
    LINK_RUNNING,    /* */
    LINK_LEAVING,    /* we said farewell */
    LINK_CLOSED
} host_link_state;

typedef struct host_link {
    const char *host;
    bool remote;
    host_link_state state;
    bool greeted;     /* an agent was there */
    int first, count; /* its ranks */
    int alive;        /* those that run */
    int to_start;     /* those of this step that have not reported yet */
    host_answer answer;

    pid_t pid;  /* of the agent, or of ssh; 0: gone */
    int status; /* of pid when gone, as of waitpid */
    int fd;     /* both ways; -1: closed */
    int errors; /* ssh's stderr; -1: none or closed */
    bool ended; /* nothing more comes from the agent */
    bytes in, out;
    bytes said;                /* on ssh's stderr, or before the hello; not yet shown */
    bytes pending[WIRE_KINDS]; /* OUTPUT frames that wait for room */
    size_t owed[WIRE_KINDS];   /* credit not given back yet */

    uint64_t ping_at;    /* when to send the next */
    uint64_t silence_at; /* an answer to one is due by then */
    uint64_t quote_at;   /* what it said is passed on */
    uint64_t leave_by;   /* then ssh is killed */
} host_link;

/* Starts the agent as a child of ours. `mask`, `files`: the signal mask and limit of files that ranks
 * get. False: no process (errno). Call it before any ssh is started, so that the child holds nothing of
 * theirs; what it has of the other `links` it closes. */
bool host_link_open_here(host_link *l, const host_link *links, size_t count, const sigset_t *mask,
                         const struct rlimit *files, bool give_stdin);
/* Starts the command of ssh.h. */
bool host_link_open_ssh(host_link *l, char **command, const sigset_t *mask);

void host_link_say(host_link *l, wire_type type, int kind, uint32_t number, const void *body,
                   size_t length);
/* Moves bytes in both directions, and notes when the process has ended. */
void host_link_move(host_link *l);
/* Before the agent's greeting: looks for it. True: it is there; `greeting` receives its protocol and
 * version. */
bool host_link_greeted(host_link *l, char *greeting, size_t size);
/* Nothing more can come: the connection has ended, and its process too. */
bool host_link_is_dead(const host_link *l);
/* Says farewell, or breaks a connection that does not stand yet. */
void host_link_leave(host_link *l, uint64_t leave_by);
/* Writes what waits, for a moment; for a launcher that is about to be stopped. */
void host_link_finish_writing(host_link *l);
/* Kills what is left of the process and frees everything. */
void host_link_close(host_link *l);

#endif
