/* plan.c: from a name to a plan.
 *
 * Invariant: TABLE says everything about who serves what; plan_build only looks it up. */
#include "plan/plan.h"

#include "plan/algorithms/algorithms.h"
#include "plan/builder.h"
#include "plan/host_order.h"

#include <stdlib.h>

static const plan_row TABLE[] = {
    {PLAN_ALGORITHM_DIRECT, PLAN_ALLREDUCE, direct_allreduce,
     PLAN_ONE_HOST | PLAN_PROJECTS | PLAN_ONE_ORDER},
    {PLAN_ALGORITHM_DIRECT, PLAN_ALLGATHER, direct_allgather, PLAN_ONE_HOST},
    {PLAN_ALGORITHM_DIRECT, PLAN_BROADCAST, direct_broadcast, PLAN_ONE_HOST},
    {PLAN_ALGORITHM_DIRECT, PLAN_ALLTOALL, direct_alltoall, PLAN_ONE_HOST},
    {PLAN_ALGORITHM_DIRECT, PLAN_REDUCESCATTER, direct_reducescatter, PLAN_ONE_HOST},
    {PLAN_ALGORITHM_DIRECT, PLAN_REDUCE_TO_ROOT, direct_reduce, PLAN_ONE_HOST | PLAN_ONE_ORDER},
    {PLAN_ALGORITHM_DIRECT, PLAN_GATHER, direct_gather, PLAN_ONE_HOST},
    {PLAN_ALGORITHM_DIRECT, PLAN_SCATTER, direct_scatter, PLAN_ONE_HOST},
    {PLAN_ALGORITHM_DIRECT, PLAN_BARRIER, direct_barrier, PLAN_ONE_HOST},
    {PLAN_ALGORITHM_RING, PLAN_ALLREDUCE, ring_allreduce, 0},
    {PLAN_ALGORITHM_RING, PLAN_ALLGATHER, ring_allgather, 0},
    {PLAN_ALGORITHM_RING, PLAN_REDUCESCATTER, ring_reducescatter, 0},
    {PLAN_ALGORITHM_RING, PLAN_BROADCAST, ring_broadcast, 0},
    {PLAN_ALGORITHM_RING, PLAN_REDUCE_TO_ROOT, ring_reduce, 0},
    {PLAN_ALGORITHM_DOUBLING, PLAN_ALLREDUCE, doubling_allreduce,
     PLAN_FOR_LATENCY | PLAN_ONE_ORDER},
    {PLAN_ALGORITHM_DOUBLING, PLAN_BARRIER, doubling_barrier, 0},
    {PLAN_ALGORITHM_HALVING, PLAN_ALLREDUCE, halving_allreduce, PLAN_ONE_ORDER},
    {PLAN_ALGORITHM_TREE, PLAN_BROADCAST, tree_broadcast, PLAN_FOR_LATENCY},
    {PLAN_ALGORITHM_TREE, PLAN_REDUCE_TO_ROOT, tree_reduce, PLAN_ONE_ORDER},
    {PLAN_ALGORITHM_BRUCK, PLAN_ALLGATHER, bruck_allgather, 0},
    {PLAN_ALGORITHM_BRUCK, PLAN_ALLTOALL, bruck_alltoall, PLAN_FOR_LATENCY},
    {PLAN_ALGORITHM_PAIRWISE, PLAN_ALLTOALL, pairwise_alltoall, 0},
    {PLAN_ALGORITHM_PAIRWISE, PLAN_GATHER, pairwise_gather, 0},
    {PLAN_ALGORITHM_PAIRWISE, PLAN_SCATTER, pairwise_scatter, 0},
    {PLAN_ALGORITHM_ADASUM, PLAN_ALLREDUCE, adasum_allreduce, PLAN_PROJECTS | PLAN_ONE_ORDER},
    {PLAN_ALGORITHM_HIERARCHICAL, PLAN_ALLREDUCE, hierarchical_allreduce, PLAN_PROJECTS},
    {PLAN_ALGORITHM_NATIVE, PLAN_ALLREDUCE, native_allreduce, 0},
    {PLAN_ALGORITHM_NATIVE, PLAN_BROADCAST, native_broadcast, 0},
};

const plan_row *plan_find_row(plan_algorithm algorithm, plan_collective collective)
{
    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++)
        if (TABLE[i].algorithm == algorithm && TABLE[i].collective == collective)
            return &TABLE[i];
    return NULL;
}

static bool one_host(const plan_layout *layout)
{
    for (unsigned q = 1; layout->host_of && q < layout->ranks; q++)
        if (layout->host_of[q] != layout->host_of[0])
            return false;
    return true;
}

static const char *find_refusal(const plan_row *row, const plan_layout *layout)
{
    if (layout->ranks < 1 || layout->ranks > PLAN_MAX_RANKS)
        return "a plan has 1 to 4096 ranks";
    if (layout->rank >= layout->ranks || layout->root >= layout->ranks)
        return "the rank or the root is not among the ranks";
    if (!row)
        return "the algorithm does not serve this collective";
    if (layout->adasum && !(row->service & PLAN_PROJECTS))
        return "the algorithm cannot combine by projection (adasum)";
    if (layout->ranks > 1 && (row->service & PLAN_ONE_HOST) && !one_host(layout))
        return "the algorithm needs all ranks on one host";
    return NULL;
}

/* One rank: the result is the input. */
static void build_alone(builder *b)
{
    plan_collective collective = b->plan->collective;
    bool reduces = collective == PLAN_ALLREDUCE || collective == PLAN_REDUCESCATTER ||
                   collective == PLAN_REDUCE_TO_ROOT;
    if (collective == PLAN_BARRIER)
        return;
    builder_chunks(b, 1);
    builder_loop_messages(b, 1);
    builder_copy(b, own(b, PLAN_OUT, 0), own(b, PLAN_IN, 0),
                 reduces ? PLAN_PRESCALE | PLAN_POSTSCALE : 0);
}

const char plan_no_memory[] = "out of memory";

static plan *build(const plan_row *row, const plan_layout *layout, const char **why)
{
    builder *b = builder_start(row->collective, row->algorithm, layout);
    *why = plan_no_memory;
    if (!b)
        return NULL;
    const char *refusal = NULL;
    if (layout->ranks == 1)
        build_alone(b);
    else
        refusal = row->author(b);
    if (refusal) {
        *why = refusal;
        builder_abandon(b);
        return NULL;
    }
    return builder_finish(b);
}

/* For ranks in the order of their hosts. */
static plan *build_sorted(const plan_row *row, const plan_layout *layout, const char **why)
{
    uint16_t *order = calloc(2 * (size_t)layout->ranks, sizeof *order);
    *why = plan_no_memory;
    if (!order)
        return NULL;
    host_order_find(layout, order);
    plan_layout sorted = host_order_layout(layout, order, order + layout->ranks);
    plan *p = build(row, &sorted, why);
    if (p)
        host_order_rename(p, layout, order);
    free(order);
    return p;
}

/* An author whose reduction has one order writes for the ranks as they are. */
plan *plan_build(plan_collective collective, plan_algorithm algorithm, const plan_layout *layout,
                 const char **why)
{
    const plan_row *row = plan_find_row(algorithm, collective);
    plan_layout wanted = *layout;
    wanted.adasum = layout->adasum || algorithm == PLAN_ALGORITHM_ADASUM;
    *why = find_refusal(row, &wanted);
    if (*why)
        return NULL;
    bool as_they_are = (row->service & PLAN_ONE_ORDER) || wanted.adasum;
    if (as_they_are || host_order_is_kept(&wanted))
        return build(row, &wanted, why);
    return build_sorted(row, &wanted, why);
}

void plan_free(plan *p)
{
    if (!p)
        return;
    free((void *)(uintptr_t)p->layout.host_of);
    free(p->phases);
    free(p->steps);
    free(p);
}
