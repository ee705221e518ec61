/* traffic.c: how many bytes a plan moves, against the least that any algorithm needs. */
#include "plan/plan.h"

static bool is_peers(const plan *p, const plan_operand *operand)
{
    return operand->rank != p->layout.rank &&
           (operand->buffer == PLAN_IN || operand->buffer == PLAN_OUT ||
            operand->buffer == PLAN_SLOT);
}

/* Chunks that the step sends, or reads from or writes to a peer's memory. Over all pieces, a step
 * goes over its chunk once. */
static uint64_t chunks_moved(const plan *p, const plan_step *step)
{
    if (step->kind == PLAN_SEND)
        return step->a.buffer != PLAN_NONE && step->a.buffer != PLAN_SUMS;
    return (uint64_t)is_peers(p, &step->dst) + is_peers(p, &step->a) + is_peers(p, &step->b);
}

/* bytes · part / whole, without overflow for any tensor. */
static uint64_t share(uint64_t bytes, uint64_t part, uint64_t whole)
{
    return whole ? bytes / whole * part + bytes % whole * part / whole : 0;
}

static uint64_t least_of(const plan *p, uint64_t bytes)
{
    uint64_t ranks = p->layout.ranks;
    switch (p->collective) {
    case PLAN_ALLREDUCE:
        return share(bytes, 2 * (ranks - 1), ranks);
    case PLAN_BROADCAST:
    case PLAN_REDUCE_TO_ROOT:
        return ranks > 1 ? bytes : 0;
    case PLAN_BARRIER:
        return 0;
    default:
        return share(bytes, ranks - 1, ranks);
    }
}

/* What a transport moves is its own business: no worse, we trust. */
static bool hands_on(const plan *p)
{
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == PLAN_COLL)
            return true;
    return false;
}

void plan_traffic(plan *const *plans, uint64_t bytes, uint64_t *most, uint64_t *least)
{
    *most = 0;
    *least = least_of(plans[0], bytes);
    for (unsigned r = 0; r < plans[0]->layout.ranks; r++) {
        uint64_t chunks = 0;
        for (uint32_t i = 0; i < plans[r]->step_count; i++)
            chunks += chunks_moved(plans[r], &plans[r]->steps[i]);
        uint64_t moved = hands_on(plans[r]) ? *least : share(bytes, chunks, plans[r]->chunks);
        *most = moved > *most ? moved : *most;
    }
}
