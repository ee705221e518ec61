/* blocks.h: the binary tree over ranks, and who owns which chunk as blocks of ranks join.
 *
 * Level k joins the blocks [j·2^k, (j+1)·2^k) pairwise. Before level 0 each rank is a block and owns
 * all chunks. When two blocks join, each chunk has two owners, one in either; one of them becomes
 * the owner in the joined block, the other gives its part away.
 * Invariant: a pure function of (ranks, chunks), so that all ranks see the same owners; the ranks of
 * a block own about the same number of chunks.
 */
#ifndef RUEDA_PLAN_BLOCKS_H
#define RUEDA_PLAN_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCKS_MAX_LEVELS 12 /* of PLAN_MAX_RANKS ranks */

/* A level as one rank sees it. */
typedef struct blocks_level {
    bool joins;            /* false: this rank's block passes unchanged; there are no owners */
    uint16_t first, end;   /* the block after the level */
    uint16_t middle;       /* where the upper of the two blocks starts */
    bool lower;            /* this rank is in the lower one */
    uint16_t most_given;   /* largest number of chunks any rank of the plan gives away, */
    uint16_t most_owned;   /* and owns afterwards */
    uint16_t *lower_owner; /* per chunk: its owner in the lower block */
    uint16_t *upper_owner; /* and in the upper one */
    uint16_t *owner;       /* and in the joined block: one of the two */
    uint16_t *cell;        /* per chunk: its number among those its giver gives */
} blocks_level;

typedef struct blocks {
    uint16_t ranks, rank;
    uint32_t chunks;
    unsigned levels;
    blocks_level level[BLOCKS_MAX_LEVELS];
    uint16_t *room; /* the arrays of all levels */
} blocks;

/* The number of chunks at which the owners come out even enough for so many ranks. */
uint32_t blocks_chunks(unsigned ranks);

/* Fills *tree for one rank. false: no memory. */
bool blocks_make(blocks *tree, unsigned ranks, unsigned rank, uint32_t chunks);
void blocks_free(blocks *tree);

/* This rank's half of a level: whether it owned, owns, gives chunk c. */
bool blocks_owned(const blocks *tree, const blocks_level *level, uint32_t c);
bool blocks_owns(const blocks *tree, const blocks_level *level, uint32_t c);
bool blocks_gives(const blocks *tree, const blocks_level *level, uint32_t c);
/* Who gives chunk c away at a level. */
unsigned blocks_giver(const blocks_level *level, uint32_t c);

#endif
