/* launcher.h: starts the ranks of a job, here and on other hosts over ssh, and stays until all have
 * ended.
 *
 *     launch_job ──(pipe, or ssh)──> one agent a host ──> the ranks of that host
 *
 * The caller describes the job in a launch_options and owns everything in it; nothing is kept after
 * the return. Zero is the default of every field.
 */
#ifndef RUEDA_CLI_LAUNCHER_H
#define RUEDA_CLI_LAUNCHER_H

#include "cli/launch/child.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAUNCH_FAREWELL_S 1 /* between a rank's failure and asking the others to end */
#define LAUNCH_GRACE_S 5    /* between asking a rank to end and killing it */
#define LAUNCH_DRAIN_MS 200 /* for output that is still under way when the last rank has ended */
#define LAUNCH_START_S 30   /* until all hosts have answered and all ranks run */
#define LAUNCH_SILENCE_S 60 /* without a sign of life a host, or the launcher, counts as lost */

#define EXIT_TIMEOUT 124 /* as timeout(1) */
#define EXIT_CODE_MAX 255

/* A host and how many ranks it takes. Names are distinct (hosts_add merges); "localhost", our own
 * name and our own addresses are this machine, which needs no ssh. Each of them is a host of its own. */
typedef struct launch_host {
    const char *name;
    int slots;
} launch_host;

/* Ranks run the steps one after the other: a step starts when all ranks of all hosts have ended the
 * one before with 0. The first that fails ends the job, unless it is elastic: then those that it has lost
 * are there again in the next step. */
typedef struct launch_step {
    char *const *command; /* ends with NULL; looked up in PATH as the shell does */
    const char
        *label; /* "line 2: python train.py", named in the message if it fails; may be NULL */
} launch_step;

/* What one rank has for itself. */
typedef struct launch_rank {
    char *const *environment; /* "NAME=VALUE" …, ends with NULL; may be NULL */
    const char *label;        /* "worker 3", named in the message if it fails; may be NULL */
} launch_rank;

typedef struct launch_ssh {
    int port;             /* 0: what ssh takes */
    const char *identity; /* file; NULL: what ssh takes */
    char *const *options; /* each "Name=Value" becomes -o Name=Value; ends with NULL; may be NULL */
    const char *program;  /* rueda on the other hosts; NULL: the same path as here, else by PATH */
    bool always;          /* also for this machine */
} launch_ssh;

typedef enum launch_bind {
    LAUNCH_BIND_AUTO, /* as CORE, unless ranks outnumber cores or an affinity is already set */
    LAUNCH_BIND_NONE,
    LAUNCH_BIND_CORE,  /* each rank to its share of the cores */
    LAUNCH_BIND_SOCKET /* each rank to the sockets that hold its share */
} launch_bind;

/* Ranks that stand side by side on one host and share what is theirs. A host's first rank begins a
 * worker. */
typedef struct launch_worker {
    int ranks; /* of each worker; 0: every rank is one */
    int cpus;  /* processors of each; 0: an equal share of its host's cores for each rank */
    int64_t memory_bytes; /* of each, enforced as cgroup.h or else RLIMIT_DATA can; 0: no limit */
} launch_worker;

/* Where the ranks' output goes. */
typedef struct launch_output {
    bool plain;        /* no "[rank]: " before the lines */
    bool timestamp;    /* the time before that */
    bool stream_names; /* both as horovodrun has them: "[rank]<stdout>:" */
    const char
        *directory; /* to DIR/rank.N/{stdout,stderr} instead of our own output; may be NULL */
    bool json;      /* events, and the ranks' lines as such, on stdout */
    const char *json_file; /* events without the lines, to a file; may be NULL */
    const char
        *results; /* what ranks write to the descriptor that RUEDA_RESULTS_FD names, to a file
                              of records "RANK BYTES\n" and so many bytes; NULL: they have none */
    bool verbose; /* tell on stderr which host does what */
} launch_output;

/* How a rank ended. */
typedef struct launch_end {
    int exit_code;    /* as the shell counts: of a signal EXIT_SIGNAL + its number */
    int signal;       /* 0: it exited by itself */
    bool core_dumped; /* */
} launch_end;

/* Told as it happens, from within launch_job's thread; each may be NULL and must not block. */
typedef struct launch_hooks {
    void *context;
    void (*step_started)(void *context, size_t step); /* just before its ranks start */
    void (*rank_started)(void *context, size_t step, int rank, const char *host, int pid);
    void (*rank_ended)(void *context, size_t step, int rank, const launch_end *end);
    void (*step_ended)(void *context, size_t step); /* all its ranks that were not lost: with 0 */
} launch_hooks;

typedef struct launch_options {
    const char *command_name; /* before our own messages, "run" by default: "rueda run: " */
    const launch_host *hosts; /* filled in order, each up to its slots */
    size_t host_count;        /* 0: this machine alone */
    int ranks;                /* at least 1, at most the sum of all slots */
    int min_ranks;            /* an elastic job goes on while so many run or have ended with 0, see
                                 launch/losses.h; 0: the first rank that fails ends the job */
    const launch_step *steps;
    size_t step_count; /* at least 1 */

    char *const *environment;      /* "NAME=VALUE" for all ranks, ends with NULL; may be NULL */
    char *const *forwarded;        /* names of variables to take along to other hosts besides those
                                      that always go; ends with NULL; may be NULL */
    const launch_rank *rank_extra; /* one for each rank; may be NULL */
    const char *directory;         /* where ranks run; NULL: the current one */
    const char *input; /* file that every rank reads from its stdin; NULL: ours for rank 0 if
                                      it runs here, nothing for the others */

    launch_worker worker;
    launch_bind bind;

    const char *interfaces; /* "eth0,eth1": where rank 0's host is met; NULL: by the route */
    const char *meet;       /* "HOST" or "HOST:PORT" where rank 0 is met; NULL: found */
    launch_ssh ssh;

    bool with_parent;        /* end the job when the thread that has started us ends */
    int64_t timeout_ms;      /* for the whole job; 0: none */
    int64_t start_timeout_s; /* 0: LAUNCH_START_S */
    int64_t silence_s;       /* 0: LAUNCH_SILENCE_S */
    int64_t farewell_s;      /* 0: LAUNCH_FAREWELL_S */
    launch_output output;
    launch_hooks hooks;
} launch_options;

/* Blocks until the job has ended. Returns the exit code: 0, also of an elastic job that has lost ranks
 * and gone on, or that of the first rank that failed, whose last lines and fate are then the end of
 * stderr. Signals that end the launcher reach all ranks. When it returns, nothing of the job is left,
 * here or elsewhere. */
int launch_job(const launch_options *options);

/* Prints hosts, ranks, their environment and the commands to stdout, and starts nothing. Returns the
 * exit code. */
int launch_dry_run(const launch_options *options);

#endif
