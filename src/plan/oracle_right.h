/* oracle_right.h: what each collective promises, in the oracle's numbers, and who can end alone. */
#ifndef RUEDA_PLAN_ORACLE_RIGHT_H
#define RUEDA_PLAN_ORACLE_RIGHT_H

#include "plan/oracle.h"

static inline number oracle_expected(const plan *p, unsigned r, uint32_t c, uint32_t piece)
{
    uint64_t sum = 0;
    switch (p->collective) {
    case PLAN_ALLGATHER:
    case PLAN_GATHER:
        return oracle_input(c, 0, piece);
    case PLAN_SCATTER:
        return oracle_input(p->layout.root, r, piece);
    case PLAN_ALLTOALL:
        return oracle_input(c, r, piece);
    case PLAN_BROADCAST:
        return oracle_input(p->layout.root, c, piece);
    default:
        for (unsigned q = 0; q < p->layout.ranks; q++)
            sum += oracle_input(q, p->collective == PLAN_REDUCESCATTER ? r : c, piece).sum;
        return (number){sum * (p->layout.prescaled ? 3 : 1) * 5, 0};
    }
}

/* Adasum: what the healthy plans give. Reductions: the sum, and the same order everywhere. */
static inline bool oracle_is_right(const oracle *o, const oracle *healthy, unsigned r, uint32_t c,
                                   uint32_t piece)
{
    const plan *p = o->team->plans[0];
    number found = o->ranks[r].result[c][piece], wanted = oracle_expected(p, r, c, piece);
    if (p->layout.adasum)
        return found.mix == healthy->ranks[r].result[c][piece].mix;
    if (p->collective == PLAN_ALLREDUCE)
        return found.sum == wanted.sum && found.mix == o->ranks[0].result[c][piece].mix;
    return found.sum == wanted.sum;
}

static inline uint32_t oracle_out_chunks(const plan *p)
{
    return p->collective == PLAN_REDUCESCATTER || p->collective == PLAN_SCATTER ? 1 : p->chunks;
}

/* What goes to the root alone is promised to nobody else. */
static inline bool oracle_promises(const plan *p, unsigned r)
{
    const bool to_root = p->collective == PLAN_REDUCE_TO_ROOT || p->collective == PLAN_GATHER;
    return !to_root || r == p->layout.root;
}

static inline bool oracle_all_right(const oracle *o, const oracle *healthy)
{
    for (unsigned r = 0; r < o->team->ranks; r++)
        for (uint32_t c = 0; c < oracle_out_chunks(o->team->plans[0]); c++)
            for (uint32_t piece = 0; piece < o->pieces; piece++)
                if (oracle_promises(o->team->plans[0], r) &&
                    !oracle_is_right(o, healthy, r, c, piece))
                    return false;
    return true;
}

/* Of these, the output may be the input. */
static inline bool oracle_may_be_in_place(const plan *p)
{
    return p->collective == PLAN_ALLREDUCE || p->collective == PLAN_BROADCAST ||
           p->collective == PLAN_REDUCE_TO_ROOT;
}

/* Runs until one rank has ended, and then each other one by itself; false: one of them needs others. */
static inline bool oracle_finishes_alone(oracle *o, const team *t, uint32_t pieces, uint64_t seed)
{
    oracle_reset(o, t, pieces, false, seed);
    while (oracle_done(o) == 0)
        if (!oracle_move_any(o, t->ranks))
            return false;
    for (unsigned n = 0, first = (unsigned)(seed % t->ranks); n < t->ranks; n++)
        for (const unsigned r = (first + n) % t->ranks; !o->ranks[r].done;)
            if (!oracle_move(o, r))
                return false;
    return true;
}

#endif
