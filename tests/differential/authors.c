/* authors.c: algorithms that nobody would write. What they decide is rolled once for all ranks; the builder
 * adds the edges, as for all others. */
#include "cases.h"

#include "plan/builder.h"

#define MOST_CHUNKS 5

/* What all ranks agree on. */
typedef struct recipe {
    unsigned chunks;
    unsigned order[MOST_CHUNKS > ORACLE_RANKS ? MOST_CHUNKS : ORACLE_RANKS][ORACLE_RANKS];
    unsigned parent[ORACLE_RANKS]
                   [ORACLE_RANKS]; /* place in the order of who gives it to the n-th */
    unsigned flips;                /* bits: operands the other way round */
    plan_collective collective;
    plan_layout layout;
    void (*write)(builder *b, const struct recipe *r);
} recipe;

static unsigned owner_of(const recipe *r, unsigned c)
{
    return r->order[c][0];
}

static void reduce_either_way(builder *b, const recipe *r, unsigned c, plan_operand dst,
                              plan_operand a, plan_operand other)
{
    if (r->flips >> c & 1)
        builder_reduce(b, dst, other, a);
    else
        builder_reduce(b, dst, a, other);
}

/* ---- By slots -------------------------------------------------------------------------------- */

/* Everybody lays out what others own, for all to read. */
static void lay_out_for_owners(builder *b, const recipe *r)
{
    builder_loop(b, 3, r->chunks);
    for (unsigned q = 0; q < b->ranks; q++)
        if (q != b->rank)
            builder_read_by(b, q);
    for (unsigned c = 0; c < r->chunks; c++)
        if (owner_of(r, c) != b->rank)
            builder_copy(b, own(b, PLAN_SLOT, c), own(b, PLAN_IN, c), PLAN_PRESCALE);
    builder_stage(b, 1);
}

/* The owner of a chunk takes it from all others, in any order, and everybody fetches it. */
static void allreduce_by_slots(builder *b, const recipe *r)
{
    lay_out_for_owners(b, r);
    for (unsigned c = 0; c < r->chunks; c++) {
        plan_operand out = own(b, PLAN_OUT, c);
        if (owner_of(r, c) != b->rank)
            continue;
        builder_copy(b, out, own(b, PLAN_IN, c), PLAN_PRESCALE);
        for (unsigned n = 1; n < b->ranks; n++)
            reduce_either_way(b, r, c, out, out, at(PLAN_SLOT, r->order[c][n], c));
        builder_copy(b, out, out, PLAN_POSTSCALE);
        builder_copy(b, own(b, PLAN_SLOT, c), out, 0);
    }
    builder_stage(b, 2);
    for (unsigned c = 0; c < r->chunks; c++)
        if (owner_of(r, c) != b->rank)
            builder_copy(b, own(b, PLAN_OUT, c), at(PLAN_SLOT, owner_of(r, c), c), 0);
}

/* ---- In the callers' memory ------------------------------------------------------------------ */

static void allreduce_mapped(builder *b, const recipe *r)
{
    builder_reached(b, PLAN_IN);
    builder_reached(b, PLAN_OUT);
    builder_once(b, true);
    builder_meet(b, 0, b->ranks);
    builder_loop(b, 1, r->chunks);
    builder_settled(b, true);
    for (unsigned c = 0; c < r->chunks; c++) {
        plan_operand sum = own(b, PLAN_SLOT, c), out = own(b, PLAN_OUT, c);
        if (owner_of(r, c) != b->rank)
            continue;
        builder_copy(b, sum, at(PLAN_IN, r->order[c][b->ranks - 1], c), 0);
        for (unsigned n = 0; n + 1 < b->ranks; n++)
            reduce_either_way(b, r, c, sum, sum, at(PLAN_IN, r->order[c][n], c));
        builder_copy(b, out, sum, PLAN_POSTSCALE);
        for (unsigned n = 1; n < b->ranks; n++)
            builder_copy(b, at(PLAN_OUT, r->order[c][n], c), out, 0);
    }
    builder_meet(b, 0, b->ranks);
}

/* ---- By messages ----------------------------------------------------------------------------- */

/* One hop of chunk c, from the n-th of its order to another one; both ends write it in the same order. */
static void hop(builder *b, const recipe *r, unsigned c, unsigned from, unsigned to, bool reduces)
{
    plan_operand out = own(b, PLAN_OUT, c);
    if (r->order[c][from] == b->rank)
        builder_send(b, r->order[c][to], out);
    else if (r->order[c][to] == b->rank && reduces)
        builder_recv_reduce(b, r->order[c][from], out, out,
                            r->flips >> c & 1 ? PLAN_MESSAGE_FIRST : 0);
    else if (r->order[c][to] == b->rank)
        builder_recv(b, r->order[c][from], out);
}

/* Along a chain to its last rank, which tells all others. */
static void allreduce_by_messages(builder *b, const recipe *r)
{
    const unsigned last = b->ranks - 1;
    builder_loop_messages(b, b->ranks);
    for (unsigned c = 0; c < r->chunks; c++)
        builder_copy(b, own(b, PLAN_OUT, c), own(b, PLAN_IN, c), PLAN_PRESCALE);
    for (unsigned n = 0; n < last; n++) {
        builder_stage(b, n);
        for (unsigned c = 0; c < r->chunks; c++)
            hop(b, r, c, n, n + 1, true);
    }
    builder_stage(b, last);
    for (unsigned c = 0; c < r->chunks; c++)
        if (r->order[c][last] == b->rank)
            builder_copy(b, own(b, PLAN_OUT, c), own(b, PLAN_OUT, c), PLAN_POSTSCALE);
    for (unsigned n = 0; n < last; n++)
        for (unsigned c = 0; c < r->chunks; c++)
            hop(b, r, c, last, n, false);
}

/* Chunk c goes along its tree, from the first of its order. */
static void spread_by_trees(builder *b, const recipe *r)
{
    for (unsigned n = 1; n < b->ranks; n++) {
        builder_stage(b, n - 1);
        for (unsigned c = 0; c < r->chunks; c++)
            hop(b, r, c, r->parent[c][n], n, false);
    }
}

static void broadcast_by_trees(builder *b, const recipe *r)
{
    builder_loop_messages(b, b->ranks - 1);
    for (unsigned c = 0; c < r->chunks; c++)
        if (b->rank == r->layout.root)
            builder_copy(b, own(b, PLAN_OUT, c), own(b, PLAN_IN, c), 0);
    spread_by_trees(b, r);
}

static void allgather_by_trees(builder *b, const recipe *r)
{
    builder_loop_messages(b, b->ranks - 1);
    builder_copy(b, own(b, PLAN_OUT, b->rank), own(b, PLAN_IN, 0), 0);
    spread_by_trees(b, r);
}

/* Row c of the orders says in which order rank c's parts are written, at both ends. */
static void alltoall_in_any_order(builder *b, const recipe *r)
{
    builder_loop_messages(b, 1);
    builder_copy(b, own(b, PLAN_OUT, b->rank), own(b, PLAN_IN, b->rank), 0);
    for (unsigned from = 0; from < b->ranks; from++)
        for (unsigned n = 0; n < b->ranks; n++) {
            const unsigned to = r->order[from][n];
            if (to == from)
                continue;
            if (from == b->rank)
                builder_send(b, to, own(b, PLAN_IN, to));
            else if (to == b->rank)
                builder_recv(b, from, own(b, PLAN_OUT, from));
        }
}

/* ---- To one root ----------------------------------------------------------------------------- */

/* Whoever owns a chunk takes it from all others, in any order, and the root fetches what is not its own. */
static void reduce_by_slots(builder *b, const recipe *r)
{
    const unsigned root = r->layout.root;
    lay_out_for_owners(b, r);
    for (unsigned c = 0; c < r->chunks; c++) {
        plan_operand sum = own(b, b->rank == root ? PLAN_OUT : PLAN_SLOT, c);
        if (owner_of(r, c) != b->rank)
            continue;
        builder_copy(b, sum, own(b, PLAN_IN, c), PLAN_PRESCALE);
        for (unsigned n = 1; n < b->ranks; n++)
            reduce_either_way(b, r, c, sum, sum, at(PLAN_SLOT, r->order[c][n], c));
        builder_copy(b, sum, sum, PLAN_POSTSCALE);
    }
    builder_stage(b, 2);
    for (unsigned c = 0; c < r->chunks; c++)
        if (b->rank == root && owner_of(r, c) != root)
            builder_copy(b, own(b, PLAN_OUT, c), at(PLAN_SLOT, owner_of(r, c), c), 0);
}

/* Each chunk along a chain of its own, which ends at the root. */
static void reduce_by_chains(builder *b, const recipe *r)
{
    const unsigned last = b->ranks - 1;
    const plan_buffer sum = b->rank == r->layout.root ? PLAN_OUT : PLAN_WORK;
    builder_loop_messages(b, b->ranks);
    for (unsigned c = 0; c < r->chunks; c++)
        builder_copy(b, own(b, sum, c), own(b, PLAN_IN, c), PLAN_PRESCALE);
    for (unsigned n = 0; n < last; n++) {
        builder_stage(b, n);
        for (unsigned c = 0; c < r->chunks; c++) {
            const unsigned from = r->order[c][n], to = r->order[c][n + 1];
            if (from == b->rank)
                builder_send(b, to, own(b, sum, c));
            else if (to == b->rank)
                builder_recv_reduce(b, from, own(b, sum, c), own(b, sum, c),
                                    r->flips >> c & 1 ? PLAN_MESSAGE_FIRST : 0);
        }
    }
    builder_stage(b, last);
    for (unsigned c = 0; c < r->chunks && b->rank == r->layout.root; c++)
        builder_copy(b, own(b, PLAN_OUT, c), own(b, PLAN_OUT, c), PLAN_POSTSCALE);
}

/* ---- Recipes --------------------------------------------------------------------------------- */

static const struct style {
    plan_collective collective;
    bool memory, mapped, by_rank;
    void (*write)(builder *b, const recipe *r);
} STYLES[] = {
    {PLAN_ALLREDUCE, true, false, false, allreduce_by_slots},
    {PLAN_ALLREDUCE, true, true, false, allreduce_mapped},
    {PLAN_ALLREDUCE, false, false, false, allreduce_by_messages},
    {PLAN_BROADCAST, false, false, false, broadcast_by_trees},
    {PLAN_ALLGATHER, false, false, true, allgather_by_trees},
    {PLAN_ALLTOALL, false, false, true, alltoall_in_any_order},
    {PLAN_REDUCE_TO_ROOT, true, false, false, reduce_by_slots},
    {PLAN_REDUCE_TO_ROOT, false, false, false, reduce_by_chains},
};
#define STYLES_WITHOUT_ROOT 6 /* the first ones, for seeds that are kept */

static void put_at(unsigned *order, unsigned place, unsigned rank)
{
    unsigned i = 0;
    while (order[i] != rank)
        i++;
    order[i] = order[place];
    order[place] = rank;
}

static recipe roll_recipe(dice *d, const place_of_ranks *place, const struct style *style)
{
    recipe r = {.chunks = style->by_rank ? place->ranks : 1 + roll_dice(d, MOST_CHUNKS),
                .flips = roll_dice(d, 256),
                .collective = style->collective,
                .write = style->write};
    r.layout = (plan_layout){.ranks = (uint16_t)place->ranks,
                             .host_of = place->hosts ? place->host_of : NULL,
                             .root = (uint16_t)roll_dice(d, place->ranks),
                             .mapped = style->mapped,
                             .prescaled = !style->mapped && roll_dice(d, 2)};
    for (unsigned c = 0; c < r.chunks; c++) {
        for (unsigned q = 0; q < place->ranks; q++)
            r.order[c][q] = q;
        shuffle(d, r.order[c], place->ranks);
        for (unsigned n = 1; n < place->ranks; n++)
            r.parent[c][n] = roll_dice(d, n);
        if (style->collective == PLAN_BROADCAST || style->collective == PLAN_ALLGATHER)
            put_at(r.order[c], 0, style->by_rank ? c : r.layout.root);
        if (style->write == reduce_by_chains)
            put_at(r.order[c], place->ranks - 1, r.layout.root);
    }
    return r;
}

bool authors_build(dice *d, const place_of_ranks *place, team *t)
{
    const unsigned styles = d->rooted ? sizeof STYLES / sizeof *STYLES : STYLES_WITHOUT_ROOT;
    const struct style *style = &STYLES[roll_dice(d, styles)];
    if (style->memory && place->hosts)
        return false;
    const recipe r = roll_recipe(d, place, style);
    *t = (team){.ranks = place->ranks};
    for (unsigned q = 0; q < place->ranks; q++) {
        plan_layout layout = r.layout;
        layout.rank = (uint16_t)q;
        builder *b = builder_start(r.collective, PLAN_ALGORITHM_AUTO, &layout);
        if (b != NULL) {
            builder_chunks(b, r.chunks);
            r.write(b, &r);
            t->plans[q] = builder_finish(b);
        }
        if (t->plans[q] == NULL) {
            team_free(t);
            return false;
        }
    }
    return true;
}
