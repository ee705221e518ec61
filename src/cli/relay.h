/* relay.h: carries the ranks' output to the launcher's own, by lines, with the rank before each.
 *
 * A stream reads one output of one rank; a sink is stdout or stderr of the launcher. Nothing here
 * blocks, and memory is bounded: a stream stops reading while its sink is full, and a line longer
 * than its buffer goes out in parts. Invariant: bytes of two ranks never share a line.
 */
#ifndef RUEDA_CLI_RELAY_H
#define RUEDA_CLI_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#define RELAY_LINE_MAX 8192   /* longer lines go out in parts */
#define RELAY_SINK_MAX 262144 /* bytes that wait for the reader of the launcher's output */
#define RELAY_PREFIX_MAX 16

typedef struct sink {
    int fd;
    bool closed;            /* nobody reads it any more */
    const void *unfinished; /* the stream whose line has no end yet; NULL: at the start of a line */
    size_t start, used;     /* the bytes that wait */
    char data[RELAY_SINK_MAX];
} sink;

typedef struct stream {
    int fd;                        /* -1: ended, and all its bytes handed on */
    bool at_end;                   /* nothing more to read */
    bool plain;                    /* hand the bytes on as they are */
    char prefix[RELAY_PREFIX_MAX]; /* before each line, unless plain */
    sink *to;
    size_t start, used;
    char data[RELAY_LINE_MAX];
} stream;

/* Writes what the descriptor takes without blocking; the caller has seen it writable. */
void sink_flush(sink *s);
/* Adds a line of the launcher's own. False: the sink is full. */
bool sink_line(sink *s, const char *text);

/* Whether the stream can read now; otherwise its sink must be flushed first. */
bool stream_wants(const stream *s);
/* Moves lines on and reads once. `last`: nothing more will come, so an empty pipe ends the stream. */
void stream_pump(stream *s, bool last);

#endif
