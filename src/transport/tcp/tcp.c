/* tcp.c: the transport of a job on several hosts. Members on our host are reached by shared memory,
 * the others by one TCP connection each for every channel, made when the first byte wants to move.
 *
 * Sending goes from the caller's memory straight to the socket. Receiving goes straight to the caller's
 * memory where it only copies, and through a buffer that stays in a core's cache where it reduces.
 */
#include "transport/hosts.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (256 * 1024)
#define ALIGN 8

typedef struct tcp_stream {
    mesh_stream *link;
    uint8_t *buffer;   /* BUFFER_BYTES + ALIGN, taken with the first peek */
    size_t start, end; /* what has come and is not consumed */
    uint64_t position; /* in the stream, of the byte at `start` */
} tcp_stream;

typedef struct tcp_channel {
    hosts_channel hosts;
    tcp_stream streams[]; /* by member; link NULL: on our host */
} tcp_channel;

extern const transport_table transport_tcp;

static void tcp_close(transport_channel *channel)
{
    tcp_channel *c = (tcp_channel *)channel;
    if (c == NULL)
        return;
    for (uint16_t i = 0; c->hosts.memory != NULL && i < c->hosts.common.members->size; i++) {
        mesh_stream_close(c->streams[i].link);
        free(c->streams[i].buffer);
    }
    hosts_close(&c->hosts);
    free(c);
}

static rueda_status open_streams(tcp_channel *c, const control_members *g, uint32_t number)
{
    for (uint16_t i = 0; i < g->size; i++) {
        if (hosts_is_here(&c->hosts, i))
            continue;
        c->streams[i].link =
            mesh_stream_open(g->job->mesh, &(mesh_purpose){.role = BOOT_DATA,
                                                           .peer = g->ranks[i],
                                                           .set = g->set,
                                                           .channel = number,
                                                           .epoch = g->epoch,
                                                           .number = MESH_NO_NUMBER});
        if (c->streams[i].link == NULL)
            return status_fail(RUEDA_ERR_MEMORY, "out of memory for a channel");
    }
    return RUEDA_OK;
}

static rueda_status tcp_open(transport_job *job, const control_members *members, uint32_t number,
                             transport_channel **channel)
{
    (void)job;
    tcp_channel *c = calloc(1, sizeof *c + members->size * sizeof c->streams[0]);
    if (c == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a channel");
    rueda_status status = hosts_open(&c->hosts, &transport_tcp, members, number);
    if (status == RUEDA_OK)
        status = open_streams(c, members, number);
    if (status != RUEDA_OK)
        return tcp_close(&c->hosts.common), status;
    *channel = &c->hosts.common;
    return RUEDA_OK;
}

static size_t tcp_send(transport_channel *channel, uint16_t peer, const struct iovec *parts,
                       int count)
{
    tcp_channel *c = (tcp_channel *)channel;
    mesh_stream *stream = c->streams[peer].link;
    if (stream == NULL)
        return transport_shm.send(c->hosts.memory, peer, parts, count);
    net_link *link = mesh_stream_link(stream);
    const ssize_t sent = link == NULL ? 0 : net_link_send(link, parts, count);
    if (sent < 0)
        mesh_stream_broke(stream);
    return sent < 0 ? 0 : (size_t)sent;
}

static size_t read_link(tcp_stream *s, void *to, size_t bytes)
{
    net_link *link = mesh_stream_link(s->link);
    const ssize_t got = link == NULL ? 0 : net_link_receive(link, to, bytes);
    if (got < 0)
        mesh_stream_broke(s->link);
    return got < 0 ? 0 : (size_t)got;
}

/* Where the next byte goes keeps the alignment it has in the stream. */
static void make_room(tcp_stream *s)
{
    const size_t left = s->end - s->start, start = s->position % ALIGN;
    if (left > 0 && s->end < BUFFER_BYTES)
        return;
    memmove(s->buffer + start, s->buffer + s->start, left);
    s->start = start;
    s->end = start + left;
}

static size_t tcp_peek(transport_channel *channel, uint16_t peer, const void **data)
{
    tcp_channel *c = (tcp_channel *)channel;
    tcp_stream *s = &c->streams[peer];
    if (s->link == NULL)
        return transport_shm.peek(c->hosts.memory, peer, data);
    if (s->buffer == NULL)
        s->buffer = aligned_alloc(OS_CACHE_LINE, BUFFER_BYTES + OS_CACHE_LINE);
    if (s->buffer == NULL) {
        control_fail(c->hosts.common.members->job,
                     status_fail(RUEDA_ERR_MEMORY, "no %d bytes to receive into", BUFFER_BYTES));
        return 0;
    }
    if (s->end - s->start < ALIGN) {
        make_room(s);
        s->end += read_link(s, s->buffer + s->end, BUFFER_BYTES + ALIGN - s->end);
    }
    *data = s->buffer + s->start;
    return s->end - s->start;
}

static void tcp_consume(transport_channel *channel, uint16_t peer, size_t bytes)
{
    tcp_channel *c = (tcp_channel *)channel;
    tcp_stream *s = &c->streams[peer];
    if (s->link == NULL) {
        transport_shm.consume(c->hosts.memory, peer, bytes);
        return;
    }
    s->start += bytes;
    s->position += bytes;
}

static size_t tcp_receive(transport_channel *channel, uint16_t peer, void *to, size_t bytes)
{
    tcp_channel *c = (tcp_channel *)channel;
    tcp_stream *s = &c->streams[peer];
    if (s->link == NULL)
        return transport_shm.receive(c->hosts.memory, peer, to, bytes);
    const size_t here = s->end - s->start;
    size_t taken = here < bytes ? here : bytes;
    if (taken > 0) {
        memcpy(to, s->buffer + s->start, taken);
        s->start += taken;
    } else {
        taken = read_link(s, to, bytes);
    }
    s->position += taken;
    return taken;
}

static bool tcp_ended(transport_channel *channel, uint16_t peer)
{
    const tcp_channel *c = (tcp_channel *)channel;
    const mesh_stream *stream = c->streams[peer].link;
    return stream == NULL || mesh_stream_ended(stream);
}

const transport_table transport_tcp = {.name = "tcp",
                                       .between_hosts = true,
                                       .encrypts = true,
                                       .open = tcp_open,
                                       .close = tcp_close,
                                       .send = tcp_send,
                                       .peek = tcp_peek,
                                       .consume = tcp_consume,
                                       .receive = tcp_receive,
                                       .ended = tcp_ended};
