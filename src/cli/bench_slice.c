/* bench_slice.c: see bench_slice.h. */
#include "cli/bench_slice.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_US 1e3
#define NS_PER_MS 1000000L
#define WARM_SHARE 8 /* of a slice: a sleeper's caches are cold */

static void *get_memory(uint64_t count, rueda_dtype dtype)
{
    const size_t bytes = (size_t)count * rueda_dtype_bytes(dtype);
    return aligned_alloc(OS_CACHE_LINE, (bytes + OS_CACHE_LINE) / OS_CACHE_LINE * OS_CACHE_LINE);
}

bool slice_allocate(slice_engine *e)
{
    bench_data *d = &e->data;
    d->input = get_memory(d->in_count, d->dtype);
    d->output = d->input;
    if (!bench_data_in_place(d->collective))
        d->output = get_memory(d->out_count, d->dtype);
    if (d->input != NULL && d->output != NULL)
        return true;
    board_fail(e->board, e->team, "no memory for the tensors");
    return false;
}

void slice_release(slice_engine *e)
{
    if (e->data.output != e->data.input)
        free(e->data.output);
    free(e->data.input);
}

/* Something to do that needs no memory; the result must not be optimised away. */
static void compute(void)
{
    volatile double x = 1;
    for (int i = 0; i < 200; i++)
        x = x * 1.0000001 + 1e-9;
}

static void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * NS_PER_MS}, NULL);
}

/* Rank 0 waits for a result that needs ranks which are busy with something else. */
static bool run_while_busy(slice_engine *e, const board_order *order, float *sample)
{
    board_state *t = &e->board->teams[e->team];
    if (e->rank == 0) {
        board_meet(e->board, e->team, &e->meetings);
        const uint64_t start = world_now_ns();
        const bool ok = e->run(e, order);
        *sample = (float)((double)(world_now_ns() - start) / NS_PER_US);
        atomic_store(&t->done, e->meetings);
        return ok;
    }
    if (!e->submit(e, order))
        return false;
    board_meet(e->board, e->team, &e->meetings);
    while ((int32_t)(atomic_load(&t->done) - e->meetings) < 0)
        compute();
    return e->finish(e);
}

static bool run_timed(slice_engine *e, const board_order *order, float *sample)
{
    if (order->busy_peer)
        return run_while_busy(e, order, sample);
    if (order->idle_ms > 0) {
        nap(order->idle_ms);
        board_meet(e->board, e->team, &e->meetings);
    }
    const uint64_t start = world_now_ns();
    const bool ok = e->run(e, order);
    const uint64_t end = world_now_ns();
    if (e->rank == 0)
        *sample = (float)((double)(end - start) / NS_PER_US);
    return ok;
}

/* Fresh values, `warm` operations that are not timed, `timed` ones that are, and the check. */
static bool run_burst(slice_engine *e, const board_order *order, int warm, int timed,
                      float *samples)
{
    bench_data_fill(&e->data);
    for (int i = 0; i < warm; i++) {
        if (!e->run(e, order))
            return false;
    }
    for (int i = 0; i < timed; i++) {
        if (!run_timed(e, order, samples + i))
            return false;
    }
    if (warm + timed > 0)
        if (!e->moves_only)
            e->board->teams[e->team].wrong += bench_data_check(&e->data, warm + timed);
    return true;
}

static bool reshape(slice_engine *e, const board_order *order)
{
    bench_data wanted = e->data;
    wanted.collective = (plan_collective)order->collective;
    wanted.op = (rueda_op)order->op;
    wanted.dtype = (rueda_dtype)order->dtype;
    bench_data_shape(&wanted, order->count);
    const bool same = e->data.dtype == wanted.dtype && e->data.in_count == wanted.in_count &&
                      e->data.out_count == wanted.out_count && e->data.input != NULL &&
                      e->data.collective == wanted.collective;
    if (!same)
        slice_end(e);
    wanted.input = e->data.input;
    wanted.output = e->data.output;
    e->data = wanted;
    return same || e->allocate(e);
}

void slice_end(slice_engine *e)
{
    if (e->data.input != NULL)
        e->release(e);
    e->data.input = e->data.output = NULL;
}

/* Warm-up shares the range of values with the timed iterations of its burst. */
static int warm_runs(const board_order *order, int done)
{
    int warm = done == 0 ? order->iterations / WARM_SHARE : 0;
    if (warm >= order->burst)
        warm = order->burst - 1;
    return warm > 0 ? warm : 1;
}

bool slice_run(slice_engine *e, const board_order *order)
{
    board_state *t = &e->board->teams[e->team];
    if (e->team == BOARD_OURS) /* for both: it is about the cores, not about the engines */
        board_trip(e->board, e->team, e->rank);
    if (order->kind == BOARD_TRIP)
        return true;
    if (!reshape(e, order))
        return false;
    if (e->rank == 0) /* no page fault between two clocks */
        memset(t->samples, 0, (size_t)order->iterations * sizeof t->samples[0]);
    const uint64_t before = e->messages != NULL ? e->messages() : 0;
    int runs = 0;
    for (int done = 0; done < order->iterations;) {
        const int warm = warm_runs(order, done), room = order->burst - warm;
        int timed = order->iterations - done;
        timed = timed < room ? timed : room;
        timed = timed > 0 ? timed : 1;
        if (!run_burst(e, order, warm, timed, t->samples + done))
            return false;
        done += timed;
        runs += warm + timed;
    }
    if (e->rank == 0 && e->messages != NULL)
        t->messages = (double)(e->messages() - before) / runs;
    return true;
}

bool slice_serve(slice_engine *e)
{
    uint32_t seen = 0;
    for (;;) {
        const board_order order = board_take(e->board, e->team, &seen);
        if (order.kind == BOARD_QUIT)
            break;
        if (!slice_run(e, &order))
            return false;
        board_answer(e->board, e->team);
    }
    slice_end(e);
    return true;
}
