/* line_reader.h: reads one output of a process by lines. Nothing here blocks, and memory is bounded: a
 * reader stops reading while its taker has no room, and a line longer than its buffer goes on in
 * parts. */
#ifndef RUEDA_CLI_LAUNCH_LINE_READER_H
#define RUEDA_CLI_LAUNCH_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>

#define LINE_MAX_BYTES 8192 /* longer lines go on in parts */

typedef struct line_reader line_reader;

/* Takes a line with its end, or a part of one; count 0 is the end of the output. False: no room now,
 * it is offered again. */
typedef bool line_reader_taker(line_reader *s, const char *data, size_t count);

struct line_reader {
    int fd;      /* -1: ended, and all its bytes handed on */
    bool at_end; /* nothing more to read */
    bool plain;  /* hand bytes on as they come; a line that was written at once stays one piece */
    line_reader_taker *take;
    void *owner;    /* the taker's */
    int rank, kind; /* whose output, and which of them */
    size_t used;
    char data[LINE_MAX_BYTES];
};

/* Whether it can read now; otherwise its taker must make room first. */
bool line_reader_wants(const line_reader *s);
/* Moves lines on and reads once. `last`: nothing more will come, so an empty pipe ends it. */
void line_reader_pump(line_reader *s, bool last);
/* Nobody wants to read it any more: the writer learns it by SIGPIPE. */
void line_reader_close(line_reader *s);

#endif
