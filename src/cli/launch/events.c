/* events.c: see events.h. */
#include "cli/launch/events.h"

#include "cli/json_line.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S 1e9

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / NS_PER_S;
}

/* `details`: what the object has beside its name and time; it is gone then. */
static void tell(output *o, const char *event, json_t *details, bool is_line)
{
    json_t *object = json_pack("{s:s, s:f}", "event", event, "time", now());
    if (object != NULL && (details == NULL || json_object_update(object, details) != 0)) {
        json_decref(object);
        object = NULL;
    }
    json_decref(details);
    char *text = json_line_text(object, JSON_LINE_DIGITS_TIME);
    output_event(o, text, strlen(text), is_line);
    free(text);
}

void events_job_start(output *o, const char *job, size_t hosts)
{
    if (output_wants_events(o))
        tell(o, "start",
             json_pack("{s:o, s:i, s:I, s:I}", "job", json_line_string(job), "ranks",
                       o->options->ranks, "hosts", (json_int_t)hosts, "steps",
                       (json_int_t)o->options->step_count),
             false);
}

void events_step_start(output *o, size_t step)
{
    if (output_wants_events(o))
        tell(o, "step",
             json_pack("{s:I, s:o}", "step", (json_int_t)step, "label",
                       json_line_string(o->options->steps[step].label)),
             false);
}

void events_rank_start(output *o, size_t step, int rank, const char *host, int pid)
{
    if (output_wants_events(o))
        tell(o, "rank_start",
             json_pack("{s:I, s:i, s:o, s:i}", "step", (json_int_t)step, "rank", rank, "host",
                       json_line_string(host), "pid", pid),
             false);
}

void events_line(output *o, int rank, const char *stream, const char *data, size_t count)
{
    if (count == 0 || !output_wants_events(o))
        return;
    const bool whole = data[count - 1] == '\n';
    tell(o, "output",
         json_pack("{s:i, s:s, s:o}", "rank", rank, "stream", stream, "text",
                   json_line_bytes(data, whole ? count - 1 : count)),
         true);
}

void events_rank_end(output *o, size_t step, int rank, const char *host, const launch_end *end)
{
    if (output_wants_events(o))
        tell(o, "rank_exit",
             json_pack("{s:I, s:i, s:o, s:i, s:s?}", "step", (json_int_t)step, "rank", rank, "host",
                       json_line_string(host), "exit_code", end->exit_code, "signal",
                       end->signal != 0 ? sigabbrev_np(end->signal) : NULL),
             false);
}

void events_rank_lost(output *o, size_t step, int rank, const char *host, int running)
{
    if (output_wants_events(o))
        tell(o, "rank_lost",
             json_pack("{s:I, s:i, s:o, s:i}", "step", (json_int_t)step, "rank", rank, "host",
                       json_line_string(host), "running", running),
             false);
}

void events_job_end(output *o, int exit_code, const char *cause, int lost, double seconds)
{
    if (!output_wants_events(o))
        return;
    json_t *count = o->options->min_ranks > 0 ? json_integer(lost) : NULL;
    tell(o, "end",
         json_pack("{s:i, s:o, s:o, s:o*}", "exit_code", exit_code, "seconds",
                   json_line_number(seconds, 3), "cause", json_line_string(cause), "lost", count),
         false);
}
