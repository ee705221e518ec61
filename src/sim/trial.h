/* trial.h: what a seed chooses: a job (ranks, hosts, settings, tasks) and the mishaps that befall it.
 *
 * A trial is drawn before it runs, and nothing of it changes while it runs. The world has chances of its own
 * (world/sim/sim.h), from the same seed.
 */
#ifndef RUEDA_SIM_TRIAL_H
#define RUEDA_SIM_TRIAL_H

#include "rueda.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRIAL_RANKS 8 /* at most */
#define TRIAL_HOSTS 3
#define TRIAL_SETS 3 /* with the global one */
#define TRIAL_BATCHES 10
#define TRIAL_TASKS 6 /* of a batch */
#define TRIAL_MISHAPS 3
#define TRIAL_NUMBERS (TRIAL_BATCHES * TRIAL_TASKS) /* of tasks, from 1 */
#define TRIAL_ELEMENTS 6000

/* ---- Tasks ------------------------------------------------------------------------------------- */

/* name, call */
#define TASK_LIST(X)                                                                               \
    X(ALLREDUCE, allreduce)                                                                        \
    X(GROUP, grouped_allreduce)                                                                    \
    X(ALLGATHER, allgather)                                                                        \
    X(BROADCAST, broadcast)                                                                        \
    X(ALLTOALL, alltoall)                                                                          \
    X(REDUCESCATTER, reducescatter)                                                                \
    X(REDUCE, reduce)                                                                              \
    X(GATHER, gather)                                                                              \
    X(SCATTER, scatter)                                                                            \
    X(BARRIER, barrier)                                                                            \
    X(MESSAGE, message)

typedef enum task_kind {
#define TASK_ENUM(name, call) TASK_##name,
    TASK_LIST(TASK_ENUM) TASK_KINDS
} task_kind;

/* One operation of some ranks. */
typedef struct task {
    task_kind kind;
    uint32_t number; /* among all of the trial */
    rueda_dtype dtype;
    rueda_op op;
    bool alike;     /* Adasum: all ranks have the same values; else each its own places */
    uint32_t count; /* elements of a rank, or for each other rank */
    int set;
    int root, peer; /* global ranks; a message goes from root to peer */
    bool shared;    /* in memory of rueda_alloc */
    bool in_place;
    bool takes;       /* no output is given: rueda_take_output */
    bool uneven;      /* ALLTOALL, SCATTER: members get different numbers of rows */
    bool unnamed;     /* numbered by the order of calls, which is the same on all ranks */
    bool from_anyone; /* MESSAGE: the receiver takes RUEDA_ANY_RANK */
    bool forgotten;   /* its request is freed at once, and its result is nobody's */
    int ndim;         /* 1, or more with further dimensions of 1 */
    int priority;
    double prescale, postscale;
    uint32_t absent; /* ranks that have joined instead, a bit for each */
    char name[16];   /* comes again in later batches */
} task;

/* How a rank waits for its requests. */
typedef enum waiting { WAIT_LONG, WAIT_SHORT, WAIT_POLL, WAIT_TOGETHER, WAITINGS } waiting;

/* What all submit before they wait; each rank in an order of its own. */
typedef struct batch {
    int count;
    task tasks[TRIAL_TASKS];
    uint64_t compute_ns; /* a rank computes up to so long before it submits */
    bool one_by_one;     /* in the same order, and each is waited for at once */
    bool joins;          /* some ranks do only the first tasks; then all call rueda_join */
    waiting waiting;
    int remade_set; /* is removed and made again before; RUEDA_GLOBAL_SET: none is */
} batch;

/* ---- Mishaps ----------------------------------------------------------------------------------- */

/* name, what the story says */
#define MISHAP_LIST(X)                                                                             \
    X(KILL, "is killed")                                                                           \
    X(STOP, "is stopped")                                                                          \
    X(CUT, "loses its connections with")                                                           \
    X(HALF_OPEN, "loses its connections, unknown to")                                              \
    X(PARTITION, "is cut off from")                                                                \
    X(SLOW, "becomes slow")                                                                        \
    X(CLOCK, "has a clock that jumps")                                                             \
    X(SHORTAGE, "is to run short of something")

typedef enum mishap_kind {
#define MISHAP_ENUM(name, text) MISHAP_##name,
    MISHAP_LIST(MISHAP_ENUM) MISHAP_KINDS
} mishap_kind;

typedef struct mishap {
    mishap_kind kind;
    int rank, other;   /* ranks; PARTITION and CLOCK mean their hosts */
    uint64_t at_point; /* of the rank; 0: at a time */
    uint64_t at_ns;
    bool follows;      /* at_ns counts from the mishap before this one */
    uint64_t lasts_ns; /* STOP, PARTITION */
    uint64_t jump_ns;  /* CLOCK: how far it jumps forward */
    uint64_t nth;      /* SHORTAGE: which call */
    bool onwards;
    bool from_start; /* SHORTAGE: calls are counted from the start of the rank */
} mishap;

/* ---- Strangers --------------------------------------------------------------------------------- */

/* name, what the story says */
#define STRANGER_LIST(X)                                                                           \
    X(NAME, "a rank of another job")                                                               \
    X(KEY, "a rank of the job, with another key")                                                  \
    X(SILENT, "somebody who says nothing")                                                         \
    X(GARBAGE, "somebody who says what nobody understands")

typedef enum stranger_kind {
#define STRANGER_ENUM(name, text) STRANGER_##name,
    STRANGER_LIST(STRANGER_ENUM) STRANGER_KINDS
} stranger_kind;

/* ---- A trial ------------------------------------------------------------------------------------ */

typedef struct trial_set {
    int size;
    int32_t ranks[TRIAL_RANKS];
} trial_set;

typedef struct trial {
    uint64_t seed;
    int ranks, hosts;
    int host_of[TRIAL_RANKS];
    bool by_tcp; /* also inside of a host */
    bool secure, encrypts;
    bool has_launcher; /* somebody tells each host which ranks have ended: see boot/board.h */
    int heartbeat_s;
    int64_t slot_bytes, cache_capacity, fusion_threshold;
    int spin_us, yield_us;
    const char *algorithm;
    uint64_t start_ns[TRIAL_RANKS];
    int set_count;
    trial_set sets[TRIAL_SETS];
    int batch_count;
    batch batches[TRIAL_BATCHES];
    int mishap_count;
    mishap mishaps[TRIAL_MISHAPS];
    int lives;          /* a rank that has done all leaves, and joins again, so many times */
    bool sets_at_init;  /* process sets are asked for in rueda_init */
    int loner;          /* a rank that leaves while a request of its own is pending; -1: none */
    bool ends_together; /* by a barrier; else each rank leaves when it has done its own */
    bool calm;          /* the world has no whims */
    bool undisturbed;   /* no mishaps, and nobody is kept from running: what takes long sleeps */
    bool has_stranger;  /* a rank of another job calls at our meeting */
    int stranger_rank, stranger_host;
    stranger_kind stranger;
    uint64_t stranger_ns; /* when it comes */
    bool elastic;         /* the job goes on after a loss: see elastic.c */
    int steps;            /* of an elastic one */
    uint32_t elements;    /* of what is added in each */
    bool shares;          /* in memory of rueda_alloc */
} trial;

/* Which kind of trial it is, and what of it is left out, when a failing one is shortened. As text:
 * "1,b0,t12,stranger". */
typedef struct trial_limits {
    bool elastic;     /* `rueda sim members`; not in the text */
    uint32_t mishaps; /* a bit for each, by its place; as text its number */
    uint32_t batches; /* likewise; b and its number */
    uint64_t tasks;   /* by their numbers; t and that */
    bool stranger;
    bool lives; /* all but the first */
    bool sizes; /* all but a few elements of each tensor */
    bool whims; /* the world's: no pieces, pauses, torn copies */
} trial_limits;

/* False: the text is not understood. */
bool trial_limits_read(trial_limits *limits, const char *text);
void trial_limits_write(const trial_limits *limits, char *text, size_t size);

void trial_draw(trial *t, uint64_t seed, const trial_limits *limits);
/* Whether a rank takes part in a task. */
bool trial_takes_part(const trial *t, const task *k, int rank);
/* A rank's place in a set, or -1. */
int trial_index(const trial *t, int set, int rank);
const char *task_name(task_kind kind);

#endif
