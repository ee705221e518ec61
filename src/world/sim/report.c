/* report.c: what the harness sets and asks, and how failures are told. */
#include "world/sim/sim_parts.h"

#include "base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FAILURE_TEXT 1024

sim *sim_current(void)
{
    return sim_world;
}

sim_settings *sim_settings_of(sim *s)
{
    return &s->settings;
}

uint64_t sim_random(sim *s, uint64_t below)
{
    return sim_below(&s->harness, below);
}

void sim_set_point_hook(sim *s, bool (*hook)(void *context, int process), void *context)
{
    s->point_hook = hook;
    s->point_context = context;
}

void sim_set_failure(sim *s, void (*report)(void *context, const char *text), void *context)
{
    s->failure = report;
    s->failure_context = context;
}

bool sim_has_failed(const sim *s)
{
    return s->failed;
}

sim_statistics sim_statistics_of(const sim *s)
{
    return s->statistics;
}

/* ---- What everybody waits for ------------------------------------------------------------------------ */

/* A time as the one who waits would say it. */
static void describe_deadline(const sim *s, const sim_fiber *f, char *text, size_t size)
{
    const uint64_t deadline = f->wait.deadline_ns;
    if (deadline == SIM_NEVER)
        snprintf(text, size, "without limit");
    else if (deadline <= s->now_ns)
        snprintf(text, size, "until now");
    else
        snprintf(text, size, "for %.6f s more", (double)(deadline - s->now_ns) / 1e9);
}

static void describe_fiber(const sim *s, const sim_fiber *f, char *text, size_t size)
{
    static const char *const kinds[] = {"is ready to run", "rests", "sleeps on a word",
                                        "waits for descriptors", "waits for a thread to end"};
    char limit[64] = "";
    if (f->waits)
        describe_deadline(s, f, limit, sizeof limit);
    snprintf(text, size, "process %d, thread %d%s: %s%s%s%s %s\n", f->process->number, f->number,
             f->process->life == SIM_STOPPED ? " (stopped)" : "",
             kinds[f->waits ? f->wait.kind : WAIT_NOTHING],
             f->waits && f->wait.what != NULL ? ", in " : "",
             f->waits && f->wait.what != NULL ? f->wait.what : "",
             f->waits && f->woken ? " (woken)" : "", limit);
}

void sim_describe(const sim *s, char *text, size_t size)
{
    size_t used = 0;
    if (size > 0)
        text[0] = '\0';
    for (int i = 0; i < s->process_count; i++) {
        const sim_process *p = s->processes[i];
        for (const sim_fiber *f = p->fibers; f != NULL && p->life <= SIM_STOPPED; f = f->next) {
            char line[256];
            if (f->ended)
                continue;
            describe_fiber(s, f, line, sizeof line);
            const int wanted = snprintf(text + used, size - used, "%s", line);
            if (wanted < 0 || (size_t)wanted >= size - used)
                return;
            used += (size_t)wanted;
        }
    }
}

/* ---- Failures ------------------------------------------------------------------------------------------ */

static void print_and_abort(const char *text)
{
    fprintf(stderr, "%s\n", text);
    abort();
}

void sim_fail(const char *format, ...)
{
    char text[FAILURE_TEXT];
    sim *s = sim_world;
    int used = 0;
    if (s != NULL)
        used = snprintf(text, sizeof text,
                        "seed %llu, %.9f s, process %d: ", (unsigned long long)s->seed,
                        (double)s->now_ns / 1e9, sim_process_now());
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    if (s == NULL || s->failure == NULL)
        print_and_abort(text);
    const bool first = !s->failed;
    s->failed = s->halted = true;
    if (first)
        s->failure(s->failure_context, text);
    if (s->running != NULL)
        sim_leave();
}

/* An assertion of the library. */
void assert_failed(const char *what, const char *file, int line)
{
    sim_fail("%s:%d: not so: %s", file, line, what);
    abort(); /* outside of fibers, where nobody can go on */
}
