/* output.h: where the ranks' lines and the launcher's own go: stdout and stderr, files, events. */
#ifndef RUEDA_CLI_LAUNCH_OUTPUT_H
#define RUEDA_CLI_LAUNCH_OUTPUT_H

#include "cli/launch/sink.h"
#include "cli/launch/wire.h"
#include "cli/launcher.h"

#define OUTPUT_LOST_MAX 512

/* What is kept of a rank. */
typedef struct output_rank {
    int files[WIRE_TEXTS]; /* -1: none */
    bytes tails[WIRE_TEXTS];
} output_rank;

typedef struct output {
    const launch_options *options;
    sink sinks[WIRE_TEXTS];     /* stdout, stderr */
    int events;                 /* descriptor of the events' file; -1: none */
    int results;                /* of the results'; -1: none */
    char lost[OUTPUT_LOST_MAX]; /* what could not be written, the first time; "": all was */
    output_rank *ranks;
} output;

/* False: a file cannot be made; the reason was printed. */
bool output_open(output *o, const launch_options *options);
void output_close(output *o);

/* Whether output_put may be called; otherwise the sinks must be flushed first. */
bool output_has_room(const output *o, int kind);
/* A line of a rank or a part of one, or some of its results; count 0: the end of its output. */
void output_put(output *o, int rank, int kind, const char *data, size_t count);
/* Something is lost, for this reason. Told once. The job goes on: its work is worth more than its lines, but it
 * cannot end with success. */
void output_lose(output *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes what stdout or stderr takes without blocking; the caller has seen it writable. */
void output_flush(output *o, int kind);
/* Whether nobody reads this output of the ranks any more. */
bool output_is_unread(const output *o, int kind);

/* A line of the launcher's own on stderr: "rueda run: …". */
void output_say(output *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What a host said, line by line, on stderr: "[host]: …". */
void output_quote(output *o, const char *host, bytes *said);
/* The last lines of a rank again, those of stderr last: a traceback ends what is shown, whenever the
 * rank's stdout was flushed. */
void output_show_tail(output *o, int rank);
/* One JSON object, without the line's end, to whoever wants events. `is_line`: it carries a line of a
 * rank, which the file of events does not get. */
void output_event(output *o, const char *object, size_t length, bool is_line);
bool output_wants_events(const output *o);

#endif
