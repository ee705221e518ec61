/* output.c: see output.h. */
#include "cli/launch/output.h"

#include "cli/launch/events.h"
#include "cli/launch/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SAID_MAX 8192 /* bytes of one line of our own */
#define PREFIX_MAX 64

static const char *const file_names[WIRE_TEXTS] = {"stdout", "stderr"};

static int rank_width(const output *o)
{
    return snprintf(NULL, 0, "%d", o->options->ranks - 1);
}

/* ---- Opening ---------------------------------------------------------------------------------- */

static bool complain(const output *o, const char *what, const char *path)
{
    fprintf(stderr, "rueda %s: cannot %s %s: %s\n", o->options->command_name, what, path,
            strerror(errno));
    return false;
}

/* Also the folders above it. */
static bool make_folder(const output *o, const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, 0777);
        *slash = '/';
    }
    return mkdir(part, 0777) == 0 || errno == EEXIST || complain(o, "make", path);
}

static bool open_file(const output *o, const char *path, int *fd)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *fd >= 0 || complain(o, "write", path);
}

/* Its folder, or with `name` a file in it. */
static void rank_path(const output *o, int rank, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/rank.%0*d%s%s", o->options->output.directory, rank_width(o), rank,
             name != NULL ? "/" : "", name != NULL ? name : "");
}

static bool open_rank_files(output *o, int rank)
{
    char path[PATH_MAX];
    rank_path(o, rank, NULL, path);
    if (!make_folder(o, path))
        return false;
    for (int k = 0; k < WIRE_TEXTS; k++) {
        rank_path(o, rank, file_names[k], path);
        if (!open_file(o, path, &o->ranks[rank].files[k]))
            return false;
    }
    return true;
}

bool output_open(output *o, const launch_options *options)
{
    const launch_output *to = &options->output;
    *o = (output){.options = options, .events = -1, .results = -1};
    o->sinks[WIRE_STDOUT].fd = STDOUT_FILENO;
    o->sinks[WIRE_STDERR].fd = STDERR_FILENO;
    for (int k = 0; k < WIRE_TEXTS; k++)
        o->sinks[k].terminal = isatty(o->sinks[k].fd) != 0;
    o->ranks = bytes_new((size_t)options->ranks, sizeof *o->ranks);
    for (int r = 0; r < options->ranks; r++)
        o->ranks[r].files[WIRE_STDOUT] = o->ranks[r].files[WIRE_STDERR] = -1;
    if (to->json_file != NULL && !open_file(o, to->json_file, &o->events))
        return false;
    if (to->results != NULL && !open_file(o, to->results, &o->results))
        return false;
    if (to->directory == NULL)
        return true;
    for (int r = 0; r < options->ranks; r++) {
        if (!open_rank_files(o, r))
            return false;
    }
    return true;
}

void output_close(output *o)
{
    for (int r = 0; r < o->options->ranks; r++) {
        for (int k = 0; k < WIRE_TEXTS; k++) {
            if (o->ranks[r].files[k] >= 0)
                close(o->ranks[r].files[k]);
        }
        bytes_free(&o->ranks[r].tails[WIRE_STDOUT]);
        bytes_free(&o->ranks[r].tails[WIRE_STDERR]);
    }
    free(o->ranks);
    if (o->events >= 0)
        close(o->events);
    if (o->results >= 0)
        close(o->results);
    for (int k = 0; k < WIRE_TEXTS; k++)
        bytes_free(&o->sinks[k].waiting);
}

/* ---- Lines of the ranks ----------------------------------------------------------------------- */

void output_lose(output *o, const char *format, ...)
{
    va_list args;
    if (o->lost[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(o->lost, sizeof o->lost, format, args);
    va_end(args);
    output_say(o, "%s, the job goes on", o->lost);
}

static void lose_file(output *o, const char *where, int reason)
{
    output_lose(o, "cannot write %s: %s; output is lost", where, strerror(reason));
}

/* Files take what they are given, now. */
static void write_file(output *o, int fd, const char *path, const char *data, size_t count)
{
    while (count > 0) {
        const ssize_t written = write(fd, data, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            lose_file(o, path, errno);
            return;
        }
        data += written;
        count -= (size_t)written;
    }
}

void output_flush(output *o, int kind)
{
    sink *to = &o->sinks[kind];
    sink_flush(to);
    if (to->error != 0)
        lose_file(o, file_names[kind], to->error);
}

static size_t write_time(const output *o, char prefix[PREFIX_MAX])
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    if (o->options->output.stream_names)
        return strftime(prefix, PREFIX_MAX, "%a %b %e %H:%M:%S %Y", &parts);
    const size_t used = strftime(prefix, PREFIX_MAX, "%Y-%m-%d %H:%M:%S", &parts);
    return used +
           (size_t)snprintf(prefix + used, PREFIX_MAX - used, ".%03ld ", now.tv_nsec / 1000000);
}

static void make_prefix(const output *o, int rank, int kind, char prefix[PREFIX_MAX])
{
    const launch_output *how = &o->options->output;
    const size_t used = how->timestamp ? write_time(o, prefix) : 0;
    prefix[used] = '\0';
    if (how->plain)
        return;
    if (how->stream_names)
        snprintf(prefix + used, PREFIX_MAX - used, "[%d]<%s>:", rank, file_names[kind]);
    else
        snprintf(prefix + used, PREFIX_MAX - used, "[%*d]: ", rank_width(o), rank);
}

/* The sink that this output of ranks ends in. */
static int sink_of(const output *o, int kind)
{
    return o->options->output.json ? WIRE_STDOUT : kind;
}

static bool is_filed(const output *o, int kind)
{
    return kind == WIRE_RESULTS || o->options->output.directory != NULL;
}

bool output_has_room(const output *o, int kind)
{
    return is_filed(o, kind) || sink_has_room(&o->sinks[sink_of(o, kind)]);
}

bool output_is_unread(const output *o, int kind)
{
    const sink *to = &o->sinks[sink_of(o, kind)];
    return !is_filed(o, kind) && to->closed && to->error == 0;
}

/* Both may be the same terminal. */
static void clear_other_bar(output *o, int kind)
{
    sink_clear_bar(&o->sinks[kind == WIRE_STDOUT ? WIRE_STDERR : WIRE_STDOUT], &o->sinks[kind]);
}

static void say_line(output *o, const char *line)
{
    clear_other_bar(o, WIRE_STDERR);
    sink_line(&o->sinks[WIRE_STDERR], line);
}

static void put_on_sink(output *o, int rank, int kind, const char *data, size_t count)
{
    sink *to = &o->sinks[kind];
    const void *from = &o->ranks[rank].files[kind]; /* any address of this output's own */
    char prefix[PREFIX_MAX];
    if (count == 0) {
        sink_finish(to, from);
        return;
    }
    clear_other_bar(o, kind);
    const launch_output *how = &o->options->output;
    if (how->plain && !how->timestamp) {
        sink_put(to, from, NULL, data, count);
        return;
    }
    make_prefix(o, rank, kind, prefix);
    sink_put(to, from, prefix, data, count);
}

static void put_results(output *o, int rank, const char *data, size_t count)
{
    char head[64];
    const int length = snprintf(head, sizeof head, "%d %zu\n", rank, count);
    if (o->results < 0 || count == 0)
        return;
    const char *path = o->options->output.results;
    write_file(o, o->results, path, head, (size_t)length);
    write_file(o, o->results, path, data, count);
}

static void put_in_file(output *o, int rank, int kind, const char *data, size_t count)
{
    char path[PATH_MAX];
    rank_path(o, rank, file_names[kind], path);
    write_file(o, o->ranks[rank].files[kind], path, data, count);
}

void output_put(output *o, int rank, int kind, const char *data, size_t count)
{
    if (kind == WIRE_RESULTS) {
        put_results(o, rank, data, count);
        return;
    }
    tail_add(&o->ranks[rank].tails[kind], data, count);
    if (o->options->output.directory != NULL)
        put_in_file(o, rank, kind, data, count);
    else if (o->options->output.json)
        events_line(o, rank, file_names[kind], data, count);
    else
        put_on_sink(o, rank, kind, data, count);
}

/* ---- Lines of our own ------------------------------------------------------------------------- */

void output_say(output *o, const char *format, ...)
{
    char line[SAID_MAX];
    const int used = snprintf(line, sizeof line, "rueda %s: ", o->options->command_name);
    va_list args;
    va_start(args, format);
    vsnprintf(line + used, sizeof line - (size_t)used, format, args);
    va_end(args);
    say_line(o, line);
}

typedef struct quoting {
    output *to;
    const char *name;
} quoting;

static void quote_line(void *context, const char *text)
{
    const quoting *q = context;
    char line[SAID_MAX];
    snprintf(line, sizeof line, "[%s]: %s", q->name, text);
    say_line(q->to, line);
}

void output_quote(output *o, const char *host, bytes *said)
{
    tail_show(said, TAIL_LINES_ALL, quote_line, &(quoting){o, host});
    bytes_drop(said, bytes_used(said));
}

void output_show_tail(output *o, int rank)
{
    const launch_output *how = &o->options->output;
    const bytes *tails = o->ranks[rank].tails;
    char name[32];
    if (bytes_used(&tails[WIRE_STDOUT]) + bytes_used(&tails[WIRE_STDERR]) == 0 ||
        (o->options->ranks == 1 && how->directory == NULL))
        return; /* a single rank's last lines are the last ones anyway */
    output_say(o, "the last lines of rank %d again:", rank);
    snprintf(name, sizeof name, "%*d", rank_width(o), rank);
    tail_show(&tails[WIRE_STDOUT], TAIL_LINES, quote_line, &(quoting){o, name});
    tail_show(&tails[WIRE_STDERR], TAIL_LINES_ERRORS, quote_line, &(quoting){o, name});
}

bool output_wants_events(const output *o)
{
    return o->options->output.json || o->events >= 0;
}

void output_event(output *o, const char *object, size_t length, bool is_line)
{
    if (o->options->output.json) {
        sink_put(&o->sinks[WIRE_STDOUT], o, "", object, length);
        sink_finish(&o->sinks[WIRE_STDOUT], o);
    }
    if (o->events >= 0 && !is_line) {
        const char *path = o->options->output.json_file;
        write_file(o, o->events, path, object, length);
        write_file(o, o->events, path, "\n", 1);
    }
}
