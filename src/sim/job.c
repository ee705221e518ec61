/* job.c: runs a trial. */
#include "sim/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_LIMIT_NS UINT64_C(200000000000) /* of the world: what has not ended then never will */

void job_tell(job *j, const char *format, ...)
{
    va_list args;
    const size_t room = sizeof j->result->story - j->story_used;
    char line[700];
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    const int written = snprintf(j->result->story + j->story_used, room, "%12.6f s  %s\n",
                                 (double)sim_now(j->world) / 1e9, line);
    j->story_used += written < 0 ? 0 : (size_t)written < room ? (size_t)written : room - 1;
}

const char *invariant_name(invariant which)
{
    static const char *const NAMES[] = {
#define INVARIANT_TEXT(name, text) text,
        INVARIANT_LIST(INVARIANT_TEXT)};
    return NAMES[which];
}

void job_fail(job *j, invariant which, const char *format, ...)
{
    run_result *r = j->result;
    if (r->failed != INVARIANT_NONE)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(r->failure, sizeof r->failure, format, args);
    va_end(args);
    r->failed = which;
    sim_halt(j->world);
}

static void note_failure(void *context, const char *text)
{
    const bool agreement = strstr(text, "do not agree") != NULL;
    const bool assertion = strstr(text, "not so:") != NULL;
    job_fail(context,
             agreement   ? INVARIANT_AGREEMENT
             : assertion ? INVARIANT_ASSERTION
                         : INVARIANT_WORLD,
             "%s", text);
}

static void start_rank(void *argument)
{
    job_rank *r = argument;
    r->process = sim_process_start(r->job->world, r->job->trial->host_of[r->rank],
                                   r->job->trial->elastic ? elastic_live : rank_live, r);
}

static void calm_down(sim_settings *s)
{
    s->preempt_chance = s->piece_chance = s->spurious_chance = s->interrupt_chance = 0;
    s->torn_chance = s->switch_chance = 0;
}

static void begin(job *j, const trial *t, FILE *timeline, run_result *result)
{
    memset(j, 0, sizeof *j);
    *result = (run_result){.failed = INVARIANT_NONE};
    j->result = result;
    j->trial = t;
    j->timeline = timeline;
    j->world = sim_open(t->seed);
    sim_set_failure(j->world, note_failure, j);
    if (t->calm)
        calm_down(sim_settings_of(j->world));
    if (t->undisturbed)
        sim_settings_of(j->world)->preempt_chance = 0;
    if (t->has_launcher)
        launcher_open(j);
    for (int r = 0; r < t->ranks; r++) {
        static const context fresh = CONTEXT_NEW;
        j->ranks[r] = (job_rank){.job = j, .rank = r, .here = fresh};
        start_rank(&j->ranks[r]);
    }
    if (t->has_stranger) /* last, so that the numbers of the ranks' processes stay what they are */
        sim_process_start(j->world, t->stranger_host, stranger_live, j);
    mishaps_arrange(j);
    timeline_begin(j);
}

static void describe_trial(const trial *t, char *text, size_t size)
{
    int tasks = 0;
    for (int b = 0; b < t->batch_count; b++)
        tasks += t->batches[b].count;
    snprintf(text, size,
             "%d ranks on %d host%s by %s, %d sets, %d tasks in %d batches, %d mishap%s", t->ranks,
             t->hosts, t->hosts == 1 ? "" : "s",
             t->hosts > 1 || t->by_tcp ? (t->encrypts ? "tcp, encrypted" : "tcp") : "shm",
             t->set_count, tasks, t->batch_count, t->mishap_count, t->mishap_count == 1 ? "" : "s");
}

void run_trial(const trial *t, FILE *timeline, run_result *result)
{
    static job j; /* large; one at a time */
    begin(&j, t, timeline, result);
    const sim_end end = sim_run(j.world, TIME_LIMIT_NS);
    invariants_check(&j, end);
    timeline_end(&j);
    describe_trial(t, result->job, sizeof result->job);
    const sim_statistics s = sim_statistics_of(j.world);
    result->trace = s.trace;
    result->events = s.events;
    result->points = s.points;
    result->world_ns = sim_now(j.world);
    sim_close(j.world);
    launcher_close(&j);
}
