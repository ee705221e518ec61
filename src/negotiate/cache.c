/* cache.c: the bits that stand for tensors that were decided before. */
#include "negotiate/negotiate.h"

#include <string.h>

bool bit_test(const uint64_t *bits, uint32_t index)
{
    return (bits[index / 64] >> (index % 64) & 1) != 0;
}

void bit_set(uint64_t *bits, uint32_t index)
{
    bits[index / 64] |= UINT64_C(1) << (index % 64);
}

void bit_clear(uint64_t *bits, uint32_t index)
{
    bits[index / 64] &= ~(UINT64_C(1) << (index % 64));
}

static void mix(negotiation *n, uint64_t change)
{
    n->digest = (n->digest ^ change) * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

/* What is pending anywhere is in the round's `either`; such tensors are never evicted. */
static bool may_go(const negotiation *n, uint32_t bit)
{
    return !bit_test(n->either, bit) && n->cache[bit]->cache.used_round != n->round;
}

/* A free bit, or one whose tensor was not used since the hand last passed; -1: all are needed. The
 * hand goes round, so that a bit costs a few looks however large the cache is. */
static int32_t find_victim(negotiation *n)
{
    for (uint32_t looks = 0; looks < 2 * n->used; looks++) {
        const uint32_t bit = n->hand;
        n->hand = (n->hand + 1) % n->used;
        record *r = n->cache[bit];
        if (r == NULL || (may_go(n, bit) && !r->cache.recent))
            return (int32_t)bit;
        r->cache.recent = false;
    }
    return -1;
}

static int32_t evict(negotiation *n)
{
    const int32_t bit = find_victim(n);
    if (bit < 0 || n->cache[bit] == NULL)
        return bit;
    record *r = n->cache[bit];
    /* ours may have become ready after we contributed: it must be said in words now */
    const bool pending = bit_test(n->ready, (uint32_t)bit);
    cache_retire(n, r);
    if (pending)
        news_queue(n, r->entry);
    else
        queue_forget(n->queue, r);
    return bit;
}

void cache_remember(negotiation *n, record *r)
{
    /* used again while cached: gets a second chance. Nothing older counts: how long a record without
     * a bit lives differs between ranks */
    r->cache.recent = r->cache.bit >= 0;
    r->cache.used_round = n->round;
    if (r->cache.bit >= 0 || n->capacity == 0)
        return;
    const int32_t bit = n->used < n->capacity ? (int32_t)n->used++ : evict(n);
    if (bit < 0)
        return;
    n->cache[bit] = r;
    r->cache.bit = bit;
    mix(n, r->hash + (uint64_t)bit);
}

void cache_retire(negotiation *n, record *r)
{
    mix(n, ~r->hash);
    bit_clear(n->ready, (uint32_t)r->cache.bit);
    n->cache[r->cache.bit] = NULL;
    r->cache.bit = -1;
}

/* The members' caches differ, which must not happen: start anew, all alike. */
void cache_reset(negotiation *n)
{
    for (uint32_t i = 0; i < n->used; i++) {
        record *r = n->cache[i];
        if (r == NULL)
            continue;
        const bool pending = bit_test(n->ready, i);
        cache_retire(n, r);
        if (pending)
            news_queue(n, r->entry);
        else
            queue_forget(n->queue, r);
    }
    n->used = 0;
    n->hand = 0;
    n->digest = 0;
}
