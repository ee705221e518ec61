/* bench_tensors.c: many small tensors at once, as the layers of a network give them, against one
 * allreduce of as many bytes. Both take turns, so that both see the same machine.
 */
#include "cli/bench_report.h"
#include "cli/bench_scenario.h"

#include <stdio.h>
#include <stdlib.h>

#define TENSORS 1000
#define TENSOR_BYTES 4096
#define TENSOR_FLOATS (TENSOR_BYTES / sizeof(float))
#define NAME_MAX_BYTES 32
#define WARM_ROUNDS 5
#define ROUNDS_MAX 2000
#define NS_PER_US 1e3
#define NS_PER_S 1e9

typedef enum variant { SAME, SHUFFLED, RENAMED, GROUPED, VARIANTS } variant;
static const char *const variant_names[] = {"same names and order", "another order each time",
                                            "new names each time", "as one group"};

typedef struct crowd {
    float *data;  /* of all tensors */
    float *total; /* one tensor of the same size */
    char (*names)[NAME_MAX_BYTES];
    int *order;
    rueda_tensor tensors[TENSORS];
    rueda_request *requests[TENSORS];
    unsigned seed;
} crowd;

static const int64_t tensor_shape[] = {TENSOR_FLOATS};
static const int64_t total_shape[] = {TENSORS * TENSOR_FLOATS};

/* Everything that a program would have before its backward pass. */
static void prepare(crowd *c, variant v, int round)
{
    for (int i = 0; i < TENSORS; i++) {
        snprintf(c->names[i], NAME_MAX_BYTES, "t%d.%d.%d", v, v == RENAMED ? round : 0, i);
        c->tensors[i] = RUEDA_TENSOR(c->names[i], c->data + (size_t)i * TENSOR_FLOATS, RUEDA_F32, 1,
                                     tensor_shape);
        c->order[i] = i;
    }
    for (int i = TENSORS - 1; v == SHUFFLED && i > 0; i--) {
        const int other = rand_r(&c->seed) % (i + 1), kept = c->order[i];
        c->order[i] = c->order[other];
        c->order[other] = kept;
    }
}

static bool run_many(crowd *c, variant v)
{
    const rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    if (v == GROUPED)
        return rueda_grouped_allreduce(c->tensors, TENSORS, &options, NULL) == RUEDA_OK ||
               bench_scenario_fail("group");
    for (int i = 0; i < TENSORS; i++) {
        if (rueda_allreduce(&c->tensors[c->order[i]], &options, &c->requests[i]) != RUEDA_OK)
            return bench_scenario_fail("submit");
    }
    if (rueda_wait_all(c->requests, TENSORS, -1) != RUEDA_OK)
        return bench_scenario_fail("wait");
    for (int i = 0; i < TENSORS; i++)
        rueda_request_free(c->requests[i]);
    return true;
}

static bool run_one(crowd *c)
{
    const rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    const rueda_tensor tensor = RUEDA_TENSOR("total", c->total, RUEDA_F32, 1, total_shape);
    return rueda_allreduce(&tensor, &options, NULL) == RUEDA_OK || bench_scenario_fail("total");
}

static bool meet(void)
{
    return rueda_barrier(RUEDA_GLOBAL_SET, NULL) == RUEDA_OK || bench_scenario_fail("barrier");
}

static bool round_of(crowd *c, variant v, int round, float us[2])
{
    prepare(c, v, round);
    if (!meet())
        return false;
    const uint64_t start = world_now_ns();
    if (!run_many(c, v))
        return false;
    const uint64_t middle = world_now_ns();
    if (!meet() || !meet())
        return false;
    const uint64_t again = world_now_ns();
    if (!run_one(c))
        return false;
    us[1] = (float)((double)(world_now_ns() - again) / NS_PER_US);
    us[0] = (float)((double)(middle - start) / NS_PER_US);
    return true;
}

/* Rank 0's clock decides for all when it is enough. */
static bool go_on(const bench_options *o, uint64_t start, int round, bool *more)
{
    uint8_t flag = (double)(world_now_ns() - start) < o->seconds * NS_PER_S || round <= WARM_ROUNDS;
    const int64_t shape[] = {1};
    const rueda_tensor tensor = RUEDA_TENSOR("go on", &flag, RUEDA_U8, 1, shape);
    if (rueda_broadcast(&tensor, NULL, NULL) != RUEDA_OK)
        return bench_scenario_fail("broadcast");
    *more = flag != 0 && round < ROUNDS_MAX;
    return true;
}

static bool measure(crowd *c, const bench_options *o, variant v)
{
    samples many = {0}, one = {0};
    const uint64_t start = world_now_ns();
    bool more = true, ok = true;
    float us[2];
    for (int round = 0; ok && more; round++) {
        ok = round_of(c, v, round, us) && go_on(o, start, round, &more);
        if (ok && round >= WARM_ROUNDS) {
            samples_add(&many, &us[0], 1);
            samples_add(&one, &us[1], 1);
        }
    }
    if (ok) {
        const double all = samples_quantile(&many, 0.5), total = samples_quantile(&one, 0.5);
        bench_scenario_tell(o, variant_names[v], "1,000 x 4 KiB, median", all, "us");
        bench_scenario_tell(o, "", "one tensor of their total, median", total, "us");
        bench_scenario_tell(o, "", "above that, a tensor", (all - total) / TENSORS, "us");
    }
    samples_clear(&many);
    samples_clear(&one);
    return ok;
}

bool scenario_tensors(const bench_options *o, const board *b)
{
    crowd *c = calloc(1, sizeof *c);
    bool ok = c != NULL;
    (void)b;
    if (ok) {
        c->data = calloc(TENSORS, TENSOR_BYTES);
        c->total = calloc(TENSORS, TENSOR_BYTES);
        c->names = calloc(TENSORS, sizeof *c->names);
        c->order = calloc(TENSORS, sizeof *c->order);
        c->seed = (unsigned)rueda_rank() + 1;
        ok = c->data != NULL && c->total != NULL && c->names != NULL && c->order != NULL;
    }
    for (int v = 0; ok && v < VARIANTS; v++)
        ok = measure(c, o, (variant)v);
    if (c != NULL) {
        free(c->data);
        free(c->total);
        free(c->names);
        free(c->order);
    }
    free(c);
    return ok;
}
