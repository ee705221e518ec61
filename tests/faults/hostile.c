/* hostile.c: what a job loses when thousands of strangers knock at its ports.
 *
 *     hostile CONNECTIONS [SECONDS]
 *
 * Two ranks combine 1 MiB again and again by tcp. Half of the time, in turns, connections of every kind
 * come in, as many as were asked for in all. Prints the throughput with and without; see
 * docs/testing.md. The strangers run on the same machine: with few cores some of what is lost is their
 * own work, which `nice` keeps small. */
#include "strangers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define RANKS 2
#define COUNT (1 << 18)
#define TURNS 40 /* half of them hostile */
#define VISITS_AT_ONCE 5

enum { PORTS, READY = RANKS, PHASE, DONE };
enum { QUIET = 1, HOSTILE };

static const char KEY[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

typedef struct plan {
    long connections;
    double turn_ms;
    double *rates[2]; /* of rank 0, by turn; MB/s */
    long *came;
} plan;

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* ---- The strangers --------------------------------------------------------------------------- */

static void come_evenly(strangers *all, long visits, double ms)
{
    const uint64_t start = clock_ns();
    for (long i = 0; i < visits;) {
        for (int k = 0; k < VISITS_AT_ONCE && i < visits; k++, i++)
            strangers_step(all);
        while (1e-6 * (double)(clock_ns() - start) < ms * (double)i / (double)visits)
            sleep_ms(1);
    }
}

static void be_hostile(const plan *p)
{
    int ports[RANKS];
    static strangers all;
    (void)!nice(19);
    await_counter(READY, RANKS);
    for (int r = 0; r < RANKS; r++)
        ports[r] = atomic_load(job_counter(PORTS + r));
    strangers_begin(&all, ports, RANKS, KEY, getenv("RUEDA_JOB"), 5);
    for (int turn = 0; turn < TURNS; turn++) {
        doing("turn %d", turn);
        const bool hostile = turn % 2 == 1;
        atomic_store(job_counter(PHASE), 2 * turn + (hostile ? HOSTILE : QUIET));
        if (!hostile) {
            sleep_ms((int)p->turn_ms);
            continue;
        }
        come_evenly(&all, p->connections / (TURNS / 2), p->turn_ms);
        strangers_end(&all);
    }
    *p->came = all.came;
    CHECK(all.refused == 0);
    atomic_store(job_counter(DONE), 1);
}

/* ---- The job --------------------------------------------------------------------------------- */

/* Rank 0 says in the first element when it is over, and keeps the time of each turn. */
static void work(int rank, const plan *p)
{
    float *data = calloc(COUNT, sizeof *data);
    const int64_t count = COUNT;
    const rueda_tensor t = RUEDA_TENSOR("work", data, RUEDA_F32, 1, &count);
    int turn = -1, operations = 0;
    uint64_t start = clock_ns();
    do {
        const int now = (atomic_load(job_counter(PHASE)) - 1) / 2;
        if (now != turn) {
            const uint64_t end = clock_ns();
            if (rank == 0 && turn >= 0)
                p->rates[turn % 2][turn / 2] =
                    (double)operations * COUNT * sizeof *data / (1e-3 * (double)(end - start));
            start = end;
            turn = now;
            operations = 0;
        }
        data[0] = rank == 0 && atomic_load(job_counter(DONE)) != 0 ? 1 : 0;
        data[1] = (float)rank;
        CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
        CHECK(data[1] == 1);
        operations++;
    } while (data[0] == 0);
    free(data);
}

static void live(int rank, int size, const void *argument)
{
    (void)size;
    if (rank == RANKS) {
        be_hostile(argument);
        return;
    }
    setenv("RUEDA_SIZE", "2", 1);
    setenv("RUEDA_LOCAL_SIZE", "2", 1);
    setenv("RUEDA_TRANSPORT", "tcp", 1);
    setenv("RUEDA_KEY", KEY, 1);
    setenv("RUEDA_LOG_LEVEL", "error", 1);
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    atomic_store(job_counter(PORTS + rank), own_port());
    atomic_fetch_add(job_counter(READY), 1);
    await_counter(PHASE, 1);
    work(rank, argument);
    CHECK_OK(rueda_shutdown());
}

int main(int argc, char **argv)
{
    plan p = {.connections = argc > 1 ? atol(argv[1]) : 0};
    const double seconds = argc > 2 ? atof(argv[2]) : 20;
    if (p.connections < TURNS || seconds <= 0) {
        fprintf(stderr, "usage: hostile CONNECTIONS [SECONDS], at least %d\n", TURNS);
        return 2;
    }
    p.turn_ms = 1000 * seconds / TURNS;
    const size_t bytes = TURNS * sizeof(double);
    p.rates[0] = shared_take(bytes);
    p.rates[1] = shared_take(bytes);
    p.came = shared_take(sizeof *p.came);
    if (!try_job(
            &(job){
                .ranks = RANKS + 1, .body = live, .argument = &p, .seconds = 60 + 3 * (int)seconds},
            NULL))
        return EXIT_FAILURE;
    /* the last turn ends with the job and is not complete */
    const double quiet = median(p.rates[0], TURNS / 2), hostile = median(p.rates[1], TURNS / 2 - 1);
    printf("%ld hostile connections in %.1f s (%.0f a second), none let in: %.0f MB/s instead of "
           "%.0f (%+.1f %%)\n",
           *p.came, seconds / 2, (double)*p.came / (seconds / 2), hostile, quiet,
           100 * (hostile / quiet - 1));
    return nothing_is_left() ? EXIT_SUCCESS : EXIT_FAILURE;
}
