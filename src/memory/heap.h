/* heap.h: rueda_alloc, a first-fit allocator over a rank's part of the segment.
 *
 * Its bookkeeping is private to the rank; only the blocks are shared. Invariant: free and used blocks
 * together cover the heap without overlap, sorted by offset, and no two free neighbours.
 */
#ifndef RUEDA_MEMORY_HEAP_H
#define RUEDA_MEMORY_HEAP_H

#include "memory/segment.h"

#include <pthread.h>

typedef struct heap_block {
    uint64_t offset, bytes;
    bool used;
} heap_block;

typedef struct heap {
    pthread_mutex_t lock;
    segment *segment;
    uint8_t *base;
    uint64_t bytes;
    heap_block *blocks;
    size_t count, capacity;
} heap;

rueda_status heap_init(heap *h, segment *s, uint32_t rank);
void heap_fini(heap *h); /* safe after a failed or missing init of a zeroed heap */

/* Blocks that their users still have when the job ends: they stay mapped and become ordinary memory. */
typedef struct heap_leftovers {
    struct heap_leftovers *next; /* of an earlier job */
    size_t count;
    segment_range blocks[]; /* ascending; bytes 0: freed since */
} heap_leftovers;

/* Ends the heap and closes its segment but for used blocks, which are put before `*list`. Where memory
 * for the list is missing they are unmapped, too. */
void heap_leave(heap *h, segment *s, heap_leftovers **list);
/* Gives such a block back; false: it is none. */
bool heap_free_leftover(heap_leftovers **list, void *memory);

/* Zeroed memory, aligned to a cache line. */
rueda_status heap_alloc(heap *h, size_t bytes, void **memory);
/* ERR_ARGUMENT: not the start of a block. */
rueda_status heap_free(heap *h, void *memory);

/* Whether [memory, memory + bytes) lies in the heap: peers can reach it. */
bool heap_contains(const heap *h, const void *memory, size_t bytes);

typedef struct heap_range {
    const uint8_t *start;
    uint64_t bytes;
} heap_range;

/* Puts ranges of the heap out of the reach of peers: their pages become this rank's own. Threads may
 * use the heap meanwhile. Once in the life of a heap, with all ranges; sorts them. ERR_MEMORY: some may
 * still be in reach. */
rueda_status heap_detach(const heap *h, heap_range *ranges, size_t count);

#endif
