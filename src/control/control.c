/* control.c: rounds, bells and the abort record in the segment. */
#include "control/control.h"

#include <stdio.h>

static segment_contribution *part_of(const control_group *g, uint64_t round, uint16_t index)
{
    return segment_contribution_at(g->segment, g->ranks[index], g->set, round);
}

segment_contribution *control_draft(const control_group *g, uint64_t round)
{
    return part_of(g, round, g->index);
}

uint8_t *control_news_of(const control_group *g, segment_contribution *c)
{
    return (uint8_t *)(c->ready + g->segment->header->cache_words);
}

void control_contribute(const control_group *g, uint64_t round)
{
    atomic_store_explicit(&part_of(g, round, g->index)->round, round, memory_order_release);
    control_notify(g);
}

bool control_contributed(const control_group *g, uint64_t round, uint16_t index)
{
    return atomic_load_explicit(&part_of(g, round, index)->round, memory_order_acquire) == round;
}

bool control_opened(const control_group *g, uint64_t round)
{
    for (uint16_t i = 0; i < g->size; i++) {
        if (i != g->index && control_contributed(g, round, i))
            return true;
    }
    return false;
}

bool control_complete(const control_group *g, uint64_t round)
{
    for (uint16_t i = 0; i < g->size; i++) {
        if (!control_contributed(g, round, i))
            return false;
    }
    return true;
}

segment_contribution *control_part(const control_group *g, uint64_t round, uint16_t index)
{
    return part_of(g, round, index);
}

static void ring_if_asleep(segment *s, uint32_t rank)
{
    segment_bell *bell = &segment_rank_at(s, rank)->bell;
    if (atomic_load_explicit(&bell->sleeping, memory_order_relaxed) == 0)
        return;
    atomic_fetch_add(&bell->rings, 1);
    os_wake(&bell->rings, true);
}

/* The fence orders our change before the look at `sleeping`; the sleeper's announcement has the
 * same fence between `sleeping` and its last look at the memory: one of the two sees the other. */
void control_notify(const control_group *g)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (uint16_t i = 0; i < g->size; i++) {
        if (i != g->index)
            ring_if_asleep(g->segment, g->ranks[i]);
    }
}

void control_notify_rank(segment *s, uint32_t rank)
{
    atomic_thread_fence(memory_order_seq_cst);
    ring_if_asleep(s, rank);
}

bool control_shares_core(segment *s, uint32_t rank)
{
    const int32_t core = os_cpu_now() + 1; /* 0: never waited */
    atomic_store_explicit(&segment_rank_at(s, rank)->bell.core, core, memory_order_relaxed);
    for (uint32_t r = 0; r < s->header->ranks; r++) {
        const segment_bell *bell = &segment_rank_at(s, r)->bell;
        if (r != rank && atomic_load_explicit(&bell->core, memory_order_relaxed) == core)
            return true;
    }
    return false;
}

uint32_t control_sleep_announce(segment *s, uint32_t rank)
{
    segment_bell *bell = &segment_rank_at(s, rank)->bell;
    const uint32_t seen = atomic_load(&bell->rings);
    atomic_store(&bell->sleeping, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return seen;
}

void control_sleep(segment *s, uint32_t rank, uint32_t seen, uint64_t timeout_ns)
{
    os_sleep_on(&segment_rank_at(s, rank)->bell.rings, seen, timeout_ns, true);
}

void control_sleep_end(segment *s, uint32_t rank)
{
    atomic_store_explicit(&segment_rank_at(s, rank)->bell.sleeping, 0, memory_order_relaxed);
}

void control_abort(segment *s, rueda_status status, int rank, const char *text)
{
    segment_abort *a = &s->header->abort;
    uint32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&a->claimed, &nobody, 1))
        return;
    a->status = (uint32_t)status;
    a->rank = rank;
    snprintf(a->text, sizeof a->text, "%s", text);
    atomic_store(&a->published, 1);
    for (uint32_t r = 0; r < s->header->ranks; r++)
        control_notify_rank(s, r);
}

rueda_status control_aborted(const segment *s)
{
    if (!control_is_aborted(s))
        return RUEDA_OK;
    return status_restore((rueda_status)s->header->abort.status, s->header->abort.text);
}
