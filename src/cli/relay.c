/* relay.c: see relay.h. */
#include "cli/relay.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static size_t sink_room(const sink *s)
{
    return sizeof s->data - s->used;
}

/* The caller has made sure of the room. */
static void sink_append(sink *s, const char *bytes, size_t count)
{
    if (s->start + s->used + count > sizeof s->data) {
        memmove(s->data, s->data + s->start, s->used);
        s->start = 0;
    }
    memcpy(s->data + s->start + s->used, bytes, count);
    s->used += count;
}

/* Adds bytes of one line. Another's line that has no end yet gets one. */
static bool sink_put(sink *s, const stream *from, const char *bytes, size_t count)
{
    if (s->closed)
        return true;
    const size_t prefix = strlen(from->prefix);
    if (sink_room(s) < count + prefix + 1)
        return false;
    if (s->unfinished != from && !from->plain) {
        if (s->unfinished != NULL)
            sink_append(s, "\n", 1);
        sink_append(s, from->prefix, prefix);
    }
    sink_append(s, bytes, count);
    const char end = bytes[count - 1];
    s->unfinished = end == '\n' || end == '\r' || from->plain ? NULL : from;
    return true;
}

bool sink_line(sink *s, const char *text)
{
    const size_t length = strlen(text);
    if (s->closed)
        return true;
    if (sink_room(s) < length + 2)
        return false;
    if (s->unfinished != NULL)
        sink_append(s, "\n", 1);
    sink_append(s, text, length);
    sink_append(s, "\n", 1);
    s->unfinished = NULL;
    return true;
}

/* A pipe that is writable takes PIPE_BUF bytes without blocking, so no more at a time. */
void sink_flush(sink *s)
{
    if (s->used == 0)
        return;
    const ssize_t written =
        write(s->fd, s->data + s->start, s->used < PIPE_BUF ? s->used : PIPE_BUF);
    if (written > 0) {
        s->start += (size_t)written;
        s->used -= (size_t)written;
    } else if (errno != EAGAIN && errno != EINTR) {
        s->closed = true;
        s->used = 0;
    }
    if (s->used == 0)
        s->start = 0;
}

/* Bytes up to the end of the first line, 0 if it has none yet. A progress bar ends its lines with a
 * return; only the byte after it tells it from "\r\n". */
static size_t first_line(const stream *s)
{
    const char *data = s->data + s->start;
    for (size_t i = 0; i < s->used; i++) {
        if (data[i] == '\n' || (data[i] == '\r' && i + 1 < s->used && data[i + 1] != '\n'))
            return i + 1;
    }
    return 0;
}

/* Moves whole lines to the sink while it has room; with `all`, or when the buffer is full, also the
 * part of a line. */
static void stream_forward(stream *s, bool all)
{
    while (s->used > 0) {
        size_t count = first_line(s);
        if (count == 0) {
            if (!all && s->used < sizeof s->data)
                break;
            count = s->used;
        }
        if (!sink_put(s->to, s, s->data + s->start, count))
            break;
        s->start += count;
        s->used -= count;
    }
    memmove(s->data, s->data + s->start, s->used);
    s->start = 0;
}

static void stream_end(stream *s)
{
    s->at_end = true;
    stream_forward(s, true);
    if (s->used > 0)
        return; /* the sink is full: again when it has room */
    if (s->to->unfinished == s && sink_room(s->to) > 0) {
        sink_append(s->to, "\n", 1);
        s->to->unfinished = NULL;
    }
    close(s->fd);
    s->fd = -1;
}

bool stream_wants(const stream *s)
{
    return s->fd >= 0 && !s->at_end && s->used < sizeof s->data;
}

void stream_pump(stream *s, bool last)
{
    if (s->fd < 0)
        return;
    stream_forward(s, false);
    if (s->to->closed) {
        close(s->fd); /* the rank learns it by SIGPIPE, as without a launcher */
        s->fd = -1;
        return;
    }
    if (s->at_end)
        stream_end(s);
    if (!stream_wants(s))
        return;
    const ssize_t count = read(s->fd, s->data + s->used, sizeof s->data - s->used);
    if (count > 0) {
        s->used += (size_t)count;
        stream_forward(s, false);
    } else if (count == 0 || last || (errno != EAGAIN && errno != EINTR)) {
        stream_end(s);
    }
}
