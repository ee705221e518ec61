/* segment.c: where everything lies in the shared file. */
#include "memory/segment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEGMENT_SLOTS 4    /* slots of a channel; plan.h's PLAN_SLOTS */
#define AREA_SKEW_PAGES 37 /* see the trap in segment.h */
#define AREA_SKEW_LINES 5
#define SUMS_BYTES (2 * SEGMENT_SUMS * SEGMENT_SUM_PARTS * sizeof(double))

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* All offsets from the header; the one place that knows the order of things. */
static void lay_out(segment *s, const segment_header *h)
{
    s->contribution_bytes = round_up(sizeof(segment_contribution) + h->cache_words * 8u +
                                         SEGMENT_NEWS_BYTES + h->ranks * 8u,
                                     OS_CACHE_LINE);
    s->sums_offset = sizeof(segment_flag);
    s->addresses_offset = s->sums_offset + SUMS_BYTES;
    s->slots_offset =
        round_up(s->addresses_offset + SEGMENT_ADDRESSES * sizeof(segment_address), OS_CACHE_LINE);
    s->rings_offset = round_up(s->slots_offset + SEGMENT_SLOTS * h->slot_bytes, OS_PAGE);
    s->channel_bytes = round_up(s->rings_offset + h->ranks * sizeof(segment_ring), OS_PAGE) +
                       AREA_SKEW_LINES * OS_CACHE_LINE;
    s->channel_offset = 2 * s->contribution_bytes;
    s->set_offset = round_up(sizeof(segment_rank) + h->ranks * sizeof(segment_answer), OS_PAGE);
    s->set_bytes = round_up(s->channel_offset + h->channels * s->channel_bytes, OS_PAGE);
    s->area_offset = round_up(sizeof(segment_header), OS_PAGE);
    s->area_bytes = round_up(s->set_offset + RUEDA_MAX_SETS * s->set_bytes, OS_PAGE) +
                    AREA_SKEW_PAGES * OS_PAGE + AREA_SKEW_LINES * OS_CACHE_LINE;
}

rueda_status segment_create(segment *s, const config *settings, uint32_t ranks, uint64_t generation)
{
    segment_header h = {.magic = SEGMENT_MAGIC,
                        .version = SEGMENT_VERSION,
                        .generation = generation,
                        .ranks = ranks,
                        .channels = (uint32_t)settings->channels,
                        .cache_words = (uint32_t)((settings->cache_capacity + 63) / 64),
                        .slot_bytes = round_up((uint64_t)settings->slot_bytes, OS_CACHE_LINE)};
    segment made = {.fd = -1};
    lay_out(&made, &h);
    h.bytes = round_up(made.area_offset + ranks * made.area_bytes, OS_PAGE);
    rueda_status status = os_shared_create(h.bytes, &made.fd);
    if (status != RUEDA_OK)
        return status;
    void *base = NULL;
    status = os_shared_commit(made.fd, 0, OS_PAGE);
    if (status == RUEDA_OK)
        status = os_shared_map(made.fd, h.bytes, &base);
    if (status != RUEDA_OK)
        return close(made.fd), status;
    made.base = base;
    made.header = base;
    memcpy(base, &h, offsetof(segment_header, aborted_by));
    *s = made;
    return RUEDA_OK;
}

static rueda_status read_header(int fd, segment_header *h)
{
    if (pread(fd, h, sizeof *h, 0) != (ssize_t)sizeof *h)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot read the shared memory of the job");
    if (h->magic != SEGMENT_MAGIC || h->version != SEGMENT_VERSION)
        return status_fail(RUEDA_ERR_STATE,
                           "the shared memory of the job has layout version %u, this library needs "
                           "%d: use the same rueda on all ranks",
                           h->version, SEGMENT_VERSION);
    return RUEDA_OK;
}

rueda_status segment_attach(segment *s, int fd)
{
    segment_header h;
    segment made = {.fd = fd};
    void *base = NULL;
    rueda_status status = read_header(fd, &h);
    if (status == RUEDA_OK)
        status = os_shared_map(fd, h.bytes, &base);
    if (status != RUEDA_OK)
        return close(fd), status;
    lay_out(&made, &h);
    made.base = base;
    made.header = base;
    *s = made;
    return RUEDA_OK;
}

static void close_heaps(segment *s)
{
    for (uint32_t r = 0; s->heaps != NULL && r < s->header->ranks; r++) {
        if (s->heaps[r].bytes > 0)
            os_unmap(s->heaps[r].base, s->heaps[r].bytes);
    }
    free(s->heaps);
}

void segment_close(segment *s)
{
    if (s->base != NULL) {
        close_heaps(s);
        os_unmap(s->base, s->header->bytes);
        close(s->fd);
    }
    *s = (segment){.fd = -1};
}

static rueda_status note_heap(segment *s, uint32_t rank, segment_heap heap)
{
    if (s->heaps == NULL)
        s->heaps = calloc(s->header->ranks, sizeof *s->heaps);
    if (s->heaps == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for the heaps of other ranks");
    s->heaps[rank] = heap;
    return RUEDA_OK;
}

rueda_status segment_own_heap(segment *s, uint32_t rank, uint8_t *base)
{
    return note_heap(s, rank, (segment_heap){base, 0});
}

rueda_status segment_attach_heap(segment *s, uint32_t rank, int fd)
{
    uint64_t bytes = 0;
    void *base = NULL;
    rueda_status status = os_shared_size(fd, &bytes);
    if (status == RUEDA_OK)
        status = os_shared_map(fd, bytes, &base);
    close(fd); /* the mapping stays */
    if (status != RUEDA_OK)
        return status;
    status = note_heap(s, rank, (segment_heap){base, bytes});
    if (status != RUEDA_OK)
        os_unmap(base, bytes);
    return status;
}

static uint8_t *area_at(const segment *s, uint32_t rank)
{
    return s->base + s->area_offset + rank * s->area_bytes;
}

static uint8_t *set_at(const segment *s, uint32_t rank, uint32_t set)
{
    return area_at(s, rank) + s->set_offset + set * s->set_bytes;
}

static uint8_t *channel_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel)
{
    return set_at(s, rank, set) + s->channel_offset + channel * s->channel_bytes;
}

static rueda_status commit(segment *s, const uint8_t *from, uint64_t bytes)
{
    return os_shared_commit(s->fd, (uint64_t)(from - s->base), bytes);
}

rueda_status segment_commit_set(segment *s, uint32_t rank, uint32_t set)
{
    rueda_status status = commit(s, area_at(s, rank), s->set_offset);
    if (status == RUEDA_OK)
        status = commit(s, set_at(s, rank, set), s->channel_offset);
    for (uint32_t c = 0; c < s->header->channels && status == RUEDA_OK; c++)
        status = commit(s, channel_at(s, rank, set, c), s->rings_offset);
    return status;
}

rueda_status segment_commit_rings(segment *s, uint32_t rank, uint32_t set, uint32_t channel)
{
    return commit(s, channel_at(s, rank, set, channel) + s->rings_offset,
                  s->channel_bytes - s->rings_offset);
}

segment_rank *segment_rank_at(const segment *s, uint32_t rank)
{
    return (segment_rank *)area_at(s, rank);
}

segment_answer *segment_answer_at(const segment *s, uint32_t rank, uint32_t asker)
{
    return (segment_answer *)(segment_rank_at(s, rank) + 1) + asker;
}

segment_contribution *segment_contribution_at(const segment *s, uint32_t rank, uint32_t set,
                                              uint64_t round)
{
    return (segment_contribution *)(set_at(s, rank, set) + (round & 1) * s->contribution_bytes);
}

segment_flag *segment_flag_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel)
{
    return (segment_flag *)channel_at(s, rank, set, channel);
}

double *segment_sums_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel)
{
    return (double *)(channel_at(s, rank, set, channel) + s->sums_offset);
}

segment_address *segment_addresses_at(const segment *s, uint32_t rank, uint32_t set,
                                      uint32_t channel)
{
    return (segment_address *)(channel_at(s, rank, set, channel) + s->addresses_offset);
}

uint8_t *segment_slots_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel)
{
    return channel_at(s, rank, set, channel) + s->slots_offset;
}

segment_ring *segment_ring_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel,
                              uint32_t reader)
{
    return (segment_ring *)(channel_at(s, rank, set, channel) + s->rings_offset) + reader;
}

uint8_t *segment_heap_at(const segment *s, uint32_t rank)
{
    return s->heaps == NULL ? NULL : s->heaps[rank].base;
}

uint64_t segment_news_bytes(const segment *s)
{
    return SEGMENT_NEWS_BYTES + s->header->ranks * 8u;
}
