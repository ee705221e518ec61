/* tree.c: from the root and to the root along binomial trees, in log2(ranks) rounds: for latency. */
#include "plan/algorithms/algorithms.h"

/* In round k everybody who has the data passes it on to the rank 2^k places further. */
const char *tree_broadcast(builder *b)
{
    unsigned root = b->plan->layout.root, place = (b->rank + b->ranks - root) % b->ranks;
    unsigned rounds = rounds_of(b->ranks);
    plan_operand out = own(b, PLAN_OUT, 0);
    builder_chunks(b, 1);
    open_rounds(b, rounds);
    if (place == 0)
        builder_copy(b, out, own(b, PLAN_IN, 0), 0);
    for (unsigned k = 0; k < rounds; k++) {
        unsigned distance = 1u << k;
        start_round(b, k);
        if (place < distance && place + distance < b->ranks)
            builder_send(b, (b->rank + distance) % b->ranks, out);
        else if (place >= distance && place < 2 * distance)
            builder_recv(b, (b->rank + b->ranks - distance) % b->ranks, out);
    }
    return NULL;
}

/* Who has the sum of the block of 2^level ranks that begins with `first`. */
static unsigned holder_of(const builder *b, unsigned first, unsigned level)
{
    unsigned root = b->plan->layout.root;
    return root >> level == first >> level ? root : first;
}

/* Level k joins blocks of 2^k ranks in pairs: one holder sends its sum to the other, whichever is the
 * joined block's. The expression is the tree of blocks.h, lower block first, wherever the root is. */
const char *tree_reduce(builder *b)
{
    unsigned rounds = rounds_of(b->ranks);
    builder_chunks(b, 1);
    open_rounds(b, rounds + 1);
    plan_buffer held = contribution(b, PLAN_WORK, 1);
    plan_buffer sum = b->rank == b->plan->layout.root ? PLAN_OUT : PLAN_WORK;
    for (unsigned k = 0; k < rounds; k++) {
        unsigned first = b->rank >> k << k, other = first ^ 1u << k;
        if (other >= b->ranks)
            continue;
        unsigned peer = holder_of(b, other, k), joined = first < other ? first : other;
        start_round(b, k);
        if (holder_of(b, joined, k + 1) != b->rank) {
            builder_send(b, peer, own(b, held, 0));
            return NULL;
        }
        builder_recv_reduce(b, peer, own(b, sum, 0), own(b, held, 0),
                            other < first ? PLAN_MESSAGE_FIRST : 0);
        held = sum;
    }
    start_round(b, rounds);
    builder_copy(b, own(b, PLAN_OUT, 0), own(b, PLAN_OUT, 0), PLAN_POSTSCALE);
    return NULL;
}
