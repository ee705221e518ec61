/* context.c: see context.h; rueda_init, rueda_shutdown and who we are. */
#include "api/context.h"
#include "api/structs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERRUPT_LOOK_MS 50 /* between two questions whether a caller that waits gives up */

engine *context_engine(const context *here, const char *call)
{
    engine *e = context_peek(here);
    if (e == NULL && atomic_load(&here->state) == CONTEXT_FORKED)
        status_fail(
            RUEDA_ERR_STATE,
            "%s: this process was forked from a rank after rueda_init and is not part of the "
            "job; call rueda in the parent only",
            call);
    else if (e == NULL)
        status_fail(RUEDA_ERR_STATE, "%s: rueda has not been initialized; call rueda_init first",
                    call);
    return e;
}

rueda_status context_wait_own(const context *here, rueda_request *request, const char *call)
{
    if (here->interrupted == NULL)
        return context_wait(here, request, -1);
    rueda_status status;
    while ((status = context_wait(here, request, INTERRUPT_LOOK_MS)) == RUEDA_PENDING) {
        if (here->interrupted(here->interrupted_argument) != 0)
            return status_fail(RUEDA_ERR_INTERRUPTED,
                               "%s: rank %d was interrupted; the call of the other ranks goes on",
                               call, here->engine->who.rank);
    }
    return status;
}

/* ---- The process's own, and its forks ---------------------------------------------------------- */

static struct {
    context own;
    bool handles_forks;
    world_lock fork_lock; /* held by a thread that forks, for what follows */
    engine *forking;      /* the engine that was to pause for it, or NULL */
    bool paused;
} process = {.own = CONTEXT_NEW, .fork_lock = WORLD_LOCK_NEW};

context *context_of_process(void)
{
    return &process.own;
}

static void before_fork(void)
{
    world_lock_take(&process.fork_lock);
    process.forking = context_peek(&process.own);
    if (process.forking != NULL)
        process.paused = engine_before_fork(process.forking);
    heap_lock(&process.own.heap); /* last: who drives may need it */
}

static void after_fork(void)
{
    heap_unlock(&process.own.heap);
    if (process.forking != NULL)
        engine_after_fork(process.forking, process.paused);
    world_lock_release(&process.fork_lock);
}

static void in_forked_child(void)
{
    if (process.forking != NULL) {
        atomic_store(&process.own.state, CONTEXT_FORKED);
        engine_forget(process.forking);
        members_forget(process.own.members);
    }
    heap_forget(&process.own.heap);
    heap_unlock(&process.own.heap);
    world_lock_release(&process.fork_lock);
}

/* A child that took the heap for its own would give out the same memory as its parent. */
static bool handle_forks(void)
{
    if (!process.handles_forks)
        process.handles_forks = pthread_atfork(before_fork, after_fork, in_forked_child) == 0;
    return process.handles_forks;
}

/* ---- A job's life ------------------------------------------------------------------------------ */

static void warn_unknown(const char *name, const char *nearest)
{
    static const logger log = {LOG_WARN, -1}; /* there is no engine yet */
    if (nearest != NULL)
        log_line(&log, LOG_WARN, "%s is not a setting of rueda; did you mean %s?", name, nearest);
    else
        log_line(&log, LOG_WARN, "%s is not a setting of rueda; see `rueda doctor --config`", name);
}

static rueda_status add_first_sets(const context *here, const rueda_init_options *options)
{
    for (int32_t i = 0; i < options->set_count; i++) {
        int32_t id;
        const rueda_status status =
            context_add_set(here, options->set_ranks[i], options->set_sizes[i], &id);
        if (status != RUEDA_OK)
            return status;
    }
    return RUEDA_OK;
}

static rueda_status read_options(const rueda_init_options *given, rueda_init_options *options)
{
    static const rueda_init_options defaults = {.struct_size = sizeof defaults};
    static const struct_kind kind = {"rueda_init_options",
                                     offsetof(rueda_init_options, mpi_communicator),
                                     sizeof(rueda_init_options), &defaults};
    const rueda_status status =
        struct_read("rueda_init", &kind, given == NULL ? &defaults : given, options);
    if (status == RUEDA_OK && options->set_count > 0 &&
        (options->set_ranks == NULL || options->set_sizes == NULL))
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "rueda_init: %d process sets need set_ranks and set_sizes",
                           (int)options->set_count);
    return status;
}

/* There is none yet, and this process may have one. */
static rueda_status check_down(const context *here)
{
    if (atomic_load(&here->state) == CONTEXT_UP)
        return status_fail(RUEDA_ERR_STATE,
                           "rueda_init: already initialized; call rueda_shutdown first");
    if (atomic_load(&here->state) == CONTEXT_FORKED)
        return context_engine(here, "rueda_init"), RUEDA_ERR_STATE;
    return RUEDA_OK;
}

rueda_status context_start_engine(context *here, const config *settings,
                                  const rueda_init_options *options, uint64_t generation)
{
    engine *e = aligned_alloc(OS_CACHE_LINE,
                              (sizeof *e + OS_CACHE_LINE - 1) / OS_CACHE_LINE * OS_CACHE_LINE);
    if (e == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rueda_init: out of memory");
    const rueda_status status =
        engine_start(e, settings, options, generation, &here->heap, here->members);
    /* before the others have heard of us they may be waiting in this generation: it is still to come. A
     * setting that differs is found by all of them, and all come again */
    if (status == RUEDA_OK || (e->met && status != RUEDA_ERR_CONFIG))
        here->generation = generation;
    here->others_failed = e->others_failed;
    if (status != RUEDA_OK)
        return free(e), status;
    here->engine = e;
    atomic_store_explicit(&here->state, CONTEXT_UP, memory_order_release);
    return RUEDA_OK;
}

/* An engine that runs, or none. */
static rueda_status start(context *here, const rueda_init_options *options)
{
    config settings;
    rueda_status status = config_load(&settings, here->generation == 0 ? warn_unknown : NULL);
    if (status != RUEDA_OK)
        return status;
    here->interrupted = options->interrupted;
    here->interrupted_argument = options->interrupted_argument;
    settings.elastic |= options->elastic != 0;
    if (settings.elastic && options->mpi_communicator != NULL)
        return status_fail(RUEDA_ERR_CONFIG,
                           "rueda_init: MPI cannot lose ranks: an elastic job has "
                           "no communicator; take one of them away");
    if (settings.elastic)
        status = elastic_begin(here, &settings);
    const uint64_t next =
        settings.elastic ? elastic_next_life(here->generation) : here->generation + 1;
    if (status == RUEDA_OK)
        status = context_start_engine(here, &settings, options, next);
    explicit_bzero(&settings.key, sizeof settings.key);
    if (status != RUEDA_OK)
        elastic_end(here);
    return status;
}

rueda_status context_init(context *here, const rueda_init_options *given)
{
    rueda_init_options options;
    rueda_status status = check_down(here);
    if (status == RUEDA_OK)
        status = read_options(given, &options);
    if (status == RUEDA_OK)
        status = start(here, &options);
    if (status != RUEDA_OK)
        return status;
    status = add_first_sets(here, &options);
    if (status != RUEDA_OK) {
        char text[STATUS_TEXT_MAX];
        snprintf(text, sizeof text, "%s", status_text());
        context_shutdown(here);
        return status_restore(status, text);
    }
    return RUEDA_OK;
}

void context_stop_engine(context *here)
{
    engine *e = here->engine;
    atomic_store(&here->state, CONTEXT_DOWN);
    engine_stop(e);
    free(e);
    here->engine = NULL;
}

rueda_status context_shutdown(context *here)
{
    if (context_engine(here, "rueda_shutdown") == NULL)
        return RUEDA_ERR_STATE;
    if (here->members != NULL)
        members_begin_leaving(here->members);
    context_stop_engine(here);
    elastic_end(here);
    return RUEDA_OK;
}

/* ---- The functions of rueda.h ------------------------------------------------------------------- */

rueda_status rueda_init(const rueda_init_options *given)
{
    if (!handle_forks())
        return status_fail(RUEDA_ERR_MEMORY, "rueda_init: out of memory");
    return context_init(context_of_process(), given);
}

rueda_status rueda_shutdown(void)
{
    return context_shutdown(context_of_process());
}

int rueda_is_initialized(void)
{
    return context_peek(context_of_process()) != NULL;
}

#define IDENTITY_GETTER(name, field)                                                               \
    int rueda_##name(void)                                                                         \
    {                                                                                              \
        const engine *e = context_peek(context_of_process());                                      \
        return e == NULL ? -1 : e->who.field;                                                      \
    }

IDENTITY_GETTER(rank, rank)
IDENTITY_GETTER(size, size)
IDENTITY_GETTER(local_rank, local_rank)
IDENTITY_GETTER(local_size, local_size)
IDENTITY_GETTER(cross_rank, cross_rank)
IDENTITY_GETTER(cross_size, cross_size)

int rueda_is_homogeneous(void)
{
    const engine *e = context_peek(context_of_process());
    return e == NULL ? -1 : e->who.local_size * e->who.cross_size == e->who.size;
}

int rueda_last_joined(void)
{
    engine *e = context_peek(context_of_process());
    return e == NULL ? -1 : atomic_load(&e->last_joined);
}

const char *rueda_error(void)
{
    return status_text();
}

const char *rueda_version(void)
{
#define VERSION_TEXT_(x) #x
#define VERSION_TEXT(x) VERSION_TEXT_(x)
    return VERSION_TEXT(RUEDA_VERSION_MAJOR) "." VERSION_TEXT(RUEDA_VERSION_MINOR) "." VERSION_TEXT(
        RUEDA_VERSION_PATCH);
}
