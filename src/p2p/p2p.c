/* p2p.c: calls, from the hand-over to their end, and one pass over all of them. */
#include "p2p/p2p_parts.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR_TEXT 200 /* bytes of "float32 [2, 3]" */

/* ---- Lists ----------------------------------------------------------------------------------- */

void p2p_append(p2p_list *list, p2p_call *call)
{
    if (list->end == NULL)
        list->end = &list->first;
    call->next = NULL;
    *list->end = call;
    list->end = &call->next;
}

static p2p_call *take_link(p2p_list *list, p2p_call **link)
{
    p2p_call *call = *link;
    if (call == NULL)
        return NULL;
    *link = call->next;
    if (list->end == &call->next)
        list->end = link;
    return call;
}

p2p_call *p2p_pop(p2p_list *list)
{
    return take_link(list, &list->first);
}

p2p_call *p2p_extract(p2p_list *list, uint64_t number)
{
    p2p_call **link = &list->first;
    while (*link != NULL && (*link)->number != number)
        link = &(*link)->next;
    return take_link(list, link);
}

void p2p_remove(p2p_list *list, p2p_call *call)
{
    p2p_call **link = &list->first;
    while (*link != call)
        link = &(*link)->next;
    take_link(list, link);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

p2p_call *p2p_call_new(const char *name)
{
    const char *given = name == NULL ? "" : name;
    const size_t length = strlen(given);
    p2p_call *call = calloc(1, sizeof *call + length + 1);
    if (call == NULL)
        return NULL;
    memcpy(call->name, given, length + 1);
    call->name_length = (uint32_t)length;
    call->hash = hash_bytes(0, given, length);
    return call;
}

void p2p_call_free(p2p_call *call)
{
    free(call);
}

const char *p2p_shown(const p2p_call *call)
{
    return call->name_length == 0 ? "(unnamed)" : call->name;
}

p2p *p2p_new(const control_members *members, world_lock *lock)
{
    p2p *p = calloc(1, sizeof *p + members->size * sizeof p->peers[0]);
    if (p == NULL)
        return NULL;
    p->members = members;
    p->lock = lock;
    p->mark = (uint32_t)(members->job->generation * 0x9E3779B1u + members->epoch * 0x85EBCA77u +
                         members->set);
    return p;
}

void p2p_free(p2p *p)
{
    if (p == NULL)
        return;
    if (p->channel != NULL)
        p->channel->table->close(p->channel);
    for (uint32_t b = 0; b < P2P_BUCKETS; b++) {
        for (p2p_arrival *a = p->buckets[b].arrivals, *next; a != NULL; a = next) {
            next = a->next;
            free(a);
        }
    }
    for (uint16_t i = 0; i < p->members->size; i++)
        free(p->peers[i].in.arrival);
    free(p);
}

transport_channel *p2p_channel(const p2p *p)
{
    return p->channel;
}

void p2p_set_channel(p2p *p, transport_channel *channel)
{
    p->channel = channel;
}

void p2p_submit(p2p *p, p2p_call *call)
{
    p2p_append(&p->inbox, call);
    /* as in queue_submit */
    atomic_store(&p->submitted, atomic_load_explicit(&p->submitted, memory_order_relaxed) + 1);
}

bool p2p_has_mail(const p2p *p)
{
    return atomic_load_explicit(&p->submitted, memory_order_acquire) != p->taken;
}

static p2p_list take_inbox(p2p *p)
{
    world_lock_take(p->lock);
    p2p_list mail = {.first = p->inbox.first};
    p->inbox = (p2p_list){NULL, NULL};
    p->taken = atomic_load_explicit(&p->submitted, memory_order_relaxed);
    world_lock_release(p->lock);
    return mail;
}

static void enlist(p2p *p, p2p_call *call)
{
    call->before = p->last;
    call->after = NULL;
    *(p->last == NULL ? &p->first : &p->last->after) = call;
    p->last = call;
    p->pending++;
    if (call->member == P2P_ANYONE)
        p->from_anyone++;
    else
        p->peers[call->member].calls++;
}

static void delist(p2p *p, p2p_call *call)
{
    *(call->before == NULL ? &p->first : &call->before->after) = call->after;
    *(call->after == NULL ? &p->last : &call->after->before) = call->before;
    p->pending--;
    if (call->member == P2P_ANYONE)
        p->from_anyone--;
    else
        p->peers[call->member].calls--;
}

void p2p_end(p2p *p, p2p_call *call)
{
    delist(p, call);
    p2p_append(&p->ended, call);
}

p2p_call *p2p_take_ended(p2p *p)
{
    return p2p_pop(&p->ended);
}

/* ---- Disagreement ---------------------------------------------------------------------------- */

static void describe(const p2p_tensor *t, char text[TENSOR_TEXT])
{
    size_t used =
        (size_t)snprintf(text, TENSOR_TEXT, "%s [", rueda_dtype_name((rueda_dtype)t->dtype));
    for (int i = 0; i < t->ndim && used < TENSOR_TEXT - 32; i++)
        used += (size_t)snprintf(text + used, TENSOR_TEXT - used, i == 0 ? "%lld" : ", %lld",
                                 (long long)t->shape[i]);
    snprintf(text + used, TENSOR_TEXT - used, "]");
}

void p2p_disagree(p2p_call *call, int sender, const p2p_tensor *sent, int receiver,
                  const p2p_tensor *wanted)
{
    char from[TENSOR_TEXT], to[TENSOR_TEXT];
    describe(sent, from);
    describe(wanted, to);
    call->request->status = status_fail(
        RUEDA_ERR_MISMATCH,
        "tensor '%s': rank %d sends %s and rank %d receives %s: both must give the same %s",
        p2p_shown(call), sender, from, receiver, to,
        sent->dtype != wanted->dtype ? "type" : "shape");
    call->request->text = strdup(status_text());
}

/* ---- A pass ---------------------------------------------------------------------------------- */

static rueda_status take_mail(p2p *p)
{
    p2p_list mail = take_inbox(p);
    rueda_status status = RUEDA_OK;
    for (p2p_call *call; (call = p2p_pop(&mail)) != NULL;) {
        enlist(p, call);
        if (!call->sends) {
            p2p_append(&p->looking, call);
        } else if (call->member == p->members->index) {
            if (status == RUEDA_OK)
                status = p2p_send_to_self(p, call);
        } else {
            p2p_peer *peer = &p->peers[call->member];
            call->number = peer->numbered++;
            p2p_append(&peer->fresh, call);
        }
    }
    return status;
}

static bool concerns(const p2p *p, uint16_t member)
{
    return member != p->members->index && (p->peers[member].calls > 0 || p->from_anyone > 0);
}

/* What has come is read before new receives look for it: who receives from anyone shall find all senders. */
rueda_status p2p_step(p2p *p, bool *moved)
{
    if (p->retired || p2p_is_idle(p))
        return RUEDA_OK;
    const bool mail = p2p_has_mail(p);
    const uint16_t size = p->members->size, first = p->turn;
    rueda_status status = mail ? take_mail(p) : RUEDA_OK;
    *moved |= mail;
    for (uint32_t i = 0; i < size && status == RUEDA_OK; i++) {
        const uint16_t member = (uint16_t)((first + i) % size);
        if (concerns(p, member))
            status = p2p_read(p, member, moved);
    }
    if (status != RUEDA_OK)
        return status;
    for (p2p_call *receive; (receive = p2p_pop(&p->looking)) != NULL;)
        p2p_look(p, receive);
    for (uint16_t member = 0; member < size; member++) {
        if (member != p->members->index && p->peers[member].calls > 0)
            p2p_write(p, member, moved);
    }
    return RUEDA_OK;
}

void p2p_retire(p2p *p)
{
    p->retired = true;
}

void p2p_abandon(p2p *p)
{
    p2p_retire(p); /* the lists still have them */
    p2p_list mail = take_inbox(p);
    for (p2p_call *call; (call = p2p_pop(&mail)) != NULL;)
        enlist(p, call);
    while (p->first != NULL)
        p2p_end(p, p->first);
}

/* ---- Questions ------------------------------------------------------------------------------- */

size_t p2p_pending(const p2p *p)
{
    return p->pending;
}

bool p2p_is_idle(const p2p *p)
{
    return p->pending == 0 && !p2p_has_mail(p);
}

p2p_call *p2p_first(const p2p *p)
{
    return p->first;
}

bool p2p_has_flight(const p2p *p)
{
    for (const p2p_call *call = p->first; call != NULL && !p->retired; call = call->after) {
        if (!p2p_waits(call))
            return true;
    }
    return false;
}

/* Whether all that the member ever sent is here. */
static bool has_ended(const p2p *p, uint16_t member)
{
    return member == p->members->index || p->channel->table->ended(p->channel, member);
}

static bool have_all_ended(const p2p *p)
{
    for (uint16_t m = 0; m < p->members->size; m++) {
        if (!has_ended(p, m))
            return false;
    }
    return true;
}

bool p2p_is_stuck_on(const p2p *p, uint16_t member, bool alone)
{
    if (p->retired || p->channel == NULL)
        return false;
    return (p->peers[member].calls > 0 && has_ended(p, member)) ||
           (alone && p->from_anyone > 0 && have_all_ended(p));
}
