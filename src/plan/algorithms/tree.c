/* tree.c: broadcast along a binomial tree: in round k everybody who has the data passes it on to the
 * rank 2^k places further. For latency: the root sends log2(ranks) times. */
#include "plan/algorithms/algorithms.h"

const char *tree_broadcast(builder *b)
{
    unsigned root = b->plan->layout.root, place = (b->rank + b->ranks - root) % b->ranks;
    unsigned rounds = 0;
    plan_operand out = own(b, PLAN_OUT, 0);
    while ((1u << rounds) < b->ranks)
        rounds++;
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
