/* bytes.c: see bytes.h. */
#include "cli/launch/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM_MIN 4096
#define READ_BYTES 65536

_Noreturn void bytes_end_without_memory(void)
{
    fputs("rueda: out of memory\n", stderr);
    _exit(EXIT_FAILURE);
}

void *bytes_new(size_t count, size_t each)
{
    void *memory = calloc(count > 0 ? count : 1, each);
    if (memory == NULL)
        bytes_end_without_memory();
    return memory;
}

/* Room for `count` more at the end. */
static char *make_room(bytes *b, size_t count)
{
    if (b->start + b->used + count > b->room && b->start > 0) {
        memmove(b->data, b->data + b->start, b->used);
        b->start = 0;
    }
    if (b->used + count > b->room) {
        const size_t room = 2 * (b->used + count);
        b->room = room > ROOM_MIN ? room : ROOM_MIN;
        b->data = realloc(b->data, b->room);
        if (b->data == NULL)
            bytes_end_without_memory();
    }
    return b->data + b->start + b->used;
}

void bytes_add(bytes *b, const void *data, size_t count)
{
    if (count == 0)
        return;
    memcpy(make_room(b, count), data, count);
    b->used += count;
}

void bytes_add_text(bytes *b, const char *text)
{
    bytes_add(b, text, strlen(text));
}

void bytes_drop(bytes *b, size_t count)
{
    b->start += count;
    b->used -= count;
    if (b->used == 0)
        b->start = 0;
}

void bytes_free(bytes *b)
{
    free(b->data);
    *b = (bytes){0};
}

static bytes_moved fate(ssize_t moved)
{
    if (moved > 0)
        return BYTES_MOVED;
    return moved < 0 && (errno == EAGAIN || errno == EINTR) ? BYTES_WAIT : BYTES_END;
}

bytes_moved bytes_read(bytes *b, int fd)
{
    const ssize_t count = read(fd, make_room(b, READ_BYTES), READ_BYTES);
    if (count > 0)
        b->used += (size_t)count;
    return fate(count);
}

bytes_moved bytes_write(bytes *b, int fd, size_t limit)
{
    if (b->used == 0)
        return BYTES_WAIT;
    const ssize_t count = write(fd, bytes_first(b), b->used < limit ? b->used : limit);
    if (count > 0)
        bytes_drop(b, (size_t)count);
    return fate(count);
}
