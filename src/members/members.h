/* members.h: a process's part in an elastic job, which outlives views and their engines: who is in the job, who is
 * lost, and who is in it next.
 *
 * A thread of its own watches the workers of the host and takes part in the agreement (agreement.h), whatever the
 * program does meanwhile. When members change it ends the engine of the last view, and votes when that touches no
 * memory of others any more. When the next view is decided it kills workers that are not in it and share memory with
 * us: one of them may be stopped in the middle of a copy, and would go on with it. Then the program may go on.
 *
 * Threads: the functions here are the program's and the engine's; all may be called from any thread, init, close and
 * the two around a view one at a time.
 */
#ifndef RUEDA_MEMBERS_H
#define RUEDA_MEMBERS_H

#include "base/status.h"
#include "members/list.h"

typedef struct members members;

/* Who is in the job. A worker's rank is its place in the list. */
typedef struct members_view {
    uint64_t number;
    members_list workers;
} members_view;

/* What the members' thread asks of the engine of a view. Both return at once. */
typedef struct members_engine {
    void *engine; /* NULL: there is none */
    /* Everything ends with ERR_MEMBERS; `rank` is lost, or -1: somebody else knows who is. `why`: NULL: it has ended. */
    void (*end)(void *engine, int rank, const char *why);
    /* It touches no memory of others any more; if it still does, and nobody drives it, it is moved on. */
    bool (*has_withdrawn)(void *engine);
} members_engine;

/* `first`: the view that begins; its workers, of which we are one, are below `workers`. Who gives no sign for `silence_ns`
 * (0: for ever) is given up. ERR_MEMORY. */
rueda_status members_open(uint32_t worker, uint32_t workers, const members_view *first,
                          uint64_t silence_ns, members **opened);
/* Leaves in good order: no later view has us. NULL is allowed. */
void members_close(members *m);
/* In a forked child. */
void members_forget(members *m);

/* The descriptor of the roster: -1 until it was made here, or fetched from the lowest rank. */
int *members_roster(members *m);
/* The lowest worker makes it for all. */
rueda_status members_make_roster(members *m);

/* The engine of the view that was adopted runs from now on; `pids`, by rank, are the processes of our host whose
 * numbers mean the same to us, and 0 otherwise. ERR_MEMBERS: members change again, and it must not run. ERR_SYSTEM,
 * ERR_MEMORY. */
rueda_status members_begin_view(members *m, const members_engine *engine, const int *pids);
/* Before the engine ends. Afterwards it is not used any more. */
void members_end_view(members *m);
/* From now on this worker votes for nothing: it is about to leave. */
void members_begin_leaving(members *m);

/* The engine of view `number` takes a rank for lost. Of no effect if another view was adopted since. */
void members_report_lost(members *m, uint64_t number, int rank);
/* It waits for one that has left, or is about to: another view is needed. */
void members_call(members *m, uint64_t number);

/* Whether another view is decided than the one that was adopted, or is about to be. */
bool members_is_changing(members *m);
/* Whether one is decided. */
bool members_is_decided(members *m);
/* Blocks until one is decided; false: it takes too long. */
bool members_await(members *m);
/* Blocks until another view than the last one adopted is decided, and adopts it. ERR_INTERRUPTED: `interrupted` (or
 * NULL) has said so. ERR_PEER: the others have given us up. ERR_TIMEOUT: too few of the last view answer. */
rueda_status members_adopt(members *m, int (*interrupted)(void *), void *argument,
                           members_view *view);
uint32_t members_worker(const members *m);

#endif
