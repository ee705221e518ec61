/* algorithms.h: the authors of plans, one file each.
 *
 * An author writes the plan of b->rank for more than one rank. It returns NULL, or a static text
 * that says why it does not serve the layout.
 */
#ifndef RUEDA_PLAN_ALGORITHMS_H
#define RUEDA_PLAN_ALGORITHMS_H

#include "plan/builder.h"

typedef const char *plan_author(builder *b);

/* What an algorithm says about itself, per collective. */
enum plan_service {
    PLAN_ONE_HOST = 1,    /* reaches peers' memory: all ranks on one host */
    PLAN_PROJECTS = 2,    /* serves layout.adasum, too */
    PLAN_FOR_LATENCY = 4, /* few rounds; may move more than 1.3 times the least bytes */
    PLAN_ONE_ORDER =
        8 /* the order of a reduction depends neither on where a chunk lies nor on hosts;
                             others are asked for ranks of which those of a host follow each other */
};

/* Who writes the plans of a collective by an algorithm. */
typedef struct plan_row {
    plan_algorithm algorithm;
    plan_collective collective;
    plan_author *author;
    unsigned service;
} plan_row;

/* NULL: the algorithm does not serve the collective. */
const plan_row *plan_find_row(plan_algorithm algorithm, plan_collective collective);

plan_author direct_allreduce, direct_allgather, direct_broadcast, direct_alltoall,
    direct_reducescatter, direct_barrier;
plan_author direct_reduce, direct_gather, direct_scatter;
plan_author ring_allreduce, ring_allgather, ring_reducescatter, ring_broadcast, ring_reduce;
plan_author doubling_allreduce, doubling_barrier;
plan_author halving_allreduce;
plan_author tree_broadcast, tree_reduce;
plan_author bruck_allgather, bruck_alltoall;
plan_author pairwise_alltoall, pairwise_gather, pairwise_scatter;
plan_author adasum_allreduce;
plan_author hierarchical_allreduce;
plan_author native_allreduce, native_broadcast;

/* Adasum on several hosts. Blocks of `block` ranks, a power of two, lie on one host each and work by
 * memory; larger blocks are joined by messages. 1: messages only. */
const char *adasum_across_hosts(builder *b, unsigned block);

/* Rounds until everybody is reached if their number doubles with each. */
unsigned rounds_of(unsigned ranks);

/* Opens a phase in which messages flow in `rounds` rounds that depend on each other. The rounds
 * become stages, so that pieces follow each other through them; if there are more rounds than a
 * phase can have stages, all are in stage 0 and the builder separates them by FENCEs. Then
 * start_round says which round comes. */
void open_rounds(builder *b, unsigned rounds);
void start_round(builder *b, unsigned round);

/* Where a rank's contribution is before the first round: in IN, or, if it must be scaled, in OUT
 * (WORK for reducescatter), where this copies `chunks` chunks to. */
plan_buffer contribution(builder *b, plan_buffer scaled, unsigned chunks);

#endif
