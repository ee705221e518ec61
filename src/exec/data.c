/* data.c: the steps that touch tensor data: COPY, REDUCE, DOT, WEIGH, COMBINE. */
#include "exec/exec.h"

#include <string.h>

#define SHARE_BYTES 256 /* more costs the writer more than the reader gains */

static bool has_extent(plan_operand x)
{
    return x.buffer == PLAN_IN || x.buffer == PLAN_OUT || x.buffer == PLAN_WORK;
}

static const exec_extent *extent_of(const exec_op *o, plan_operand x)
{
    return x.buffer == PLAN_OUT ? &o->bound.out[x.index] : &o->bound.in[x.index];
}

/* The operand that says how long the step is: all others are as long. Our own come first, since the
 * extents of a peer's IN are known to be ours only where all ranks' chunks are alike. */
static const exec_extent *governing_extent(const exec_op *o, const plan_step *step)
{
    const plan_operand operands[] = {step->dst, step->a, step->b};
    const exec_extent *found = NULL;
    for (int i = 0; i < 3; i++) {
        if (!has_extent(operands[i]))
            continue;
        if (operands[i].rank == o->index)
            return extent_of(o, operands[i]);
        if (found == NULL)
            found = extent_of(o, operands[i]);
    }
    /* slots only: the cell stands for the chunk of its number */
    return found == NULL ? &o->bound.in[step->dst.index] : found;
}

uint64_t exec_step_count(const exec_op *o, const plan_step *step, uint32_t piece)
{
    const exec_extent *extent = governing_extent(o, step);
    const uint64_t before = piece * o->piece;
    if (before >= extent->count)
        return 0;
    const uint64_t rest = extent->count - before;
    return rest < o->piece ? rest : o->piece;
}

static uint32_t tensor_at(const exec_op *o, uint64_t element)
{
    uint32_t low = 0, high = o->bound.tensor_count - 1;
    while (low < high) {
        const uint32_t middle = (low + high + 1) / 2;
        if (o->bound.tensors[middle].offset <= element)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The stretch within `tensor`, which holds the element `first` elements into the piece. */
static exec_run_part part_of_tensor(const exec_op *o, uint64_t element, uint32_t tensor,
                                    uint64_t first, uint64_t total)
{
    exec_run_part part = {tensor, first, total - first};
    const uint64_t to_end =
        o->bound.tensors[tensor].offset + o->bound.tensors[tensor].count - element;
    if (part.count > to_end)
        part.count = to_end;
    return part;
}

exec_run_part exec_part(const exec_op *o, const plan_step *step, uint32_t piece, uint64_t first,
                        uint64_t total)
{
    if (o->bound.tensor_count == 1)
        return (exec_run_part){0, first, total - first};
    const uint64_t element = governing_extent(o, step)->offset + piece * o->piece + first;
    return part_of_tensor(o, element, tensor_at(o, element), first, total);
}

/* The stretch after `part`; the next tensor is the next one that has elements. */
static exec_run_part next_part(const exec_op *o, exec_run_part part, uint64_t total)
{
    const exec_tensor *tensors = o->bound.tensors;
    const uint64_t first = part.first + part.count;
    const uint64_t element = tensors[part.tensor].offset + tensors[part.tensor].count;
    uint32_t next = part.tensor + 1;
    while (first < total && tensors[next].count == 0)
        next++;
    if (first == total)
        return (exec_run_part){part.tensor, first, 0};
    return part_of_tensor(o, element, next, first, total);
}

uint8_t *exec_address(const exec_op *o, plan_operand x, uint32_t piece, exec_run_part part)
{
    const transport_peer *peer = &o->bound.channel->peers[x.rank];
    if (x.buffer == PLAN_SLOT)
        return peer->slots + (piece % PLAN_SLOTS) * o->slot_bytes + x.index * o->cell_bytes +
               part.first * o->element;
    const exec_tensor *tensor = &o->bound.tensors[part.tensor];
    const uint64_t element = extent_of(o, x)->offset + piece * o->piece + part.first;
    if (x.buffer == PLAN_WORK)
        return o->work + element * o->element;
    const uint64_t skip = (element - tensor->offset) * o->element;
    if (x.rank == o->index)
        return (x.buffer == PLAN_IN ? (uint8_t *)tensor->in : tensor->out) + skip;
    const segment_address *address = &peer->addresses[part.tensor];
    const uint64_t offset = (x.buffer == PLAN_IN ? address->in : address->out) + skip;
    return (uint8_t *)((uintptr_t)peer->heap + offset);
}

/* One factor after the other: an integer is truncated after each. Averages of integers are divided,
 * since 49 times 1/49.0 would give 0. */
static bool scale_part(const exec_op *o, uint8_t flags, uint8_t *dst, const uint8_t *src,
                       size_t count)
{
    const exec_launch *b = &o->bound;
    const uint8_t *from = src;
    if ((flags & PLAN_PRESCALE) != 0 && b->prescale != 1.0) {
        o->kernel->scale[b->dtype](dst, from, count, b->prescale);
        from = dst;
    }
    if ((flags & PLAN_POSTSCALE) != 0 && b->divisor != 0) {
        o->kernel->divide[b->dtype](dst, from, count, b->divisor);
        from = dst;
    } else if ((flags & PLAN_POSTSCALE) != 0 && b->postscale != 1.0) {
        o->kernel->scale[b->dtype](dst, from, count, b->postscale);
        from = dst;
    }
    return from != src;
}

bool exec_is_idle(const exec_op *o, const plan_step *step)
{
    const exec_launch *b = &o->bound;
    const bool scales =
        ((step->flags & PLAN_PRESCALE) != 0 && b->prescale != 1.0) ||
        ((step->flags & PLAN_POSTSCALE) != 0 && (b->divisor != 0 || b->postscale != 1.0));
    return step->kind == PLAN_COPY && !scales && step->dst.buffer == step->a.buffer &&
           step->dst.rank == step->a.rank && step->dst.index == step->a.index;
}

/* What lies in a slot is read by a peer next: worth a hint where latency is all that counts. */
static void copy_to_slot(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    world_copy(dst, src, bytes);
    if (bytes <= SHARE_BYTES)
        os_share(dst, bytes);
}

static void copy_part(exec_op *o, const plan_step *step, uint32_t piece, exec_run_part part)
{
    uint8_t *dst = exec_address(o, step->dst, piece, part);
    const uint8_t *src = exec_address(o, step->a, piece, part);
    const bool scaled = step->flags != 0 && scale_part(o, step->flags, dst, src, part.count);
    if (scaled || dst == src)
        return;
    if (step->dst.buffer == PLAN_SLOT)
        copy_to_slot(dst, src, part.count * o->element);
    else if (o->bound.stream && step->dst.buffer == PLAN_OUT)
        o->kernel->copy_stream(dst, src, part.count * o->element);
    else
        world_copy(dst, src, part.count * o->element);
}

double *exec_sums(const exec_op *o, uint16_t rank, uint32_t parity, uint32_t tensor)
{
    return o->bound.channel->peers[rank].sums +
           ((size_t)parity * SEGMENT_SUMS + tensor) * SEGMENT_SUM_PARTS;
}

static void dot_part(exec_op *o, const plan_step *step, uint32_t piece, exec_run_part part)
{
    const uint8_t *a = exec_address(o, step->a, piece, part);
    const uint8_t *b = exec_address(o, step->b, piece, part);
    const uint32_t parity = (step->flags & PLAN_SUMS_ODD) != 0;
    double *sums = exec_sums(o, o->index, parity, part.tensor);
    uint8_t *kept = step->dst.buffer == PLAN_NONE ? NULL : exec_address(o, step->dst, piece, part);
    const uint8_t *peers = step->a.rank == o->index ? b : a;
    /* block by block, so that what is kept is still in the first cache */
    const size_t block = EXEC_DOT_BLOCK / o->element;
    for (size_t done = 0; done < part.count; done += block) {
        const size_t count = part.count - done < block ? part.count - done : block;
        const size_t at = done * o->element;
        o->kernel->dot[o->bound.dtype](a + at, b + at, count, sums);
        if (kept != NULL)
            memcpy(kept + at, peers + at, count * o->element);
    }
}

static void combine_part(exec_op *o, const plan_step *step, uint32_t piece, exec_run_part part)
{
    const double *c = &o->coefficients[2 * part.tensor];
    o->kernel->combine[o->bound.dtype](
        exec_address(o, step->dst, piece, part), exec_address(o, step->a, piece, part),
        exec_address(o, step->b, piece, part), part.count, c[0], c[1]);
}

static void reduce_part(exec_op *o, const plan_step *step, uint32_t piece, exec_run_part part)
{
    o->kernel->reduce[o->bound.dtype][o->bound.op](
        exec_address(o, step->dst, piece, part), exec_address(o, step->a, piece, part),
        exec_address(o, step->b, piece, part), part.count);
}

void exec_data_step(exec_op *o, const plan_step *step, uint32_t piece)
{
    const uint64_t total = exec_step_count(o, step, piece);
    if (total == 0)
        return;
    for (exec_run_part part = exec_part(o, step, piece, 0, total); part.count > 0;
         part = next_part(o, part, total)) {
        switch ((plan_kind)step->kind) {
        case PLAN_COPY:
            copy_part(o, step, piece, part);
            break;
        case PLAN_REDUCE:
            reduce_part(o, step, piece, part);
            break;
        case PLAN_DOT:
            dot_part(o, step, piece, part);
            break;
        default:
            combine_part(o, step, piece, part);
            break;
        }
    }
}

/* Zero products; the last two numbers carry the leaves of our block up the tree. */
void exec_start_sums(exec_op *o, uint32_t parity)
{
    for (uint32_t t = 0; t < o->bound.tensor_count; t++) {
        double *sums = exec_sums(o, o->index, parity, t);
        sums[0] = sums[1] = sums[2] = 0;
        sums[3] = o->norms[t].leaves;
        sums[4] = o->norms[t].counted;
    }
}

/* What stands behind one of the two vectors of a join. */
typedef struct leaves {
    double norms;   /* squared, added up */
    double counted; /* those that are not 0; NaN is not */
} leaves;

/* A vector of one rank is a leaf itself; the ranks of a larger block all carry what is below it. */
static leaves leaves_below(const exec_op *o, plan_operand first, uint16_t ranks, uint32_t tensor,
                           double norm)
{
    if (ranks == 1)
        return (leaves){norm, norm != 0};
    const double *sums = exec_sums(o, first.rank, first.index, tensor);
    return (leaves){sums[3], sums[4]};
}

/* 1 − (counted / all) · product / norm. A vector without a leaf that counts has no share to give up. */
static double coefficient(double product, double norm, double counted, double all)
{
    return norm == 0 || counted == 0 ? 1.0 : 1.0 - product / (all / counted * norm);
}

/* Sums over the joined block in rank order: the same bits on all its ranks. */
static void weigh_tensor(exec_op *o, const plan_step *step, uint32_t tensor)
{
    const uint16_t first = step->a.rank, upper = step->b.rank,
                   end = (uint16_t)(first + step->ranks);
    double ab = 0, aa = 0, bb = 0;
    for (uint16_t r = first; r < end; r++) {
        const double *sums = exec_sums(o, r, step->a.index, tensor);
        ab += sums[0];
        aa += sums[1];
        bb += sums[2];
    }
    const leaves a = leaves_below(o, step->a, (uint16_t)(upper - first), tensor, aa);
    const leaves b = leaves_below(o, step->b, (uint16_t)(end - upper), tensor, bb);
    const double counted = a.counted + b.counted;
    const double ca = coefficient(ab, aa, a.counted, counted);
    const double cb = coefficient(ab, bb, b.counted, counted);
    o->coefficients[2 * tensor] = ca;
    o->coefficients[2 * tensor + 1] = cb;
    o->norms[tensor] = (exec_norms){.combined = ca * ca * aa + 2 * ca * cb * ab + cb * cb * bb,
                                    .leaves = a.norms + b.norms,
                                    .counted = counted};
}

void exec_weigh(exec_op *o, const plan_step *step)
{
    for (uint32_t t = 0; t < o->bound.tensor_count; t++)
        weigh_tensor(o, step, t);
}
