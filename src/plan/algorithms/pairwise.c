/* pairwise.c: alltoall straight from its maker to its taker, with the n-th neighbours in turn so
 * that nobody is everybody's partner at once. */
#include "plan/algorithms/algorithms.h"

const char *pairwise_alltoall(builder *b)
{
    unsigned ranks = b->ranks;
    builder_chunks(b, ranks);
    open_rounds(b, 1);
    for (unsigned n = 1; n < ranks; n++) {
        unsigned to = (b->rank + n) % ranks, from = (b->rank + ranks - n) % ranks;
        builder_send(b, to, own(b, PLAN_IN, to));
        builder_recv(b, from, own(b, PLAN_OUT, from));
    }
    builder_copy(b, own(b, PLAN_OUT, b->rank), own(b, PLAN_IN, b->rank), 0);
    return NULL;
}
