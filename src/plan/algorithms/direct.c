/* direct.c: collectives between ranks that reach each other's memory.
 *
 * Everybody takes what it needs straight from its maker: one hop, no relay. Staged forms pass
 * pieces through slots; mapped forms read the callers' memory where it lies.
 * Invariant: reductions go in rank order, whatever the chunk.
 */
#include "plan/algorithms/algorithms.h"

/* The other ranks, beginning with the next one, so that not all read the same rank at once. */
static unsigned nth_peer(const builder *b, unsigned n)
{
    return (b->rank + 1 + n) % b->ranks;
}

static void let_everybody_read(builder *b)
{
    for (unsigned n = 0; n + 1 < b->ranks; n++)
        builder_read_by(b, nth_peer(b, n));
}

/* Callers' memory may be touched by peers only between these two. The loop itself needs no order. Whose
 * memory is reached, and which, says builder_reached. */
static void open_mapped(builder *b, unsigned cells)
{
    builder_once(b, true);
    builder_meet(b, 0, b->ranks);
    builder_loop(b, 1, cells);
    builder_settled(b, true);
}

static void close_mapped(builder *b)
{
    builder_meet(b, 0, b->ranks);
}

/* The same where the root alone reads all others (`root_reads`), or all others read the root alone. Who is
 * read must have told where its memory lies, and gets it back when its readers are done. */
static void wait_for_the_other_side(builder *b, bool waits)
{
    unsigned root = b->plan->layout.root;
    builder_once(b, true);
    if (waits && b->rank == root)
        builder_meet_here(b, 0, b->ranks);
    else if (waits)
        builder_meet_here(b, root, root + 1);
}

static void open_mapped_at_root(builder *b, bool root_reads)
{
    bool is_reader = (b->rank == b->plan->layout.root) == root_reads;
    builder_once(b, true);
    wait_for_the_other_side(b, is_reader);
    builder_loop(b, 1, 0);
    builder_settled(b, true);
}

static void close_mapped_at_root(builder *b, bool root_reads)
{
    wait_for_the_other_side(b, (b->rank == b->plan->layout.root) != root_reads);
}

/* ---- Allreduce ------------------------------------------------------------------------------- */

/* Combines chunk c, of which the peers' parts are in their cells of that number, into `out`. */
static void combine_chunk(builder *b, plan_operand out, unsigned c)
{
    plan_operand cell = own(b, PLAN_SLOT, c), part = own(b, PLAN_IN, c);
    plan_operand scaled = out.buffer == PLAN_SLOT ? own(b, PLAN_WORK, c) : cell;
    if (b->plan->layout.prescaled) {
        builder_copy(b, scaled, part, PLAN_PRESCALE);
        part = scaled;
    }
    builder_reduce_in_order(b, out, part, cell, PLAN_SLOT, c, 0, b->ranks);
    builder_copy(b, out, out, PLAN_POSTSCALE);
}

/* Lays this rank's part of chunk c out for the one who combines it. */
static void lay_out_chunk(builder *b, unsigned c)
{
    builder_copy(b, own(b, PLAN_SLOT, c), own(b, PLAN_IN, c), PLAN_PRESCALE);
}

/* Stages 0 and 1 of a reduction: everybody lays out its part of each peer's chunk, and this rank
 * combines its own chunk into `out`. */
static void reduce_own_chunk(builder *b, plan_operand out)
{
    for (unsigned n = 0; n + 1 < b->ranks; n++)
        lay_out_chunk(b, nth_peer(b, n));
    builder_stage(b, 1);
    combine_chunk(b, out, b->rank);
}

/* Rank r combines chunk r of everybody, in rank order, and everybody fetches it. */
static void allreduce_staged(builder *b)
{
    plan_operand out = own(b, PLAN_OUT, b->rank);
    builder_chunks(b, b->ranks);
    builder_loop(b, 3, b->ranks);
    reduce_own_chunk(b, out);
    builder_copy(b, own(b, PLAN_SLOT, b->rank), out, 0);
    builder_stage(b, 2);
    for (unsigned n = 0; n + 1 < b->ranks; n++) {
        unsigned c = nth_peer(b, n);
        builder_copy(b, own(b, PLAN_OUT, c), at(PLAN_SLOT, c, c), 0);
    }
}

/* Everybody combines everything: more bytes, one hop less. */
static void allreduce_small(builder *b)
{
    plan_operand out = own(b, PLAN_OUT, 0), cell = own(b, PLAN_SLOT, 0);
    builder_chunks(b, 1);
    builder_loop(b, 2, 1);
    builder_copy(b, cell, own(b, PLAN_IN, 0), PLAN_PRESCALE);
    builder_stage(b, 1);
    builder_reduce_in_order(b, out, cell, cell, PLAN_SLOT, 0, 0, b->ranks);
    builder_copy(b, out, out, PLAN_POSTSCALE);
}

/* Only rank r touches chunk r, on all ranks, so nothing has to be ordered inside the loop. */
static void allreduce_mapped(builder *b)
{
    unsigned r = b->rank;
    plan_operand out = own(b, PLAN_OUT, r);
    builder_chunks(b, b->ranks);
    builder_reached(b, PLAN_IN);
    builder_reached(b, PLAN_OUT);
    open_mapped(b, b->ranks > 2 ? 1 : 0);
    builder_reduce_in_order(b, out, own(b, PLAN_IN, r), own(b, PLAN_SLOT, 0), PLAN_IN, r, 0,
                            b->ranks);
    builder_copy(b, out, out, PLAN_POSTSCALE);
    for (unsigned n = 0; n + 1 < b->ranks; n++)
        builder_copy(b, at(PLAN_OUT, nth_peer(b, n), r), out, 0);
    close_mapped(b);
}

const char *direct_allreduce(builder *b)
{
    const plan_layout *layout = &b->plan->layout;
    if (layout->adasum)
        return adasum_allreduce(b);
    if (layout->small)
        allreduce_small(b);
    else if (layout->mapped && !layout->prescaled)
        allreduce_mapped(b);
    else
        allreduce_staged(b);
    return NULL;
}

const char *direct_reducescatter(builder *b)
{
    builder_chunks(b, b->ranks);
    builder_loop(b, 2, b->ranks);
    reduce_own_chunk(b, own(b, PLAN_OUT, 0));
    return NULL;
}

/* ---- Collectives that only move data --------------------------------------------------------- */

const char *direct_allgather(builder *b)
{
    bool mapped = b->plan->layout.mapped;
    plan_buffer source = mapped ? PLAN_IN : PLAN_SLOT;
    builder_chunks(b, b->ranks);
    if (mapped) {
        builder_reached(b, PLAN_IN);
        open_mapped(b, 0);
    } else {
        builder_loop(b, 2, 1);
        builder_copy(b, own(b, PLAN_SLOT, 0), own(b, PLAN_IN, 0), 0);
        builder_stage(b, 1);
    }
    builder_copy(b, own(b, PLAN_OUT, b->rank), own(b, PLAN_IN, 0), 0);
    for (unsigned n = 0; n + 1 < b->ranks; n++) {
        unsigned q = nth_peer(b, n);
        builder_copy(b, own(b, PLAN_OUT, q), at(source, q, 0), 0);
    }
    if (mapped)
        close_mapped(b);
    return NULL;
}

const char *direct_alltoall(builder *b)
{
    bool mapped = b->plan->layout.mapped;
    plan_buffer source = mapped ? PLAN_IN : PLAN_SLOT;
    builder_chunks(b, b->ranks);
    if (mapped) {
        builder_reached(b, PLAN_IN);
        open_mapped(b, 0);
    } else {
        builder_loop(b, 2, b->ranks);
        for (unsigned n = 0; n + 1 < b->ranks; n++) {
            unsigned q = nth_peer(b, n);
            builder_copy(b, own(b, PLAN_SLOT, q), own(b, PLAN_IN, q), 0);
        }
        builder_stage(b, 1);
    }
    builder_copy(b, own(b, PLAN_OUT, b->rank), own(b, PLAN_IN, b->rank), 0);
    for (unsigned n = 0; n + 1 < b->ranks; n++) {
        unsigned q = nth_peer(b, n);
        builder_copy(b, own(b, PLAN_OUT, q), at(source, q, b->rank), 0);
    }
    if (mapped)
        close_mapped(b);
    return NULL;
}

const char *direct_broadcast(builder *b)
{
    const plan_layout *layout = &b->plan->layout;
    bool root = b->rank == layout->root;
    plan_buffer source = layout->mapped ? PLAN_IN : PLAN_SLOT;
    builder_chunks(b, 1);
    if (root && layout->mapped)
        builder_reached(b, PLAN_IN);
    if (layout->mapped) {
        open_mapped(b, 0);
    } else {
        builder_loop(b, 2, 1);
    }
    if (root && !layout->mapped) {
        let_everybody_read(b);
        builder_copy(b, own(b, PLAN_SLOT, 0), own(b, PLAN_IN, 0), 0);
    }
    builder_stage(b, layout->mapped ? 0 : 1);
    if (root)
        builder_copy(b, own(b, PLAN_OUT, 0), own(b, PLAN_IN, 0), 0);
    else
        builder_copy(b, own(b, PLAN_OUT, 0), at(source, layout->root, 0), 0);
    if (layout->mapped)
        close_mapped(b);
    return NULL;
}

/* ---- With one root --------------------------------------------------------------------------- */

/* The root combines everything: one hop, for few bytes or few ranks. */
static void reduce_small(builder *b)
{
    unsigned root = b->plan->layout.root;
    builder_chunks(b, 1);
    builder_loop(b, 2, 1);
    if (b->rank != root) {
        builder_read_by(b, root);
        lay_out_chunk(b, 0);
        return;
    }
    builder_stage(b, 1);
    combine_chunk(b, own(b, PLAN_OUT, 0), 0);
}

/* The c-th of the ranks that are not the root. */
static unsigned nth_worker(const builder *b, unsigned c)
{
    return c < b->plan->layout.root ? c : c + 1;
}

/* The others combine one chunk each, in rank order; the root only fetches: it moves no more than they. */
static void reduce_staged(builder *b)
{
    unsigned workers = b->ranks - 1u, root = b->plan->layout.root;
    builder_chunks(b, workers);
    builder_loop(b, 3, workers);
    for (unsigned c = 0; c < workers; c++)
        if (nth_worker(b, c) != b->rank)
            lay_out_chunk(b, c);
    for (unsigned c = 0; c < workers; c++) {
        unsigned worker = nth_worker(b, c);
        if (b->rank == worker) {
            builder_stage(b, 1);
            combine_chunk(b, own(b, PLAN_SLOT, c), c);
        } else if (b->rank == root) {
            builder_stage(b, 2);
            builder_copy(b, own(b, PLAN_OUT, c), at(PLAN_SLOT, worker, c), 0);
        }
    }
}

/* Rank r combines chunk r where the inputs lie and puts it into the root's output. */
static void reduce_mapped(builder *b)
{
    unsigned r = b->rank, root = b->plan->layout.root;
    plan_operand cell = own(b, PLAN_SLOT, 0);
    builder_chunks(b, b->ranks);
    builder_reached(b, PLAN_IN);
    if (r == root)
        builder_reached(b, PLAN_OUT);
    open_mapped(b, 1);
    builder_reduce_in_order(b, cell, own(b, PLAN_IN, r), cell, PLAN_IN, r, 0, b->ranks);
    builder_copy(b, at(PLAN_OUT, root, r), cell, PLAN_POSTSCALE);
    close_mapped(b);
}

const char *direct_reduce(builder *b)
{
    const plan_layout *layout = &b->plan->layout;
    if (layout->small)
        reduce_small(b);
    else if (layout->mapped && !layout->prescaled)
        reduce_mapped(b);
    else if (b->ranks == 2)
        reduce_small(b);
    else
        reduce_staged(b);
    return NULL;
}

const char *direct_gather(builder *b)
{
    const plan_layout *layout = &b->plan->layout;
    bool root = b->rank == layout->root;
    builder_chunks(b, b->ranks);
    if (!root && layout->mapped)
        builder_reached(b, PLAN_IN);
    if (layout->mapped)
        open_mapped_at_root(b, true);
    else
        builder_loop(b, 2, 1);
    if (!root && !layout->mapped) {
        builder_read_by(b, layout->root);
        builder_copy(b, own(b, PLAN_SLOT, 0), own(b, PLAN_IN, 0), 0);
    }
    builder_stage(b, layout->mapped ? 0 : 1);
    if (root)
        builder_copy(b, own(b, PLAN_OUT, b->rank), own(b, PLAN_IN, 0), 0);
    for (unsigned n = 0; n + 1 < b->ranks && root; n++) {
        unsigned q = nth_peer(b, n);
        builder_copy(b, own(b, PLAN_OUT, q), at(layout->mapped ? PLAN_IN : PLAN_SLOT, q, 0), 0);
    }
    if (layout->mapped)
        close_mapped_at_root(b, true);
    return NULL;
}

const char *direct_scatter(builder *b)
{
    const plan_layout *layout = &b->plan->layout;
    bool root = b->rank == layout->root;
    plan_buffer source = root || layout->mapped ? PLAN_IN : PLAN_SLOT;
    builder_chunks(b, b->ranks);
    if (root && layout->mapped)
        builder_reached(b, PLAN_IN);
    if (layout->mapped)
        open_mapped_at_root(b, false);
    else
        builder_loop(b, 2, b->ranks);
    if (root && !layout->mapped) {
        let_everybody_read(b);
        for (unsigned n = 0; n + 1 < b->ranks; n++) {
            unsigned q = nth_peer(b, n);
            builder_copy(b, own(b, PLAN_SLOT, q), own(b, PLAN_IN, q), 0);
        }
    }
    builder_stage(b, layout->mapped ? 0 : 1);
    builder_copy(b, own(b, PLAN_OUT, 0), at(source, layout->root, b->rank), 0);
    if (layout->mapped)
        close_mapped_at_root(b, false);
    return NULL;
}

/* ---- Barrier --------------------------------------------------------------------------------- */

const char *direct_barrier(builder *b)
{
    builder_once(b, true);
    builder_meet(b, 0, b->ranks);
    return NULL;
}
