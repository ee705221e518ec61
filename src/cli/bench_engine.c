/* bench_engine.c: see bench_engine.h. */
#include "cli/bench_engine.h"

#include <stdio.h>

static rueda_request *submitted; /* of submit, for finish */

static bool fail(const slice_engine *e, const char *what)
{
    char reason[BOARD_ERROR_MAX];
    snprintf(reason, sizeof reason, "rank %d: %s: %s", e->rank, what, rueda_error());
    board_fail(e->board, e->team, reason);
    fprintf(stderr, "rueda bench: %s\n", reason);
    return false;
}

/* Tensors that the other ranks can reach. */
static bool allocate_shared(slice_engine *e)
{
    bench_data *d = &e->data;
    const size_t width = rueda_dtype_bytes(d->dtype);
    d->input = rueda_alloc(d->in_count * width + 1); /* never 0 bytes */
    d->output = d->input;
    if (!bench_data_in_place(d->collective))
        d->output = rueda_alloc(d->out_count * width + 1);
    if (d->input == NULL || d->output == NULL)
        return fail(e, "no memory from rueda_alloc (see RUEDA_HEAP_MAX)");
    return true;
}

static void release_shared(slice_engine *e)
{
    if (e->data.output != e->data.input)
        rueda_free(e->data.output);
    rueda_free(e->data.input);
}

/* Starts the operation; with `request` NULL it also ends it. */
static rueda_status call(const bench_data *d, rueda_request **request)
{
    const int64_t shape[] = {(int64_t)d->in_count};
    rueda_options options = RUEDA_OPTIONS(d->op);
    rueda_tensor tensor = RUEDA_TENSOR(d->name, d->input, d->dtype, 1, shape);
    if (d->output != d->input) {
        tensor.output = d->output;
        tensor.output_bytes = d->out_count * rueda_dtype_bytes(d->dtype);
    }
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
    case PLAN_REDUCE_TO_ROOT:
        return rueda_reduce(&tensor, &options, request);
    case PLAN_GATHER:
        return rueda_gather(&tensor, &options, request);
    case PLAN_SCATTER:
        return rueda_scatter(&tensor, &options, request);
    default:
        return rueda_barrier(RUEDA_GLOBAL_SET, request);
    }
}

static bool submit(slice_engine *e, const board_order *order)
{
    (void)order;
    return call(&e->data, &submitted) == RUEDA_OK || fail(e, "submit");
}

static bool finish(slice_engine *e)
{
    const rueda_status status = rueda_wait(submitted, -1);
    rueda_request_free(submitted);
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
    return (slice_engine){.board = b,
                          .team = BOARD_OURS,
                          .rank = rueda_rank(),
                          .data = {.rank = rueda_rank(), .size = rueda_size()},
                          .allocate = shared ? allocate_shared : slice_allocate,
                          .release = shared ? release_shared : slice_release,
                          .run = run,
                          .submit = submit,
                          .finish = finish,
                          .messages = messages};
}
