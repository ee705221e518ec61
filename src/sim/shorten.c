/* shorten.c: each try is a process of its own: a trial may crash. */
#include "sim/shorten.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRY_LIMIT_S 60

static void run_child(uint64_t seed, const trial_limits *limits,
                      void (*show)(uint64_t seed, const run_result *result))
{
    static trial t;
    static run_result r;
    alarm(TRY_LIMIT_S);
    trial_draw(&t, seed, limits);
    run_trial(&t, limits, &r);
    if (show != NULL)
        show(seed, &r);
    fflush(stdout);
    _exit(r.failed);
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

static bool fails(uint64_t seed, const trial_limits *limits)
{
    return run_apart(seed, limits, NULL) != 0;
}

static bool is_same(const trial_limits *a, const trial_limits *b)
{
    return a->batches == b->batches && a->tasks == b->tasks && a->without == b->without &&
           a->calm == b->calm;
}

/* Keeps what was tried if it still fails. */
static bool try(uint64_t seed, trial_limits *limits, trial_limits tried)
{
    const bool good = !is_same(&tried, limits) && fails(seed, &tried);
    if (good)
        *limits = tried;
    return good;
}

static bool shorten_once(uint64_t seed, trial_limits *limits, const trial *whole)
{
    bool shorter = false;
    trial_limits tried = *limits;
    tried.calm = true;
    shorter |= try(seed, limits, tried);
    for (int m = 0; m < whole->mishap_count; m++) {
        tried = *limits;
        tried.without |= UINT32_C(1) << m;
        shorter |= try(seed, limits, tried);
    }
    const int batches = limits->batches < 0 ? whole->batch_count : limits->batches;
    for (int b = 0; b < batches; b++) {
        tried = *limits;
        tried.batches = b;
        if (try(seed, limits, tried)) {
            shorter = true;
            break;
        }
    }
    const int tasks = limits->tasks < 0 ? TRIAL_TASKS : limits->tasks;
    for (int k = 0; k < tasks; k++) {
        tried = *limits;
        tried.tasks = k;
        if (try(seed, limits, tried)) {
            shorter = true;
            break;
        }
    }
    return shorter;
}

void shorten(uint64_t seed, trial_limits *limits)
{
    static trial whole;
    trial_draw(&whole, seed, &(trial_limits)TRIAL_WHOLE);
    while (shorten_once(seed, limits, &whole))
        ;
}

static void add(char *text, size_t size, const char *what, int number)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%d", what, number);
}

void shorten_command(uint64_t seed, const trial_limits *limits, char *text, size_t size)
{
    snprintf(text, size, "rueda sim faults --seed %llu", (unsigned long long)seed);
    if (limits->batches >= 0)
        add(text, size, " --batches ", limits->batches);
    if (limits->tasks >= 0)
        add(text, size, " --tasks ", limits->tasks);
    for (int m = 0; m < TRIAL_MISHAPS; m++) {
        if ((limits->without >> m & 1) != 0)
            add(text, size, strstr(text, "--without") == NULL ? " --without " : ",", m);
    }
    if (limits->calm)
        strncat(text, " --calm", size - strlen(text) - 1);
}

void shorten_show(uint64_t seed, const trial_limits *limits,
                  void (*show)(uint64_t seed, const run_result *result))
{
    const int status = run_apart(seed, limits, show);
    if (WIFSIGNALED(status))
        printf("FAILED: it ended with signal %d (%s)\n", WTERMSIG(status),
               strsignal(WTERMSIG(status)));
}
