/* toy.c: a small transport outside of src/, written after docs/adding-a-transport.md. Bytes travel as datagrams
 * of Unix sockets, one socket for each stream and side: all ranks must be on one machine, and whoever is on
 * it may send, too. Nobody rings when bytes come. */
#include "transport/hosts.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DATAGRAM_BYTES 16384
#define ALIGN 8
#define PARTS_MAX 16

typedef struct toy_job {
    char name[40]; /* the job's: what tells its sockets from those of others */
} toy_job;

typedef struct toy_stream {
    int in, out;       /* -1: the member is reached by memory */
    size_t start, end; /* what has come and is not consumed */
    uint64_t position; /* in the stream, of the byte at `start` */
    struct sockaddr_un to;
    socklen_t to_bytes;
    _Alignas(ALIGN) uint8_t buffer[DATAGRAM_BYTES + 2 * ALIGN];
} toy_stream;

typedef struct toy_channel {
    hosts_channel hosts;
    toy_stream streams[]; /* by member */
} toy_channel;

extern const transport_table transport_toy;

/* ---- The job --------------------------------------------------------------------------------- */

static rueda_status toy_join(const transport_terms *terms, transport_job **job)
{
    if (strcmp(terms->settings->transport.text, "toy") != 0)
        return RUEDA_OK;
    toy_job *j = calloc(1, sizeof *j);
    if (j == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
    snprintf(j->name, sizeof j->name, "%.39s", terms->settings->job.text);
    *job = (transport_job *)j;
    return RUEDA_OK;
}

static void toy_leave(transport_job *job, bool whole)
{
    (void)whole;
    free(job);
}

/* ---- Open and close -------------------------------------------------------------------------- */

/* In the abstract name space: nothing is left in the file system. */
static socklen_t name_of(const toy_job *j, const control_members *g, uint32_t channel,
                         uint16_t from, uint16_t to, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1,
                                "toy/%s/%x/%x/%x/%x/%x-%x", j->name, (unsigned)g->job->generation,
                                g->set, (unsigned)g->epoch, channel, g->ranks[from], g->ranks[to]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool open_stream(toy_stream *s, const toy_job *j, const control_members *g, uint32_t number,
                        uint16_t peer)
{
    struct sockaddr_un own;
    const socklen_t own_bytes = name_of(j, g, number, peer, g->index, &own);
    s->to_bytes = name_of(j, g, number, g->index, peer, &s->to);
    s->in = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    s->out = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return s->in >= 0 && s->out >= 0 && bind(s->in, (struct sockaddr *)&own, own_bytes) == 0;
}

static void toy_close(transport_channel *channel)
{
    toy_channel *c = (toy_channel *)channel;
    if (c == NULL)
        return;
    for (uint16_t i = 0; c->hosts.memory != NULL && i < c->hosts.common.members->size; i++) {
        if (c->streams[i].in >= 0)
            close(c->streams[i].in);
        if (c->streams[i].out >= 0)
            close(c->streams[i].out);
    }
    hosts_close(&c->hosts);
    free(c);
}

static rueda_status toy_open(transport_job *job, const control_members *members, uint32_t number,
                             transport_channel **channel)
{
    toy_channel *c = calloc(1, sizeof *c + members->size * sizeof c->streams[0]);
    if (c == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a channel");
    for (uint16_t i = 0; i < members->size; i++)
        c->streams[i].in = c->streams[i].out = -1;
    rueda_status status = hosts_open(&c->hosts, &transport_toy, members, number);
    for (uint16_t i = 0; i < members->size && status == RUEDA_OK; i++) {
        if (!hosts_is_here(&c->hosts, i) &&
            !open_stream(&c->streams[i], (const toy_job *)job, members, number, i))
            status = status_fail_errno(RUEDA_ERR_SYSTEM, "no socket to rank %u", members->ranks[i]);
    }
    if (status != RUEDA_OK)
        return toy_close(&c->hosts.common), status;
    *channel = &c->hosts.common;
    return RUEDA_OK;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* A peer that is not there yet, or has no room, takes nothing now. */
static size_t give_up_unless_full(const toy_channel *c, const char *what)
{
    const bool later = errno == EAGAIN || errno == ECONNREFUSED || errno == ENOBUFS;
    if (!later && errno != EINTR)
        control_fail(c->hosts.common.members->job,
                     status_fail_errno(RUEDA_ERR_SYSTEM, "cannot %s a datagram", what));
    return 0;
}

static size_t toy_send(transport_channel *channel, uint16_t peer, const struct iovec *parts,
                       int count)
{
    toy_channel *c = (toy_channel *)channel;
    toy_stream *s = &c->streams[peer];
    struct iovec taken[PARTS_MAX];
    size_t bytes = 0;
    int used = 0;
    if (hosts_is_here(&c->hosts, peer))
        return transport_shm.send(c->hosts.memory, peer, parts, count);
    for (; used < count && used < PARTS_MAX && bytes < DATAGRAM_BYTES; used++) {
        const size_t room = DATAGRAM_BYTES - bytes;
        taken[used] = parts[used];
        taken[used].iov_len = parts[used].iov_len < room ? parts[used].iov_len : room;
        bytes += taken[used].iov_len;
    }
    if (bytes == 0)
        return 0;
    const struct msghdr message = {.msg_name = &s->to,
                                   .msg_namelen = s->to_bytes,
                                   .msg_iov = taken,
                                   .msg_iovlen = (size_t)used};
    const ssize_t sent = sendmsg(s->out, &message, MSG_NOSIGNAL);
    return sent < 0 ? give_up_unless_full(c, "send") : (size_t)sent;
}

/* Where the next byte goes keeps the alignment it has in the stream. */
static size_t toy_peek(transport_channel *channel, uint16_t peer, const void **data)
{
    toy_channel *c = (toy_channel *)channel;
    toy_stream *s = &c->streams[peer];
    if (hosts_is_here(&c->hosts, peer))
        return transport_shm.peek(c->hosts.memory, peer, data);
    if (s->end - s->start < ALIGN) {
        const size_t left = s->end - s->start, start = s->position % ALIGN;
        memmove(s->buffer + start, s->buffer + s->start, left);
        s->start = start;
        s->end = start + left;
        const ssize_t got = recv(s->in, s->buffer + s->end, DATAGRAM_BYTES, 0);
        s->end += got < 0 ? give_up_unless_full(c, "receive") : (size_t)got;
    }
    *data = s->buffer + s->start;
    return s->end - s->start;
}

static void toy_consume(transport_channel *channel, uint16_t peer, size_t bytes)
{
    toy_channel *c = (toy_channel *)channel;
    toy_stream *s = &c->streams[peer];
    if (hosts_is_here(&c->hosts, peer)) {
        transport_shm.consume(c->hosts.memory, peer, bytes);
        return;
    }
    s->start += bytes;
    s->position += bytes;
}

static size_t toy_receive(transport_channel *channel, uint16_t peer, void *to, size_t bytes)
{
    const void *data;
    const size_t here = toy_peek(channel, peer, &data);
    const size_t taken = here < bytes ? here : bytes;
    if (taken > 0) {
        memcpy(to, data, taken);
        toy_consume(channel, peer, taken);
    }
    return taken;
}

/* The system has all that a peer sent before it left. */
static bool toy_ended(transport_channel *channel, uint16_t peer)
{
    (void)channel;
    (void)peer;
    return true;
}

/* Who waits asks again soon: that is all there is to do. */
static void toy_attend(transport_job *job)
{
    (void)job;
}

const transport_table transport_toy = {.name = "toy",
                                       .between_hosts = true,
                                       .join = toy_join,
                                       .leave = toy_leave,
                                       .open = toy_open,
                                       .close = toy_close,
                                       .send = toy_send,
                                       .peek = toy_peek,
                                       .consume = toy_consume,
                                       .receive = toy_receive,
                                       .ended = toy_ended,
                                       .attend = toy_attend};
