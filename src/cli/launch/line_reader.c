/* line_reader.c: see line_reader.h. */
#include "cli/launch/line_reader.h"

#include <errno.h>
#include <string.h>
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

/* Hands whole lines on while there is room; with `all`, or when the buffer is full, also the part of
 * a line. */
static void hand_on(line_reader *s, bool all)
{
    size_t start = 0;
    while (start < s->used) {
        size_t count = s->plain ? s->used - start : first_line(s->data + start, s->used - start);
        if (count == 0) {
            if (!all && s->used - start < sizeof s->data)
                break;
            count = s->used - start;
        }
        if (!s->take(s, s->data + start, count))
            break;
        start += count;
    }
    s->used -= start;
    memmove(s->data, s->data + start, s->used);
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
    hand_on(s, false);
    if (!line_reader_wants(s))
        return;
    const ssize_t count = read(s->fd, s->data + s->used, sizeof s->data - s->used);
    if (count > 0) {
        s->used += (size_t)count;
        hand_on(s, false);
    } else if (count == 0 || last || (errno != EAGAIN && errno != EINTR)) {
        end(s);
    }
}

void line_reader_close(line_reader *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->used = 0;
}
