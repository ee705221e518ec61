/* random_kills.c: jobs of which one rank dies at a random moment, and how soon the others know.
 *
 *     random_kills COUNT [SEED]
 *
 * Half of the deaths come before a random step of a random operation, the other half at a random time.
 * Every survivor must end with the same sentence, which names the dead rank. A line tells how long it
 * took from the start of the call that found it to its end: not less than from the death. Run it through
 * random_kills.sh, for each way in which the ranks reach each other. */
#include "survivors.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MOST 4
#define OPERATIONS 80
#define STEPS 40
#define TIME_MOST_US 8000

typedef struct trial {
    int ranks, victim;
    int after_us; /* the victim kills itself then; -1: RUEDA_FAULT does it */
    unsigned long long seed;
    saying *sayings;      /* by rank */
    uint64_t *started_ns; /* by rank: when its last call started */
} trial;

/* ---- A rank ---------------------------------------------------------------------------------- */

static void *die_later(void *us)
{
    const int after = *(const int *)us;
    nanosleep(&(struct timespec){after / 1000000, after % 1000000 * 1000L}, NULL);
    raise(SIGKILL);
    return NULL;
}

static rueda_status run_random(dice *d, int number)
{
    static const size_t counts[] = {1, 100, 5000, 60000};
    const size_t kind = roll_below(d, 6), count = counts[roll_below(d, 4)];
    const memory_kind memory = roll_below(d, 2) == 0 ? MEMORY_PRIVATE : MEMORY_SHARED;
    char name[32];
    snprintf(name, sizeof name, "operation %d", number);
    if (kind == 5)
        return rueda_barrier(RUEDA_GLOBAL_SET, NULL);
    float *data = memory_take(memory, 2 * count * sizeof *data);
    memset(data, 0, 2 * count * sizeof *data);
    const int64_t shape[] = {(int64_t)count};
    rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F32, 1, shape);
    t.output = data + count;
    t.output_bytes = count * sizeof *data;
    rueda_status status;
    if (kind == 0)
        status = rueda_broadcast(&t, NULL, NULL);
    else if (kind == 1)
        status = rueda_reducescatter(&t, NULL, NULL);
    else
        status = rueda_allreduce(&t, kind == 2 ? &RUEDA_OPTIONS(RUEDA_ADASUM) : NULL, NULL);
    memory_give(memory, data);
    return status;
}

/* Ends well only if the moment of the fault did not come. */
static void live(int rank, int size, const void *argument)
{
    (void)size;
    const trial *t = argument;
    dice d = {t->seed};
    pthread_t killer;
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    meet();
    if (rank == t->victim && t->after_us >= 0)
        CHECK_EQUAL(pthread_create(&killer, NULL, die_later, (void *)&t->after_us), 0);
    rueda_status status = RUEDA_OK;
    for (int i = 0; status == RUEDA_OK && (i < OPERATIONS || t->after_us >= 0); i++) {
        doing("operation %d", i);
        t->started_ns[rank] = clock_ns();
        status = run_random(&d, i);
    }
    say(&t->sayings[rank], status);
    doing("shut down");
    CHECK_OK(rueda_shutdown());
}

/* ---- All of them ----------------------------------------------------------------------------- */

static trial choose(dice *d, char *fault, size_t room)
{
    trial t = {.ranks = 2 + (int)roll_below(d, RANKS_MOST - 1), .after_us = -1, .seed = roll(d)};
    t.victim = (int)roll_below(d, (size_t)t.ranks);
    if (roll_below(d, 2) == 0)
        t.after_us = (int)roll_below(d, TIME_MOST_US);
    snprintf(fault, room, "RUEDA_FAULT=kill:rank=%d:operation=%zu:step=%zu", t.victim,
             1 + roll_below(d, OPERATIONS - 1), roll_below(d, STEPS)); /* the last one finds out */
    return t;
}

static bool run_trial(const trial *t, const char *fault, bool *reached)
{
    char named[32];
    unsigned long long died;
    snprintf(named, sizeof named, "rank %d is lost", t->victim);
    const char *const environment[] = {"RUEDA_SLOT_BYTES=16K", fault, NULL};
    memset(t->sayings, 0, RANKS_MOST * sizeof *t->sayings);
    const job j = {.ranks = t->ranks,
                   .body = live,
                   .argument = t,
                   .environment = t->after_us < 0 ? environment : NULL,
                   .seconds = 20,
                   .may_die = 1u << t->victim};
    const bool good = try_job(&j, &died);
    *reached = died != 0;
    if (good && (!*reached || all_say(t->sayings, t->ranks, died, RUEDA_ERR_PEER, named)))
        return true;
    fprintf(stderr, "%d ranks, victim %d, %s, after %d us\n", t->ranks, t->victim, fault,
            t->after_us);
    return false;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double ms_of(uint64_t ns)
{
    return 1e-6 * (double)ns;
}

static void report(uint64_t *times, size_t count, int kills)
{
    qsort(times, count, sizeof *times, compare);
    printf("%d kills, %zu survivors: all named the dead; known after %.1f ms (least), %.1f "
           "(median), %.1f (99%%), %.1f (most)\n",
           kills, count, ms_of(times[0]), ms_of(times[count / 2]), ms_of(times[count * 99 / 100]),
           ms_of(times[count - 1]));
}

int main(int argc, char **argv)
{
    const int wanted = argc > 1 ? atoi(argv[1]) : 0;
    dice d = {argc > 2 ? strtoull(argv[2], NULL, 10) : (unsigned long long)clock_ns()};
    if (wanted <= 0) {
        fprintf(stderr, "usage: random_kills COUNT [SEED]\n");
        return 2;
    }
    printf("seed %llu\n", d.state);
    fflush(stdout);
    saying *sayings = shared_take(RANKS_MOST * sizeof *sayings);
    uint64_t *started = shared_take(RANKS_MOST * sizeof *started);
    uint64_t *times = malloc((size_t)wanted * RANKS_MOST * sizeof *times);
    size_t count = 0;
    for (int kills = 0; kills < wanted;) {
        char fault[96];
        bool reached;
        trial t = choose(&d, fault, sizeof fault);
        t.sayings = sayings;
        t.started_ns = started;
        if (!run_trial(&t, fault, &reached))
            return EXIT_FAILURE;
        for (int r = 0; reached && r < t.ranks; r++) {
            if (r != t.victim)
                times[count++] = sayings[r].ns - started[r];
        }
        kills += reached;
    }
    report(times, count, wanted);
    free(times);
    return nothing_is_left() ? EXIT_SUCCESS : EXIT_FAILURE;
}
