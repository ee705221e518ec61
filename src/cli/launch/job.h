/* job.h: the state of a job while it runs, and what may happen to it. The launcher's loop calls; nothing
 * here waits.
 *
 * Invariant: only the first cause of an end is kept, and it is told last.
 */
#ifndef RUEDA_CLI_LAUNCH_JOB_H
#define RUEDA_CLI_LAUNCH_JOB_H

#include "cli/launch/blame.h"
#include "cli/launch/host_link.h"
#include "cli/launch/hosts.h"
#include "cli/launch/loop.h"
#include "cli/launch/meet.h"
#include "cli/launch/output.h"
#include "net/net.h"

#define JOB_CAUSE_MAX 2048
#define JOB_NAME_DIGITS 32 /* of a job's name */
#define JOB_BLAME_MS                                                                               \
    200 /* after the first failure: what is reported until then may be its reason */
#define JOB_QUOTE_MS 500 /* until what ssh says is passed on: it may be its last words */
#define JOB_LEAVE_S 3    /* for an agent to leave after our farewell */
#define JOB_LINE_MAX 512 /* bytes of a part of a message */

typedef struct job_rank {
    host_link *link;
    int pid;
    bool alive;
} job_rank;

typedef struct job {
    const launch_options *options;
    output output;
    int input; /* what all ranks read; -1: nothing */
    char name[JOB_NAME_DIGITS + 1];
    char key[2 * NET_KEY_BYTES + 1];
    host_share *shares;
    host_link *links; /* one a host; the first has rank 0 */
    size_t link_count;
    job_rank *ranks;
    blame_fate *fates;   /* of the ranks in this step */
    int ends;            /* of ranks in this step */
    char meet[MEET_MAX]; /* "" on one host */
    size_t step;
    bool unread[WIRE_KINDS]; /* the agents know that nobody reads this */

    char cause[JOB_CAUSE_MAX]; /* why the job ends early; "" if it does not */
    int exit_code;
    int lost;  /* ranks that the job has gone on without, in all steps */
    int shown; /* the rank whose last lines are shown with the cause; -1: none */
    bool told; /* the cause was printed */

    uint64_t started_at;
    uint64_t start_by;   /* all ranks of the step run by then */
    uint64_t timeout_at; /* the whole job's limit */
    uint64_t failed_at;  /* the first rank failed; NEVER: none has */
    uint64_t blame_at;   /* what is known by then decides which rank is the cause */
    uint64_t ask_at;     /* a rank has failed: those that have not ended by then are asked to */
    uint64_t kill_at;    /* the ranks were asked to end */
    uint64_t abandon_at; /* they were killed: who has not reported is lost */
    uint64_t give_up_at; /* the user wants out, even if nobody reads our output */
} job;

/* Asks all ranks to end with a signal, for this cause if it is the first. */
void job_end(job *j, int signal, int exit_code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same by SIGTERM, but gives the ranks time to end by themselves first: those that waited for what
 * was lost say what they saw. */
void job_fail(job *j, int exit_code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void job_signal(job *j, int signal); /* to all ranks */
/* A rank has failed, or more is known about why. */
void job_gather_failures(job *j, uint64_t now);
/* If a rank has failed, what is known now decides: about the cause, or that an elastic job goes on. */
void job_decide(job *j);

/* When all hosts have ended the step: the next one, or the end. */
void job_advance(job *j, uint64_t now);
/* Takes what has come from the agents, moves output on, and takes every next step that is due. */
void job_hear(job *j, uint64_t now);
/* Acts on what is due. */
void job_check_deadlines(job *j, uint64_t now);
uint64_t job_next_deadline(const job *j);
/* All ranks have ended, all output was written, and no agent is left. */
bool job_is_over(const job *j);

/* The connection has ended, and we did not say farewell. */
void job_lose_link(job *j, host_link *l);
/* " on node2", "" where there is no question; " in line 2", "" if the steps have no labels. */
const char *job_where(const job *j, const host_link *l, char to[JOB_LINE_MAX]);
const char *job_in_step(const job *j, char to[JOB_LINE_MAX]);

#endif
