/* bruck.c: log2(ranks) rounds with partners at doubling distance, for small parts.
 *
 * Allgather sends no byte twice. Alltoall passes parts on through others, half of them in every
 * round, and needs parts of equal length, since they change places on the way.
 */
#include "plan/algorithms/algorithms.h"

/* Before round k, rank r has the chunks r … r + 2^k − 1. */
const char *bruck_allgather(builder *b)
{
    unsigned ranks = b->ranks, rounds = rounds_of(ranks);
    builder_chunks(b, ranks);
    open_rounds(b, rounds);
    builder_copy(b, own(b, PLAN_OUT, b->rank), own(b, PLAN_IN, 0), 0);
    for (unsigned k = 0; k < rounds; k++) {
        unsigned distance = 1u << k;
        unsigned count = distance < ranks - distance ? distance : ranks - distance;
        unsigned to = (b->rank + ranks - distance) % ranks, from = (b->rank + distance) % ranks;
        start_round(b, k);
        for (unsigned j = 0; j < count; j++) {
            builder_send(b, to, own(b, PLAN_OUT, (b->rank + j) % ranks));
            builder_recv(b, from, own(b, PLAN_OUT, (from + j) % ranks));
        }
    }
    return NULL;
}

/* Where the part that still has `hops` hops to go is kept: in turn, so that it ends in WORK. */
static plan_buffer buffer_with(unsigned hops)
{
    return hops % 2 == 0 ? PLAN_WORK : PLAN_OUT;
}

static unsigned bits_from(unsigned number, unsigned bit)
{
    return (unsigned)__builtin_popcount(number >> bit);
}

/* The part that has `way` places to go moves 2^k places in round k if bit k of `way` is set. */
const char *bruck_alltoall(builder *b)
{
    unsigned ranks = b->ranks, rounds = rounds_of(ranks);
    builder_chunks(b, ranks);
    open_rounds(b, rounds + 1);
    for (unsigned way = 1; way < ranks; way++)
        builder_copy(b, own(b, buffer_with(bits_from(way, 0)), way),
                     own(b, PLAN_IN, (b->rank + way) % ranks), 0);
    for (unsigned k = 0; k < rounds; k++) {
        unsigned to = (b->rank + (1u << k)) % ranks, from = (b->rank + ranks - (1u << k)) % ranks;
        start_round(b, k);
        for (unsigned way = 1; way < ranks; way++) {
            if (!(way >> k & 1))
                continue;
            builder_send(b, to, own(b, buffer_with(bits_from(way, k)), way));
            builder_recv(b, from, own(b, buffer_with(bits_from(way, k + 1)), way));
        }
    }
    start_round(b, rounds);
    builder_copy(b, own(b, PLAN_OUT, b->rank), own(b, PLAN_IN, b->rank), 0);
    for (unsigned way = 1; way < ranks; way++)
        builder_copy(b, own(b, PLAN_OUT, (b->rank + ranks - way) % ranks), own(b, PLAN_WORK, way),
                     0);
    return NULL;
}
