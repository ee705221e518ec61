/* many.c: workers are processes of their own, so that a crash of one is a finding and not the end. */
#include "sim/many.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEED_LIMIT_S 120 /* a seed takes milliseconds */
#define SHOW_EVERY 25    /* seeds */
#define BAR 30           /* letters */

/* What the workers share. */
typedef struct ledger {
    _Atomic uint64_t next;
    _Atomic uint64_t done;
    _Atomic uint64_t failing;               /* UINT64_MAX: none */
    _Atomic uint64_t current[MANY_WORKERS]; /* what each one runs */
} ledger;

static void note_failing(ledger *l, uint64_t seed)
{
    uint64_t known = atomic_load(&l->failing);
    while (seed < known && !atomic_compare_exchange_weak(&l->failing, &known, seed))
        ;
}

static void show(const ledger *l, uint64_t all, time_t since)
{
    const uint64_t done = atomic_load(&l->done);
    const long seconds = (long)(time(NULL) - since) + 1;
    const int filled = (int)(done * BAR / all);
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r[%.*s%*s] %llu of %llu seeds, %llu a second ", filled,
            "##############################", BAR - filled, "", (unsigned long long)done,
            (unsigned long long)all, (unsigned long long)(done / (uint64_t)seconds));
    if (done == all)
        fputc('\n', stderr);
}

static void work(ledger *l, int me, uint64_t first, uint64_t last, const trial_limits *limits)
{
    static trial t;
    static run_result r;
    const time_t since = time(NULL);
    for (uint64_t seed; (seed = atomic_fetch_add(&l->next, 1)) <= last;) {
        if (atomic_load(&l->failing) != UINT64_MAX)
            break;
        atomic_store(&l->current[me], seed);
        alarm(SEED_LIMIT_S);
        trial_draw(&t, seed, limits);
        run_trial(&t, NULL, &r);
        if (r.failed != INVARIANT_NONE)
            note_failing(l, seed);
        if (atomic_fetch_add(&l->done, 1) % SHOW_EVERY == 0)
            show(l, last - first + 1, since);
    }
    show(l, last - first + 1, since);
    _exit(0);
}

/* Whichever ends first: a crash is seen at once, and the others stop. */
static void await(ledger *l, const pid_t *pids, int workers)
{
    int status;
    for (pid_t ended; (ended = waitpid(-1, &status, 0)) > 0;) {
        for (int i = 0; i < workers; i++) {
            if (pids[i] == ended && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
                note_failing(l, atomic_load(&l->current[i]));
        }
    }
}

bool many_run(uint64_t first, uint64_t last, int workers, const trial_limits *limits,
              uint64_t *failing)
{
    ledger *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[MANY_WORKERS];
    if (l == MAP_FAILED) {
        perror("rueda sim");
        _exit(2);
    }
    atomic_store(&l->next, first);
    atomic_store(&l->failing, UINT64_MAX);
    fflush(stdout);
    for (int i = 0; i < workers; i++) {
        pids[i] = fork();
        if (pids[i] < 0)
            perror("rueda sim: a worker");
        if (pids[i] == 0)
            work(l, i, first, last, limits);
    }
    await(l, pids, workers);
    *failing = atomic_load(&l->failing);
    const bool whole = *failing != UINT64_MAX || atomic_load(&l->done) == last - first + 1;
    munmap(l, sizeof *l);
    if (!whole) {
        fputs("rueda sim: no worker could be started\n", stderr);
        _exit(2);
    }
    return *failing == UINT64_MAX;
}
