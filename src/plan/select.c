/* select.c: which algorithm for what, as rows of data.
 *
 * The first row that fits decides, and the last rows of each collective fit everything. Invariant:
 * where a reduction must be deterministic, it goes by the tree of blocks.h, wherever the ranks are
 * and however many bytes were fused. */
#include "plan/plan.h"

#define ANY UINT64_MAX

enum condition {
    MEMORY = 1,       /* all ranks on one host, with peer memory */
    SHARED_HOSTS = 2, /* several hosts, with peer memory inside, and more ranks than hosts */
    PROJECTION = 4,   /* Adasum */
    FIXED_ORDER = 8,  /* a deterministic reduction */
    EQUAL_PARTS = 16, /* an alltoall with equal splits */
    PRIVATE = 32,     /* tensors that peers cannot reach */
    NATIVE = 64       /* the transport has collectives of its own */
};

static const struct rule {
    plan_collective collective;
    unsigned conditions;
    uint64_t most_ranks, most_bytes;
    plan_algorithm algorithm;
    bool small;
} RULES[] = {
    /* Adasum: one algorithm, which uses memory wherever blocks of its tree lie on a host. */
    {PLAN_ALLREDUCE, PROJECTION, ANY, ANY, PLAN_ALGORITHM_ADASUM, false},
    /* By the tree; of up to three ranks it is the order of ranks. */
    {PLAN_ALLREDUCE, FIXED_ORDER | MEMORY, 3, ANY, PLAN_ALGORITHM_DIRECT, false},
    {PLAN_ALLREDUCE, FIXED_ORDER, ANY, ANY, PLAN_ALGORITHM_HALVING, false},
    /* By memory. The small form reads every peer's whole tensor, so its limit falls with the ranks;
     * both forms reduce in rank order. */
    {PLAN_ALLREDUCE, MEMORY | PRIVATE, 2, 32768, PLAN_ALGORITHM_DIRECT, true},
    {PLAN_ALLREDUCE, MEMORY | PRIVATE, 16, 8192, PLAN_ALGORITHM_DIRECT, true},
    {PLAN_ALLREDUCE, MEMORY, ANY, 2048, PLAN_ALGORITHM_DIRECT, true},
    {PLAN_ALLREDUCE, MEMORY, ANY, ANY, PLAN_ALGORITHM_DIRECT, false},
    {PLAN_ALLGATHER, MEMORY, ANY, ANY, PLAN_ALGORITHM_DIRECT, false},
    {PLAN_BROADCAST, MEMORY, ANY, ANY, PLAN_ALGORITHM_DIRECT, false},
    {PLAN_ALLTOALL, MEMORY, ANY, ANY, PLAN_ALGORITHM_DIRECT, false},
    {PLAN_REDUCESCATTER, MEMORY, ANY, ANY, PLAN_ALGORITHM_DIRECT, false},
    /* The order of ranks or, of more than three where it must be fixed, the tree. */
    {PLAN_REDUCE_TO_ROOT, FIXED_ORDER | MEMORY, 3, ANY, PLAN_ALGORITHM_DIRECT, false},
    {PLAN_REDUCE_TO_ROOT, FIXED_ORDER, ANY, ANY, PLAN_ALGORITHM_TREE, false},
    {PLAN_REDUCE_TO_ROOT, MEMORY, 16, 8192, PLAN_ALGORITHM_DIRECT, true},
    {PLAN_REDUCE_TO_ROOT, MEMORY, ANY, 2048, PLAN_ALGORITHM_DIRECT, true},
    {PLAN_REDUCE_TO_ROOT, MEMORY, ANY, ANY, PLAN_ALGORITHM_DIRECT, false},
    {PLAN_GATHER, MEMORY, ANY, ANY, PLAN_ALGORITHM_DIRECT, false},
    {PLAN_SCATTER, MEMORY, ANY, ANY, PLAN_ALGORITHM_DIRECT, false},
    {PLAN_BARRIER, MEMORY, ANY, ANY, PLAN_ALGORITHM_DIRECT, false},
    /* By the transport itself: it knows its network. */
    {PLAN_ALLREDUCE, NATIVE, ANY, ANY, PLAN_ALGORITHM_NATIVE, false},
    {PLAN_BROADCAST, NATIVE, ANY, ANY, PLAN_ALGORITHM_NATIVE, false},
    /* By messages, or both. */
    {PLAN_ALLREDUCE, 0, ANY, 8192, PLAN_ALGORITHM_DOUBLING, false},
    {PLAN_ALLREDUCE, SHARED_HOSTS, 512, ANY, PLAN_ALGORITHM_HIERARCHICAL, false},
    {PLAN_ALLREDUCE, 0, ANY, 262144, PLAN_ALGORITHM_HALVING, false},
    {PLAN_ALLREDUCE, 0, 128, ANY, PLAN_ALGORITHM_RING, false},
    {PLAN_ALLREDUCE, 0, ANY, ANY, PLAN_ALGORITHM_HALVING, false},
    {PLAN_ALLGATHER, 0, ANY, 8192, PLAN_ALGORITHM_BRUCK, false},
    {PLAN_ALLGATHER, 0, ANY, ANY, PLAN_ALGORITHM_RING, false},
    {PLAN_BROADCAST, 0, ANY, 65536, PLAN_ALGORITHM_TREE, false},
    {PLAN_BROADCAST, 0, 256, ANY, PLAN_ALGORITHM_RING, false},
    {PLAN_BROADCAST, 0, ANY, ANY, PLAN_ALGORITHM_TREE, false},
    {PLAN_ALLTOALL, EQUAL_PARTS, ANY, 4096, PLAN_ALGORITHM_BRUCK, false},
    {PLAN_ALLTOALL, 0, ANY, ANY, PLAN_ALGORITHM_PAIRWISE, false},
    {PLAN_REDUCESCATTER, 0, ANY, ANY, PLAN_ALGORITHM_RING, false},
    {PLAN_REDUCE_TO_ROOT, 0, ANY, 65536, PLAN_ALGORITHM_TREE, false},
    {PLAN_REDUCE_TO_ROOT, 0, 256, ANY, PLAN_ALGORITHM_RING, false},
    {PLAN_REDUCE_TO_ROOT, 0, ANY, ANY, PLAN_ALGORITHM_TREE, false},
    {PLAN_GATHER, 0, ANY, ANY, PLAN_ALGORITHM_PAIRWISE, false},
    {PLAN_SCATTER, 0, ANY, ANY, PLAN_ALGORITHM_PAIRWISE, false},
    {PLAN_BARRIER, 0, ANY, ANY, PLAN_ALGORITHM_DOUBLING, false},
};

static unsigned conditions_of(const plan_choice *choice)
{
    bool several = choice->hosts > 1;
    unsigned met = 0;
    met |= choice->ranks == 1 || (choice->shared_memory && !several) ? MEMORY : 0;
    met |= choice->shared_memory && several && choice->ranks > choice->hosts ? SHARED_HOSTS : 0;
    met |= choice->adasum ? PROJECTION : 0;
    met |= choice->deterministic ? FIXED_ORDER : 0;
    met |= choice->equal_parts ? EQUAL_PARTS : 0;
    met |= !choice->mapped ? PRIVATE : 0;
    met |= choice->native ? NATIVE : 0;
    return met;
}

plan_algorithm plan_select(const plan_choice *choice, bool *small)
{
    unsigned met = conditions_of(choice);
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        const struct rule *rule = &RULES[i];
        if (rule->collective != choice->collective || (rule->conditions & ~met) ||
            choice->ranks > rule->most_ranks || choice->bytes > rule->most_bytes)
            continue;
        *small = rule->small;
        return rule->algorithm;
    }
    *small = false;
    return PLAN_ALGORITHM_DIRECT; /* no collective reaches this: each has a row without conditions */
}
