/* verify_step.c: what each kind of step does to symbols.
 *
 * A wrong value does not stop the run: it becomes "undefined" and shows in the data check, unless a
 * race turns out to be its cause. */
#include "plan/verify.h"

#include <string.h>

static void wrong_data(verifier *v, const actor *x, const char *text)
{
    verify_fail(v, PLAN_CHECK_DATA, x->plan->layout.rank, x->step, "%s", text);
}

/* ---- Extents --------------------------------------------------------------------------------- */

static uint32_t extent_of_memory(const verifier *v, const plan_operand *o)
{
    return v->first->needs_equal_parts ? 0 : plan_extent(v->first, o);
}

static uint32_t extent_of_value(const verifier *v, const value *val)
{
    const shape_node *node = &v->shapes.nodes[val->shape];
    uint32_t rank = node->kind == SHAPE_LEAF ? node->x : UINT32_MAX;
    if (v->first->needs_equal_parts)
        return 0;
    switch (v->first->collective) {
    case PLAN_ALLGATHER:
    case PLAN_GATHER:
        return rank;
    case PLAN_ALLTOALL:
        return rank * v->ranks + val->chunk;
    default:
        return val->chunk;
    }
}

bool verify_same_extent(const verifier *v, const transfer *from, const transfer *to)
{
    const plan_operand *a = &from->step->a, *dst = &to->step->dst;
    bool special = a->buffer == PLAN_NONE || a->buffer == PLAN_SUMS || a->buffer == PLAN_SLOT;
    if (from->phase != to->phase || from->piece != to->piece)
        return false;
    if (special || dst->buffer == PLAN_NONE || dst->buffer == PLAN_SUMS || dst->buffer == PLAN_SLOT)
        return a->buffer == dst->buffer && a->index == dst->index;
    return extent_of_memory(v, a) == extent_of_memory(v, dst);
}

static bool is_slot_or_none(const plan_operand *o)
{
    return o->buffer == PLAN_SLOT || o->buffer == PLAN_NONE;
}

/* A step that names slots only is as long as the IN chunk that dst.index stands for. */
static bool has_length_of(const verifier *v, const actor *x, const plan_step *step,
                          const value *val)
{
    if (!is_slot_or_none(&step->dst) || !is_slot_or_none(&step->a) || !is_slot_or_none(&step->b))
        return true;
    plan_operand chunk = {
        .buffer = PLAN_IN, .rank = x->plan->layout.rank, .index = step->dst.index};
    return chunk.index < v->in_chunks && extent_of_memory(v, &chunk) == extent_of_value(v, val);
}

/* ---- Reading and writing --------------------------------------------------------------------- */

static value peek(verifier *v, const actor *x, const plan_operand *operand, uint32_t piece)
{
    value val = verify_find(v, x, operand, piece).cell->value;
    if (val.shape && operand->buffer == PLAN_SLOT &&
        (val.piece != piece || val.phase != x->phase)) {
        wrong_data(v, x, "reads a slot that holds another piece");
        val.shape = 0;
    } else if (!val.shape) {
        wrong_data(v, x, "reads memory that nobody has written");
    }
    return val;
}

static void poke(verifier *v, const actor *x, const plan_operand *operand, uint32_t piece,
                 value val)
{
    bool sized = operand->buffer != PLAN_SLOT && val.shape;
    if (sized && extent_of_value(v, &val) != extent_of_memory(v, operand)) {
        wrong_data(v, x, "writes a chunk of another length");
        val.shape = 0;
    }
    val.phase = x->phase;
    verify_find(v, x, operand, piece).cell->value = val;
}

/* A peer's IN and OUT are found by what it has told. */
static void look_up(verifier *v, actor *x, const plan_operand *operand)
{
    if (operand->rank == x->plan->layout.rank || operand->buffer > PLAN_OUT)
        return;
    place told = verify_find_address(v, x, operand);
    verify_access(v, x, told, false);
    if (!told.cell->value.shape)
        wrong_data(v, x, "reaches memory whose address nobody has told");
}

static value read_value(verifier *v, actor *x, const plan_operand *operand, uint32_t piece)
{
    look_up(v, x, operand);
    verify_access(v, x, verify_find(v, x, operand, piece), false);
    return peek(v, x, operand, piece);
}

static void write_result(verifier *v, actor *x, const plan_step *step, uint32_t piece, value val)
{
    look_up(v, x, &step->dst);
    verify_access(v, x, verify_find(v, x, &step->dst, piece), true);
    if (val.shape && !has_length_of(v, x, step, &val)) {
        wrong_data(v, x, "a cell stands for a chunk of another length");
        val.shape = 0;
    }
    poke(v, x, &step->dst, piece, val);
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

static value join(verifier *v, const actor *x, shape_kind kind, value a, value b)
{
    if (a.shape && b.shape && (a.chunk != b.chunk || a.piece != b.piece)) {
        wrong_data(v, x, "combines different chunks");
        a.shape = 0;
    }
    a.shape = shape_of(&v->shapes, kind, a.shape, b.shape);
    return a;
}

/* In place, a COPY without a factor goes from a piece of memory to itself: nothing is touched. */
static bool is_idle_copy(verifier *v, const actor *x, const plan_step *step, uint32_t piece)
{
    unsigned factors = step->flags & (v->first->layout.prescaled ? PLAN_PRESCALE : 0);
    return !factors && !(step->flags & PLAN_POSTSCALE) &&
           verify_find(v, x, &step->a, piece).cell == verify_find(v, x, &step->dst, piece).cell;
}

static void copy(verifier *v, actor *x, const plan_step *step, uint32_t piece)
{
    if (is_idle_copy(v, x, step, piece))
        return;
    value val = read_value(v, x, &step->a, piece);
    if (step->flags & PLAN_PRESCALE && v->first->layout.prescaled)
        val.shape = shape_of(&v->shapes, SHAPE_PRE, val.shape, 0);
    if (step->flags & PLAN_POSTSCALE)
        val.shape = shape_of(&v->shapes, SHAPE_POST, val.shape, 0);
    write_result(v, x, step, piece, val);
}

static void reduce(verifier *v, actor *x, const plan_step *step, uint32_t piece)
{
    value a = read_value(v, x, &step->a, piece), b = read_value(v, x, &step->b, piece);
    write_result(v, x, step, piece, join(v, x, SHAPE_REDUCED, a, b));
}

void verify_deliver(verifier *v, const transfer *from, const transfer *to, uint32_t piece)
{
    const actor *sender = &v->actors[from->rank], *receiver = &v->actors[to->rank];
    const plan_step *step = to->step;
    value val = peek(v, sender, &from->step->a, piece);
    if (step->kind == PLAN_RECV_REDUCE)
        val = join(v, receiver, SHAPE_REDUCED, peek(v, receiver, &step->a, piece), val);
    poke(v, receiver, &step->dst, piece, val);
}

/* What the transport gives for a piece: all ranks' values joined in one order, or the root's. */
static value collected(verifier *v, uint32_t piece)
{
    const plan_layout *layout = &v->first->layout;
    const bool is_broadcast = v->first->collective == PLAN_BROADCAST;
    const unsigned giver = is_broadcast ? layout->root : 0;
    value sum = peek(v, &v->actors[giver], &v->actors[giver].collective->a, piece);
    for (unsigned r = 1; r < v->ranks && !is_broadcast; r++)
        sum = join(v, &v->actors[r], SHAPE_REDUCED, sum,
                   peek(v, &v->actors[r], &v->actors[r].collective->a, piece));
    return sum;
}

void verify_collect(verifier *v)
{
    for (uint32_t piece = 0; piece < v->pieces; piece++) {
        const value result = collected(v, piece);
        for (unsigned r = 0; r < v->ranks; r++)
            poke(v, &v->actors[r], &v->actors[r].collective->dst, piece, result);
    }
}

/* ---- Adasum ---------------------------------------------------------------------------------- */

/* Marks (chunk, piece) as covered; false when it was. */
static bool cover(const verifier *v, sums *s, const value *val)
{
    size_t bit = (size_t)val->chunk * v->pieces + val->piece;
    uint64_t mask = (uint64_t)1 << (bit % 64);
    bool fresh = !(s->covered[bit / 64] & mask);
    s->covered[bit / 64] |= mask;
    return fresh;
}

static void start_sums(verifier *v, actor *x, const plan_step *step)
{
    sums *s = &x->own_sums[step->dst.index];
    verify_access(v, x, verify_find(v, x, &step->dst, 0), true);
    *s = (sums){.started = true, .counted = x->counted, .covered = s->covered};
    memset(s->covered, 0, v->words * sizeof *s->covered);
}

static void dot(verifier *v, actor *x, const plan_step *step, uint32_t piece)
{
    unsigned parity = step->flags & PLAN_SUMS_ODD ? 1 : 0, self = x->plan->layout.rank;
    plan_operand memory = {.buffer = PLAN_SUMS, .rank = (uint16_t)self, .index = parity};
    sums *s = &x->own_sums[parity];
    value a = read_value(v, x, &step->a, piece), b = read_value(v, x, &step->b, piece);
    verify_access(v, x, verify_find(v, x, &memory, 0), true);
    if (!s->lower && !s->upper) { /* the first of the level says which vectors they are of */
        s->lower = a.shape;
        s->upper = b.shape;
    }
    bool fits = s->started && a.shape && b.shape && a.shape == s->lower && b.shape == s->upper &&
                a.chunk == b.chunk && a.piece == b.piece;
    if (!fits || !cover(v, s, &a)) {
        s->broken = true;
        wrong_data(v, x, "adds to sums of something else, or twice");
    }
    if (step->dst.buffer != PLAN_NONE)
        write_result(v, x, step, piece, step->a.rank == self ? b : a);
}

static const sums *read_sums(verifier *v, actor *x, unsigned rank, uint32_t parity)
{
    plan_operand memory = {.buffer = PLAN_SUMS, .rank = (uint16_t)rank, .index = parity};
    place where = verify_find(v, x, &memory, 0);
    verify_access(v, x, where, false);
    return &v->mirrors[where.cell - v->sum_cells];
}

/* Whether the sums of the block are all of the same two vectors, and cover every piece of every chunk
 * exactly once. */
static bool weighs_all(verifier *v, actor *x, const plan_step *step)
{
    unsigned first = step->a.rank, end = first + step->ranks;
    size_t bits = (size_t)v->in_chunks * v->pieces, counted = 0;
    bool good = true;
    x->lower = read_sums(v, x, first, step->a.index)->lower;
    x->upper = read_sums(v, x, first, step->a.index)->upper;
    memset(v->scratch_bits, 0, v->words * sizeof *v->scratch_bits);
    for (unsigned q = first; q < end; q++) {
        const sums *s = read_sums(v, x, q, step->a.index);
        good = good && s->started && !s->broken && s->lower == x->lower && s->upper == x->upper;
        for (size_t w = 0; w < v->words; w++) {
            good = good && !(v->scratch_bits[w] & s->covered[w]);
            v->scratch_bits[w] |= s->covered[w];
        }
    }
    for (size_t w = 0; w < v->words; w++)
        counted += (size_t)__builtin_popcountll(v->scratch_bits[w]);
    return good && counted == bits;
}

/* What WEIGH takes for the leaves of a vector: those that the block's first rank carries, or, of a block
 * of one rank, the vector itself, if it is a leaf. */
static uint32_t leaves_below(verifier *v, actor *x, plan_operand first, unsigned ranks,
                             uint32_t vector)
{
    if (ranks > 1)
        return read_sums(v, x, first.rank, first.index)->counted;
    uint32_t kind = v->shapes.nodes[vector].kind;
    return kind == SHAPE_LEAF || kind == SHAPE_PRE ? vector : 0;
}

static void weigh(verifier *v, actor *x, const plan_step *step)
{
    unsigned middle = step->b.rank, end = (unsigned)step->a.rank + step->ranks;
    bool good = weighs_all(v, x, step);
    uint32_t lower = leaves_below(v, x, step->a, middle - step->a.rank, x->lower);
    uint32_t upper = leaves_below(v, x, step->b, end - middle, x->upper);
    x->counted = shape_of(&v->shapes, SHAPE_ADASUM, lower, upper);
    if (good && lower == x->lower && upper == x->upper)
        return;
    wrong_data(v, x,
               good ? "the counts are not of all leaves of the two vectors, each once"
                    : "the sums do not cover the two blocks exactly once");
    x->lower = x->upper = 0;
}

static void combine(verifier *v, actor *x, const plan_step *step, uint32_t piece)
{
    value a = read_value(v, x, &step->a, piece), b = read_value(v, x, &step->b, piece);
    if (a.shape && b.shape && (a.shape != x->lower || b.shape != x->upper)) {
        wrong_data(v, x, "the coefficients are not of these vectors");
        a.shape = 0;
    }
    write_result(v, x, step, piece, join(v, x, SHAPE_ADASUM, a, b));
}

/* Tells one address, or none. */
static void tell(verifier *v, actor *x, const plan_operand *operand)
{
    if (operand->buffer == PLAN_NONE)
        return;
    place told = verify_find_address(v, x, operand);
    verify_access(v, x, told, true);
    told.cell->value.shape = 1;
}

void verify_step(verifier *v, actor *x, const plan_step *step, uint32_t piece)
{
    switch ((plan_kind)step->kind) {
    case PLAN_ADDRESSES:
        tell(v, x, &step->a);
        tell(v, x, &step->dst);
        break;
    case PLAN_START_SUMS:
        start_sums(v, x, step);
        break;
    case PLAN_COPY:
        copy(v, x, step, piece);
        break;
    case PLAN_REDUCE:
        reduce(v, x, step, piece);
        break;
    case PLAN_DOT:
        dot(v, x, step, piece);
        break;
    case PLAN_WEIGH:
        weigh(v, x, step);
        break;
    case PLAN_COMBINE:
        combine(v, x, step, piece);
        break;
    default:
        break;
    }
}
