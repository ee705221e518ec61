/* read.c: frames from a peer. Whatever comes is taken in: announcements are kept until somebody wants them,
 * data goes straight to its receive. */
#include "p2p/p2p_parts.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

static p2p_frame frame_of(const p2p_reader *r)
{
    p2p_frame frame;
    memcpy(&frame, r->head, sizeof frame);
    return frame;
}

static rueda_status fail_frame(const p2p *p, uint16_t member, const p2p_frame *f)
{
    return status_fail(RUEDA_ERR_INTERNAL,
                       "rank %d got something else than a message from rank %d (kind %u, number "
                       "%llu, %llu bytes)",
                       p2p_rank(p, p->members->index), p2p_rank(p, member), f->kind,
                       (unsigned long long)f->number, (unsigned long long)f->bytes);
}

/* ---- Announcements --------------------------------------------------------------------------- */

static p2p_tensor read_tensor(const p2p_reader *r, const p2p_frame *f)
{
    p2p_tensor t = {.dtype = f->dtype, .ndim = f->ndim, .bytes = f->bytes};
    memcpy(t.shape, r->head + sizeof *f, f->ndim * sizeof t.shape[0]);
    return t;
}

/* One block: the announcement, its data, its name. */
static rueda_status keep_announcement(p2p *p, uint16_t member, p2p_reader *r, const p2p_frame *f)
{
    const bool eager = (f->flags & P2P_EAGER) != 0;
    const uint64_t data = eager ? p2p_padded(f->bytes) : 0;
    const uint8_t *name = r->head + sizeof *f + f->ndim * sizeof(int64_t);
    p2p_arrival *a = calloc(1, sizeof *a + data + f->name_length + 1);
    if (a == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a message of rank %d",
                           p2p_rank(p, member));
    a->from = member;
    a->eager = eager;
    a->tensor = read_tensor(r, f);
    a->number = f->number;
    a->name_length = f->name_length;
    memcpy(a->data + data, name, f->name_length);
    a->name = (const char *)a->data + data;
    a->hash = hash_bytes(0, a->name, a->name_length);
    r->arrival = a;
    r->body = a->data;
    r->body_used = r->body_bytes = data;
    return RUEDA_OK;
}

/* ---- The beginning and the end of a frame ---------------------------------------------------- */

static bool is_valid(const p2p *p, const p2p_frame *f)
{
    const bool eager = (f->flags & P2P_EAGER) != 0;
    return f->mark == p->mark && f->kind >= P2P_ANNOUNCE && f->kind < P2P_KIND_COUNT &&
           f->ndim <= RUEDA_MAX_DIMS && f->name_length <= RUEDA_MAX_NAME &&
           (!eager || f->bytes <= P2P_EAGER_BYTES);
}

/* The frame itself is here: what follows it. */
static rueda_status begin_frame(p2p *p, uint16_t member, p2p_reader *r)
{
    const p2p_frame f = frame_of(r);
    if (!is_valid(p, &f))
        return fail_frame(p, member, &f);
    r->head_bytes = sizeof f + f.ndim * sizeof(int64_t) + p2p_padded(f.name_length);
    r->body_bytes = r->body_used = 0;
    r->receive = NULL;
    if (f.kind != P2P_DATA)
        return RUEDA_OK;
    p2p_call *receive = p->peers[member].receiving.first;
    while (receive != NULL && receive->number != f.number)
        receive = receive->next;
    if (receive == NULL || f.bytes > receive->tensor.bytes - receive->moved)
        return fail_frame(p, member, &f);
    r->receive = receive;
    r->body = receive->data + receive->moved;
    r->body_used = f.bytes;
    r->body_bytes = p2p_padded(f.bytes);
    return RUEDA_OK;
}

static rueda_status take_go(p2p *p, uint16_t member, const p2p_frame *f)
{
    p2p_peer *peer = &p->peers[member];
    p2p_call *send = p2p_extract(&peer->announced, f->number);
    if (send == NULL || send->state != P2P_WAITS)
        return fail_frame(p, member, f);
    send->state = P2P_FLOWS;
    p2p_append(&peer->flowing, send);
    return RUEDA_OK;
}

static rueda_status take_done(p2p *p, uint16_t member, const p2p_reader *r, const p2p_frame *f)
{
    p2p_peer *peer = &p->peers[member];
    p2p_call *send = p2p_extract(&peer->announced, f->number);
    if (send == NULL)
        return fail_frame(p, member, f);
    if (send->state == P2P_WAITS && send->moved > 0)
        peer->eager -= send->tensor.bytes;
    if ((f->flags & P2P_REFUSED) != 0) {
        const p2p_tensor wanted = read_tensor(r, f);
        p2p_disagree(send, p2p_rank(p, p->members->index), &send->tensor, p2p_rank(p, member),
                     &wanted);
    }
    p2p_end(p, send);
    return RUEDA_OK;
}

static void take_data(p2p *p, uint16_t member, p2p_reader *r)
{
    p2p_peer *peer = &p->peers[member];
    p2p_call *receive = r->receive;
    receive->moved += r->body_used;
    if (receive->moved < receive->tensor.bytes)
        return;
    p2p_remove(&peer->receiving, receive);
    receive->state = P2P_DONE_DUE;
    p2p_append(&peer->due, receive);
}

static rueda_status end_frame(p2p *p, uint16_t member, p2p_reader *r)
{
    const p2p_frame f = frame_of(r);
    p2p_arrival *arrival = r->arrival;
    r->arrival = NULL;
    r->head_bytes = r->moved = 0;
    switch ((p2p_kind)f.kind) {
    case P2P_ANNOUNCE:
        p2p_arrive(p, arrival);
        return RUEDA_OK;
    case P2P_GO:
        return take_go(p, member, &f);
    case P2P_DATA:
        take_data(p, member, r);
        return RUEDA_OK;
    default:
        return take_done(p, member, r, &f);
    }
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* Where the next bytes go, and how many may. */
static uint8_t *next_room(p2p_reader *r, uint8_t padding[P2P_UNIT], uint64_t *room)
{
    const uint64_t head = r->head_bytes == 0 ? sizeof(p2p_frame) : r->head_bytes;
    if (r->moved < head) {
        *room = head - r->moved;
        return r->head + r->moved;
    }
    const uint64_t at = r->moved - head;
    *room = (at < r->body_used ? r->body_used : r->body_bytes) - at;
    return at < r->body_used ? r->body + at : padding;
}

/* Something has come: does a part of the frame end here? */
static rueda_status advance(p2p *p, uint16_t member, p2p_reader *r)
{
    rueda_status status = RUEDA_OK;
    if (r->head_bytes == 0 && r->moved == sizeof(p2p_frame))
        status = begin_frame(p, member, r);
    if (status != RUEDA_OK || r->head_bytes == 0)
        return status;
    const p2p_frame f = frame_of(r);
    if (f.kind == P2P_ANNOUNCE && r->arrival == NULL && r->moved == r->head_bytes)
        status = keep_announcement(p, member, r, &f);
    if (status != RUEDA_OK)
        return status;
    return r->moved == r->head_bytes + r->body_bytes ? end_frame(p, member, r) : RUEDA_OK;
}

rueda_status p2p_read(p2p *p, uint16_t member, bool *moved)
{
    p2p_reader *r = &p->peers[member].in;
    const transport_table *table = p->channel->table;
    rueda_status status = RUEDA_OK;
    for (uint64_t total = 0; total < P2P_PASS_MOST && status == RUEDA_OK;) {
        uint8_t padding[P2P_UNIT];
        uint64_t room;
        uint8_t *to = next_room(r, padding, &room);
        const size_t got = table->receive(p->channel, member, to, room);
        if (got == 0)
            break;
        r->moved += got;
        total += got;
        *moved = true;
        status = advance(p, member, r);
    }
    return status;
}
