/* note_ring.h: bytes from one writing thread to one reading thread, without a lock.
 *
 * A note is a block of memory that starts with a note_head; it lies in one piece. The writer never waits:
 * where there is no room it gets NULL. Invariant: `taken` ≤ `put` ≤ `taken` + size, all multiples of 8.
 */
#ifndef RUEDA_OBSERVE_NOTE_RING_H
#define RUEDA_OBSERVE_NOTE_RING_H

#include "base/os.h"

typedef struct note_head {
    uint32_t bytes; /* of the whole note, a multiple of 8; 0: the rest of the ring is left out */
} note_head;

typedef struct note_ring {
    uint8_t *memory; /* NULL: not there yet */
    uint64_t size;   /* a power of two */
    _Atomic uint64_t put;
    _Alignas(OS_CACHE_LINE) _Atomic uint64_t taken;
} note_ring;

/* `size`: a power of two. ERR_MEMORY. */
rueda_status note_ring_init(note_ring *r, uint64_t size);
void note_ring_fini(note_ring *r); /* safe on a zeroed one */

/* Room for a note of so many bytes (rounded up to 8), or NULL; valid until published. */
note_head *note_ring_reserve(note_ring *r, uint32_t bytes);
/* Hands the note over. True: the ring has become half full with it, the reader should come. */
bool note_ring_publish(note_ring *r, const note_head *note);

/* The oldest note, or NULL; valid until it is taken. */
const note_head *note_ring_peek(note_ring *r);
void note_ring_take(note_ring *r, const note_head *note);

#endif
