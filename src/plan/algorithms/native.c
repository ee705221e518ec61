/* native.c: the transport does it as a whole, where it has collectives of its own (MPI).
 *
 * A single tensor goes as it lies; several are packed into one. Invariant: COLL is alone in its phase, and
 * all ranks come to it.
 */
#include "plan/algorithms/algorithms.h"

static void collect(builder *b, plan_operand dst, plan_operand a)
{
    builder_once(b, false);
    builder_collect(b, dst, a);
}

static void copy(builder *b, plan_buffer to, plan_buffer from, unsigned flags)
{
    builder_loop_messages(b, 1);
    builder_copy(b, own(b, to, 0), own(b, from, 0), flags);
}

const char *native_allreduce(builder *b)
{
    const bool packed = b->plan->layout.packed;
    const plan_buffer result = packed ? PLAN_WORK : PLAN_OUT;
    const bool copies = packed || b->plan->layout.prescaled;
    builder_chunks(b, 1);
    if (copies)
        copy(b, result, PLAN_IN, PLAN_PRESCALE);
    collect(b, own(b, result, 0), own(b, copies ? result : PLAN_IN, 0));
    copy(b, PLAN_OUT, result, PLAN_POSTSCALE);
    return NULL;
}

const char *native_broadcast(builder *b)
{
    const bool has_data = b->rank == b->plan->layout.root;
    if (b->plan->layout.packed)
        return "a broadcast is of one tensor";
    builder_chunks(b, 1);
    builder_loop_messages(b, 1);
    if (has_data)
        builder_copy(b, own(b, PLAN_OUT, 0), own(b, PLAN_IN, 0), 0);
    collect(b, own(b, PLAN_OUT, 0), has_data ? own(b, PLAN_OUT, 0) : nothing());
    return NULL;
}
