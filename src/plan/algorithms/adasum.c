/* adasum.c: allreduce by projection, with vector halving and distance doubling.
 *
 * The tree is blocks.h's. At each level the two blocks of a join lay their chunks side by side: each
 * chunk's new owner fetches the other part and adds to its dot products (DOT); then all ranks of the
 * joined block sum these (WEIGH). The vectors themselves are combined at the beginning of the next
 * level (COMBINE), in the same walk over the data.
 * Invariants: the tree never depends on the layout. Between levels, a rank's vector is either its
 * input (raw) or two parts that wait for COMBINE (pending), for exactly the chunks it owns.
 */
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/blocks.h"

typedef struct adasum {
    builder *b;
    blocks tree;
    unsigned local_levels;           /* levels whose blocks lie on one host: by slots */
    const blocks_level *pending;     /* the join that waits for COMBINE; NULL: raw */
    plan_buffer lower, upper;        /* where the two parts of a pending chunk are */
    bool started;                    /* sums of this level have been set to 0 */
} adasum;

/* ---- Parts of a level ------------------------------------------------------------------------ */

static void combine(adasum *s, plan_operand dst, uint32_t c)
{
    builder_combine(s->b, dst, own(s->b, s->lower, c), own(s->b, s->upper, c));
}

/* dst ← this rank's vector in chunk c, be it raw or pending. */
static void bring(adasum *s, plan_operand dst, uint32_t c)
{
    if (s->pending)
        combine(s, dst, c);
    else
        builder_copy(s->b, dst, own(s->b, PLAN_IN, c), PLAN_PRESCALE);
}

/* Where this rank keeps its own part of a chunk while it is joined, and where the fetched part. */
static plan_buffer kept_in(const adasum *s)
{
    if (s->pending)
        return PLAN_WORK;
    return s->b->plan->layout.prescaled ? PLAN_OUT : PLAN_IN;
}

static plan_buffer fetched_into(const adasum *s)
{
    return s->pending ? PLAN_OUT : PLAN_WORK;
}

/* Brings chunk c to where it is kept; raw input that needs no scaling is there already. */
static void keep(adasum *s, uint32_t c)
{
    if (kept_in(s) != PLAN_IN)
        bring(s, own(s->b, kept_in(s), c), c);
}

/* The dot products of chunk c, between this rank's part and the other one. */
static void dot(adasum *s, const blocks_level *level, plan_operand dst, plan_operand mine,
                plan_operand theirs)
{
    unsigned parity = (unsigned)(level - s->tree.level) & 1;
    unsigned flags = (parity ? PLAN_SUMS_ODD : 0) | (s->started ? 0 : PLAN_SUMS_START);
    s->started = true;
    if (level->lower)
        builder_dot(s->b, dst, mine, theirs, flags);
    else
        builder_dot(s->b, dst, theirs, mine, flags);
}

static void now_pending(adasum *s, const blocks_level *level)
{
    plan_buffer mine = kept_in(s), theirs = fetched_into(s);
    s->lower = level->lower ? mine : theirs;
    s->upper = level->lower ? theirs : mine;
    s->pending = level;
}

/* Sums the dot products over the joined block. A block that passes only makes sure that its ranks
 * are done with each other's sums, since the next level may use them again. */
static void weigh(adasum *s, const blocks_level *level)
{
    if (level->joins)
        builder_weigh(s->b, level->first, level->middle, level->end,
                      (unsigned)(level - s->tree.level) & 1);
    else
        builder_meet_here(s->b, level->first, level->end);
}

/* ---- Levels by slots ------------------------------------------------------------------------- */

static void give_by_slots(adasum *s, const blocks_level *level)
{
    for (uint32_t c = 0; c < s->tree.chunks; c++) {
        if (!blocks_gives(&s->tree, level, c))
            continue;
        builder_read_by(s->b, level->owner[c]);
        bring(s, own(s->b, PLAN_SLOT, level->cell[c]), c);
    }
}

static void take_by_slots(adasum *s, const blocks_level *level)
{
    for (uint32_t c = 0; c < s->tree.chunks; c++) {
        if (!blocks_owns(&s->tree, level, c))
            continue;
        keep(s, c);
        dot(s, level, own(s->b, fetched_into(s), c), own(s->b, kept_in(s), c),
            at(PLAN_SLOT, blocks_giver(level, c), level->cell[c]));
    }
}

static void level_by_slots(adasum *s, const blocks_level *level)
{
    builder_loop(s->b, 2, level->most_given);
    s->started = false;
    if (level->joins) {
        give_by_slots(s, level);
        builder_stage(s->b, 1);
        take_by_slots(s, level);
        now_pending(s, level);
    }
    builder_once(s->b, true);
    weigh(s, level);
}

/* Everybody lays out the chunks it owns after `level` in slots and fetches the others'. */
static void share_by_slots(adasum *s, const blocks_level *level, unsigned cells, bool combines)
{
    builder *b = s->b;
    unsigned cell = 0, seen[PLAN_MAX_RANKS] = {0};
    builder_loop(b, 2, cells);
    for (uint32_t c = 0; c < s->tree.chunks; c++) {
        if (!blocks_owns(&s->tree, level, c))
            continue;
        if (combines) {
            combine(s, own(b, PLAN_OUT, c), c);
            builder_copy(b, own(b, PLAN_OUT, c), own(b, PLAN_OUT, c), PLAN_POSTSCALE);
        }
        builder_copy(b, own(b, PLAN_SLOT, cell++), own(b, PLAN_OUT, c), 0);
    }
    builder_stage(b, 1);
    for (uint32_t c = 0; c < s->tree.chunks; c++) {
        unsigned owner = level->owner[c], index = seen[owner]++;
        if (owner != b->rank)
            builder_copy(b, own(b, PLAN_OUT, c), at(PLAN_SLOT, owner, index), 0);
    }
}

static void staged(adasum *s)
{
    for (unsigned k = 0; k < s->tree.levels; k++)
        level_by_slots(s, &s->tree.level[k]);
    share_by_slots(s, &s->tree.level[s->tree.levels - 1], s->tree.most_owned, true);
}

/* ---- Levels in the callers' own memory ------------------------------------------------------- */

/* The part of chunk c that one of the two blocks of a join has: a single rank's input, or what the
 * owner in the block has combined into its output. */
static plan_operand part_of(const blocks_level *level, uint32_t c, bool lower)
{
    unsigned size = lower ? level->middle - level->first : level->end - level->middle;
    unsigned owner = lower ? level->lower_owner[c] : level->upper_owner[c];
    return at(size == 1 ? PLAN_IN : PLAN_OUT, owner, c);
}

static void combine_mapped(adasum *s, uint32_t c)
{
    builder_combine(s->b, own(s->b, PLAN_OUT, c), part_of(s->pending, c, true),
                    part_of(s->pending, c, false));
}

static void level_mapped(adasum *s, const blocks_level *level)
{
    builder_loop(s->b, 2, 0);
    s->started = false;
    for (uint32_t c = 0; level->joins && s->pending && c < s->tree.chunks; c++)
        if (blocks_owns(&s->tree, s->pending, c))
            combine_mapped(s, c);
    builder_stage(s->b, 1);
    for (uint32_t c = 0; level->joins && c < s->tree.chunks; c++)
        if (blocks_owns(&s->tree, level, c))
            dot(s, level, nothing(), part_of(level, c, level->lower),
                part_of(level, c, !level->lower));
    if (level->joins)
        s->pending = level;
    builder_once(s->b, true);
    weigh(s, level);
}

static void mapped(adasum *s)
{
    builder *b = s->b;
    const blocks_level *last = &s->tree.level[s->tree.levels - 1];
    builder_once(b, true);
    builder_meet(b, 0, b->ranks);
    for (unsigned k = 0; k < s->tree.levels; k++)
        level_mapped(s, &s->tree.level[k]);
    builder_loop(b, 2, 0);
    for (uint32_t c = 0; c < s->tree.chunks; c++) {
        if (!blocks_owns(&s->tree, last, c))
            continue;
        combine_mapped(s, c);
        builder_copy(b, own(b, PLAN_OUT, c), own(b, PLAN_OUT, c), PLAN_POSTSCALE);
    }
    builder_stage(b, 1);
    for (uint32_t c = 0; c < s->tree.chunks; c++)
        if (!blocks_owns(&s->tree, last, c))
            builder_copy(b, own(b, PLAN_OUT, c), at(PLAN_OUT, last->owner[c], c), 0);
    builder_meet(b, 0, b->ranks);
}

/* ---- Entry ----------------------------------------------------------------------------------- */

const char *adasum_allreduce(builder *b)
{
    const plan_layout *layout = &b->plan->layout;
    adasum s = {.b = b};
    uint32_t chunks = blocks_chunks(b->ranks);
    if (!blocks_make(&s.tree, b->ranks, b->rank, chunks))
        return "out of memory";
    builder_chunks(b, chunks);
    if (layout->mapped && !layout->prescaled)
        mapped(&s);
    else
        staged(&s);
    blocks_free(&s.tree);
    return NULL;
}
