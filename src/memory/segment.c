/* segment.c: where everything lies in the shared file. */
#include "memory/segment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEGMENT_SLOTS 4    /* slots of a channel; plan.h's PLAN_SLOTS */
#define AREA_SKEW_PAGES 37 /* see the trap in segment.h */
#define AREA_SKEW_LINES 5
#define HEAD_APART                                                                                 \
    256 /* what ranks write in turn is so far apart: a look fetches neighbouring lines, too */
#define SPACE_MOST (UINT64_C(64) << 40) /* bytes; a process has 128 TiB of addresses */
#define SUMS_BYTES (2 * SEGMENT_SUMS * SEGMENT_SUM_PARTS * sizeof(double))

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* With the one for messages of two ranks. */
static uint32_t channels_of(const segment_header *h)
{
    return h->channels + 1;
}

/* All offsets from the header; the one place that knows the order of things. */
static void lay_out(segment *s, const segment_header *h)
{
    s->contribution_bytes =
        round_up(sizeof(segment_contribution) + h->cache_words * 8u, HEAD_APART);
    s->flags_offset = 2 * s->contribution_bytes;
    s->head_offset = round_up(sizeof(segment_rank) + h->ranks * sizeof(segment_answer), OS_PAGE);
    s->head_bytes = s->flags_offset + channels_of(h) * (uint64_t)HEAD_APART;
    s->sums_offset = OS_CACHE_LINE; /* the slots of a channel are not at the start of a page */
    s->addresses_offset = s->sums_offset + SUMS_BYTES;
    s->slots_offset =
        round_up(s->addresses_offset + SEGMENT_ADDRESSES * sizeof(segment_address), OS_CACHE_LINE);
    s->rings_offset = round_up(s->slots_offset + SEGMENT_SLOTS * h->slot_bytes, OS_PAGE);
    s->channel_bytes = round_up(s->rings_offset + h->ranks * sizeof(segment_ring), OS_PAGE) +
                       AREA_SKEW_LINES * OS_CACHE_LINE;
    s->news_bytes = round_up(SEGMENT_NEWS_BYTES + h->ranks * 8u, OS_CACHE_LINE);
    s->channel_offset = round_up(2 * s->news_bytes, OS_PAGE);
    s->body_offset = round_up(s->head_offset + h->sets * s->head_bytes, OS_PAGE);
    s->message_offset = round_up(s->channel_offset + h->channels * s->channel_bytes, OS_PAGE);
    s->body_bytes = round_up(s->message_offset + h->ranks * sizeof(segment_ring), OS_PAGE);
    s->area_offset = round_up(sizeof(segment_header), OS_PAGE);
    s->area_bytes = round_up(s->body_offset + h->sets * s->body_bytes, OS_PAGE) +
                    AREA_SKEW_PAGES * OS_PAGE + AREA_SKEW_LINES * OS_CACHE_LINE;
}

/* As many places for sets as there can be, but in a very large job no more than there are addresses for. */
static uint32_t count_sets(const segment_header *h)
{
    segment one = {.fd = -1}, two = {.fd = -1};
    segment_header trial = *h;
    trial.sets = 1;
    lay_out(&one, &trial);
    trial.sets = 2;
    lay_out(&two, &trial);
    const uint64_t fixed = h->ranks * one.area_bytes;
    const uint64_t each = h->ranks * (two.area_bytes - one.area_bytes + OS_PAGE);
    const uint64_t room = fixed < SPACE_MOST ? (SPACE_MOST - fixed) / each : 0;
    return room < SEGMENT_SETS - 1 ? (uint32_t)room + 1 : SEGMENT_SETS;
}

/* What this rank commits is its own affair: others learn of it by what it writes. */
static rueda_status note_commits(segment *s, const segment_header *h)
{
    s->committed = calloc(h->sets, 1 + channels_of(h));
    return s->committed != NULL ? RUEDA_OK
                                : status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
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
    h.sets = count_sets(&h);
    lay_out(&made, &h);
    h.bytes = round_up(made.area_offset + ranks * made.area_bytes, OS_PAGE);
    rueda_status status = note_commits(&made, &h);
    if (status == RUEDA_OK)
        status = os_shared_create(h.bytes, &made.fd);
    if (status != RUEDA_OK)
        return free(made.committed), status;
    void *base = NULL;
    status = os_shared_commit(made.fd, 0, OS_PAGE);
    if (status == RUEDA_OK)
        status = os_shared_map(made.fd, h.bytes, &base);
    if (status != RUEDA_OK)
        return free(made.committed), close(made.fd), status;
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
        status = note_commits(&made, &h);
    if (status == RUEDA_OK)
        status = os_shared_map(fd, h.bytes, &base);
    if (status != RUEDA_OK)
        return free(made.committed), close(fd), status;
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
    free(s->committed);
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

static uint8_t *head_at(const segment *s, uint32_t rank, uint32_t set)
{
    return area_at(s, rank) + s->head_offset + set * s->head_bytes;
}

static uint8_t *body_at(const segment *s, uint32_t rank, uint32_t set)
{
    return area_at(s, rank) + s->body_offset + set * s->body_bytes;
}

static uint8_t *channel_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel)
{
    return body_at(s, rank, set) + s->channel_offset + channel * s->channel_bytes;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* How much of something is committed. */
enum { COMMIT_NOTHING, COMMIT_SMALL, COMMIT_ALL };

static uint8_t *news_note(const segment *s, uint32_t set)
{
    return &s->committed[set * (1 + channels_of(s->header))];
}

static uint8_t *channel_note(const segment *s, uint32_t set, uint32_t channel)
{
    return news_note(s, set) + 1 + channel;
}

static rueda_status commit(segment *s, const uint8_t *from, uint64_t bytes)
{
    return os_shared_commit(s->fd, (uint64_t)(from - s->base), bytes);
}

/* The global set is never removed, and is in the way of every small call: it has everything from the start. */
rueda_status segment_commit_set(segment *s, uint32_t rank, uint32_t set)
{
    rueda_status status = commit(s, head_at(s, rank, set), s->head_bytes);
    if (status != RUEDA_OK || set != RUEDA_GLOBAL_SET)
        return status;
    status = commit(s, area_at(s, rank), s->head_offset);
    if (status == RUEDA_OK)
        status = commit(s, body_at(s, rank, set), s->channel_offset);
    for (uint32_t c = 0; c < s->header->channels && status == RUEDA_OK; c++)
        status = commit(s, channel_at(s, rank, set, c), s->rings_offset);
    return status;
}

rueda_status segment_commit_news(segment *s, uint32_t rank, uint32_t set)
{
    if (set == RUEDA_GLOBAL_SET || *news_note(s, set) != COMMIT_NOTHING)
        return RUEDA_OK;
    const rueda_status status = commit(s, body_at(s, rank, set), s->channel_offset);
    if (status == RUEDA_OK)
        *news_note(s, set) = COMMIT_ALL;
    return status;
}

rueda_status segment_commit_channel(segment *s, uint32_t rank, uint32_t set, uint32_t channel,
                                    bool small)
{
    uint8_t *note = channel_note(s, set, channel);
    const uint8_t wanted = small ? COMMIT_SMALL : COMMIT_ALL;
    if (set == RUEDA_GLOBAL_SET || *note >= wanted)
        return RUEDA_OK;
    const rueda_status status = small
                                    ? commit(s, segment_slots_at(s, rank, set, channel),
                                             SEGMENT_SLOTS * (uint64_t)SEGMENT_SMALL_SLOT_BYTES)
                                    : commit(s, channel_at(s, rank, set, channel), s->rings_offset);
    if (status == RUEDA_OK)
        *note = wanted;
    return status;
}

rueda_status segment_commit_rings(segment *s, uint32_t rank, uint32_t set, uint32_t channel)
{
    const rueda_status status =
        commit(s, (const uint8_t *)segment_ring_at(s, rank, set, channel, 0),
               s->header->ranks * sizeof(segment_ring));
    if (status != RUEDA_OK)
        return status;
    uint8_t *note = channel_note(s, set, channel);
    *note = *note == COMMIT_NOTHING ? COMMIT_SMALL : *note;
    atomic_store_explicit(&segment_flag_at(s, rank, set, channel)->rings, 1, memory_order_release);
    return RUEDA_OK;
}

void segment_empty_messages(segment *s, uint32_t rank, uint32_t set)
{
    const uint32_t channel = segment_message_channel(s);
    for (uint32_t reader = 0;
         *channel_note(s, set, channel) != COMMIT_NOTHING && reader < s->header->ranks; reader++) {
        segment_ring *ring = segment_ring_at(s, rank, set, channel, reader);
        atomic_store(&ring->written, atomic_load(&ring->consumed));
    }
}

bool segment_has_body(const segment *s, uint32_t set)
{
    const uint8_t *notes = news_note(s, set);
    for (uint32_t i = 0; i <= channels_of(s->header); i++) {
        if (notes[i] != COMMIT_NOTHING)
            return true;
    }
    return false;
}

void segment_release_body(segment *s, uint32_t rank, uint32_t set)
{
    os_shared_discard(s->fd, (uint64_t)(body_at(s, rank, set) - s->base), s->body_bytes);
    memset(news_note(s, set), COMMIT_NOTHING, 1 + channels_of(s->header));
}

void segment_clear_head(segment *s, uint32_t rank, uint32_t set)
{
    for (uint64_t round = 0; round < 2; round++)
        atomic_store(&segment_contribution_at(s, rank, set, round)->round, 0);
    for (uint32_t c = 0; c < channels_of(s->header); c++) {
        segment_flag *flag = segment_flag_at(s, rank, set, c);
        atomic_store(&flag->value, 0);
        atomic_store(&flag->rings, 0);
    }
}

/* ---- Where things are ------------------------------------------------------------------------ */

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
    return (segment_contribution *)(head_at(s, rank, set) + (round & 1) * s->contribution_bytes);
}

uint8_t *segment_news_at(const segment *s, uint32_t rank, uint32_t set, uint64_t round)
{
    return body_at(s, rank, set) + (round & 1) * s->news_bytes;
}

segment_flag *segment_flag_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel)
{
    return (segment_flag *)(head_at(s, rank, set) + s->flags_offset) +
           channel * (HEAD_APART / sizeof(segment_flag));
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
    uint8_t *rings = channel == segment_message_channel(s)
                         ? body_at(s, rank, set) + s->message_offset
                         : channel_at(s, rank, set, channel) + s->rings_offset;
    return (segment_ring *)rings + reader;
}

uint8_t *segment_heap_at(const segment *s, uint32_t rank)
{
    return s->heaps == NULL ? NULL : s->heaps[rank].base;
}

uint64_t segment_news_bytes(const segment *s)
{
    return SEGMENT_NEWS_BYTES + s->header->ranks * 8u;
}
