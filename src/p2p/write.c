/* write.c: frames to a peer, one at a time. Answers go first, then announcements, then data, of which each
 * send has a slice in its turn: who waits for little does not wait behind much. */
#include "p2p/p2p_parts.h"

#include <string.h>

#define PARTS_MOST 3 /* head, body, padding */

static void begin(p2p_peer *peer, const p2p_frame *frame, p2p_call *call)
{
    p2p_writer *w = &peer->out;
    memcpy(w->head, frame, sizeof *frame);
    w->head_bytes = sizeof *frame;
    w->body = NULL;
    w->body_bytes = w->moved = 0;
    w->call = call;
}

static void add_shape(p2p_writer *w, const p2p_tensor *t)
{
    memcpy(w->head + w->head_bytes, t->shape, t->ndim * sizeof t->shape[0]);
    w->head_bytes += t->ndim * sizeof t->shape[0];
}

static p2p_frame frame_of(const p2p *p, p2p_kind kind, const p2p_call *call)
{
    return (p2p_frame){.mark = p->mark,
                       .kind = (uint8_t)kind,
                       .dtype = call->tensor.dtype,
                       .number = call->number,
                       .bytes = call->tensor.bytes};
}

/* GO or DONE of a receive. */
static void begin_answer(p2p *p, p2p_peer *peer, p2p_call *receive)
{
    const bool done = receive->state == P2P_DONE_DUE;
    p2p_frame frame = frame_of(p, done ? P2P_DONE : P2P_GO, receive);
    if (receive->refused) {
        frame.flags = P2P_REFUSED;
        frame.ndim = receive->tensor.ndim;
    }
    begin(peer, &frame, receive);
    if (receive->refused)
        add_shape(&peer->out, &receive->tensor);
}

static bool goes_at_once(const p2p_peer *peer, const p2p_call *send)
{
    return send->tensor.bytes <= P2P_EAGER_BYTES &&
           peer->eager + send->tensor.bytes <= P2P_EAGER_MOST;
}

static void begin_announcement(p2p *p, p2p_peer *peer, p2p_call *send)
{
    p2p_writer *w = &peer->out;
    p2p_frame frame = frame_of(p, P2P_ANNOUNCE, send);
    const uint64_t named = p2p_padded(send->name_length);
    const bool eager = goes_at_once(peer, send);
    frame.flags = eager ? P2P_EAGER : 0;
    frame.ndim = send->tensor.ndim;
    frame.name_length = send->name_length;
    begin(peer, &frame, send);
    add_shape(w, &send->tensor);
    memset(w->head + w->head_bytes, 0, named);
    memcpy(w->head + w->head_bytes, send->name, send->name_length);
    w->head_bytes += named;
    if (!eager)
        return;
    w->body = send->data;
    w->body_bytes = send->moved = send->tensor.bytes;
    peer->eager += send->tensor.bytes;
}

static void begin_slice(p2p *p, p2p_peer *peer, p2p_call *send)
{
    p2p_frame frame = frame_of(p, P2P_DATA, send);
    const uint64_t left = send->tensor.bytes - send->moved;
    frame.bytes = left < P2P_SLICE_BYTES ? left : P2P_SLICE_BYTES;
    begin(peer, &frame, send);
    peer->out.body = send->data + send->moved;
    peer->out.body_bytes = frame.bytes;
}

/* The next frame; false: there is none. */
static bool begin_next(p2p *p, p2p_peer *peer)
{
    p2p_call *call;
    if ((call = p2p_pop(&peer->due)) != NULL)
        begin_answer(p, peer, call);
    else if ((call = p2p_pop(&peer->fresh)) != NULL)
        begin_announcement(p, peer, call);
    else if ((call = p2p_pop(&peer->flowing)) != NULL)
        begin_slice(p, peer, call);
    return call != NULL;
}

/* What the frame that is on its way now means for its call. */
static void finish(p2p *p, p2p_peer *peer)
{
    p2p_writer *w = &peer->out;
    p2p_call *call = w->call;
    w->call = NULL;
    if (call->sends && call->state == P2P_FLOWS)
        call->moved += w->body_bytes;
    if (call->state == P2P_DONE_DUE) {
        p2p_end(p, call);
    } else if (!call->sends) {
        call->state = P2P_FLOWS;
        p2p_append(&peer->receiving, call);
    } else if (call->state == P2P_NEW) {
        call->state = P2P_WAITS;
        p2p_append(&peer->announced, call);
    } else {
        const bool all = call->moved == call->tensor.bytes;
        p2p_append(all ? &peer->announced : &peer->flowing, call);
    }
}

static uint64_t length_of(const p2p_writer *w)
{
    return w->head_bytes + p2p_padded(w->body_bytes);
}

static int add_part(struct iovec *parts, int count, const uint8_t *from, uint64_t start,
                    uint64_t bytes, uint64_t moved)
{
    if (moved >= start + bytes || bytes == 0)
        return count;
    const uint64_t skip = moved > start ? moved - start : 0;
    parts[count] = (struct iovec){(void *)(uintptr_t)(from + skip), bytes - skip};
    return count + 1;
}

static size_t send_some(p2p *p, uint16_t member, const p2p_writer *w)
{
    static const uint8_t zeros[P2P_UNIT];
    struct iovec parts[PARTS_MOST];
    int count = add_part(parts, 0, w->head, 0, w->head_bytes, w->moved);
    count = add_part(parts, count, w->body, w->head_bytes, w->body_bytes, w->moved);
    count = add_part(parts, count, zeros, w->head_bytes + w->body_bytes,
                     p2p_padded(w->body_bytes) - w->body_bytes, w->moved);
    return p->channel->table->send(p->channel, member, parts, count);
}

/* A receiver has all it wants. That its sender left before it could be told is nothing to it. */
static bool is_of_no_use(const p2p *p, uint16_t member, const p2p_call *call)
{
    return call->state == P2P_DONE_DUE &&
           control_departure(p->members->job, (uint32_t)p2p_rank(p, member)) != 0;
}

void p2p_write(p2p *p, uint16_t member, bool *moved)
{
    p2p_peer *peer = &p->peers[member];
    p2p_writer *w = &peer->out;
    for (uint64_t total = 0; total < P2P_PASS_MOST && (w->call != NULL || begin_next(p, peer));) {
        const size_t sent = send_some(p, member, w);
        w->moved += sent;
        total += sent;
        *moved |= sent > 0;
        if (w->moved == length_of(w) || (sent == 0 && is_of_no_use(p, member, w->call)))
            finish(p, peer);
        else if (sent == 0)
            return;
    }
}
