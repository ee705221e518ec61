/* bench_sendrecv.c: a tensor that goes from rank 0 to the last rank and back, time after time. */
#include "cli/bench_report.h"
#include "cli/bench_scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_US 1e3
#define MIB_BYTES 1048576.0
#define US_PER_S 1e6
#define SIZE_LEAST 4
#define SIZE_STEP 8
#define SIZE_MOST (UINT64_C(8) << 20)
#define TURNS_MOST 5000
#define TURNS_LEAST 20
#define BYTES_IN_ALL (UINT64_C(1) << 30)

static bool pass(bool sends, int peer, void *data, uint64_t bytes)
{
    const int64_t shape[] = {(int64_t)bytes};
    const rueda_tensor tensor = RUEDA_TENSOR("ball", data, RUEDA_U8, 1, shape);
    const rueda_status status =
        sends ? rueda_send(&tensor, peer, NULL, NULL) : rueda_recv(&tensor, peer, NULL, NULL);
    return status == RUEDA_OK || bench_scenario_fail(sends ? "send" : "recv");
}

static uint64_t turns_of(uint64_t bytes)
{
    const uint64_t turns = BYTES_IN_ALL / bytes;
    return turns > TURNS_MOST ? TURNS_MOST : turns < TURNS_LEAST ? TURNS_LEAST : turns;
}

/* Half of the way there and back, in each turn. */
static bool play(int peer, bool first, void *data, uint64_t bytes, samples *times)
{
    for (uint64_t i = 0; i < turns_of(bytes); i++) {
        const uint64_t start = world_now_ns();
        if (!pass(first, peer, data, bytes) || !pass(!first, peer, data, bytes))
            return false;
        const float us = (float)((double)(world_now_ns() - start) / NS_PER_US / 2);
        samples_add(times, &us, 1);
    }
    return true;
}

static void tell(const bench_options *o, uint64_t bytes, samples *times)
{
    char variant[32];
    const double us = samples_quantile(times, 0.5);
    snprintf(variant, sizeof variant, "%llu bytes", (unsigned long long)bytes);
    bench_scenario_tell(o, variant, "median from one rank to another", us, "us");
    bench_scenario_tell(o, "", "throughput", (double)bytes / MIB_BYTES / (us / US_PER_S), "MiB/s");
}

/* The others wait. */
bool scenario_sendrecv(const bench_options *o, const board *b)
{
    const int rank = rueda_rank(), last = rueda_size() - 1;
    uint8_t *data = calloc(1, SIZE_MOST);
    bool ok = data != NULL;
    (void)b;
    if (ok)
        memset(data, 1, SIZE_MOST);
    for (uint64_t bytes = SIZE_LEAST; ok && last > 0 && bytes <= SIZE_MOST; bytes *= SIZE_STEP) {
        samples times = {0};
        if (rank == 0 || rank == last)
            ok = play(rank == 0 ? last : 0, rank == 0, data, bytes, &times);
        if (ok && rank == 0)
            tell(o, bytes, &times);
        samples_clear(&times);
    }
    free(data);
    return (rueda_barrier(RUEDA_GLOBAL_SET, NULL) == RUEDA_OK || bench_scenario_fail("barrier")) &&
           ok;
}
