/* halving.c: reduce-scatter by recursive halving, then gather by doubling, on the tree of blocks.h.
 *
 * When two blocks join, each chunk's giver sends its part to the new owner; on the way back the owner
 * returns the result. Every level is a stage, so pieces follow each other through the tree.
 * Invariant: the expression is the tree, lower block first, the same for every chunk.
 */
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/blocks.h"

/* The other of the two ranks that have chunk c at a level. */
static unsigned other_owner(const blocks *tree, const blocks_level *level, uint32_t c)
{
    return level->owner[c] == tree->rank ? blocks_giver(level, c) : level->owner[c];
}

static void reduce_level(builder *b, const blocks *tree, const blocks_level *level,
                         plan_buffer mine)
{
    for (uint32_t c = 0; c < tree->chunks; c++) {
        if (!blocks_owned(tree, level, c))
            continue;
        unsigned peer = other_owner(tree, level, c);
        if (blocks_gives(tree, level, c))
            builder_send(b, peer, own(b, mine, c));
        else
            builder_recv_reduce(b, peer, own(b, PLAN_OUT, c), own(b, mine, c),
                                level->lower ? 0 : PLAN_MESSAGE_FIRST);
    }
}

static void return_level(builder *b, const blocks *tree, const blocks_level *level)
{
    for (uint32_t c = 0; c < tree->chunks; c++) {
        if (!blocks_owned(tree, level, c))
            continue;
        unsigned peer = other_owner(tree, level, c);
        if (blocks_gives(tree, level, c))
            builder_recv(b, peer, own(b, PLAN_OUT, c));
        else
            builder_send(b, peer, own(b, PLAN_OUT, c));
    }
}

static void scale_owned(builder *b, const blocks *tree)
{
    const blocks_level *last = &tree->level[tree->levels - 1];
    for (uint32_t c = 0; c < tree->chunks; c++)
        if (blocks_owns(tree, last, c))
            builder_copy(b, own(b, PLAN_OUT, c), own(b, PLAN_OUT, c), PLAN_POSTSCALE);
}

const char *halving_allreduce(builder *b)
{
    blocks tree;
    uint32_t chunks = blocks_chunks(b->ranks);
    if (!blocks_make(&tree, b->ranks, b->rank, chunks))
        return plan_no_memory;
    builder_chunks(b, chunks);
    open_rounds(b, 2 * tree.levels);
    plan_buffer mine = contribution(b, PLAN_OUT, chunks);
    for (unsigned k = 0; k < tree.levels; k++) {
        start_round(b, k);
        if (!tree.level[k].joins)
            continue;
        reduce_level(b, &tree, &tree.level[k], mine);
        mine = PLAN_OUT;
    }
    start_round(b, tree.levels);
    scale_owned(b, &tree);
    for (unsigned k = tree.levels; k-- > 0;) {
        start_round(b, 2 * tree.levels - 1 - k);
        if (tree.level[k].joins)
            return_level(b, &tree, &tree.level[k]);
    }
    blocks_free(&tree);
    return NULL;
}
