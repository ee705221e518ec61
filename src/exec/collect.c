/* collect.c: COLL: a whole collective that the transport does. */
#include "exec/exec.h"

/* Where a whole operand lies: tensors of the caller one after the other do not lie so in memory. */
static void *whole_address(const exec_op *o, const plan_step *step, plan_operand x, uint64_t count)
{
    const exec_run_part part = exec_part(o, step, 0, 0, count);
    if (x.buffer == PLAN_NONE || (x.buffer != PLAN_WORK && part.count < count))
        return NULL;
    return exec_address(o, x, 0, part);
}

static rueda_status start(exec_op *o, const plan_step *step)
{
    transport_channel *c = o->bound.channel;
    const uint64_t count = exec_step_count(o, step, 0);
    void *out = whole_address(o, step, step->dst, count);
    const void *in = whole_address(o, step, step->a, count);
    const bool is_broadcast = o->bound.plan->collective == PLAN_BROADCAST;
    const bool elsewhere =
        is_broadcast && in != NULL && in != out; /* it is_broadcast what is in `out` */
    if (c->table->collect == NULL || out == NULL || (in == NULL && !is_broadcast) || elsewhere)
        return status_fail(RUEDA_ERR_INTERNAL, "a plan hands on what the transport cannot take");
    return c->table->collect(c, &(transport_collective){.is_broadcast = is_broadcast,
                                                        .in = in == out ? NULL : in,
                                                        .out = out,
                                                        .count = count,
                                                        .dtype = o->bound.dtype,
                                                        .op = o->bound.op,
                                                        .root = o->bound.plan->layout.root});
}

rueda_status exec_collect(exec_op *o, const plan_step *step, bool *done)
{
    transport_channel *c = o->bound.channel;
    rueda_status status = o->collecting ? RUEDA_OK : start(o, step);
    if (status == RUEDA_OK)
        status = c->table->collected(c, done);
    o->collecting = status == RUEDA_OK && !*done;
    return status;
}
