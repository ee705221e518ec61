/* match.c: which send goes into which receive.
 *
 * Names that wait lie in buckets by their hash, receives in the order of their calls, announcements in the
 * order in which they came. Of several senders that fit a receive from anyone, that one is taken whose turn
 * comes first, and the turn then goes to the member behind it.
 */
#include "p2p/p2p_parts.h"

#include <stdlib.h>
#include <string.h>

bool p2p_alike(const p2p_tensor *a, const p2p_tensor *b)
{
    if (a->dtype != b->dtype || a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++) {
        if (a->shape[i] != b->shape[i])
            return false;
    }
    return true;
}

static p2p_bucket *bucket_of(p2p *p, uint64_t hash)
{
    return &p->buckets[hash % P2P_BUCKETS];
}

static bool fits(const p2p_call *receive, const p2p_arrival *a)
{
    return (receive->member == P2P_ANYONE || receive->member == a->from) &&
           receive->hash == a->hash && receive->name_length == a->name_length &&
           memcmp(receive->name, a->name, a->name_length) == 0;
}

/* The receive belongs to the sender's rank from now on. */
static void assign(p2p *p, p2p_call *receive, const p2p_arrival *a)
{
    if (receive->member == P2P_ANYONE) {
        p->from_anyone--;
        p->peers[a->from].calls++;
        p->turn = (uint16_t)((a->from + 1) % p->members->size);
    }
    receive->member = a->from;
    receive->number = a->number;
    rueda_output *output = &receive->request->output;
    *output = (rueda_output){.data = receive->data,
                             .bytes = receive->tensor.bytes,
                             .ndim = receive->tensor.ndim,
                             .source = p2p_rank(p, a->from)};
    memcpy(output->shape, receive->tensor.shape, receive->tensor.ndim * sizeof output->shape[0]);
    receive->request->has_output = true;
}

/* Both ends of a send to ourselves are here. */
static void pass_to_self(p2p *p, p2p_call *receive, p2p_call *send)
{
    const int self = p2p_rank(p, p->members->index);
    if (!p2p_alike(&send->tensor, &receive->tensor)) {
        p2p_disagree(receive, self, &send->tensor, self, &receive->tensor);
        p2p_disagree(send, self, &send->tensor, self, &receive->tensor);
    } else if (send->tensor.bytes > 0) {
        memmove(receive->data, send->data, send->tensor.bytes);
    }
    p2p_end(p, send);
    p2p_end(p, receive);
}

/* Takes the arrival over. */
static void take_in(p2p *p, p2p_call *receive, p2p_arrival *a)
{
    assign(p, receive, a);
    if (a->own != NULL) {
        pass_to_self(p, receive, a->own);
        free(a);
        return;
    }
    receive->refused = !p2p_alike(&a->tensor, &receive->tensor);
    receive->state = receive->refused || a->eager ? P2P_DONE_DUE : P2P_GO_DUE;
    if (receive->refused)
        p2p_disagree(receive, p2p_rank(p, a->from), &a->tensor, p2p_rank(p, p->members->index),
                     &receive->tensor);
    else if (a->eager && a->tensor.bytes > 0)
        memcpy(receive->data, a->data, a->tensor.bytes);
    p2p_append(&p->peers[a->from].due, receive);
    free(a);
}

static uint32_t distance(const p2p *p, uint16_t member)
{
    return (uint32_t)(member + p->members->size - p->turn) % p->members->size;
}

void p2p_look(p2p *p, p2p_call *receive)
{
    p2p_bucket *b = bucket_of(p, receive->hash);
    p2p_arrival **best = NULL;
    for (p2p_arrival **link = &b->arrivals; *link != NULL; link = &(*link)->next) {
        if (fits(receive, *link) &&
            (best == NULL || distance(p, (*link)->from) < distance(p, (*best)->from)))
            best = link;
    }
    if (best == NULL) {
        receive->state = P2P_WAITS;
        p2p_append(&b->receives, receive);
        return;
    }
    p2p_arrival *a = *best;
    *best = a->next;
    if (b->arrivals_end == &a->next)
        b->arrivals_end = best;
    take_in(p, receive, a);
}

void p2p_arrive(p2p *p, p2p_arrival *arrival)
{
    p2p_bucket *b = bucket_of(p, arrival->hash);
    p2p_call *receive = b->receives.first;
    while (receive != NULL && !fits(receive, arrival))
        receive = receive->next;
    if (receive != NULL) {
        p2p_remove(&b->receives, receive);
        take_in(p, receive, arrival);
        return;
    }
    if (b->arrivals_end == NULL)
        b->arrivals_end = &b->arrivals;
    arrival->next = NULL;
    *b->arrivals_end = arrival;
    b->arrivals_end = &arrival->next;
}

rueda_status p2p_send_to_self(p2p *p, p2p_call *send)
{
    p2p_arrival *a = calloc(1, sizeof *a);
    if (a == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory to send it",
                           p2p_shown(send));
    a->from = p->members->index;
    a->own = send;
    a->tensor = send->tensor;
    a->hash = send->hash;
    a->name_length = send->name_length;
    a->name = send->name; /* lives as long: the call ends when it is matched */
    send->state = P2P_WAITS;
    p2p_arrive(p, a);
    return RUEDA_OK;
}
