/* context.c: rueda_init, rueda_shutdown and who we are. */
#include "api/context.h"

#include <stdio.h>

#include <stdlib.h>

typedef enum context_state { CONTEXT_DOWN, CONTEXT_UP, CONTEXT_FORKED } context_state;

static struct {
    _Atomic int state; /* context_state */
    engine *engine;
    uint64_t generation; /* of the last engine; every rank counts alike */
    logger log;          /* for warnings before there is an engine */
    bool fork_handled;
    pthread_mutex_t fork_lock; /* held by a thread that forks, for what follows */
    engine *forking;           /* the engine that was paused for it, or NULL */
    bool paused;
    pthread_mutex_t leftovers_lock;
    heap_leftovers *leftovers; /* memory of rueda_alloc that has outlived its engine */
} context = {.fork_lock = PTHREAD_MUTEX_INITIALIZER, .leftovers_lock = PTHREAD_MUTEX_INITIALIZER};

engine *context_peek(void)
{
    return atomic_load_explicit(&context.state, memory_order_acquire) == CONTEXT_UP ? context.engine
                                                                                    : NULL;
}

engine *context_engine(const char *call)
{
    engine *e = context_peek();
    if (e == NULL && atomic_load(&context.state) == CONTEXT_FORKED)
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

static void before_fork(void)
{
    pthread_mutex_lock(&context.fork_lock);
    pthread_mutex_lock(&context.leftovers_lock);
    context.forking = context_peek();
    if (context.forking != NULL)
        context.paused = engine_before_fork(context.forking);
}

static void after_fork(void)
{
    if (context.forking != NULL)
        engine_after_fork(context.forking, context.paused);
    pthread_mutex_unlock(&context.leftovers_lock);
    pthread_mutex_unlock(&context.fork_lock);
}

static void in_forked_child(void)
{
    if (context.forking != NULL) {
        atomic_store(&context.state, CONTEXT_FORKED);
        engine_forget(context.forking);
    }
    pthread_mutex_unlock(&context.leftovers_lock);
    pthread_mutex_unlock(&context.fork_lock);
}

static void warn_unknown(const char *name, const char *nearest)
{
    if (nearest != NULL)
        log_line(&context.log, LOG_WARN, "%s is not a setting of rueda; did you mean %s?", name,
                 nearest);
    else
        log_line(&context.log, LOG_WARN,
                 "%s is not a setting of rueda; see `rueda doctor --config`", name);
}

static rueda_status add_first_sets(const rueda_init_options *options)
{
    for (int32_t i = 0; options != NULL && i < options->set_count; i++) {
        int32_t id;
        const rueda_status status =
            rueda_add_process_set(options->set_ranks[i], options->set_sizes[i], &id);
        if (status != RUEDA_OK)
            return status;
    }
    return RUEDA_OK;
}

/* Programs built with an earlier header have no field for it. */
#define OPTIONS_LEAST offsetof(rueda_init_options, mpi_communicator)

static const void *communicator_of(const rueda_init_options *options)
{
    return options != NULL && options->struct_size >= sizeof *options ? options->mpi_communicator
                                                                      : NULL;
}

rueda_status rueda_init(const rueda_init_options *options)
{
    if (atomic_load(&context.state) == CONTEXT_UP)
        return status_fail(RUEDA_ERR_STATE,
                           "rueda_init: already initialized; call rueda_shutdown first");
    if (atomic_load(&context.state) == CONTEXT_FORKED)
        return context_engine("rueda_init"), RUEDA_ERR_STATE;
    if (options != NULL && options->struct_size < OPTIONS_LEAST)
        return status_fail(RUEDA_ERR_ARGUMENT, "rueda_init: options.struct_size is %zu, not %zu",
                           options->struct_size, sizeof *options);
    if (options != NULL && options->set_count > 0 &&
        (options->set_ranks == NULL || options->set_sizes == NULL))
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "rueda_init: %d process sets need set_ranks and set_sizes",
                           (int)options->set_count);
    config settings;
    context.log = (logger){LOG_WARN, -1};
    rueda_status status = config_load(&settings, context.generation == 0 ? warn_unknown : NULL);
    if (status != RUEDA_OK)
        return status;
    engine *e = aligned_alloc(OS_CACHE_LINE,
                              (sizeof *e + OS_CACHE_LINE - 1) / OS_CACHE_LINE * OS_CACHE_LINE);
    if (e == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rueda_init: out of memory");
    status = engine_start(e, &settings, communicator_of(options), context.generation + 1);
    /* a wrong setting is found before the others are met, one that differs by all of them: the
     * generation is still to come, and they may be waiting in it */
    context.generation += status != RUEDA_ERR_CONFIG;
    if (status != RUEDA_OK)
        return free(e), status;
    if (!context.fork_handled)
        context.fork_handled = pthread_atfork(before_fork, after_fork, in_forked_child) == 0;
    context.engine = e;
    atomic_store_explicit(&context.state, CONTEXT_UP, memory_order_release);
    status = add_first_sets(options);
    if (status != RUEDA_OK) {
        char text[STATUS_TEXT_MAX];
        snprintf(text, sizeof text, "%s", status_text());
        rueda_shutdown();
        return status_restore(status, text);
    }
    return RUEDA_OK;
}

rueda_status rueda_shutdown(void)
{
    engine *e = context_engine("rueda_shutdown");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    atomic_store(&context.state, CONTEXT_DOWN);
    pthread_mutex_lock(&context.leftovers_lock);
    engine_stop(e, &context.leftovers);
    pthread_mutex_unlock(&context.leftovers_lock);
    free(e);
    context.engine = NULL;
    return RUEDA_OK;
}

bool context_free_leftover(void *memory)
{
    pthread_mutex_lock(&context.leftovers_lock);
    const bool freed = heap_free_leftover(&context.leftovers, memory);
    pthread_mutex_unlock(&context.leftovers_lock);
    return freed;
}

int rueda_is_initialized(void)
{
    return context_peek() != NULL;
}

#define IDENTITY_GETTER(name, field)                                                               \
    int rueda_##name(void)                                                                         \
    {                                                                                              \
        const engine *e = context_peek();                                                          \
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
    const engine *e = context_peek();
    return e == NULL ? -1 : e->who.local_size * e->who.cross_size == e->who.size;
}

int rueda_last_joined(void)
{
    engine *e = context_peek();
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
