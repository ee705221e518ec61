/* job.h: a trial while it runs: its ranks, each a simulated process that does the tasks, and what became of them. */
#ifndef RUEDA_SIM_JOB_H
#define RUEDA_SIM_JOB_H

#include "api/context.h"
#include "sim/trial.h"
#include "world/sim/sim.h"

#define JOB_STORY 16384 /* bytes, with the terminating zero */

typedef struct job job;

/* A tensor's memory, which is the caller's as soon as its request has ended: from then on nobody may touch it. */
typedef struct buffer {
    struct buffer *next;
    uint8_t *bytes;
    size_t size;
    bool shared;  /* of rueda_alloc */
    bool is_ours; /* it has ended, and was filled with a pattern */
} buffer;

typedef struct job_rank {
    job *job;
    int rank, process;
    context here;
    int32_t sets[TRIAL_SETS]; /* their numbers */
    buffer *buffers;
    bool finished;       /* has done all its tasks */
    rueda_status status; /* of what ended its part early */
    char text[STATUS_TEXT_MAX];
    uint64_t ended_ns;  /* when it was over, by the world's time */
    uint64_t waited_ns; /* since when it waits; 0: it does not */
    uint64_t points;
} job_rank;

struct job {
    const trial *trial;
    const char *timeline; /* a file that the ranks write, or NULL */
    sim *world;
    job_rank ranks[TRIAL_RANKS];
    job_rank stranger;
    uint64_t killed_ns[TRIAL_RANKS]; /* 0: it lives */
    uint64_t mishap_ns;              /* the last one that may end the job; 0: none yet */
    board *boards[TRIAL_HOSTS];      /* NULL: there is no launcher */
    char board_paths[TRIAL_HOSTS][BOARD_PATH];
    uint64_t points; /* passed by all ranks */
    bool happened[TRIAL_MISHAPS];
    bool failed;
    char failure[1024];
    char story[JOB_STORY];
    size_t story_used;
    /* by the number of a task: when a rank last submitted it */
    uint64_t submitted_ns[TRIAL_BATCHES * TRIAL_TASKS + 1];
};

/* A line of the story, with the time. */
void job_tell(job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The trial has failed: the world stops. */
void job_fail(job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* rank.c: the life of a rank; the argument is its job_rank. */
void rank_live(void *argument);
/* What the launcher has told it. */
void rank_set_environment(const job_rank *r);

/* stranger.c: the life of a rank of another job that got the same meeting; the argument is the job. */
void stranger_live(void *argument);

/* launcher.c: what `rueda run` does for the ranks of its hosts: it tells all of them who has ended. */
void launcher_open(job *j);
void launcher_close(job *j);
void launcher_note_end(job *j, int rank); /* it takes a moment until all know it */

/* mishaps.c: before the world runs. */
void mishaps_arrange(job *j);

/* invariants.c: when all is over. Fails the job if something is not so. */
void invariants_check(job *j, sim_end end);

#endif
