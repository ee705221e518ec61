/* sink.h: stdout or stderr of the launcher, shared by all ranks. Nothing here blocks. Invariant: bytes
 * of two ranks never share a line. */
#ifndef RUEDA_CLI_LAUNCH_SINK_H
#define RUEDA_CLI_LAUNCH_SINK_H

#include "cli/launch/bytes.h"

#define SINK_MAX 262144 /* bytes of ranks that wait for the reader of the launcher's output */

typedef struct sink {
    int fd;
    bool closed; /* what it is given is dropped … */
    int error;   /* … for this reason; 0: its reader has left */
    const void
        *unfinished; /* who wrote the line that has no end yet; NULL: at the start of a line */
    bool terminal;   /* a person looks at it */
    const void
        *bar; /* who ended with a return: its line stands there to be drawn over; NULL: nobody */
    bytes waiting;
} sink;

bool sink_has_room(const sink *s);
/* Adds a line, or a part of one, of `from`; `prefix` before the line, NULL: bytes as they are.
 * Another's line that has no end yet gets one. */
void sink_put(sink *s, const void *from, const char *prefix, const char *data, size_t count);
/* Nothing more will come from `from`: ends its line. */
void sink_finish(sink *s, const void *from);
/* A line of the launcher's own; there is always room for it. */
void sink_line(sink *s, const char *text);
/* Before somebody else's line by `writer`, which may be the same: a bar that stands on the terminal is erased, so that
 * none of it remains. */
void sink_clear_bar(sink *s, sink *writer);
/* Writes what the descriptor takes without blocking; the caller has seen it writable. */
void sink_flush(sink *s);

#endif
