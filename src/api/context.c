/* context.c: rueda_init, rueda_shutdown and who we are. */
#include "api/context.h"
#include "api/structs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERRUPT_LOOK_MS 50 /* between two questions whether a caller that waits gives up */

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
    heap heap;                  /* the memory of rueda_alloc, for this and later engines */
    int (*interrupted)(void *); /* of the last rueda_init; or NULL */
    void *interrupted_argument;
} context = {.fork_lock = PTHREAD_MUTEX_INITIALIZER, .heap = HEAP_NONE};

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

rueda_status context_wait(rueda_request *request, const char *call)
{
    if (context.interrupted == NULL)
        return rueda_wait(request, -1);
    rueda_status status;
    while ((status = rueda_wait(request, INTERRUPT_LOOK_MS)) == RUEDA_PENDING) {
        if (context.interrupted(context.interrupted_argument) != 0)
            return status_fail(RUEDA_ERR_INTERRUPTED,
                               "%s: rank %d was interrupted; the call of the other ranks goes on",
                               call, rueda_rank());
    }
    return status;
}

static void before_fork(void)
{
    pthread_mutex_lock(&context.fork_lock);
    context.forking = context_peek();
    if (context.forking != NULL)
        context.paused = engine_before_fork(context.forking);
    heap_lock(&context.heap); /* last: who drives may need it */
}

static void after_fork(void)
{
    heap_unlock(&context.heap);
    if (context.forking != NULL)
        engine_after_fork(context.forking, context.paused);
    pthread_mutex_unlock(&context.fork_lock);
}

static void in_forked_child(void)
{
    if (context.forking != NULL) {
        atomic_store(&context.state, CONTEXT_FORKED);
        engine_forget(context.forking);
    }
    heap_forget(&context.heap);
    heap_unlock(&context.heap);
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
    for (int32_t i = 0; i < options->set_count; i++) {
        int32_t id;
        const rueda_status status =
            rueda_add_process_set(options->set_ranks[i], options->set_sizes[i], &id);
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

/* A child that took the heap for its own would give out the same memory as its parent. */
static bool handle_forks(void)
{
    if (!context.fork_handled)
        context.fork_handled = pthread_atfork(before_fork, after_fork, in_forked_child) == 0;
    return context.fork_handled;
}

rueda_status rueda_init(const rueda_init_options *given)
{
    rueda_init_options options;
    if (atomic_load(&context.state) == CONTEXT_UP)
        return status_fail(RUEDA_ERR_STATE,
                           "rueda_init: already initialized; call rueda_shutdown first");
    if (atomic_load(&context.state) == CONTEXT_FORKED)
        return context_engine("rueda_init"), RUEDA_ERR_STATE;
    rueda_status status = read_options(given, &options);
    if (status != RUEDA_OK)
        return status;
    if (!handle_forks())
        return status_fail(RUEDA_ERR_MEMORY, "rueda_init: out of memory");
    config settings;
    context.log = (logger){LOG_WARN, -1};
    status = config_load(&settings, context.generation == 0 ? warn_unknown : NULL);
    if (status != RUEDA_OK)
        return status;
    engine *e = aligned_alloc(OS_CACHE_LINE,
                              (sizeof *e + OS_CACHE_LINE - 1) / OS_CACHE_LINE * OS_CACHE_LINE);
    if (e == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rueda_init: out of memory");
    status = engine_start(e, &settings, &options, context.generation + 1, &context.heap);
    explicit_bzero(&settings.key, sizeof settings.key);
    /* before the others have heard of us they may be waiting in this generation: it is still to come. A
     * setting that differs is found by all of them, and all come again */
    context.generation += status == RUEDA_OK || (e->met && status != RUEDA_ERR_CONFIG);
    if (status != RUEDA_OK)
        return free(e), status;
    context.engine = e;
    context.interrupted = options.interrupted;
    context.interrupted_argument = options.interrupted_argument;
    atomic_store_explicit(&context.state, CONTEXT_UP, memory_order_release);
    status = add_first_sets(&options);
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
    engine_stop(e);
    free(e);
    context.engine = NULL;
    return RUEDA_OK;
}

heap *context_heap(void)
{
    return &context.heap;
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
