/* cache.c: the slots whose bits stand for tensors that were decided before. */
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

/* A pending tensor is never evicted; which are pending anywhere is in the round's `either`. */
static int32_t evict_oldest(negotiation *n)
{
    int32_t oldest = -1;
    for (uint32_t i = 0; i < n->used; i++) {
        const record *r = n->cache[i];
        if (r == NULL)
            return (int32_t)i;
        if (!bit_test(n->either, i) && r->used_round != n->round &&
            (oldest < 0 || r->used_round < n->cache[oldest]->used_round))
            oldest = (int32_t)i;
    }
    if (oldest >= 0) {
        record *r = n->cache[oldest];
        /* ours may have become ready after we contributed: it must be said in words now */
        const bool pending = bit_test(n->ready, (uint32_t)oldest);
        cache_retire(n, r);
        if (pending)
            news_queue(n, r->entry);
        else
            queue_forget(n->queue, r);
    }
    return oldest;
}

void cache_remember(negotiation *n, record *r)
{
    r->used_round = n->round;
    if (r->slot >= 0 || n->capacity == 0)
        return;
    const int32_t slot = n->used < n->capacity ? (int32_t)n->used++ : evict_oldest(n);
    if (slot < 0)
        return;
    n->cache[slot] = r;
    r->slot = slot;
    mix(n, r->hash + (uint64_t)slot);
}

void cache_retire(negotiation *n, record *r)
{
    mix(n, ~r->hash);
    bit_clear(n->ready, (uint32_t)r->slot);
    n->cache[r->slot] = NULL;
    r->slot = -1;
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
    n->digest = 0;
}
