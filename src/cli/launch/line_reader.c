/* line_reader.c: see line_reader.h. */
#include "cli/launch/line_reader.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Bytes up to the end of the first line, 0 if it has none yet. A progress bar ends its lines with a
 * return; only the byte after it tells it from "\r\n". */
static size_t first_line(const char *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (data[i] == '\n' || (data[i] == '\r' && i + 1 < count && data[i + 1] != '\n'))
            return i + 1;
    }
    return 0;
}

static bool more_waits(const line_reader *s)
{
    int bytes = 0;
    return !s->at_end && ioctl(s->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* Bytes as they come; but where they filled the buffer and more wait, the part of a line at its end stays
 * for them. So a line that was written at once goes on at once, and nobody else's comes between. */
static size_t plain_bytes(const line_reader *s)
{
    size_t count = s->used;
    if (s->used == sizeof s->data && more_waits(s)) {
        while (count > 0 && s->data[count - 1] != '\n')
            count--;
    }
    return count > 0 ? count : s->used;
}

static void drop(line_reader *s, size_t count)
{
    s->used -= count;
    memmove(s->data, s->data + count, s->used);
}

static void hand_on_plain(line_reader *s)
{
    const size_t count = plain_bytes(s);
    if (count > 0 && s->take(s, s->data, count))
        drop(s, count);
}

/* Hands whole lines on while there is room; with `all`, or when the buffer is full, also the part of
 * a line. */
static void hand_on(line_reader *s, bool all)
{
    size_t start = 0;
    if (s->plain) {
        hand_on_plain(s);
        return;
    }
    while (start < s->used) {
        size_t count = first_line(s->data + start, s->used - start);
        if (count == 0) {
            if (!all && s->used - start < sizeof s->data)
                break;
            count = s->used - start;
        }
        if (!s->take(s, s->data + start, count))
            break;
        start += count;
    }
    drop(s, start);
}

static void end(line_reader *s)
{
    s->at_end = true;
    hand_on(s, true);
    if (s->used == 0 && s->take(s, NULL, 0))
        line_reader_close(s);
}

bool line_reader_wants(const line_reader *s)
{
    return s->fd >= 0 && !s->at_end && s->used < sizeof s->data;
}

void line_reader_pump(line_reader *s, bool last)
{
    if (s->fd < 0)
        return;
    if (s->at_end) {
        end(s);
        return;
    }
    if (!line_reader_wants(s))
        hand_on(s, false);
    if (!line_reader_wants(s))
        return;
    const ssize_t count = read(s->fd, s->data + s->used, sizeof s->data - s->used);
    if (count == 0 || (count < 0 && (last || (errno != EAGAIN && errno != EINTR)))) {
        end(s);
        return;
    }
    s->used += count > 0 ? (size_t)count : 0;
    hand_on(s, false);
}

void line_reader_close(line_reader *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->used = 0;
}
