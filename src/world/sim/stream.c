/* stream.c: how bytes of a connection get from one end to the other, and how either end hears of its end.
 *
 * What is sent over TCP lies in the sender's `out` until an event moves a piece of it to the peer's `in`: one event at
 * a time, so that nothing overtakes. Unix sockets put it into the peer's `in` at once. */
#include "base/hash.h"
#include "world/sim/sim_parts.h"

#include "world/sockets.h"

#include <errno.h>
#include <string.h>

#define ALL_EVENTS UINT32_MAX

/* ---- Bytes -------------------------------------------------------------------------------------------- */

void sim_bytes_put(sim_bytes *b, const void *from, size_t bytes)
{
    if (bytes == 0)
        return;
    if (b->start + b->used + bytes > b->size && b->start > 0) {
        memmove(b->data, b->data + b->start, b->used);
        b->start = 0;
    }
    if (b->used + bytes > b->size) {
        const size_t size = 2 * (b->used + bytes);
        uint8_t *grown = sim_allocate(size);
        if (b->used > 0)
            memcpy(grown, b->data, b->used);
        sim_release(b->data);
        b->data = grown;
        b->size = size;
    }
    memcpy(b->data + b->start + b->used, from, bytes);
    b->used += bytes;
}

void sim_bytes_take(sim_bytes *b, void *to, size_t bytes)
{
    if (to != NULL && bytes > 0)
        memcpy(to, b->data + b->start, bytes);
    b->start += bytes;
    b->used -= bytes;
    if (b->used == 0)
        b->start = 0;
}

void sim_bytes_free(sim_bytes *b)
{
    sim_release(b->data);
    *b = (sim_bytes){0};
}

static void move_bytes(sim_bytes *from, sim_bytes *to, size_t bytes)
{
    if (bytes > 0)
        sim_bytes_put(to, from->data + from->start, bytes);
    sim_bytes_take(from, NULL, bytes);
}

/* ---- What is possible ------------------------------------------------------------------------------------ */

static size_t room_of(const sim_socket *k)
{
    const size_t used = sim_socket_is_unix(k) ? k->peer->in.used : k->out.used;
    return used >= k->limit ? 0 : k->limit - used;
}

/* As on Linux a third must be free before poll says so; a send takes any byte that fits. */
bool sim_stream_has_room(const sim_socket *k)
{
    return room_of(k) * 3 >= k->limit;
}

static bool cannot_send(const sim_socket *k)
{
    return k->phase == PHASE_OVER || k->end_wanted ||
           (sim_socket_is_unix(k) && (k->peer->closed || k->peer->hears_no_more));
}

static uint32_t open_ready(sim_socket *k)
{
    uint32_t ready = k->error != 0 ? POLLERR : 0;
    const bool over = k->phase == PHASE_OVER,
               heard_all = k->end_received || k->hears_no_more || over;
    if (k->in.used > 0 || heard_all)
        ready |= POLLIN;
    if (heard_all)
        ready |= POLLRDHUP;
    if (over || (heard_all && k->end_wanted) || (sim_socket_is_unix(k) && k->peer->closed))
        ready |= POLLHUP;
    if (cannot_send(k) || sim_stream_has_room(k))
        ready |= POLLOUT;
    else
        k->wants_room = true; /* who is told that there is none waits for it */
    return ready;
}

uint32_t sim_socket_ready(sim_socket *k)
{
    switch (k->phase) {
    case PHASE_NEW:
        return POLLOUT | POLLHUP;
    case PHASE_LISTENS:
        return k->waiting_count > 0 ? POLLIN : 0;
    case PHASE_CALLS:
        return 0;
    case PHASE_OPEN:
    case PHASE_OVER:
        return open_ready(k);
    }
    return 0;
}

static void tell_room(sim_socket *k)
{
    if (!k->wants_room || k->closed || !sim_stream_has_room(k))
        return;
    k->wants_room = false;
    sim_object_changed(&k->object, POLLOUT);
}

/* ---- Delivery ---------------------------------------------------------------------------------------------- */

void sim_stream_hear_reset(sim_socket *k)
{
    if (k->silent || k->phase == PHASE_OVER)
        return;
    k->error = k->end_received ? EPIPE : ECONNRESET;
    k->phase = PHASE_OVER;
    if (!k->closed)
        sim_object_changed(&k->object, ALL_EVENTS);
}

static void run_answer_reset(void *target, uint64_t number)
{
    sim_socket *k = target;
    (void)number;
    if (!sim_parted(sim_world, k))
        sim_stream_hear_reset(k);
}

static void deliver_some(sim *s, sim_socket *k, sim_socket *peer)
{
    const size_t room = peer->in.used >= peer->limit ? 0 : peer->limit - peer->in.used;
    size_t bytes = k->out.used < room ? k->out.used : room;
    if (bytes == 0)
        return;
    if (sim_happens(&s->network, s->settings.piece_chance))
        bytes = sim_between(&s->network, 1, bytes);
    s->statistics.trace = hash_bytes(s->statistics.trace, k->out.data + k->out.start, bytes);
    move_bytes(&k->out, &peer->in, bytes);
    sim_object_changed(&peer->object, POLLIN);
    tell_room(k);
}

static void deliver_end(sim_socket *k, sim_socket *peer)
{
    k->end_sent = true;
    peer->end_received = true;
    sim_object_changed(&peer->object, POLLIN | POLLRDHUP | (peer->end_wanted ? POLLHUP : 0));
}

/* Some of what is on its way arrives before a reset, or nothing. */
static void deliver_reset(sim_socket *k, sim_socket *peer)
{
    k->reset_wanted = false;
    if (peer->closed || peer->silent)
        return;
    move_bytes(&k->out, &peer->in, k->out.used);
    sim_stream_hear_reset(peer);
}

static bool has_work(const sim_socket *k)
{
    return k->reset_wanted ||
           (k->phase == PHASE_OPEN && (k->out.used > 0 || (k->end_wanted && !k->end_sent)));
}

static void run_move(void *target, uint64_t number)
{
    (void)number;
    sim *s = sim_world;
    sim_socket *k = target, *peer = k->peer;
    k->moving = false;
    if (k->silent || peer->silent || !has_work(k) || sim_parted(s, k))
        return;
    if (k->reset_wanted) {
        deliver_reset(k, peer);
    } else if (peer->closed) {
        /* nobody is there to take it: the system over there says so */
        if (k->out.used > 0)
            sim_push(s, s->now_ns + sim_latency(s, k), run_answer_reset, k, 0);
        else
            k->end_sent = true;
    } else {
        const size_t before = k->out.used;
        deliver_some(s, k, peer);
        if (k->out.used == 0 && k->end_wanted)
            deliver_end(k, peer);
        else if (k->out.used > 0 && k->out.used < before)
            sim_stream_move(s, k, sim_latency(s, k));
    }
}

void sim_stream_move(sim *s, sim_socket *k, uint64_t delay_ns)
{
    if (k->moving || !has_work(k))
        return;
    k->moving = true;
    sim_push(s, s->now_ns + delay_ns, run_move, k, 0);
}

void sim_stream_reset(sim *s, sim_socket *k)
{
    k->phase = PHASE_OVER;
    k->reset_wanted = true;
    const size_t kept =
        sim_happens(&s->network, SIM_CHANCE / 2) ? 0 : sim_below(&s->network, k->out.used + 1);
    k->out.used = kept;
    sim_stream_move(s, k, sim_latency(s, k));
}

/* ---- Sending ----------------------------------------------------------------------------------------------- */

static size_t total_of(const struct msghdr *m)
{
    size_t total = 0;
    for (size_t i = 0; i < m->msg_iovlen; i++)
        total += m->msg_iov[i].iov_len;
    return total;
}

/* From byte `done` of all parts on. */
static void put_parts(sim_bytes *b, const struct msghdr *m, size_t done, size_t bytes)
{
    for (size_t i = 0; i < m->msg_iovlen && bytes > 0; i++) {
        const struct iovec *part = &m->msg_iov[i];
        if (done >= part->iov_len) {
            done -= part->iov_len;
            continue;
        }
        const size_t rest = part->iov_len - done, now = rest < bytes ? rest : bytes;
        sim_bytes_put(b, (const char *)part->iov_base + done, now);
        bytes -= now;
        done = 0;
    }
}

/* What a send takes of `bytes`. Linux takes all that fits where nothing waits, and programs count on that. */
static size_t share_to_send(sim *s, const sim_socket *k, size_t bytes, bool blocks)
{
    const size_t room = room_of(k), fits = bytes < room ? bytes : room;
    if (fits > 1 && !blocks && k->out.used > 0 &&
        sim_happens(&s->network, s->settings.piece_chance))
        return sim_between(&s->network, 1, fits);
    return fits;
}

static void add_luggage(sim_socket *to, sim_luggage *l, size_t bytes)
{
    l->at = to->taken + to->in.used;
    l->end = l->at + bytes;
    l->next = NULL;
    *to->luggage_end = l;
    to->luggage_end = &l->next;
}

static void put(sim *s, sim_socket *k, const struct msghdr *m, size_t done, size_t bytes,
                sim_luggage *l)
{
    s->statistics.bytes_sent += bytes;
    if (sim_socket_is_unix(k)) {
        if (l != NULL)
            add_luggage(k->peer, l, bytes);
        put_parts(&k->peer->in, m, done, bytes);
        sim_object_changed(&k->peer->object, POLLIN);
        return;
    }
    put_parts(&k->out, m, done, bytes);
    sim_stream_move(s, k, sim_latency(s, k));
}

/* 0: it may send. */
static int sending_error(sim_socket *k)
{
    if (k->error != 0) {
        const int error = k->error;
        k->error = 0;
        return error;
    }
    if (k->phase == PHASE_NEW || k->phase == PHASE_LISTENS)
        return sim_socket_is_unix(k) ? ENOTCONN : EPIPE;
    return k->phase != PHASE_CALLS && cannot_send(k) ? EPIPE : 0;
}

ssize_t sim_stream_send(sim_socket *k, const struct msghdr *m, int flags, sim_luggage *l)
{
    sim *s = sim_world;
    const bool blocks = k->object.blocks && (flags & MSG_DONTWAIT) == 0;
    const size_t total = total_of(m);
    size_t done = 0;
    while (done < total) {
        const int error = sending_error(k);
        const size_t now =
            error != 0 || k->phase != PHASE_OPEN ? 0 : share_to_send(s, k, total - done, blocks);
        if (now > 0) {
            put(s, k, m, done, now, l);
            l = NULL;
            done += now;
        }
        if (done == total)
            break;
        k->wants_room = true; /* also of who sent a part: it waits for the event */
        if (done > 0 && (!blocks || error != 0)) {
            k->error = error == EPIPE ? 0 : error; /* the next call gets it */
            break;
        }
        if (error != 0 || !blocks) {
            errno = error != 0 ? error : EAGAIN;
            return -1;
        }
        if (now == 0 && sim_object_wait(&k->object, POLLOUT, SIM_NEVER, "send") == WAITED_INTERRUPT)
            return done > 0 ? (ssize_t)done : -1;
    }
    return (ssize_t)done;
}

/* ---- Receiving --------------------------------------------------------------------------------------------- */

/* Luggage ends a piece: what comes with it is received alone. Otherwise all that is there is taken: who gets less than
 * asked for may count on there being no more, and wait for the next event. Pieces are made by the delivery. */
static size_t share_to_receive(const sim_socket *k, size_t wanted)
{
    const size_t bytes = wanted < k->in.used ? wanted : k->in.used;
    const sim_luggage *l = k->luggage;
    if (l == NULL)
        return bytes;
    const uint64_t limit = (l->at > k->taken ? l->at : l->end) - k->taken;
    return bytes < limit ? bytes : (size_t)limit;
}

static void take_parts(sim_socket *k, const struct msghdr *m, size_t done, size_t bytes, bool drops)
{
    for (size_t i = 0; i < m->msg_iovlen && bytes > 0; i++) {
        const struct iovec *part = &m->msg_iov[i];
        if (done >= part->iov_len) {
            done -= part->iov_len;
            continue;
        }
        const size_t rest = part->iov_len - done, now = rest < bytes ? rest : bytes;
        sim_bytes_take(&k->in, drops ? NULL : (char *)part->iov_base + done, now);
        bytes -= now;
        done = 0;
    }
}

static sim_luggage *take_luggage(sim_socket *k)
{
    sim_luggage *l = k->luggage;
    if (l == NULL || l->at > k->taken)
        return NULL;
    k->luggage = l->next;
    if (k->luggage == NULL)
        k->luggage_end = &k->luggage;
    l->next = NULL;
    return l;
}

/* There is room again for the other end. */
static void make_room(sim *s, sim_socket *k)
{
    if (sim_socket_is_unix(k))
        tell_room(k->peer);
    else
        sim_stream_move(s, k->peer, sim_latency(s, k->peer));
}

/* What a receive says that finds no bytes; 1: it waits. */
static int find_none(sim_socket *k)
{
    if (k->error != 0) {
        errno = k->error;
        k->error = 0;
        return -1;
    }
    if (k->phase == PHASE_OVER || k->end_received || k->hears_no_more)
        return 0;
    if (k->phase == PHASE_NEW || k->phase == PHASE_LISTENS) {
        errno = ENOTCONN;
        return -1;
    }
    return 1;
}

ssize_t sim_stream_receive(sim_socket *k, const struct msghdr *m, int flags, sim_luggage **l)
{
    sim *s = sim_world;
    const bool blocks = k->object.blocks && (flags & MSG_DONTWAIT) == 0;
    const bool drops = (flags & MSG_TRUNC) != 0 && !sim_socket_is_unix(k);
    const size_t total = total_of(m);
    size_t done = 0;
    while (done < total) {
        const size_t now = share_to_receive(k, total - done);
        if (now > 0) {
            sim_luggage *came = *l == NULL ? take_luggage(k) : NULL;
            take_parts(k, m, done, now, drops);
            k->taken += now;
            done += now;
            make_room(s, k);
            *l = *l == NULL ? came : *l;
            if ((flags & MSG_WAITALL) == 0 || (!blocks && k->in.used == 0) || came != NULL)
                break;
            continue;
        }
        const int none = done > 0 && k->error != 0 ? 0 : find_none(k);
        if (none <= 0)
            return done > 0 ? (ssize_t)done : none;
        if (!blocks) {
            errno = EAGAIN;
            return done > 0 ? (ssize_t)done : -1;
        }
        if (sim_object_wait(&k->object, POLLIN, SIM_NEVER, "recv") == WAITED_INTERRUPT)
            return done > 0 ? (ssize_t)done : -1;
    }
    return (ssize_t)done;
}
