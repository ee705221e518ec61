/* byte_queue.h: a run of bytes that grows: appended at the end, taken from the start. Zero is an empty one. */
#ifndef RUEDA_BASE_BYTE_QUEUE_H
#define RUEDA_BASE_BYTE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

typedef struct byte_queue {
    uint8_t *bytes;
    size_t start, end, capacity;
} byte_queue;

static inline size_t byte_queue_used(const byte_queue *q)
{
    return q->end - q->start;
}

/* Room for `more` bytes at the end, which the caller then counts in `end`; NULL: out of memory. */
uint8_t *byte_queue_room(byte_queue *q, size_t more);
void byte_queue_clear(byte_queue *q); /* keeps the memory */
void byte_queue_free(byte_queue *q);

#endif
