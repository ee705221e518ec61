/* context.h: a process's part in jobs: the engine of the running one, if there is one, and what outlives it.
 *
 * Everything in this folder is given the context it works for; the process has one, which the functions of
 * rueda.h fetch (context_of_process) and give to a function of the same name that begins with context_. It is
 * the one piece of global state. A test or a simulated world may have more of them.
 * Written only by context_init, context_shutdown and context_members_update. In a forked child the process's is marked as foreign: the
 * child has no background thread and no part in the job.
 */
#ifndef RUEDA_API_CONTEXT_H
#define RUEDA_API_CONTEXT_H

#include "engine/engine.h"

typedef enum context_state { CONTEXT_DOWN, CONTEXT_UP, CONTEXT_FORKED } context_state;

/* A view of an elastic job, as rueda_members tells it. */
typedef struct context_view {
    members_view now;
    int32_t *lost; /* ranks of the view before that are not in it */
    int32_t lost_count;
} context_view;

typedef struct context {
    _Atomic int state; /* context_state */
    engine *engine;
    uint64_t generation; /* of the last engine; every rank counts alike */
    heap heap;           /* the memory of rueda_alloc, for this and later engines */
    members *members;    /* of an elastic job, which has an engine for each view; else NULL */
    context_view view;   /* the one that was adopted last */
    bool others_failed;  /* the last engine did not start because of other ranks */
    members_list
        survivors; /* of an elastic job that has lost some; else none: also between two jobs */
    int (*interrupted)(void *); /* of the last rueda_init; or NULL */
    void *interrupted_argument;
} context;

#define CONTEXT_NEW                                                                                \
    {                                                                                              \
        .heap = HEAP_NONE                                                                          \
    }

/* The process's own. */
context *context_of_process(void);

/* The running engine, or NULL with ERR_STATE's sentence set, naming the call. */
engine *context_engine(const context *here, const char *call);
/* Without a sentence. */
static inline engine *context_peek(const context *here)
{
    return atomic_load_explicit(&here->state, memory_order_acquire) == CONTEXT_UP ? here->engine
                                                                                  : NULL;
}

/* What the functions of rueda.h do, for a context. Those that are not here only fetch something of the engine, or
 * need none. */
rueda_status context_init(context *here, const rueda_init_options *given);
rueda_status context_shutdown(context *here);
rueda_status context_members_update(context *here, rueda_members *told);
rueda_status context_members_get(const context *here, rueda_members *told);
int context_members_changing(const context *here);
rueda_status context_add_set(const context *here, const int32_t *ranks, int32_t count,
                             int32_t *set);
rueda_status context_remove_set(const context *here, int32_t set);

#define CONTEXT_COLLECTIVE_LIST(X)                                                                 \
    X(allreduce)                                                                                   \
    X(allgather)                                                                                   \
    X(broadcast)                                                                                   \
    X(alltoall)                                                                                    \
    X(reducescatter)                                                                               \
    X(reduce)                                                                                      \
    X(gather)                                                                                      \
    X(scatter)
#define CONTEXT_COLLECTIVE(name)                                                                   \
    rueda_status context_##name(const context *here, const rueda_tensor *tensor,                   \
                                const rueda_options *options, rueda_request **request);
CONTEXT_COLLECTIVE_LIST(CONTEXT_COLLECTIVE)
rueda_status context_grouped_allreduce(const context *here, const rueda_tensor *tensors,
                                       int32_t count, const rueda_options *options,
                                       rueda_request **request);
rueda_status context_send(const context *here, const rueda_tensor *tensor, int32_t to,
                          const rueda_options *options, rueda_request **request);
rueda_status context_recv(const context *here, const rueda_tensor *tensor, int32_t from,
                          const rueda_options *options, rueda_request **request);
rueda_status context_barrier(const context *here, int32_t set, rueda_request **request);
rueda_status context_join(const context *here, rueda_request **request);

rueda_status context_wait(const context *here, rueda_request *request, int64_t timeout_ms);
rueda_status context_wait_all(const context *here, rueda_request *const *requests, size_t count,
                              int64_t timeout_ms);
void *context_alloc(const context *here, size_t bytes);

rueda_status context_get_stats(const context *here, rueda_stats *stats);
rueda_status context_orthogonality(const context *here, const char *name, double *value);
rueda_status context_timeline_start(const context *here, const char *path, int mark_cycles);
rueda_status context_timeline_stop(const context *here);

/* elastic.c: before the first engine of an elastic job, and after its last. */
rueda_status elastic_begin(context *here, config *settings);
uint64_t elastic_next_life(uint64_t generation); /* after this one */
void elastic_end(context *here);
/* context.c: an engine of this generation, with these settings. */
rueda_status context_start_engine(context *here, const config *settings,
                                  const rueda_init_options *options, uint64_t generation);
/* Its end. */
void context_stop_engine(context *here);

/* Waits for a request of the library's own; ERR_INTERRUPTED, which names the call, if rueda_init was told
 * how to ask for that and the caller gives up. */
rueda_status context_wait_own(const context *here, rueda_request *request, const char *call);

#endif
