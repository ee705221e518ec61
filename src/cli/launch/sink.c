/* sink.c: see sink.h. */
#include "cli/launch/sink.h"

#include <errno.h>
#include <limits.h>

bool sink_has_room(const sink *s)
{
    return s->closed || bytes_used(&s->waiting) < SINK_MAX;
}

void sink_put(sink *s, const void *from, const char *prefix, const char *data, size_t count)
{
    if (s->closed || count == 0)
        return;
    if (s->bar != from)
        sink_clear_bar(s, s);
    if (prefix != NULL && s->unfinished != from) {
        if (s->unfinished != NULL)
            bytes_add(&s->waiting, "\n", 1);
        bytes_add_text(&s->waiting, prefix);
    }
    bytes_add(&s->waiting, data, count);
    const char last = data[count - 1];
    s->bar = last == '\r' ? from : NULL;
    s->unfinished = prefix == NULL || last == '\n' || last == '\r' ? NULL : from;
}

void sink_finish(sink *s, const void *from)
{
    if (s->unfinished != from || s->closed)
        return;
    bytes_add(&s->waiting, "\n", 1);
    s->unfinished = NULL;
}

/* The writer erases it: what the two have to write may go out in any order. */
void sink_clear_bar(sink *s, sink *writer)
{
    if (s->bar != NULL && s->terminal && writer->terminal && !writer->closed)
        bytes_add_text(&writer->waiting, "\033[K");
    s->bar = NULL;
}

void sink_line(sink *s, const char *text)
{
    if (s->closed)
        return;
    sink_clear_bar(s, s);
    sink_finish(s, s->unfinished != NULL ? s->unfinished : s);
    bytes_add_text(&s->waiting, text);
    bytes_add(&s->waiting, "\n", 1);
}

/* A pipe that is writable takes PIPE_BUF bytes without blocking, so no more at a time. */
void sink_flush(sink *s)
{
    if (bytes_used(&s->waiting) > 0 && bytes_write(&s->waiting, s->fd, PIPE_BUF) == BYTES_END) {
        s->closed = true;
        s->error = errno == EPIPE ? 0 : errno;
        bytes_drop(&s->waiting, bytes_used(&s->waiting));
    }
}
