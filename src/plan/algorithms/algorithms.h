/* algorithms.h: the authors of plans, one file each.
 *
 * An author writes the plan of b->rank for more than one rank. It returns NULL, or a static text
 * that says why it does not serve the layout.
 */
#ifndef RUEDA_PLAN_ALGORITHMS_H
#define RUEDA_PLAN_ALGORITHMS_H

#include "plan/builder.h"

typedef const char *plan_author(builder *b);

plan_author direct_allreduce, direct_allgather, direct_broadcast, direct_alltoall,
    direct_reducescatter, direct_barrier;
plan_author ring_allreduce, ring_allgather, ring_reducescatter, ring_broadcast;
plan_author doubling_allreduce, doubling_barrier;
plan_author halving_allreduce;
plan_author tree_broadcast;
plan_author bruck_allgather, bruck_alltoall;
plan_author pairwise_alltoall;
plan_author adasum_allreduce;
plan_author hierarchical_allreduce;

/* Adasum whose blocks of up to `host_size` ranks, a power of two, lie on one host each; larger
 * blocks are joined by messages. 1: messages only. */
const char *adasum_across_hosts(builder *b, unsigned host_size);

/* Opens a phase in which messages flow in `rounds` rounds that depend on each other. The rounds
 * become stages, so that pieces follow each other through them; if there are more rounds than a
 * phase can have stages, all are in stage 0 and the builder separates them by FENCEs. Then
 * builder_round says which round comes. */
void open_rounds(builder *b, unsigned rounds);
void start_round(builder *b, unsigned round);

/* Where a rank's contribution is before the first round: in IN, or, if it must be scaled, in OUT
 * (WORK for reducescatter), where this copies `chunks` chunks to. */
plan_buffer contribution(builder *b, plan_buffer scaled, unsigned chunks);

#endif
