/* shorten.c: each try is a process of its own: a trial may crash. */
#include "sim/shorten.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRY_LIMIT_S 60
#define SHORTEN_LIMIT_S 300 /* after so long it is short enough */

static void run_child(uint64_t seed, const trial_limits *limits,
                      void (*show)(uint64_t seed, const run_result *result))
{
    static trial t;
    static run_result r;
    alarm(TRY_LIMIT_S);
    trial_draw(&t, seed, limits);
    run_trial(&t, NULL, &r);
    if (show != NULL)
        show(seed, &r);
    fflush(stdout);
    _exit((int)r.failed);
}

/* The child's wait status. */
static int run_apart(uint64_t seed, const trial_limits *limits,
                     void (*show)(uint64_t seed, const run_result *result))
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        run_child(seed, limits, show);
    return child > 0 && waitpid(child, &status, 0) == child ? status : 0;
}

/* Which invariant does not hold: only what fails in the same way is the same finding. */
static invariant failure_of(uint64_t seed, const trial_limits *limits)
{
    const int status = run_apart(seed, limits, NULL);
    return WIFEXITED(status) ? (invariant)WEXITSTATUS(status) : INVARIANT_CRASH;
}

/* A seed that fails, and what can be left out of it. */
typedef struct finding {
    uint64_t seed;
    invariant failed;
    trial_limits *limits;
    bool shorter; /* something more was left out */
} finding;

static bool is_same(const trial_limits *a, const trial_limits *b)
{
    return a->mishaps == b->mishaps && a->batches == b->batches && a->tasks == b->tasks &&
           a->stranger == b->stranger && a->lives == b->lives && a->sizes == b->sizes &&
           a->whims == b->whims;
}

/* Keeps what was tried if it still fails. */
static void try(finding *f, trial_limits tried)
{
    if (is_same(&tried, f->limits) || failure_of(f->seed, &tried) != f->failed)
        return;
    *f->limits = tried;
    f->shorter = true;
}

static void try_words(finding *f)
{
    trial_limits tried = *f->limits;
    tried.whims = true;
    try(f, tried);
    tried = *f->limits;
    tried.stranger = true;
    try(f, tried);
    tried = *f->limits;
    tried.lives = true;
    try(f, tried);
    tried = *f->limits;
    tried.sizes = true;
    try(f, tried);
}

static void try_numbers(finding *f, const trial *whole)
{
    for (int m = 0; m < whole->mishap_count; m++) {
        trial_limits tried = *f->limits;
        tried.mishaps |= UINT32_C(1) << m;
        try(f, tried);
    }
    for (int b = whole->batch_count - 1; b >= 0; b--) {
        trial_limits tried = *f->limits;
        tried.batches |= UINT32_C(1) << b;
        try(f, tried);
    }
    for (int b = 0; b < whole->batch_count; b++) {
        for (int k = 0; k < whole->batches[b].count; k++) {
            trial_limits tried = *f->limits;
            tried.tasks |= UINT64_C(1) << whole->batches[b].tasks[k].number;
            if ((f->limits->batches >> b & 1) == 0)
                try(f, tried);
        }
    }
}

void shorten(uint64_t seed, trial_limits *limits)
{
    static trial whole;
    const time_t until = time(NULL) + SHORTEN_LIMIT_S;
    finding f = {.seed = seed, .failed = failure_of(seed, limits), .limits = limits};
    if (f.failed == INVARIANT_NONE)
        return;
    trial_draw(&whole, seed, &(trial_limits){.elastic = limits->elastic});
    do {
        f.shorter = false;
        try_words(&f);
        try_numbers(&f, &whole);
    } while (f.shorter && time(NULL) < until);
}

void shorten_command(uint64_t seed, const trial_limits *limits, char *text, size_t size)
{
    const int used = snprintf(text, size, "rueda sim %s --seed %llu --without ",
                              limits->elastic ? "members" : "faults", (unsigned long long)seed);
    trial_limits_write(limits, text + used, size - (size_t)used);
    if (text[used] == '\0')
        *strstr(text, " --without") = '\0';
}

void shorten_show(uint64_t seed, const trial_limits *limits,
                  void (*show)(uint64_t seed, const run_result *result))
{
    const int status = run_apart(seed, limits, show);
    if (WIFSIGNALED(status))
        printf("FAILED, %s: it ended with signal %d (%s)\n", invariant_name(INVARIANT_CRASH),
               WTERMSIG(status), strsignal(WTERMSIG(status)));
}
