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
    const blocks_level *pending; /* the join that waits for COMBINE; NULL: raw */
    plan_buffer lower, upper;    /* where the two parts of a pending chunk are */
    bool shares;                 /* some ranks are on the same host and read each other's sums */
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
    unsigned flags = parity ? PLAN_SUMS_ODD : 0;
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

/* The sums of the level after `level`, if this rank's block is joined there. `level` NULL: the first. */
static void start_sums(adasum *s, const blocks_level *level)
{
    const blocks_level *next = level ? level + 1 : s->tree.level;
    unsigned number = (unsigned)(next - s->tree.level);
    if (number < s->tree.levels && next->joins)
        builder_start_sums(s->b, number & 1);
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
    start_sums(s, level);
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
    if (level->joins) {
        give_by_slots(s, level);
        builder_stage(s->b, 1);
        take_by_slots(s, level);
        now_pending(s, level);
    }
    builder_once(s->b, true);
    weigh(s, level);
}

/* OUT ← the result in chunk c, which this rank owns after the last level. */
static void finish(adasum *s, uint32_t c)
{
    plan_operand out = own(s->b, PLAN_OUT, c);
    combine(s, out, c);
    builder_copy(s->b, out, out, PLAN_POSTSCALE);
}

/* Everybody lays out the chunks it owns after `level` in slots and fetches the others': two stages. */
static void share_by_slots(adasum *s, const blocks_level *level, unsigned stage, bool finishes)
{
    builder *b = s->b;
    unsigned cell[PLAN_MAX_RANKS] = {0};
    builder_stage(b, stage);
    for (uint32_t c = 0; c < s->tree.chunks; c++) {
        if (!blocks_owns(&s->tree, level, c))
            continue;
        if (finishes)
            finish(s, c);
        builder_copy(b, own(b, PLAN_SLOT, cell[b->rank]++), own(b, PLAN_OUT, c), 0);
    }
    builder_stage(b, stage + 1);
    for (uint32_t c = 0; c < s->tree.chunks; c++) {
        unsigned owner = level->owner[c];
        if (owner != b->rank)
            builder_copy(b, own(b, PLAN_OUT, c), at(PLAN_SLOT, owner, cell[owner]++), 0);
    }
}

static void staged(adasum *s)
{
    for (unsigned k = 0; k < s->tree.levels; k++)
        level_by_slots(s, &s->tree.level[k]);
    const blocks_level *last = &s->tree.level[s->tree.levels - 1];
    builder_loop(s->b, 2, last->most_owned);
    share_by_slots(s, last, 0, true);
}

/* ---- Levels by messages ---------------------------------------------------------------------- */

/* Only the ranks of a host reach each other's sums; to the others they are sent. */
static void exchange_sums(adasum *s, const blocks_level *level)
{
    unsigned parity = (unsigned)(level - s->tree.level) & 1;
    for (unsigned q = level->first; level->joins && q < level->end; q++) {
        if (builder_same_host(s->b, q))
            continue;
        builder_send(s->b, q, own(s->b, PLAN_SUMS, parity));
        builder_recv(s->b, q, at(PLAN_SUMS, q, parity));
    }
}

static void exchange_chunk(adasum *s, const blocks_level *level, uint32_t c)
{
    keep(s, c);
    if (blocks_gives(&s->tree, level, c))
        builder_send(s->b, level->owner[c], own(s->b, kept_in(s), c));
    else
        builder_recv(s->b, blocks_giver(level, c), own(s->b, fetched_into(s), c));
}

static void level_by_messages(adasum *s, const blocks_level *level)
{
    if (s->shares)
        builder_loop(s->b, 2, 0);
    else
        builder_loop_messages(s->b, 2);
    for (uint32_t c = 0; level->joins && c < s->tree.chunks; c++)
        if (blocks_owned(&s->tree, level, c))
            exchange_chunk(s, level, c);
    builder_stage(s->b, 1);
    for (uint32_t c = 0; level->joins && c < s->tree.chunks; c++)
        if (blocks_owns(&s->tree, level, c))
            dot(s, level, nothing(), own(s->b, kept_in(s), c), own(s->b, fetched_into(s), c));
    if (level->joins)
        now_pending(s, level);
    builder_once(s->b, s->shares);
    exchange_sums(s, level);
    weigh(s, level);
}

/* The way back: what an owner got from its giver it returns as the result. */
static void return_by_messages(adasum *s, const blocks_level *level)
{
    for (uint32_t c = 0; c < s->tree.chunks; c++)
        if (!blocks_owned(&s->tree, level, c))
            continue;
        else if (blocks_gives(&s->tree, level, c))
            builder_recv(s->b, level->owner[c], own(s->b, PLAN_OUT, c));
        else
            builder_send(s->b, blocks_giver(level, c), own(s->b, PLAN_OUT, c));
}

/* The ranks of a block of 2^levels, on one host, share what came back to each of them. */
static void share_in_block(adasum *s, unsigned levels, unsigned stage)
{
    while (levels > 0 && !s->tree.level[levels - 1].joins)
        levels--;
    if (levels > 0)
        share_by_slots(s, &s->tree.level[levels - 1], stage, false);
}

/* Finished chunks go back the way they came, in as many stages as there were levels of messages. */
static void return_all(adasum *s, unsigned local_levels)
{
    unsigned levels = s->tree.levels;
    for (uint32_t c = 0; c < s->tree.chunks; c++)
        if (blocks_owns(&s->tree, &s->tree.level[levels - 1], c))
            finish(s, c);
    for (unsigned k = levels; k-- > local_levels;) {
        start_round(s->b, levels - 1 - k);
        if (s->tree.level[k].joins)
            return_by_messages(s, &s->tree.level[k]);
    }
}

static void across_hosts(adasum *s, unsigned local_levels)
{
    unsigned rounds = s->tree.levels - local_levels;
    for (unsigned k = 0; k < s->tree.levels; k++)
        if (k < local_levels)
            level_by_slots(s, &s->tree.level[k]);
        else
            level_by_messages(s, &s->tree.level[k]);
    if (local_levels)
        builder_loop(s->b, rounds + 2, s->tree.level[local_levels - 1].most_owned);
    else
        open_rounds(s->b, rounds);
    return_all(s, local_levels);
    if (local_levels)
        share_in_block(s, local_levels, rounds);
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
    bool first = level == s->tree.level;
    builder_loop(s->b, first ? 1 : 2, 0);
    builder_settled(s->b, true);
    for (uint32_t c = 0; level->joins && s->pending && c < s->tree.chunks; c++)
        if (blocks_owns(&s->tree, s->pending, c))
            combine_mapped(s, c);
    builder_stage(s->b, first ? 0 : 1);
    builder_settled(s->b, false);
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
    builder_reached(b, PLAN_IN);
    builder_reached(b, PLAN_OUT);
    builder_once(b, true);
    for (unsigned k = 0; k < s->tree.levels; k++)
        level_mapped(s, &s->tree.level[k]);
    builder_loop(b, 2, 0);
    builder_settled(b, true);
    for (uint32_t c = 0; c < s->tree.chunks; c++) {
        if (!blocks_owns(&s->tree, last, c))
            continue;
        combine_mapped(s, c);
        builder_copy(b, own(b, PLAN_OUT, c), own(b, PLAN_OUT, c), PLAN_POSTSCALE);
    }
    builder_stage(b, 1);
    builder_settled(b, false);
    for (uint32_t c = 0; c < s->tree.chunks; c++)
        if (!blocks_owns(&s->tree, last, c))
            builder_copy(b, own(b, PLAN_OUT, c), at(PLAN_OUT, last->owner[c], c), 0);
    builder_meet(b, 0, b->ranks);
}

/* ---- Entry ----------------------------------------------------------------------------------- */

/* Whether every block of `size` ranks lies on one host. */
static bool blocks_fit_hosts(const uint16_t *host_of, unsigned ranks, unsigned size)
{
    for (unsigned q = 1; q < ranks; q++)
        if (q % size != 0 && host_of[q] != host_of[q - 1])
            return false;
    return true;
}

/* Be it side by side or not. */
static bool some_share_a_host(const uint16_t *host_of, unsigned ranks)
{
    for (unsigned q = 1; q < ranks; q++)
        for (unsigned before = 0; before < q; before++)
            if (host_of[q] == host_of[before])
                return true;
    return false;
}

const char *adasum_across_hosts(builder *b, unsigned block)
{
    adasum s = {.b = b, .shares = some_share_a_host(b->plan->layout.host_of, b->ranks)};
    uint32_t chunks = blocks_chunks(b->ranks);
    unsigned local_levels = 0;
    while ((1u << local_levels) < block)
        local_levels++;
    if (!blocks_make(&s.tree, b->ranks, b->rank, chunks))
        return plan_no_memory;
    builder_chunks(b, chunks);
    start_sums(&s, NULL);
    across_hosts(&s, local_levels);
    blocks_free(&s.tree);
    return NULL;
}

static const char *on_one_host(builder *b)
{
    const plan_layout *layout = &b->plan->layout;
    adasum s = {.b = b};
    uint32_t chunks = blocks_chunks(b->ranks);
    if (!blocks_make(&s.tree, b->ranks, b->rank, chunks))
        return plan_no_memory;
    builder_chunks(b, chunks);
    start_sums(&s, NULL);
    if (layout->mapped && !layout->prescaled)
        mapped(&s);
    else
        staged(&s);
    blocks_free(&s.tree);
    return NULL;
}

const char *adasum_allreduce(builder *b)
{
    const uint16_t *host_of = b->plan->layout.host_of;
    unsigned size = 1;
    if (!host_of || blocks_fit_hosts(host_of, b->ranks, b->ranks))
        return on_one_host(b);
    while (blocks_fit_hosts(host_of, b->ranks, 2 * size))
        size *= 2;
    return adasum_across_hosts(b, size);
}
