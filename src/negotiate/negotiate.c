/* negotiate.c: the rounds of one process set. */
#include "negotiate/negotiate.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

rueda_status negotiation_init(negotiation *n, control_members *g, queue *q, uint32_t capacity)
{
    const size_t words = g->job->segment->header->cache_words + 1;
    *n = (negotiation){.members = g,
                       .queue = q,
                       .round = CONTROL_FIRST_ROUND,
                       .capacity = capacity,
                       .last_joined = -1};
    n->to_tell_end = &n->to_tell;
    n->ready = calloc(words, sizeof *n->ready);
    n->both = calloc(words, sizeof *n->both);
    n->either = calloc(words, sizeof *n->either);
    n->cache = calloc(capacity + 1, sizeof(record *));
    n->joined = calloc(g->size, sizeof *n->joined);
    if (n->ready != NULL && n->both != NULL && n->either != NULL && n->cache != NULL &&
        n->joined != NULL)
        return RUEDA_OK;
    negotiation_fini(n);
    return status_fail(RUEDA_ERR_MEMORY, "out of memory for a process set");
}

void negotiation_fini(negotiation *n)
{
    free(n->ready);
    free(n->both);
    free(n->either);
    free(n->cache);
    free(n->joined);
    free(n->open);
    free(n->decided);
    *n = (negotiation){0};
}

static void welcome(negotiation *n, entry *e)
{
    record *r = e->record;
    r->waits = true;
    n->waiting++;
    n->has_news = true;
    if (e->signature.kind == SIGNATURE_JOIN)
        n->join = e;
    else if (r->cache.bit >= 0 && signature_repeats(&r->news.mine, &e->signature))
        bit_set(n->ready, (uint32_t)r->cache.bit);
    else
        news_queue(n, e);
}

void negotiation_take_mail(negotiation *n)
{
    for (entry *e = queue_take(n->queue), *next; e != NULL; e = next) {
        next = e->next;
        welcome(n, e);
    }
}

static rueda_status contribute(negotiation *n)
{
    segment_contribution *c;
    const rueda_status status = control_draft(n->members, n->round, n->to_tell != NULL, &c);
    if (status != RUEDA_OK)
        return status;
    c->words = (n->used + 63) / 64;
    c->digest = n->digest;
    memcpy(c->ready, n->ready, c->words * sizeof *c->ready);
    c->news_count = c->news_bytes = 0;
    if (n->to_tell != NULL)
        c->news_count = news_write(n, control_news(n->members, n->round, n->members->index),
                                   segment_news_bytes(n->members->job->segment), &c->news_bytes);
    /* what was submitted before the join must be said before it, or in the same breath */
    const bool joined = n->join != NULL && n->to_tell == NULL;
    c->flags = (c->news_count > 0 ? CONTROL_NEWS : 0) | (joined ? CONTROL_JOINED : 0) |
               (n->retiring ? CONTROL_RETIRING : 0);
    n->has_news = n->to_tell != NULL;
    n->contributed = true;
    n->messages++;
    control_contribute(n->members, n->round);
    timeline_round(n->timeline, (int32_t)n->members->set, n->rounds + 1);
    return RUEDA_OK;
}

static void note_joined(negotiation *n, uint16_t member)
{
    if (n->joined[member])
        return;
    n->joined[member] = true;
    n->joined_count++;
    n->last_joined = member;
}

static rueda_status read_contributions(negotiation *n)
{
    bool alike = true;
    for (uint16_t i = 0; i < n->members->size; i++) {
        segment_contribution *c = control_part(n->members, n->round, i);
        if ((c->flags & CONTROL_JOINED) != 0)
            note_joined(n, i);
        n->retired = n->retired || (c->flags & CONTROL_RETIRING) != 0;
        alike = alike && c->digest == n->digest && c->words == (n->used + 63) / 64;
    }
    if (!alike)
        cache_reset(n);
    for (uint16_t i = 0; i < n->members->size; i++) {
        segment_contribution *c = control_part(n->members, n->round, i);
        if ((c->flags & CONTROL_NEWS) == 0)
            continue;
        const rueda_status status =
            news_read(n, i, control_news(n->members, n->round, i), c->news_bytes, c->news_count);
        if (status != RUEDA_OK)
            return status;
    }
    return RUEDA_OK;
}

/* Decided tensors leave the negotiation; those that agreed are remembered, in the decided order. */
static void leave_negotiation(negotiation *n)
{
    for (uint32_t i = 0; i < n->decided_count; i++) {
        record *r = n->decided[i];
        if (r->cache.bit >= 0)
            bit_clear(n->ready, (uint32_t)r->cache.bit);
        /* untold: submitted after our join, not said yet, so it is not what was decided */
        const bool ours = r->waits && !r->news.untold;
        r->launching = ours ? r->entry : NULL;
        n->waiting -= ours;
        r->waits = r->waits && !ours;
        if (!ours)
            queue_skip_unnamed(n->queue, r);
        r->news.open_index = -1;
        if (r->ready_ns != NULL && !timeline_is_on(n->timeline))
            negotiation_forget_ready(n, r);
    }
    news_sweep(n);
    for (uint32_t i = 0; i < n->decided_count; i++) {
        record *r = n->decided[i];
        const bool lasting = r->agreed.kind <= SIGNATURE_BARRIER && !r->conflicting;
        if (lasting && (r->news.spoken == n->members->size || r->cache.bit >= 0))
            cache_remember(n, r);
    }
}

static entry *end_join(negotiation *n)
{
    if (n->joined_count < n->members->size)
        return NULL;
    memset(n->joined, 0, n->members->size * sizeof *n->joined);
    n->joined_count = 0;
    entry *join = n->join;
    join->record->waits = false;
    n->waiting--;
    n->join = NULL;
    return join;
}

#ifdef RUEDA_SIMULATED
/* Invariant: all members decide the same list in the same order. */
static void witness_decision(const negotiation *n)
{
    const control_members *g = n->members;
    const uint64_t key[] = {g->job->generation, g->set, g->epoch, n->round};
    uint64_t list = n->decided_count;
    for (uint32_t i = 0; i < n->decided_count; i++)
        list = hash_bytes(list, n->decided[i]->name, n->decided[i]->length);
    world_witness("list of a round", hash_bytes(0, key, sizeof key), list);
}
#else
#define witness_decision(n) ((void)0)
#endif

static rueda_status finish_round(negotiation *n, negotiation_result *result)
{
    rueda_status status = read_contributions(n);
    if (status == RUEDA_OK && timeline_is_on(n->timeline))
        readiness_read(n);
    if (status == RUEDA_OK)
        status = decide(n);
    if (status != RUEDA_OK)
        return status;
    witness_decision(n);
    leave_negotiation(n);
    *result = (negotiation_result){n->decided, n->decided_count, end_join(n)};
    n->round++;
    n->rounds++;
    n->contributed = false;
    return RUEDA_OK;
}

/* Whether to contribute: we have something to say, or an answer is due. Others' contributions are looked at
 * only where that decides: a look takes the line from a peer that is about to write it. */
static bool has_reason(const negotiation *n, bool hold)
{
    if (n->waiting == 0)
        return false;
    return (n->has_news && !hold) || control_opened(n->members, n->round);
}

rueda_status negotiation_progress(negotiation *n, bool hold, bool *moved, bool *complete,
                                  negotiation_result *result)
{
    *complete = false;
    if (n->retired)
        return RUEDA_OK;
    if (!n->contributed) {
        if (!n->retiring && !has_reason(n, hold))
            return RUEDA_OK;
        const rueda_status status = contribute(n);
        if (status != RUEDA_OK)
            return status;
        *moved = true;
    }
    if (!control_complete(n->members, n->round))
        return RUEDA_OK;
    *moved = *complete = true;
    return finish_round(n, result);
}

void negotiation_retire(negotiation *n)
{
    n->retiring = true;
}

void negotiation_settle(negotiation *n, record *r)
{
    queue_forget(n->queue, r);
}

entry *negotiation_abandon(negotiation *n)
{
    entry *first = NULL, **end = &first;
    queue *q = n->queue;
    world_lock_take(&q->lock);
    for (record *r = NULL; (r = queue_next(q, r)) != NULL;) {
        if (!r->waits)
            continue;
        r->waits = false;
        *end = r->entry;
        end = &r->entry->next;
        r->entry->next = NULL;
    }
    world_lock_release(&q->lock);
    n->to_tell = NULL;
    n->to_tell_end = &n->to_tell;
    n->waiting = 0;
    n->join = NULL;
    n->has_news = false;
    return first;
}

bool negotiation_knows(const negotiation *n, const record *r, uint16_t member)
{
    if (member == n->members->index || n->joined[member])
        return true;
    if (r->news.open_index >= 0)
        return r->news.spoke[member] == RECORD_SPOKE;
    const uint64_t round = n->contributed ? n->round : n->round - 1;
    if (r->cache.bit < 0 || round < CONTROL_FIRST_ROUND ||
        !control_contributed(n->members, round, member))
        return false;
    const segment_contribution *c = control_part(n->members, round, member);
    return (uint32_t)r->cache.bit / 64 < c->words && bit_test(c->ready, (uint32_t)r->cache.bit);
}
