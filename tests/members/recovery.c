/* recovery.c RANKS COUNT: how long it takes from a rank's death until the others have completed the next operation, in
 * milliseconds; not a test: what it prints depends on the machine. */
#include "survivors.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define RANKS_MOST 16
#define WORK_US 2000 /* between operations, as a step would compute */

typedef struct scene {
    int victim;
    uint64_t *died_ns, *back_ns; /* by rank */
} scene;

static void live(int rank, int size, const void *argument)
{
    const scene *s = argument;
    CHECK_OK(rueda_init(NULL));
    for (int step = 0; step < 20; step++)
        CHECK_OK(run_one("before"));
    if (rank == s->victim) {
        usleep(WORK_US);
        *s->died_ns = clock_ns();
        raise(SIGKILL);
    }
    rueda_status status = RUEDA_OK;
    while (status == RUEDA_OK)
        status = run_one("step");
    while (status == RUEDA_ERR_MEMBERS) {
        status = rueda_members_update(NULL);
        if (status == RUEDA_OK)
            status = run_one("after");
    }
    CHECK_OK(status);
    CHECK_EQUAL(rueda_size(), size - 1);
    s->back_ns[rank] = clock_ns();
    CHECK_OK(rueda_shutdown());
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure(int ranks, int victim)
{
    uint64_t *times = shared_take((RANKS_MOST + 1) * sizeof *times), last = 0;
    const scene s = {victim, times, times + 1};
    static const char *const environment[] = {"RUEDA_ELASTIC=1", NULL};
    run_job(&(job){.ranks = ranks,
                   .body = live,
                   .argument = &s,
                   .environment = environment,
                   .killed = 1ull << victim});
    for (int r = 0; r < ranks; r++)
        last = r != victim && s.back_ns[r] > last ? s.back_ns[r] : last;
    const double ms = (double)(last - *s.died_ns) / 1e6;
    shared_give(times, (RANKS_MOST + 1) * sizeof *times);
    return ms;
}

int main(int argc, char **argv)
{
    const int ranks = argc > 1 ? atoi(argv[1]) : 4, count = argc > 2 ? atoi(argv[2]) : 50;
    double *all = malloc((size_t)count * sizeof *all);
    if (all == NULL || ranks < 2 || ranks > RANKS_MOST || count < 1)
        return fputs("usage: recovery [RANKS [COUNT]]\n", stderr), 2;
    for (int i = 0; i < count; i++)
        all[i] = measure(ranks, i % ranks);
    qsort(all, (size_t)count, sizeof *all, by_size);
    printf("%d ranks, %d deaths: median %.1f ms, worst %.1f ms\n", ranks, count, all[count / 2],
           all[count - 1]);
    free(all);
    return 0;
}
