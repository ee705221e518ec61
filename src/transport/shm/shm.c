/* shm.c: the transport between ranks of one host. Peer memory is the segment and the heaps; messages are
 * single-writer, single-reader rings, whose memory is taken when the first byte is sent. */
#include "transport/shm/shm.h"

#include <stdlib.h>
#include <string.h>

typedef struct shm_channel {
    transport_channel common;
    uint32_t number;
    bool committed;  /* our rings have memory */
    bool *has_rings; /* by member: so have theirs */
    transport_peer peers[];
} shm_channel;

static rueda_status shm_open(transport_job *job, const control_members *members, uint32_t number,
                             transport_channel **channel)
{
    (void)job;
    shm_channel *c = calloc(1, sizeof *c + members->size * (sizeof c->peers[0] + sizeof(bool)));
    if (c == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a channel");
    const segment *s = members->job->segment;
    c->number = number;
    c->has_rings = (bool *)(c->peers + members->size);
    /* on the channel that has messages only, these say that the memory is shared and are not used */
    for (uint16_t i = 0; i < members->size; i++) {
        const uint32_t rank = members->ranks[i];
        c->peers[i] = (transport_peer){segment_flag_at(s, rank, members->set, number),
                                       segment_slots_at(s, rank, members->set, number),
                                       segment_sums_at(s, rank, members->set, number),
                                       segment_addresses_at(s, rank, members->set, number),
                                       segment_heap_at(s, rank)};
    }
    c->common = (transport_channel){.table = &transport_shm,
                                    .members = members,
                                    .slot_bytes = s->header->slot_bytes,
                                    .peers = c->peers};
    *channel = &c->common;
    return RUEDA_OK;
}

static void shm_close(transport_channel *channel)
{
    free(channel);
}

static segment_ring *ring_between(transport_channel *channel, uint16_t writer, uint16_t reader)
{
    const control_members *g = channel->members;
    return segment_ring_at(g->job->segment, g->ranks[writer], g->set,
                           ((shm_channel *)channel)->number, g->ranks[reader]);
}

/* Rings lie in holes of the file until the first message: most jobs on one host never send any. Out
 * of memory ends the job: the peer would wait for ever. */
static bool commit_once(shm_channel *c)
{
    const control_members *g = c->common.members;
    const uint32_t rank = g->ranks[g->index];
    if (c->committed)
        return true;
    const rueda_status status = segment_commit_rings(g->job->segment, rank, g->set, c->number);
    if (status != RUEDA_OK)
        control_fail(g->job, status);
    c->committed = status == RUEDA_OK;
    return c->committed;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Copies bytes to `at`, around the end of the ring. */
static void put(segment_ring *ring, uint64_t at, const uint8_t *data, size_t bytes)
{
    const size_t start = (size_t)(at % SEGMENT_RING_BYTES);
    const size_t before_end = smaller(bytes, SEGMENT_RING_BYTES - start);
    world_copy(ring->bytes + start, data, before_end);
    world_copy(ring->bytes, data + before_end, bytes - before_end);
}

static size_t shm_send(transport_channel *channel, uint16_t peer, const struct iovec *parts,
                       int count)
{
    if (!commit_once((shm_channel *)channel))
        return 0;
    segment_ring *ring = ring_between(channel, channel->members->index, peer);
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    const uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_acquire);
    const size_t room = SEGMENT_RING_BYTES - (size_t)(written - consumed);
    size_t taken = 0;
    for (int i = 0; i < count && taken < room; i++) {
        const size_t bytes = smaller(parts[i].iov_len, room - taken);
        if (bytes > 0)
            put(ring, written + taken, parts[i].iov_base, bytes);
        taken += bytes;
    }
    if (taken == 0)
        return 0;
    atomic_store_explicit(&ring->written, written + taken, memory_order_release);
    control_notify_rank(channel->members->job, channel->members->ranks[peer]);
    return taken;
}

/* Before its first message to anybody a member's rings are a hole, which must not be touched. */
static bool has_rings(shm_channel *c, uint16_t peer)
{
    if (!c->has_rings[peer])
        c->has_rings[peer] =
            atomic_load_explicit(&c->peers[peer].flag->rings, memory_order_acquire) != 0;
    return c->has_rings[peer];
}

static size_t shm_peek(transport_channel *channel, uint16_t peer, const void **data)
{
    if (!has_rings((shm_channel *)channel, peer))
        return 0;
    segment_ring *ring = ring_between(channel, peer, channel->members->index);
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_acquire);
    const uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_relaxed);
    const size_t start = (size_t)(consumed % SEGMENT_RING_BYTES);
    *data = ring->bytes + start;
    return smaller((size_t)(written - consumed), SEGMENT_RING_BYTES - start);
}

static void shm_consume(transport_channel *channel, uint16_t peer, size_t bytes)
{
    segment_ring *ring = ring_between(channel, peer, channel->members->index);
    const uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_relaxed);
    atomic_store_explicit(&ring->consumed, consumed + bytes, memory_order_release);
    control_notify_rank(channel->members->job, channel->members->ranks[peer]);
}

static size_t shm_receive(transport_channel *channel, uint16_t peer, void *to, size_t bytes)
{
    const void *data;
    const size_t taken = smaller(shm_peek(channel, peer, &data), bytes);
    if (taken == 0)
        return 0;
    world_copy(to, data, taken);
    shm_consume(channel, peer, taken);
    return taken;
}

/* What a peer wrote before it left is in the memory when we know that it left. */
static bool shm_ended(transport_channel *channel, uint16_t peer)
{
    (void)channel;
    (void)peer;
    return true;
}

const transport_table transport_shm = {.name = "shm",
                                       .encrypts = true, /* nothing leaves the host */
                                       .open = shm_open,
                                       .close = shm_close,
                                       .send = shm_send,
                                       .peek = shm_peek,
                                       .consume = shm_consume,
                                       .receive = shm_receive,
                                       .ended = shm_ended};
