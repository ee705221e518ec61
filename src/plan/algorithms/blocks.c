/* blocks.c: see blocks.h. */
#include "plan/algorithms/blocks.h"

#include <stdlib.h>
#include <string.h>

static bool is_power_of_two(unsigned n)
{
    return (n & (n - 1)) == 0;
}

uint32_t blocks_chunks(unsigned ranks)
{
    uint32_t power = 1;
    while (power < ranks)
        power *= 2;
    return is_power_of_two(ranks) ? ranks : 4 * power;
}

unsigned blocks_giver(const blocks_level *level, uint32_t c)
{
    return level->owner[c] == level->lower_owner[c] ? level->upper_owner[c] : level->lower_owner[c];
}

bool blocks_owned(const blocks *tree, const blocks_level *level, uint32_t c)
{
    return (level->lower ? level->lower_owner[c] : level->upper_owner[c]) == tree->rank;
}

bool blocks_owns(const blocks *tree, const blocks_level *level, uint32_t c)
{
    return level->owner[c] == tree->rank;
}

bool blocks_gives(const blocks *tree, const blocks_level *level, uint32_t c)
{
    return blocks_owned(tree, level, c) && !blocks_owns(tree, level, c);
}

/* ---- Choosing owners ------------------------------------------------------------------------- */

static void clear(uint16_t *count, unsigned first, unsigned end)
{
    for (unsigned q = first; q < end; q++)
        count[q] = 0;
}

/* Two full blocks: halves, by one bit of the chunk's number. */
static void choose_halves(blocks_level *join, uint32_t chunks)
{
    unsigned half = join->middle - join->first;
    for (uint32_t c = 0; c < chunks; c++)
        join->owner[c] = c & half ? join->upper_owner[c] : join->lower_owner[c];
}

/* Gives chunks to the less loaded owner until no single change would even out more. */
static void choose_by_load(blocks_level *join, uint32_t chunks, uint16_t *load)
{
    bool changed = true;
    clear(load, join->first, join->end);
    for (uint32_t c = 0; c < chunks; c++) {
        unsigned lower = join->lower_owner[c], upper = join->upper_owner[c];
        join->owner[c] = (uint16_t)(load[lower] <= load[upper] ? lower : upper);
        load[join->owner[c]]++;
    }
    while (changed) {
        changed = false;
        for (uint32_t c = 0; c < chunks; c++) {
            unsigned giver = blocks_giver(join, c);
            if (load[join->owner[c]] <= load[giver] + 1)
                continue;
            load[join->owner[c]]--;
            load[giver]++;
            join->owner[c] = (uint16_t)giver;
            changed = true;
        }
    }
}

/* Numbers what each rank gives; returns the largest count. */
static uint16_t number_given(blocks_level *join, uint32_t chunks, uint16_t *given)
{
    uint16_t most = 0;
    clear(given, join->first, join->end);
    for (uint32_t c = 0; c < chunks; c++) {
        unsigned giver = blocks_giver(join, c);
        join->cell[c] = given[giver]++;
        most = given[giver] > most ? given[giver] : most;
    }
    return most;
}

static uint16_t count_owned(const blocks_level *join, const uint16_t *owner, uint32_t chunks,
                            uint16_t *owned)
{
    uint16_t most = 0;
    clear(owned, join->first, join->end);
    for (uint32_t c = 0; c < chunks; c++) {
        owned[owner[c]]++;
        most = owned[owner[c]] > most ? owned[owner[c]] : most;
    }
    return most;
}

/* ---- The tree -------------------------------------------------------------------------------- */

/* What a join needs beside its level; shared by all joins of the recursion. */
typedef struct joiner {
    blocks *tree;
    uint16_t *count; /* per rank */
    uint16_t *spare; /* four arrays per level, for joins that this rank takes no part in */
} joiner;

static void place(blocks_level *join, uint16_t *room, uint32_t chunks)
{
    join->lower_owner = room;
    join->upper_owner = room + chunks;
    join->owner = room + 2 * (size_t)chunks;
    join->cell = room + 3 * (size_t)chunks;
}

static void join_blocks(joiner *j, unsigned levels, unsigned first, uint16_t *owner);

/* Two blocks become one: finds both sides' owners, then those of the joined block. */
static void join_pair(joiner *j, unsigned k, blocks_level *join, uint16_t *owner)
{
    uint32_t chunks = j->tree->chunks;
    unsigned lower = (unsigned)(join->middle - join->first);
    unsigned upper = (unsigned)(join->end - join->middle);
    join_blocks(j, k, join->first, join->lower_owner);
    join_blocks(j, k, join->middle, join->upper_owner);
    if (lower == upper && chunks % (lower + upper) == 0)
        choose_halves(join, chunks);
    else
        choose_by_load(join, chunks, j->count);
    uint16_t given = number_given(join, chunks, j->count);
    if (given > j->tree->level[k].most_given)
        j->tree->level[k].most_given = given;
    memcpy(owner, join->owner, chunks * sizeof *owner);
}

/* Finds the owners of the block [first, first + 2^levels) and copies them to `owner`. */
static void join_blocks(joiner *j, unsigned levels, unsigned first, uint16_t *owner)
{
    blocks *tree = j->tree;
    if (levels == 0) {
        for (uint32_t c = 0; c < tree->chunks; c++)
            owner[c] = (uint16_t)first;
        return;
    }
    unsigned k = levels - 1, middle = first + (1u << k), end = first + (2u << k);
    end = end < tree->ranks ? end : tree->ranks;
    bool here = tree->rank >= first && tree->rank < end;
    blocks_level other, *join = here ? &tree->level[k] : &other;
    join->joins = middle < tree->ranks;
    join->lower = tree->rank < middle;
    join->first = (uint16_t)first;
    join->middle = (uint16_t)middle;
    join->end = (uint16_t)end;
    place(join, (here ? tree->room : j->spare) + 4 * (size_t)tree->chunks * k, tree->chunks);
    if (join->joins)
        join_pair(j, k, join, owner);
    else
        join_blocks(j, k, first, owner);
    uint16_t owned = count_owned(join, owner, tree->chunks, j->count);
    if (owned > tree->level[k].most_owned)
        tree->level[k].most_owned = owned;
}

bool blocks_make(blocks *tree, unsigned ranks, unsigned rank, uint32_t chunks)
{
    *tree = (blocks){.ranks = (uint16_t)ranks, .rank = (uint16_t)rank, .chunks = chunks};
    while ((1u << tree->levels) < ranks)
        tree->levels++;
    size_t room = 4 * (size_t)chunks * tree->levels;
    joiner j = {.tree = tree};
    tree->room = calloc(room, sizeof *tree->room);
    j.spare = calloc(room + chunks, sizeof *j.spare);
    j.count = calloc(ranks, sizeof *j.count);
    bool done = tree->room && j.spare && j.count;
    if (done)
        join_blocks(&j, tree->levels, 0, j.spare + room);
    free(j.spare);
    free(j.count);
    if (!done)
        blocks_free(tree);
    return done;
}

void blocks_free(blocks *tree)
{
    free(tree->room);
    tree->room = NULL;
}
