/* note_ring.c: see note_ring.h. */
#include "observe/note_ring.h"

#include <stdlib.h>

#define UNIT 8 /* bytes; notes start at such multiples */

rueda_status note_ring_init(note_ring *r, uint64_t size)
{
    r->memory = malloc(size);
    if (r->memory == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "no memory for a ring of %llu bytes",
                           (unsigned long long)size);
    r->size = size;
    atomic_store(&r->put, 0);
    atomic_store(&r->taken, 0);
    return RUEDA_OK;
}

void note_ring_fini(note_ring *r)
{
    free(r->memory);
    r->memory = NULL;
}

static note_head *note_at(const note_ring *r, uint64_t position)
{
    return (note_head *)(r->memory + (position & (r->size - 1)));
}

note_head *note_ring_reserve(note_ring *r, uint32_t bytes)
{
    const uint32_t needed = (bytes + UNIT - 1) / UNIT * UNIT;
    const uint64_t put = atomic_load_explicit(&r->put, memory_order_relaxed);
    const uint64_t taken = atomic_load_explicit(&r->taken, memory_order_acquire);
    const uint64_t to_end = r->size - (put & (r->size - 1));
    const uint64_t skipped = needed <= to_end ? 0 : to_end;
    if (put + skipped + needed - taken > r->size)
        return NULL;
    if (skipped > 0) {
        note_at(r, put)->bytes = 0;
        atomic_store_explicit(&r->put, put + skipped, memory_order_release);
    }
    note_head *note = note_at(r, put + skipped);
    note->bytes = needed;
    return note;
}

bool note_ring_publish(note_ring *r, const note_head *note)
{
    const uint64_t before = atomic_load_explicit(&r->put, memory_order_relaxed);
    const uint64_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed);
    const uint64_t put = before + note->bytes;
    atomic_store_explicit(&r->put, put, memory_order_release);
    return before - taken < r->size / 2 && put - taken >= r->size / 2;
}

const note_head *note_ring_peek(note_ring *r)
{
    const uint64_t put = atomic_load_explicit(&r->put, memory_order_acquire);
    uint64_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed);
    if (taken == put)
        return NULL;
    if (note_at(r, taken)->bytes == 0) {
        taken += r->size - (taken & (r->size - 1));
        atomic_store_explicit(&r->taken, taken, memory_order_release);
    }
    return taken == put ? NULL : note_at(r, taken);
}

void note_ring_take(note_ring *r, const note_head *note)
{
    const uint64_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed);
    atomic_store_explicit(&r->taken, taken + note->bytes, memory_order_release);
}
