/* job.h: a trial while it runs: its ranks, each a simulated process that does the tasks, and what became of them. */
#ifndef RUEDA_SIM_JOB_H
#define RUEDA_SIM_JOB_H

#include "api/context.h"
#include "sim/run.h"
#include "sim/trial.h"
#include "world/sim/sim.h"

#include <stdio.h>

/* Where the ranks of several hosts meet: on the host of rank 0, which is the first. */
#define JOB_MEETING_HOST "10.0.0.1"
#define JOB_MEETING_PORT 29400

#define JOB_VIEWS 32

typedef struct job job;

/* A tensor's memory, which is the caller's as soon as its request has ended: from then on nobody may touch it. */
typedef struct buffer {
    struct buffer *next;
    uint8_t *bytes;
    size_t size;
    bool shared;  /* of rueda_alloc */
    bool is_lent; /* until shutdown: its request was freed while it was pending */
    bool is_ours; /* it has ended, and was filled with a pattern */
} buffer;

/* What became of a mishap. */
typedef struct happening {
    bool happened;
    uint64_t at_ns;
    int connections; /* CUT, HALF_OPEN: so many were there to lose */
} happening;

typedef struct job_rank {
    job *job;
    int rank, process;
    context here;
    int32_t sets[TRIAL_SETS]; /* their numbers */
    buffer *buffers;
    rueda_request *pending[TRIAL_TASKS + 1]; /* that end with the shutdown */
    int pending_count;
    uint64_t joined_ns;  /* when rueda_init returned, this life; 0: it has not */
    bool finished;       /* has done all its tasks */
    rueda_status status; /* of what ended its part early */
    char text[STATUS_TEXT_MAX];
    uint64_t began_ns;  /* when it last called rueda_init, by the world's time; 0: never */
    uint64_t ended_ns;  /* when its part was over */
    uint64_t left_ns;   /* and when it had left */
    uint64_t waited_ns; /* since when it waits; 0: it does not */
    uint64_t points;
    bool ran_short; /* the story tells it */
} job_rank;

struct job {
    const trial *trial;
    sim *world;
    FILE *timeline; /* NULL: nobody wants one */
    job_rank ranks[TRIAL_RANKS];
    job_rank stranger;
    uint64_t killed_ns[TRIAL_RANKS]; /* 0: it lives */
    board *boards[TRIAL_HOSTS];      /* NULL: there is no launcher */
    char board_paths[TRIAL_HOSTS][BOARD_PATH];
    uint64_t points; /* passed by all ranks */
    happening happenings[TRIAL_MISHAPS];
    run_result *result;
    size_t story_used;
    uint64_t
        views[JOB_VIEWS]; /* of an elastic job, by number: its workers, a bit each; 0: not known */
    /* by the number of a task: when a rank last submitted it */
    uint64_t submitted_ns[TRIAL_NUMBERS + 1];
};

/* A line of the story, with the time. */
void job_tell(job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The trial has failed: the world stops. */
void job_fail(job *j, invariant which, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* rank.c: the life of a rank; the argument is its job_rank. */
void rank_live(void *argument);
/* What the launcher has told it. */
void rank_set_environment(const job_rank *r);
bool rank_join(job_rank *r);                         /* false: it has given up */
void rank_give_up(job_rank *r, rueda_status status); /* its part in the job is over early */

/* elastic.c: the same for a job that goes on after a loss, and what must be so at its end. */
void elastic_live(void *argument);
void elastic_check(job *j);

/* stranger.c: the life of a rank of another job that got the same meeting; the argument is the job. */
void stranger_live(void *argument);

/* launcher.c: what `rueda run` does for the ranks of its hosts: it tells all of them who has ended. */
void launcher_open(job *j);
void launcher_close(job *j);
void launcher_note_end(job *j, int rank); /* it takes a moment until all know it */

/* timeline.c */
#define TIMELINE_LIFE 0 /* the row for a rank's life; tasks have those from 1 on */
void timeline_begin(const job *j);
void timeline_span(const job_rank *r, int row, const char *name, uint64_t from_ns); /* until now */
void timeline_moment(const job_rank *r, const char *name);
void timeline_end(const job *j);

/* mishaps.c: before the world runs. */
void mishaps_arrange(job *j);
/* Whether a mishap has done something, as it happened, by which the job may end; *at_ns: when. */
bool mishaps_may_end(const job *j, int number, uint64_t *at_ns);

/* invariants.c: when all is over. Fails the job if something is not so. */
void invariants_check(job *j, sim_end end);

#endif
