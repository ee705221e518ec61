/* bench_engine.c: see bench_engine.h. */
#include "cli/bench_engine.h"

#include <stdio.h>
#include <stdlib.h>

#define ALIGNMENT 64

typedef struct own_state {
    bool shared;
    rueda_request *request; /* of submit */
} own_state;

static own_state own;

static bool fail(const slice_engine *e, const char *what)
{
    char reason[BOARD_ERROR_MAX];
    snprintf(reason, sizeof reason, "rank %d: %s: %s", e->rank, what, rueda_error());
    board_fail(e->board, e->team, reason);
    fprintf(stderr, "rueda bench: %s\n", reason);
    return false;
}

static void *get_memory(uint64_t count, rueda_dtype dtype)
{
    const size_t bytes = (size_t)count * rueda_dtype_bytes(dtype);
    const size_t rounded = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT; /* never 0 */
    return own.shared ? rueda_alloc(rounded) : aligned_alloc(ALIGNMENT, rounded);
}

static void give_back(void *memory)
{
    if (own.shared)
        rueda_free(memory);
    else
        free(memory);
}

static bool allocate(slice_engine *e)
{
    bench_data *d = &e->data;
    d->input = get_memory(d->in_count, d->dtype);
    d->output = d->input;
    if (!bench_data_in_place(d->collective))
        d->output = get_memory(d->out_count, d->dtype);
    if (d->input == NULL || d->output == NULL)
        return fail(e, own.shared ? "no memory from rueda_alloc (RUEDA_HEAP_MAX)" : "no memory");
    return true;
}

static void release(slice_engine *e)
{
    if (e->data.output != e->data.input)
        give_back(e->data.output);
    give_back(e->data.input);
}

/* Starts the operation; with `request` NULL it also ends it. */
static rueda_status call(const bench_data *d, rueda_request **request)
{
    char name[64];
    const int64_t shape[] = {(int64_t)d->in_count};
    rueda_options options = RUEDA_OPTIONS(d->op);
    rueda_tensor tensor = RUEDA_TENSOR(name, d->input, d->dtype, 1, shape);
    if (d->output != d->input)
        tensor.output = d->output;
    snprintf(name, sizeof name, "bench.%d.%d", (int)d->collective, (int)d->op);
    switch (d->collective) {
    case PLAN_ALLREDUCE:
        return rueda_allreduce(&tensor, &options, request);
    case PLAN_ALLGATHER:
        return rueda_allgather(&tensor, &options, request);
    case PLAN_BROADCAST:
        return rueda_broadcast(&tensor, &options, request);
    case PLAN_ALLTOALL:
        return rueda_alltoall(&tensor, &options, request);
    case PLAN_REDUCESCATTER:
        return rueda_reducescatter(&tensor, &options, request);
    default:
        return rueda_barrier(RUEDA_GLOBAL_SET, request);
    }
}

static bool submit(slice_engine *e, const board_order *order)
{
    (void)order;
    return call(&e->data, &own.request) == RUEDA_OK || fail(e, "submit");
}

static bool finish(slice_engine *e)
{
    const rueda_status status = rueda_wait(own.request, -1);
    rueda_request_free(own.request);
    return status == RUEDA_OK || fail(e, "wait");
}

static bool run(slice_engine *e, const board_order *order)
{
    if (order->async)
        return submit(e, order) && finish(e);
    return call(&e->data, NULL) == RUEDA_OK || fail(e, "the operation failed");
}

static uint64_t messages(void)
{
    rueda_stats stats = {.struct_size = sizeof stats};
    return rueda_get_stats(&stats) == RUEDA_OK ? stats.control_messages : 0;
}

slice_engine bench_engine(board *b, bool shared)
{
    own.shared = shared;
    return (slice_engine){.board = b,
                          .team = BOARD_OURS,
                          .rank = rueda_rank(),
                          .data = {.rank = rueda_rank(), .size = rueda_size()},
                          .allocate = allocate,
                          .release = release,
                          .run = run,
                          .submit = submit,
                          .finish = finish,
                          .messages = messages};
}
