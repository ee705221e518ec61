/* heap.c: a sorted list of blocks; allocations are few and large, so a scan is fine. */
#include "memory/heap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ranks map each other's heaps side by side. Equal low address bits of what lies at the same offset in all of
 * them would cost several times in the caches, so a file is some pages longer than needed, and blocks begin
 * some lines further on each rank. */
#define SKEW_PAGES 37
#define SKEW_LINES 5

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Less than a page. */
static uint64_t skew_of(uint32_t rank)
{
    return rank * (uint64_t)SKEW_LINES * OS_CACHE_LINE % OS_PAGE;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static rueda_status map_new(heap *h)
{
    void *base;
    rueda_status status = os_shared_create(h->mapped_bytes, &h->fd);
    if (status != RUEDA_OK)
        return status;
    status = os_shared_map(h->fd, h->mapped_bytes, &base);
    if (status == RUEDA_OK)
        h->base = base;
    else
        close(h->fd);
    return status;
}

static rueda_status make(heap *h, uint64_t bytes, uint32_t rank)
{
    h->first = skew_of(rank);
    h->bytes = round_up(bytes, OS_PAGE);
    h->mapped_bytes = h->bytes + SKEW_PAGES * OS_PAGE;
    h->blocks = malloc(sizeof *h->blocks);
    if (h->blocks == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for the heap of rueda_alloc");
    const rueda_status status = map_new(h);
    if (status != RUEDA_OK) {
        free(h->blocks);
        h->blocks = NULL;
        h->fd = -1;
        return status;
    }
    h->blocks[0] = (heap_block){h->first, h->bytes, false};
    h->count = h->capacity = 1;
    return RUEDA_OK;
}

/* The memory itself is left as it is. */
static void forget(heap *h)
{
    if (h->base != NULL)
        close(h->fd);
    free(h->blocks);
    free(h->detached);
    h->fd = -1;
    h->base = NULL;
    h->blocks = NULL;
    h->detached = NULL;
    h->count = h->capacity = 0;
    h->first = h->bytes = h->mapped_bytes = 0;
    h->serves = false;
    atomic_store(&h->detached_count, 0);
}

/* Nobody needs it: no job, and no block is used. */
static void close_unneeded(heap *h)
{
    if (h->serves || h->base == NULL || h->count > 1 || h->blocks[0].used)
        return;
    os_unmap(h->base, h->mapped_bytes);
    forget(h);
}

rueda_status heap_open(heap *h, uint64_t bytes, uint32_t rank)
{
    world_lock_take(&h->lock);
    const rueda_status status = h->base == NULL ? make(h, bytes, rank) : RUEDA_OK;
    h->serves = status == RUEDA_OK;
    world_lock_release(&h->lock);
    return status;
}

void heap_leave(heap *h)
{
    world_lock_take(&h->lock);
    h->serves = false;
    close_unneeded(h);
    world_lock_release(&h->lock);
}

void heap_lock(heap *h)
{
    world_lock_take(&h->lock);
}

void heap_unlock(heap *h)
{
    world_lock_release(&h->lock);
}

void heap_forget(heap *h)
{
    forget(h);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static bool reserve_block(heap *h)
{
    if (h->count < h->capacity)
        return true;
    heap_block *grown = realloc(h->blocks, 2 * h->capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    h->blocks = grown;
    h->capacity *= 2;
    return true;
}

static void remove_block(heap *h, size_t index)
{
    memmove(&h->blocks[index], &h->blocks[index + 1], (h->count - index - 1) * sizeof *h->blocks);
    h->count--;
}

static void split_block(heap *h, size_t index, uint64_t bytes)
{
    heap_block *block = &h->blocks[index];
    if (block->bytes == bytes)
        return;
    memmove(block + 1, block, (h->count - index) * sizeof *block);
    h->count++;
    block[1].offset += bytes;
    block[1].bytes -= bytes;
    block->bytes = bytes;
}

static size_t find_free(const heap *h, uint64_t bytes)
{
    size_t i = 0;
    while (i < h->count && (h->blocks[i].used || h->blocks[i].bytes < bytes))
        i++;
    return i;
}

rueda_status heap_alloc(heap *h, size_t bytes, void **memory)
{
    if (bytes > h->bytes)
        return status_fail(RUEDA_ERR_MEMORY, "rueda_alloc of %zu bytes: RUEDA_HEAP_MAX is %llu",
                           bytes, (unsigned long long)h->bytes);
    const uint64_t rounded = (bytes / OS_CACHE_LINE + 1) * OS_CACHE_LINE;
    world_lock_take(&h->lock);
    rueda_status status = RUEDA_OK;
    uint8_t *start = NULL;
    const size_t index = find_free(h, rounded);
    if (index == h->count || !reserve_block(h)) {
        status =
            status_fail(RUEDA_ERR_MEMORY,
                        "rueda_alloc of %zu bytes: the heap is full; raise RUEDA_HEAP_MAX", bytes);
    } else {
        start = h->base + h->blocks[index].offset;
        status = os_shared_commit(h->fd, h->blocks[index].offset, rounded);
    }
    if (status == RUEDA_OK) {
        split_block(h, index, rounded);
        h->blocks[index].used = true;
    }
    world_lock_release(&h->lock);
    if (status == RUEDA_OK) {
        os_inherit(start, rounded); /* a forked data loader may look at its parent's tensors */
        *memory = memset(start, 0, rounded);
    }
    return status;
}

static void merge_with_next(heap *h, size_t index)
{
    if (index + 1 < h->count && !h->blocks[index].used && !h->blocks[index + 1].used) {
        h->blocks[index].bytes += h->blocks[index + 1].bytes;
        remove_block(h, index + 1);
    }
}

/* Only whole pages of the freed block go back to the system; also copies that are ours alone. */
static void discard(heap *h, const heap_block *block)
{
    const uint64_t first = round_up(block->offset, OS_PAGE);
    const uint64_t last = (block->offset + block->bytes) / OS_PAGE * OS_PAGE;
    if (last <= first)
        return;
    os_shared_discard(h->fd, first, last - first);
    if (atomic_load(&h->detached_count) > 0)
        os_private_discard(h->base + first, last - first);
}

rueda_status heap_free(heap *h, void *memory)
{
    world_lock_take(&h->lock);
    const uint64_t offset = (uint64_t)((uint8_t *)memory - h->base);
    size_t i = 0;
    while (i < h->count && (h->blocks[i].offset != offset || !h->blocks[i].used))
        i++;
    rueda_status status = RUEDA_OK;
    if (i == h->count) {
        status = status_fail(RUEDA_ERR_ARGUMENT, "rueda_free: this is not memory of rueda_alloc");
    } else {
        discard(h, &h->blocks[i]);
        h->blocks[i].used = false;
        merge_with_next(h, i);
        if (i > 0)
            merge_with_next(h, i - 1);
        close_unneeded(h);
    }
    world_lock_release(&h->lock);
    return status;
}

/* ---- What peers can reach --------------------------------------------------------------------- */

static const heap_pages *detached_at(const heap *h, uint64_t offset)
{
    for (size_t i = 0; i < atomic_load(&h->detached_count); i++) {
        const heap_pages *d = &h->detached[i];
        if (d->offset <= offset && offset < d->offset + d->bytes)
            return d;
    }
    return NULL;
}

/* Length of the first stretch of [*from, end) that is not detached, to which *from goes on; 0: there is none. */
static uint64_t next_attached(const heap *h, uint64_t *from, uint64_t end)
{
    for (const heap_pages *d; (d = detached_at(h, *from)) != NULL;)
        *from = d->offset + d->bytes;
    for (size_t i = 0; i < atomic_load(&h->detached_count); i++) {
        if (h->detached[i].offset > *from && h->detached[i].offset < end)
            end = h->detached[i].offset;
    }
    return *from < end ? end - *from : 0;
}

static bool is_attached(heap *h, uint64_t offset, uint64_t bytes)
{
    world_lock_take(&h->lock);
    uint64_t from = offset;
    const bool whole = next_attached(h, &from, offset + bytes) == bytes && from == offset;
    world_lock_release(&h->lock);
    return whole;
}

bool heap_contains(heap *h, const void *memory, size_t bytes)
{
    const uint8_t *first = h->base + h->first, *start = memory;
    if (h->base == NULL || start < first || start >= first + h->bytes ||
        bytes > h->bytes - (uint64_t)(start - first))
        return false;
    return atomic_load_explicit(&h->detached_count, memory_order_relaxed) == 0 ||
           is_attached(h, (uint64_t)(start - h->base), bytes);
}

static rueda_status detach_pages(heap *h, uint64_t offset, uint64_t bytes)
{
    const size_t count = atomic_load(&h->detached_count);
    heap_pages *grown = realloc(h->detached, (count + 1) * sizeof *grown);
    if (grown == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory");
    h->detached = grown;
    const rueda_status status = os_shared_detach(h->fd, h->base + offset, offset, bytes);
    if (status != RUEDA_OK)
        return status;
    os_inherit(h->base + offset, bytes); /* as before */
    h->detached[count] = (heap_pages){offset, bytes};
    atomic_store(&h->detached_count, count + 1);
    return RUEDA_OK;
}

/* Each page once: a second time would bring back what the page was before the first. */
static rueda_status detach_range(heap *h, const heap_range *range)
{
    const uint64_t start = (uint64_t)(range->start - h->base);
    const uint64_t end = round_up(start + range->bytes, OS_PAGE);
    uint64_t from = start / OS_PAGE * OS_PAGE;
    for (uint64_t bytes; (bytes = next_attached(h, &from, end)) > 0; from += bytes) {
        const rueda_status status = detach_pages(h, from, bytes);
        if (status != RUEDA_OK)
            return status;
    }
    return RUEDA_OK;
}

rueda_status heap_detach(heap *h, const heap_range *ranges, size_t count)
{
    rueda_status status = RUEDA_OK;
    world_lock_take(&h->lock);
    for (size_t i = 0; i < count && status == RUEDA_OK; i++) {
        if (ranges[i].bytes > 0)
            status = detach_range(h, &ranges[i]);
    }
    world_lock_release(&h->lock);
    return status;
}
