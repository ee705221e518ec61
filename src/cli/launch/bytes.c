/* bytes.c: see bytes.h. */
#include "cli/launch/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
static void *make_room(bytes *b, size_t count)
{
    void *room = byte_queue_room(b, count);
    if (room == NULL)
        bytes_end_without_memory();
    return room;
}

void bytes_add(bytes *b, const void *data, size_t count)
{
    if (count == 0)
        return;
    memcpy(make_room(b, count), data, count);
    b->end += count;
}

void bytes_add_text(bytes *b, const char *text)
{
    bytes_add(b, text, strlen(text));
}

void bytes_drop(bytes *b, size_t count)
{
    b->start += count;
}

void bytes_free(bytes *b)
{
    byte_queue_free(b);
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
        b->end += (size_t)count;
    return fate(count);
}

bytes_moved bytes_write(bytes *b, int fd, size_t limit)
{
    const size_t used = bytes_used(b);
    if (used == 0)
        return BYTES_WAIT;
    const ssize_t count = write(fd, bytes_first(b), used < limit ? used : limit);
    if (count > 0)
        bytes_drop(b, (size_t)count);
    return fate(count);
}
