/* bench_scenario.c: the list of scenarios, and the three short ones. */
#include "cli/bench_scenario.h"

#include "cli/bench_report.h"
#include "cli/json_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_US 1e3
#define US_PER_S 1e6
#define MIB_BYTES 1048576.0
#define LARGE_BYTES (UINT64_C(256) << 20)
#define SMALL_BYTES (UINT64_C(4) << 10)
#define BEHIND_ROUNDS 10
#define IDLE_S 5
#define STARTS 50

static const bench_scenario scenarios[] = {
    {"tensors", "1,000 tensors of 4 KiB at once, against one of their total", scenario_tensors},
    {"behind", "4 KiB submitted behind 256 MiB: which ends first, and when", scenario_behind},
    {"idle", "what a job costs that does nothing for 5 s", scenario_idle},
    {"startup", "from the launch to the first result, and a new start in the same process",
     scenario_startup},
    {"observe", "what the trace and the timeline cost an allreduce", scenario_observe},
    {"sendrecv", "a tensor of 4 bytes to 8 MiB from rank 0 to the last rank and back",
     scenario_sendrecv},
    {NULL, NULL, NULL},
};

const bench_scenario *bench_scenario_list(void)
{
    return scenarios;
}

const bench_scenario *bench_scenario_find(const char *name)
{
    for (const bench_scenario *s = scenarios; s->name != NULL; s++) {
        if (strcmp(s->name, name) == 0)
            return s;
    }
    return NULL;
}

bool bench_scenario_fail(const char *what)
{
    fprintf(stderr, "rueda bench: rank %d: %s: %s\n", rueda_rank(), what, rueda_error());
    return false;
}

void bench_scenario_tell(const bench_options *o, const char *variant, const char *what,
                         double value, const char *unit)
{
    if (rueda_rank() != 0)
        return;
    if (o->json)
        json_line_print(json_pack("{s:s, s:i, s:s, s:s, s:o, s:s}", "scenario", o->what, "ranks",
                                  (int)o->ranks, "variant", variant, "what", what, "value",
                                  json_line_number(value, 3), "unit", unit));
    else
        printf("%-24s %-44s %12.*f %s\n", variant, what, value < 10 ? 3 : 1, value, unit);
    fflush(stdout);
}

static double us_since(uint64_t start)
{
    return (double)(world_now_ns() - start) / NS_PER_US;
}

static rueda_status sum_of(const char *name, void *data, uint64_t bytes, rueda_request **request)
{
    const int64_t shape[] = {(int64_t)(bytes / sizeof(float))};
    const rueda_tensor tensor = RUEDA_TENSOR(name, data, RUEDA_F32, 1, shape);
    const rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    return rueda_allreduce(&tensor, &options, request);
}

/* ---- A small tensor behind a large one ------------------------------------------------------- */

static bool behind_round(float *large, float *small, float us[2], int *first)
{
    rueda_request *requests[2];
    if (rueda_barrier(RUEDA_GLOBAL_SET, NULL) != RUEDA_OK)
        return bench_scenario_fail("barrier");
    const uint64_t start = world_now_ns();
    if (sum_of("large", large, LARGE_BYTES, &requests[0]) != RUEDA_OK ||
        sum_of("small", small, SMALL_BYTES, &requests[1]) != RUEDA_OK)
        return bench_scenario_fail("submit");
    if (rueda_wait(requests[1], -1) != RUEDA_OK)
        return bench_scenario_fail("the small one");
    us[1] = (float)us_since(start);
    *first += !rueda_poll(requests[0]);
    if (rueda_wait(requests[0], -1) != RUEDA_OK)
        return bench_scenario_fail("the large one");
    us[0] = (float)us_since(start);
    rueda_request_free(requests[0]);
    rueda_request_free(requests[1]);
    return true;
}

bool scenario_behind(const bench_options *o, const board *b)
{
    float *large = calloc(1, LARGE_BYTES), *small = calloc(1, SMALL_BYTES);
    samples times[2] = {{0}, {0}};
    float us[2];
    int first = 0;
    (void)b;
    memset(large, 0, LARGE_BYTES); /* calloc's pages are all the same one until they are written */
    bool ok = behind_round(large, small, us, &first);
    first = 0;
    for (int i = 0; ok && i < BEHIND_ROUNDS; i++) {
        ok = behind_round(large, small, us, &first);
        samples_add(&times[0], &us[0], 1);
        samples_add(&times[1], &us[1], 1);
    }
    if (ok) {
        bench_scenario_tell(o, "4 KiB behind 256 MiB",
                            "rounds of 10 in which the small one was first", first, "rounds");
        bench_scenario_tell(o, "", "median until the small one ended",
                            samples_quantile(&times[1], 0.5), "us");
        bench_scenario_tell(o, "", "median until the large one ended",
                            samples_quantile(&times[0], 0.5), "us");
    }
    samples_clear(&times[0]);
    samples_clear(&times[1]);
    free(large);
    free(small);
    return ok;
}

/* ---- A job that rests ------------------------------------------------------------------------ */

static double cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * US_PER_S +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double resident_mib(void)
{
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &total, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / MIB_BYTES;
}

bool scenario_idle(const bench_options *o, const board *b)
{
    float value = 1;
    double worst[2];
    const int64_t shape[] = {2};
    (void)b;
    if (sum_of("first", &value, sizeof value, NULL) != RUEDA_OK)
        return bench_scenario_fail("allreduce");
    const double before = cpu_us();
    sleep(IDLE_S);
    worst[0] = 100 * (cpu_us() - before) / (IDLE_S * US_PER_S);
    worst[1] = resident_mib();
    const rueda_tensor tensor = RUEDA_TENSOR("worst", worst, RUEDA_F64, 1, shape);
    const rueda_options options = RUEDA_OPTIONS(RUEDA_MAX);
    if (rueda_allreduce(&tensor, &options, NULL) != RUEDA_OK)
        return bench_scenario_fail("allreduce");
    bench_scenario_tell(o, "idle for 5 s", "processor time, worst rank", worst[0], "% of a core");
    bench_scenario_tell(o, "", "resident memory, worst rank", worst[1], "MiB");
    return true;
}

/* ---- Starting -------------------------------------------------------------------------------- */

bool scenario_startup(const bench_options *o, const board *b)
{
    float value = 1, us;
    samples starts = {0}, ends = {0};
    bool ok = sum_of("first", &value, sizeof value, NULL) == RUEDA_OK;
    bench_scenario_tell(o, "first start", "from the launch to the first result",
                        us_since(b->started_ns), "us");
    for (int i = 0; ok && i < STARTS; i++) {
        uint64_t start = world_now_ns();
        ok = rueda_shutdown() == RUEDA_OK;
        us = (float)us_since(start);
        samples_add(&ends, &us, 1);
        start = world_now_ns();
        ok = ok && rueda_init(NULL) == RUEDA_OK &&
             sum_of("first", &value, sizeof value, NULL) == RUEDA_OK;
        us = (float)us_since(start);
        samples_add(&starts, &us, 1);
    }
    if (!ok)
        return bench_scenario_fail("start");
    bench_scenario_tell(o, "again, in one process", "median of rueda_init with a first result",
                        samples_quantile(&starts, 0.5), "us");
    bench_scenario_tell(o, "", "median of rueda_shutdown", samples_quantile(&ends, 0.5), "us");
    samples_clear(&starts);
    samples_clear(&ends);
    return true;
}
