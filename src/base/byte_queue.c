/* byte_queue.c: see byte_queue.h. */
#include "base/byte_queue.h"

#include <stdlib.h>
#include <string.h>

uint8_t *byte_queue_room(byte_queue *q, size_t more)
{
    if (q->start == q->end)
        byte_queue_clear(q);
    if (q->end + more > q->capacity && q->start > 0) {
        memmove(q->bytes, q->bytes + q->start, q->end - q->start);
        q->end -= q->start;
        q->start = 0;
    }
    if (q->end + more > q->capacity) {
        const size_t capacity = 2 * q->capacity + more;
        uint8_t *grown = realloc(q->bytes, capacity);
        if (grown == NULL)
            return NULL;
        q->bytes = grown;
        q->capacity = capacity;
    }
    return q->bytes + q->end;
}

void byte_queue_clear(byte_queue *q)
{
    q->start = q->end = 0;
}

void byte_queue_free(byte_queue *q)
{
    free(q->bytes);
    *q = (byte_queue){.bytes = NULL};
}
