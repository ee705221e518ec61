/* events.c: see events.h. */
#include "cli/launch/events.h"

#include "cli/json.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An object under way: a stream into memory. */
typedef struct object {
    FILE *to; /* NULL: nobody wants it, or no memory */
    char *text;
    size_t length;
} object;

/* The stream writes into the object: it stays where it is. */
static void begin(object *it, const output *o, const char *event)
{
    struct timespec now;
    *it = (object){0};
    if (output_wants_events(o))
        it->to = open_memstream(&it->text, &it->length);
    if (it->to != NULL) {
        clock_gettime(CLOCK_REALTIME, &now);
        fprintf(it->to, "{\"event\": \"%s\", \"time\": %lld.%06ld", event, (long long)now.tv_sec,
                now.tv_nsec / 1000);
    }
}

__attribute__((format(printf, 2, 3))) static void add(object *it, const char *format, ...)
{
    va_list args;
    if (it->to == NULL)
        return;
    va_start(args, format);
    vfprintf(it->to, format, args);
    va_end(args);
}

static void add_text(object *it, const char *name, const char *data, size_t count)
{
    add(it, ", \"%s\": ", name);
    if (it->to != NULL && data != NULL)
        json_write_bytes(it->to, data, count);
    else
        add(it, "null");
}

static void finish(output *o, object *it, bool is_line)
{
    if (it->to == NULL)
        return;
    add(it, "}");
    if (fclose(it->to) == 0)
        output_event(o, it->text, it->length, is_line);
    free(it->text);
}

void events_job_start(output *o, const char *job, size_t hosts)
{
    object it;
    begin(&it, o, "start");
    add_text(&it, "job", job, strlen(job));
    add(&it, ", \"ranks\": %d, \"hosts\": %zu, \"steps\": %zu", o->options->ranks, hosts,
        o->options->step_count);
    finish(o, &it, false);
}

void events_step_start(output *o, size_t step)
{
    const char *label = o->options->steps[step].label;
    object it;
    begin(&it, o, "step");
    add(&it, ", \"step\": %zu", step);
    add_text(&it, "label", label, label != NULL ? strlen(label) : 0);
    finish(o, &it, false);
}

static void begin_rank(object *it, const output *o, const char *event, size_t step, int rank,
                       const char *host)
{
    begin(it, o, event);
    add(it, ", \"step\": %zu, \"rank\": %d", step, rank);
    add_text(it, "host", host, strlen(host));
}

void events_rank_start(output *o, size_t step, int rank, const char *host, int pid)
{
    object it;
    begin_rank(&it, o, "rank_start", step, rank, host);
    add(&it, ", \"pid\": %d", pid);
    finish(o, &it, false);
}

void events_line(output *o, int rank, const char *stream, const char *data, size_t count)
{
    if (count == 0)
        return;
    object it;
    begin(&it, o, "output");
    add(&it, ", \"rank\": %d, \"stream\": \"%s\"", rank, stream);
    const bool whole = data[count - 1] == '\n';
    add_text(&it, "text", data, whole ? count - 1 : count);
    finish(o, &it, true);
}

void events_rank_end(output *o, size_t step, int rank, const char *host, const launch_end *end)
{
    object it;
    begin_rank(&it, o, "rank_exit", step, rank, host);
    add(&it, ", \"exit_code\": %d", end->exit_code);
    const char *name = end->signal != 0 ? sigabbrev_np(end->signal) : NULL;
    add_text(&it, "signal", name, name != NULL ? strlen(name) : 0);
    finish(o, &it, false);
}

void events_job_end(output *o, int exit_code, const char *cause, double seconds)
{
    object it;
    begin(&it, o, "end");
    add(&it, ", \"exit_code\": %d, \"seconds\": %.3f", exit_code, seconds);
    add_text(&it, "cause", cause, cause != NULL ? strlen(cause) : 0);
    finish(o, &it, false);
}
