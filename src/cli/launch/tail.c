/* tail.c: see tail.h. */
#include "cli/launch/tail.h"

#include <string.h>

void tail_add(bytes *tail, const char *data, size_t count)
{
    bytes_add(tail, data, count);
    if (bytes_used(tail) > 2 * TAIL_BYTES)
        bytes_drop(tail, bytes_used(tail) - TAIL_BYTES);
}

static bool ends_line(char c)
{
    return c == '\n' || c == '\r';
}

/* Where the last lines start. */
static size_t first_kept(const char *data, size_t count, int lines)
{
    size_t at = count;
    while (at > 0 && ends_line(data[at - 1]))
        at--;
    while (at > 0 && count - at < TAIL_BYTES) {
        if (ends_line(data[at - 1]) && --lines == 0)
            break;
        at--;
    }
    return at;
}

void tail_show(const bytes *tail, int lines, void (*show)(void *context, const char *line),
               void *context)
{
    const char *data = bytes_first(tail);
    char line[TAIL_BYTES + 1];
    size_t at = bytes_used(tail) > 0 ? first_kept(data, bytes_used(tail), lines) : 0;
    while (at < bytes_used(tail)) {
        size_t length = 0;
        while (at + length < bytes_used(tail) && !ends_line(data[at + length]))
            length++;
        if (length > 0) {
            const size_t shown = length < TAIL_BYTES ? length : TAIL_BYTES;
            memcpy(line, data + at, shown);
            line[shown] = '\0';
            show(context, line);
        }
        at += length + 1;
    }
}
