/* heap.h: the memory of rueda_alloc: a first-fit allocator over a memfd of the process's own.
 *
 * The memory is the process's and not the job's: what is in use when a job ends stays, and the peers of the
 * next job reach it like those of the one before. The descriptor is handed to the other ranks of the host
 * (boot/share.c), which map it as a whole; addresses that are told to them count from `base`.
 * The bookkeeping is private; only the blocks are shared. Invariant: free and used blocks together cover
 * the heap without overlap, sorted by offset, and no two free neighbours. Between jobs there is a heap only as
 * long as a block is used.
 */
#ifndef RUEDA_MEMORY_HEAP_H
#define RUEDA_MEMORY_HEAP_H

#include "world/world.h"

typedef struct heap_block {
    uint64_t offset, bytes;
    bool used;
} heap_block;

/* Pages that peers cannot reach, see heap_detach. */
typedef struct heap_pages {
    uint64_t offset, bytes;
} heap_pages;

typedef struct heap {
    world_lock lock;
    int fd;
    uint8_t *base;         /* of the mapping; NULL: there is none */
    uint64_t mapped_bytes; /* of the file */
    uint64_t first, bytes; /* what is given out: offset and length */
    heap_block *blocks;
    size_t count, capacity;
    bool serves; /* a job */
    _Atomic size_t detached_count;
    heap_pages *detached; /* no page twice */
} heap;

#define HEAP_NONE                                                                                  \
    {                                                                                              \
        .lock = WORLD_LOCK_NEW, .fd = -1                                                           \
    }

/* A job begins: makes a heap of `bytes`, or takes the one that is there, however large it was made. `rank`
 * is_broadcast the ranks' blocks over the caches. ERR_SYSTEM, ERR_MEMORY: there is none. */
rueda_status heap_open(heap *h, uint64_t bytes, uint32_t rank);
/* The job has ended, or did not begin: what is in use stays. */
void heap_leave(heap *h);

/* Around a fork. In the child the memory stays mapped, and the heap is one that was never opened. */
void heap_lock(heap *h);
void heap_unlock(heap *h);
void heap_forget(heap *h); /* in the child; locked */

/* Zeroed memory, aligned to a cache line. */
rueda_status heap_alloc(heap *h, size_t bytes, void **memory);
/* Also between jobs. ERR_ARGUMENT: not the start of a block. */
rueda_status heap_free(heap *h, void *memory);

/* Whether [memory, memory + bytes) lies in the heap and peers can reach it. During a job. */
bool heap_contains(heap *h, const void *memory, size_t bytes);

typedef struct heap_range {
    const uint8_t *start;
    uint64_t bytes;
} heap_range;

/* Puts ranges of the heap out of the reach of peers: their pages become this process's own, for as long as
 * the heap lives, since nobody knows until when a peer can write to the old ones. Threads may use the heap
 * meanwhile. ERR_MEMORY: some may still be in reach. */
rueda_status heap_detach(heap *h, const heap_range *ranges, size_t count);

#endif
