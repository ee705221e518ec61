/* heap.c: a sorted list of blocks; allocations are few and large, so a scan is fine. */
#include "memory/heap.h"

#include <stdlib.h>
#include <string.h>

rueda_status heap_init(heap *h, segment *s, uint32_t rank)
{
    *h = (heap){.segment = s, .base = segment_heap_at(s, rank), .bytes = s->header->heap_bytes};
    h->blocks = malloc(sizeof *h->blocks);
    if (h->blocks == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for the shared heap");
    h->blocks[0] = (heap_block){0, h->bytes, false};
    h->count = h->capacity = 1;
    pthread_mutex_init(&h->lock, NULL);
    return RUEDA_OK;
}

void heap_fini(heap *h)
{
    if (h->blocks != NULL)
        pthread_mutex_destroy(&h->lock);
    free(h->blocks);
    *h = (heap){0};
}

static heap_leftovers *list_used(const heap *h)
{
    size_t used = 0;
    for (size_t i = 0; i < h->count; i++)
        used += h->blocks[i].used;
    heap_leftovers *left = used == 0 ? NULL : malloc(sizeof *left + used * sizeof left->blocks[0]);
    if (left == NULL)
        return NULL;
    left->count = 0;
    for (size_t i = 0; i < h->count; i++)
        if (h->blocks[i].used)
            left->blocks[left->count++] =
                (segment_range){h->base + h->blocks[i].offset, h->blocks[i].bytes};
    return left;
}

void heap_leave(heap *h, segment *s, heap_leftovers **list)
{
    heap_leftovers *left = list_used(h);
    heap_fini(h);
    segment_close_around(s, left == NULL ? NULL : left->blocks, left == NULL ? 0 : left->count);
    if (left != NULL) {
        left->next = *list;
        *list = left;
    }
}

/* Pages that a block shares with a neighbour stay until the process ends. */
static void unmap_whole_pages(const segment_range *block)
{
    const uintptr_t start = (uintptr_t)block->start;
    const uintptr_t first = (start + OS_PAGE - 1) / OS_PAGE * OS_PAGE;
    const uintptr_t last = (start + block->bytes) / OS_PAGE * OS_PAGE;
    if (last > first)
        os_unmap((void *)first, last - first);
}

static bool is_empty(const heap_leftovers *left)
{
    for (size_t i = 0; i < left->count; i++)
        if (left->blocks[i].bytes != 0)
            return false;
    return true;
}

bool heap_free_leftover(heap_leftovers **list, void *memory)
{
    for (heap_leftovers **link = list; *link != NULL; link = &(*link)->next) {
        heap_leftovers *left = *link;
        for (size_t i = 0; i < left->count; i++) {
            if (left->blocks[i].start != memory || left->blocks[i].bytes == 0)
                continue;
            unmap_whole_pages(&left->blocks[i]);
            left->blocks[i].bytes = 0;
            if (is_empty(left)) {
                *link = left->next;
                free(left);
            }
            return true;
        }
    }
    return false;
}

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
    pthread_mutex_lock(&h->lock);
    rueda_status status = RUEDA_OK;
    uint8_t *start = NULL;
    const size_t index = find_free(h, rounded);
    if (index == h->count || !reserve_block(h)) {
        status =
            status_fail(RUEDA_ERR_MEMORY,
                        "rueda_alloc of %zu bytes: the heap is full; raise RUEDA_HEAP_MAX", bytes);
    } else {
        start = h->base + h->blocks[index].offset;
        status = os_shared_commit(h->segment->fd, (uint64_t)(start - h->segment->base), rounded);
    }
    if (status == RUEDA_OK) {
        split_block(h, index, rounded);
        h->blocks[index].used = true;
    }
    pthread_mutex_unlock(&h->lock);
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

/* Only whole pages of the freed block go back to the system. */
static void discard(heap *h, const heap_block *block)
{
    const uint64_t start = (uint64_t)(h->base - h->segment->base) + block->offset;
    const uint64_t first = (start + OS_PAGE - 1) / OS_PAGE * OS_PAGE;
    const uint64_t last = (start + block->bytes) / OS_PAGE * OS_PAGE;
    if (last > first)
        os_shared_discard(h->segment->fd, first, last - first);
}

rueda_status heap_free(heap *h, void *memory)
{
    pthread_mutex_lock(&h->lock);
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
    }
    pthread_mutex_unlock(&h->lock);
    return status;
}

bool heap_contains(const heap *h, const void *memory, size_t bytes)
{
    const uint8_t *start = memory;
    return h->base != NULL && start >= h->base && start < h->base + h->bytes &&
           bytes <= h->bytes - (uint64_t)(start - h->base);
}

static int compare_ranges(const void *a, const void *b)
{
    const heap_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Each page once: a second time would bring back what the page was before the first. */
rueda_status heap_detach(const heap *h, heap_range *ranges, size_t count)
{
    const segment *s = h->segment;
    uint64_t done = 0; /* offset in the segment */
    qsort(ranges, count, sizeof *ranges, compare_ranges);
    for (size_t i = 0; i < count; i++) {
        const uint64_t start = (uint64_t)(ranges[i].start - s->base), end = start + ranges[i].bytes;
        const uint64_t page = start / OS_PAGE * OS_PAGE, first = page > done ? page : done;
        const uint64_t last = (end + OS_PAGE - 1) / OS_PAGE * OS_PAGE;
        if (last <= first || ranges[i].bytes == 0)
            continue;
        const rueda_status status = os_shared_detach(s->fd, s->base + first, first, last - first);
        if (status != RUEDA_OK)
            return status;
        done = last;
    }
    return RUEDA_OK;
}
