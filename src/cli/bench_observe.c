/* bench_observe.c: what it costs to be observed: an allreduce with nothing on, with the trace, and with the
 * timeline, in short slices that take turns, so that all see the same machine.
 */
#include "api/context.h"
#include "cli/bench_report.h"
#include "cli/bench_scenario.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACE_RECORDS 4096
#define SLICE_NS 10000000.0
#define SLICE_MOST 20000 /* operations */
#define WARM_SHARE 8     /* of a slice */
#define NS_PER_US 1e3
#define NS_PER_S 1e9
#define PERCENT 100

typedef enum watcher { NOBODY, TRACE, TIMELINE, ALL_RANKS, WATCHERS } watcher;
static const char *const watcher_names[] = {"nothing on", "trace", "timeline",
                                            "timeline, all ranks"};

typedef struct watched {
    float *data;
    uint64_t bytes;
    float *slice_us;
    samples times[WATCHERS];
    samples
        ratios[WATCHERS]; /* of the medians of a slice and of the turn's slice with nothing on */
    double slice_median[WATCHERS];
    char path[64];
    cpu_set_t all;
} watched;

static bool run_one(watched *w, const char *name)
{
    const int64_t shape[] = {(int64_t)(w->bytes / sizeof(float))};
    const rueda_tensor tensor = RUEDA_TENSOR(name, w->data, RUEDA_F32, 1, shape);
    const rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    return rueda_allreduce(&tensor, &options, NULL) == RUEDA_OK || bench_scenario_fail("allreduce");
}

static bool meet(void)
{
    return rueda_barrier(RUEDA_GLOBAL_SET, NULL) == RUEDA_OK || bench_scenario_fail("barrier");
}

/* The writer may go where there is room, as it would in a job: not only to the core of this thread. */
static bool start_timeline(watched *w, bool all_ranks)
{
    engine *e = context_peek(context_of_process());
    cpu_set_t own;
    e->settings.timeline_all = all_ranks;
    sched_getaffinity(0, sizeof own, &own);
    sched_setaffinity(0, sizeof w->all, &w->all);
    const rueda_status status = rueda_timeline_start(w->path, 0);
    sched_setaffinity(0, sizeof own, &own);
    return status == RUEDA_OK || bench_scenario_fail("timeline");
}

/* Nothing is in flight, so nobody drives: the trace may come and go. */
static bool begin(watched *w, watcher who)
{
    engine *e = context_peek(context_of_process());
    if (!meet())
        return false;
    if (who == TRACE)
        return trace_init(&e->trace, TRACE_RECORDS, e->generation) == RUEDA_OK;
    return who == NOBODY || start_timeline(w, who == ALL_RANKS);
}

static bool end(watcher who)
{
    if (!meet())
        return false;
    if (who == TRACE)
        trace_fini(&context_peek(context_of_process())->trace);
    return who < TIMELINE || rueda_timeline_stop() == RUEDA_OK;
}

static bool run_slice(watched *w, watcher who, int count)
{
    if (!begin(w, who) || !meet())
        return false;
    for (int i = 0; i < count; i++) {
        const uint64_t start = world_now_ns();
        if (!run_one(w, "observed"))
            return false;
        w->slice_us[i] = (float)((double)(world_now_ns() - start) / NS_PER_US);
    }
    const int warm = count / WARM_SHARE;
    samples slice = {0};
    samples_add(&slice, w->slice_us + warm, (size_t)(count - warm));
    w->slice_median[who] = samples_quantile(&slice, 0.5);
    samples_add(&w->times[who], slice.us, slice.count);
    samples_clear(&slice);
    return end(who);
}

/* Rank 0's clock decides for all. */
static bool agree(int64_t *number)
{
    const int64_t shape[] = {1};
    const rueda_tensor tensor = RUEDA_TENSOR("agree", number, RUEDA_I64, 1, shape);
    return rueda_broadcast(&tensor, NULL, NULL) == RUEDA_OK || bench_scenario_fail("broadcast");
}

/* Operations that fill a slice. */
static bool calibrate(watched *w, int64_t *count)
{
    const uint64_t start = world_now_ns();
    for (int i = 0; i < 100; i++) {
        if (!run_one(w, "observed"))
            return false;
    }
    const double fitting = SLICE_NS / ((double)(world_now_ns() - start) / 100);
    *count = fitting < SLICE_MOST ? (int64_t)fitting + 1 : SLICE_MOST;
    return agree(count);
}

static void tell(const bench_options *o, watched *w)
{
    for (int who = 0; who < WATCHERS; who++) {
        const double median = samples_quantile(&w->times[who], 0.5);
        char variant[64];
        snprintf(variant, sizeof variant, "%llu B, %s", (unsigned long long)w->bytes,
                 watcher_names[who]);
        bench_scenario_tell(o, variant, "median", median, "us");
        bench_scenario_tell(o, "", "p99", samples_quantile(&w->times[who], 0.99), "us");
        if (who != NOBODY)
            bench_scenario_tell(o, "", "above nothing, median over turns",
                                PERCENT * (samples_quantile(&w->ratios[who], 0.5) - 1), "%");
        samples_clear(&w->times[who]);
        samples_clear(&w->ratios[who]);
    }
}

static bool measure(const bench_options *o, watched *w)
{
    int64_t count, more = 1;
    bool ok = calibrate(w, &count);
    const uint64_t start = world_now_ns();
    for (int turn = 0; ok && more; turn++) {
        for (int i = 0; ok && i < WATCHERS; i++)
            ok = run_slice(w, (watcher)((turn + i) % WATCHERS), (int)count);
        for (int who = 0; ok && who < WATCHERS; who++) {
            const float ratio = (float)(w->slice_median[who] / w->slice_median[NOBODY]);
            samples_add(&w->ratios[who], &ratio, 1);
        }
        more = (double)(world_now_ns() - start) < o->seconds * NS_PER_S;
        ok = ok && agree(&more);
    }
    if (ok)
        tell(o, w);
    return ok;
}

bool scenario_observe(const bench_options *o, const board *b)
{
    static const uint64_t sizes[] = {4, UINT64_C(1) << 20};
    watched w = {.slice_us = malloc(SLICE_MOST * sizeof(float))};
    bool ok = w.slice_us != NULL;
    CPU_ZERO(&w.all);
    for (int i = 0; i < BOARD_CPUS; i++)
        CPU_SET(b->bind ? b->cpus[i] : i, &w.all);
    snprintf(w.path, sizeof w.path, "%s/rueda-bench-%d.json", P_tmpdir, (int)getppid());
    for (size_t i = 0; ok && i < sizeof sizes / sizeof sizes[0]; i++) {
        w.bytes = sizes[i];
        w.data = calloc(1, w.bytes);
        ok = w.data != NULL && measure(o, &w);
        free(w.data);
    }
    ok = ok && meet(); /* nobody writes any more */
    if (rueda_rank() == 0)
        unlink(w.path);
    free(w.slice_us);
    return ok;
}
