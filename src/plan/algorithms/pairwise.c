/* pairwise.c: straight from its maker to its taker, nothing passes through others. In alltoall with the
 * n-th neighbours in turn, so that nobody is everybody's partner at once. */
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

const char *pairwise_gather(builder *b)
{
    unsigned root = b->plan->layout.root;
    builder_chunks(b, b->ranks);
    open_rounds(b, 1);
    if (b->rank != root) {
        builder_send(b, root, own(b, PLAN_IN, 0));
        return NULL;
    }
    for (unsigned n = 1; n < b->ranks; n++) {
        unsigned from = (root + n) % b->ranks;
        builder_recv(b, from, own(b, PLAN_OUT, from));
    }
    builder_copy(b, own(b, PLAN_OUT, root), own(b, PLAN_IN, 0), 0);
    return NULL;
}

const char *pairwise_scatter(builder *b)
{
    unsigned root = b->plan->layout.root;
    builder_chunks(b, b->ranks);
    open_rounds(b, 1);
    if (b->rank != root) {
        builder_recv(b, root, own(b, PLAN_OUT, 0));
        return NULL;
    }
    for (unsigned n = 1; n < b->ranks; n++) {
        unsigned to = (root + n) % b->ranks;
        builder_send(b, to, own(b, PLAN_IN, to));
    }
    builder_copy(b, own(b, PLAN_OUT, 0), own(b, PLAN_IN, root), 0);
    return NULL;
}
