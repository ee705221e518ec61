/* mpi.c: the transport of a job whose ranks MPI joins. Members that share our memory are reached by it,
 * the others by MPI messages: a stream is cut into parcels, a few of which are under way at a time.
 *
 * Parcels start with as many bytes of no meaning as keep the stream's alignment in the receiver's memory.
 * Sends are synchronous, so nothing is left to do for a rank whose parcels are all done: an operation
 * ends only then (flushed), and MPI need not be asked any more.
 */
#include "transport/mpi/mpi.h"

#include "transport/hosts.h"

#include <stdlib.h>
#include <string.h>

#define PARCEL_BYTES (128 * 1024)
#define PARCELS 4 /* of a stream, on each side */
#define ALIGN 8
#define TAIL OS_CACHE_LINE /* behind a received parcel, for the rest of its last word */
#define CHANNELS_MAX 17    /* the largest RUEDA_CHANNELS, and the one for sends and receives */
#define TESTS_AT_ONCE 16   /* of a collective */
#define ASKED_ENOUGH 8     /* times that nothing came of a peer that has left, then nothing will */

_Static_assert(SEGMENT_SETS *CHANNELS_MAX <= 32768, "every MPI has tags up to 32767");
_Static_assert(PARCEL_BYTES % ALIGN == 0, "a full parcel ends at a whole word");

/* Parcels under way, the oldest at `first`. */
typedef struct mpi_outbox {
    uint8_t *memory[PARCELS];
    mpi_ticket tickets[PARCELS];
    uint32_t first, count;
    uint64_t position; /* bytes sent so far */
} mpi_outbox;

/* Receives are posted for all parcels at the first look; `first` is the one that is read. */
typedef struct mpi_inbox {
    uint8_t *memory[PARCELS];
    mpi_ticket tickets[PARCELS];
    bool here[PARCELS];                  /* has come */
    size_t start[PARCELS], end[PARCELS]; /* what is not consumed of it, from its memory on */
    uint32_t first;
    bool posted;
    uint64_t position; /* bytes that have come so far, in parcels that are here */
    unsigned asked;
} mpi_inbox;

typedef struct mpi_stream {
    mpi_outbox out;
    mpi_inbox in;
} mpi_stream;

typedef struct mpi_channel {
    hosts_channel hosts;
    const mpi_job *job;
    uint32_t number;
    int tag;
    uint32_t flying; /* parcels that are not yet received */
    mpi_ticket collective;
    mpi_stream streams[]; /* by member */
} mpi_channel;

static int rank_of(const mpi_channel *c, uint16_t peer)
{
    return c->hosts.common.members->ranks[peer];
}

static bool by_memory(const mpi_channel *c, uint16_t peer)
{
    return hosts_is_here(&c->hosts, peer);
}

/* The peer would wait for ever. */
static void give_up(const mpi_channel *c, rueda_status status)
{
    control_fail(c->hosts.common.members->job, status);
}

static void fail_mpi(const mpi_channel *c, uint16_t peer)
{
    give_up(c, status_fail(RUEDA_ERR_PEER, "rank %d: MPI reports an error in a message of rank %d",
                           rank_of(c, c->hosts.common.members->index), rank_of(c, peer)));
}

/* ---- Open and close -------------------------------------------------------------------------- */

/* Memory that MPI may still write to or read from is never given back. */
static void close_stream(const mpi_plugin *mpi, mpi_stream *s)
{
    size_t bytes;
    for (uint32_t i = 0; i < PARCELS; i++) {
        const uint32_t age = (i + PARCELS - s->out.first) % PARCELS;
        if (age >= s->out.count || mpi->test(&s->out.tickets[i], &bytes) == 1)
            free(s->out.memory[i]);
        if (!s->in.posted || s->in.here[i] || mpi->cancel(&s->in.tickets[i]))
            free(s->in.memory[i]);
    }
}

static void mpi_close(transport_channel *channel)
{
    mpi_channel *c = (mpi_channel *)channel;
    if (c == NULL)
        return;
    for (uint16_t i = 0; c->hosts.memory != NULL && i < c->hosts.common.members->size; i++)
        close_stream(c->job->plugin, &c->streams[i]);
    hosts_close(&c->hosts);
    free(c);
}

static rueda_status mpi_open(transport_job *job, const control_members *members, uint32_t number,
                             transport_channel **channel)
{
    mpi_channel *c = calloc(1, sizeof *c + members->size * sizeof c->streams[0]);
    if (c == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a channel");
    c->job = (const mpi_job *)job;
    c->number = number;
    /* a set that had the same number before has left nothing: its operations have ended, so all they sent was
     * received, and every member has taken its receives back before a place is used again */
    c->tag = (int)(members->set * CHANNELS_MAX + number);
    const rueda_status status = hosts_open(&c->hosts, &transport_mpi, members, number);
    if (status != RUEDA_OK)
        return mpi_close(&c->hosts.common), status;
    *channel = &c->hosts.common;
    return RUEDA_OK;
}

static bool take_memory(const mpi_channel *c, uint8_t **memory, size_t bytes)
{
    if (*memory == NULL)
        *memory = aligned_alloc(OS_CACHE_LINE, bytes);
    if (*memory == NULL)
        give_up(c, status_fail(RUEDA_ERR_MEMORY, "no %zu bytes for MPI messages", bytes));
    return *memory != NULL;
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Takes back parcels that were received, the oldest first. */
static void reap(mpi_channel *c, uint16_t peer)
{
    mpi_outbox *o = &c->streams[peer].out;
    size_t bytes;
    int done = 1;
    while (o->count > 0 && (done = c->job->plugin->test(&o->tickets[o->first], &bytes)) == 1) {
        o->first = (o->first + 1) % PARCELS;
        o->count--;
        c->flying--;
    }
    if (done < 0)
        fail_mpi(c, peer);
}

/* As much as fits behind the first `used` bytes; returns how many. */
static size_t gather(uint8_t *to, size_t used, const struct iovec *parts, int count)
{
    size_t taken = 0;
    for (int i = 0; i < count && used + taken < PARCEL_BYTES; i++) {
        const size_t room = PARCEL_BYTES - used - taken;
        const size_t bytes = parts[i].iov_len < room ? parts[i].iov_len : room;
        if (bytes > 0)
            memcpy(to + used + taken, parts[i].iov_base, bytes);
        taken += bytes;
    }
    return taken;
}

static size_t mpi_send(transport_channel *channel, uint16_t peer, const struct iovec *parts,
                       int count)
{
    mpi_channel *c = (mpi_channel *)channel;
    if (by_memory(c, peer))
        return transport_shm.send(c->hosts.memory, peer, parts, count);
    mpi_outbox *o = &c->streams[peer].out;
    reap(c, peer);
    const uint32_t parcel = (o->first + o->count) % PARCELS;
    if (o->count == PARCELS || !take_memory(c, &o->memory[parcel], PARCEL_BYTES))
        return 0;
    const size_t shift = o->position % ALIGN;
    const size_t taken = gather(o->memory[parcel], shift, parts, count);
    if (taken == 0)
        return 0;
    memset(o->memory[parcel], 0, shift);
    if (!c->job->plugin->send(c->job->world, rank_of(c, peer), c->tag, o->memory[parcel],
                              (int)(shift + taken), &o->tickets[parcel])) {
        fail_mpi(c, peer);
        return 0;
    }
    o->count++;
    c->flying++;
    o->position += taken;
    return taken;
}

static bool mpi_flushed(transport_channel *channel)
{
    mpi_channel *c = (mpi_channel *)channel;
    for (uint16_t i = 0; c->flying > 0 && i < c->hosts.common.members->size; i++)
        reap(c, i);
    return c->flying == 0;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static bool post(mpi_channel *c, uint16_t peer, uint32_t parcel)
{
    mpi_inbox *in = &c->streams[peer].in;
    in->here[parcel] = false;
    in->start[parcel] = in->end[parcel] = 0;
    if (c->job->plugin->receive(c->job->world, rank_of(c, peer), c->tag, in->memory[parcel],
                                PARCEL_BYTES, &in->tickets[parcel]))
        return true;
    in->here[parcel] = true; /* nothing is under way */
    fail_mpi(c, peer);
    return false;
}

static bool post_all(mpi_channel *c, uint16_t peer)
{
    mpi_inbox *in = &c->streams[peer].in;
    bool good = true;
    for (uint32_t i = 0; i < PARCELS && good; i++)
        good = take_memory(c, &in->memory[i], PARCEL_BYTES + TAIL);
    for (uint32_t i = 0; i < PARCELS && good; i++)
        good = post(c, peer, i);
    in->posted = good;
    return good;
}

/* Whether the parcel has come. */
static bool arrived(mpi_channel *c, uint16_t peer, uint32_t parcel)
{
    mpi_inbox *in = &c->streams[peer].in;
    size_t bytes;
    if (in->here[parcel])
        return true;
    const int done = c->job->plugin->test(&in->tickets[parcel], &bytes);
    if (done < 0)
        fail_mpi(c, peer);
    if (done != 1)
        return false;
    in->here[parcel] = true;
    in->start[parcel] = in->position % ALIGN;
    in->end[parcel] = bytes;
    in->position += in->end[parcel] - in->start[parcel];
    in->asked = 0;
    return true;
}

static size_t left_of(const mpi_inbox *in, uint32_t parcel)
{
    return in->end[parcel] - in->start[parcel];
}

/* A word that lies across parcels is made whole: its end goes to its beginning, which stays. */
static void complete_word(mpi_channel *c, uint16_t peer)
{
    mpi_inbox *in = &c->streams[peer].in;
    const uint32_t parcel = in->first;
    for (uint32_t i = 1; i < PARCELS && in->end[parcel] % ALIGN != 0; i++) {
        const uint32_t next = (parcel + i) % PARCELS;
        if (!arrived(c, peer, next))
            return;
        const size_t missing = ALIGN - in->end[parcel] % ALIGN, there = left_of(in, next);
        const size_t bytes = there < missing ? there : missing;
        memcpy(in->memory[parcel] + in->end[parcel], in->memory[next] + in->start[next], bytes);
        in->end[parcel] += bytes;
        in->start[next] += bytes;
    }
}

static void advance(mpi_channel *c, uint16_t peer)
{
    mpi_inbox *in = &c->streams[peer].in;
    const uint32_t parcel = in->first;
    in->first = (parcel + 1) % PARCELS;
    post(c, peer, parcel);
}

/* Bytes that can be read at once. */
static size_t look(mpi_channel *c, uint16_t peer, const uint8_t **data)
{
    mpi_inbox *in = &c->streams[peer].in;
    if ((!in->posted && !post_all(c, peer)) || !arrived(c, peer, in->first))
        return 0;
    while (left_of(in, in->first) == 0) {
        advance(c, peer);
        if (!arrived(c, peer, in->first))
            return 0;
    }
    complete_word(c, peer);
    *data = in->memory[in->first] + in->start[in->first];
    return left_of(in, in->first);
}

static size_t mpi_peek(transport_channel *channel, uint16_t peer, const void **data)
{
    mpi_channel *c = (mpi_channel *)channel;
    const uint8_t *at = NULL;
    if (by_memory(c, peer))
        return transport_shm.peek(c->hosts.memory, peer, data);
    const size_t bytes = look(c, peer, &at);
    *data = at;
    return bytes;
}

/* An empty parcel is posted again at once: the sender may wait for it. */
static void mpi_consume(transport_channel *channel, uint16_t peer, size_t bytes)
{
    mpi_channel *c = (mpi_channel *)channel;
    mpi_inbox *in = &c->streams[peer].in;
    if (by_memory(c, peer)) {
        transport_shm.consume(c->hosts.memory, peer, bytes);
        return;
    }
    in->start[in->first] += bytes;
    if (bytes > 0 && left_of(in, in->first) == 0)
        advance(c, peer);
}

static size_t mpi_receive(transport_channel *channel, uint16_t peer, void *to, size_t bytes)
{
    mpi_channel *c = (mpi_channel *)channel;
    const uint8_t *at = NULL;
    if (by_memory(c, peer))
        return transport_shm.receive(c->hosts.memory, peer, to, bytes);
    size_t taken = look(c, peer, &at);
    taken = taken < bytes ? taken : bytes;
    if (taken == 0)
        return 0;
    memcpy(to, at, taken);
    mpi_consume(channel, peer, taken);
    return taken;
}

/* What a peer sent before it left was accepted here; it may still be on its way. */
static bool mpi_ended(transport_channel *channel, uint16_t peer)
{
    mpi_channel *c = (mpi_channel *)channel;
    const uint8_t *at;
    return by_memory(c, peer) ||
           (look(c, peer, &at) == 0 && c->streams[peer].in.asked++ > ASKED_ENOUGH);
}

/* ---- Whole collectives ----------------------------------------------------------------------- */

static rueda_status fail_collective(void)
{
    return status_fail(RUEDA_ERR_PEER, "MPI reports an error in a collective");
}

static rueda_status mpi_collect(transport_channel *channel, const transport_collective *what)
{
    mpi_channel *c = (mpi_channel *)channel;
    const mpi_job *j = c->job;
    const bool started =
        what->is_broadcast
            ? j->plugin->spread(j->world, c->number, what->out,
                                what->count * rueda_dtype_bytes(what->dtype),
                                rank_of(c, what->root), &c->collective)
            : j->plugin->allreduce(j->world, c->number, what->in, what->out, what->count,
                                   what->dtype, (int)what->op, &c->collective);
    return started ? RUEDA_OK : fail_collective();
}

/* MPI works while it is asked: it gets more than a single look between two of ours at the sockets. */
static rueda_status mpi_collected(transport_channel *channel, bool *done)
{
    mpi_channel *c = (mpi_channel *)channel;
    const mpi_job *j = c->job;
    int result = 0;
    for (int i = 0; i < TESTS_AT_ONCE && result == 0; i++)
        result = j->plugin->test_lane(j->world, c->number, &c->collective);
    if (result < 0)
        return fail_collective();
    *done = result == 1;
    return RUEDA_OK;
}

static void mpi_attend(transport_job *job)
{
    const mpi_job *j = (const mpi_job *)job;
    j->plugin->poll(j->world);
}

const transport_table transport_mpi = {.name = "mpi",
                                       .between_hosts = true,
                                       .by_mpirun = true,
                                       .keeps_unread = true,
                                       .join = mpi_join,
                                       .leave = mpi_leave,
                                       .open = mpi_open,
                                       .close = mpi_close,
                                       .send = mpi_send,
                                       .peek = mpi_peek,
                                       .consume = mpi_consume,
                                       .receive = mpi_receive,
                                       .ended = mpi_ended,
                                       .flushed = mpi_flushed,
                                       .attend = mpi_attend,
                                       .collect = mpi_collect,
                                       .collected = mpi_collected};
