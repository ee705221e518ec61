/* stream.h: reads one output of a process by lines. Nothing here blocks, and memory is bounded: a
 * stream stops reading while its taker has no room, and a line longer than its buffer goes on in
 * parts. */
#ifndef RUEDA_CLI_LAUNCH_STREAM_H
#define RUEDA_CLI_LAUNCH_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#define STREAM_LINE_MAX 8192 /* longer lines go on in parts */

typedef struct stream stream;

/* Takes a line with its end, or a part of one; count 0 is the end of the stream. False: no room now,
 * it is offered again. */
typedef bool stream_taker(stream *s, const char *data, size_t count);

struct stream {
    int fd;      /* -1: ended, and all its bytes handed on */
    bool at_end; /* nothing more to read */
    bool plain;  /* hand bytes on as they come; a line that was written at once stays one piece */
    stream_taker *take;
    void *owner;    /* the taker's */
    int rank, kind; /* */
    size_t used;
    char data[STREAM_LINE_MAX];
};

/* Whether it can read now; otherwise its taker must make room first. */
bool stream_wants(const stream *s);
/* Moves lines on and reads once. `last`: nothing more will come, so an empty pipe ends the stream. */
void stream_pump(stream *s, bool last);
/* Nobody wants to read it any more: the writer learns it by SIGPIPE. */
void stream_close(stream *s);

#endif
