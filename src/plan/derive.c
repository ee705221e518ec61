/* derive.c: what others need to know of a plan, read off its steps. Nobody has to know an algorithm by
 * its name. */
#include "plan/plan.h"

static bool has_extent(const plan_operand *o)
{
    return o->buffer == PLAN_IN || o->buffer == PLAN_OUT || o->buffer == PLAN_WORK;
}

uint32_t plan_extent(const plan *p, const plan_operand *o)
{
    const uint32_t ranks = p->layout.ranks;
    switch (p->collective) {
    case PLAN_ALLGATHER:
    case PLAN_GATHER:
        return o->buffer == PLAN_OUT ? o->index : o->rank;
    case PLAN_ALLTOALL:
        return o->buffer == PLAN_OUT ? o->index * ranks + o->rank : o->rank * ranks + o->index;
    case PLAN_REDUCESCATTER:
    case PLAN_SCATTER:
        return o->buffer == PLAN_OUT ? o->rank : o->index;
    default:
        return o->index;
    }
}

bool plan_has(const plan *p, plan_buffer buffer, unsigned rank)
{
    switch (p->collective) {
    case PLAN_REDUCE_TO_ROOT:
    case PLAN_GATHER:
        return buffer != PLAN_OUT || rank == p->layout.root;
    case PLAN_SCATTER:
        return (buffer != PLAN_IN && buffer != PLAN_WORK) || rank == p->layout.root;
    default:
        return true;
    }
}

/* Whether all operands of a step that have a length have the same one, whatever the splits. */
static bool is_even(const plan *p, const plan_step *step)
{
    const plan_operand *operands[] = {&step->dst, &step->a, &step->b}, *first = NULL;
    for (int i = 0; i < 3; i++) {
        if (!has_extent(operands[i]))
            continue;
        if (first && plan_extent(p, first) != plan_extent(p, operands[i]))
            return false;
        first = operands[i];
    }
    return true;
}

/* A part of an alltoall has the same length at both ends of a message only on its way from the rank
 * that gives it straight to the one it is for. */
static bool goes_straight(const plan_step *step)
{
    if (step->kind == PLAN_SEND)
        return step->a.buffer != PLAN_OUT && step->a.index == step->peer;
    return step->dst.buffer == PLAN_OUT && step->dst.index == step->peer;
}

/* A peer's chunk is found where one's own of that number begins. */
static bool reaches_a_peer(const plan *p, const plan_step *step)
{
    const plan_operand *operands[] = {&step->dst, &step->a, &step->b};
    for (int i = 0; i < 3; i++)
        if (has_extent(operands[i]) && operands[i]->rank != p->layout.rank)
            return true;
    return false;
}

static bool needs_equal_parts(const plan *p, const plan_step *step)
{
    if (p->collective != PLAN_ALLTOALL || step->kind == PLAN_ADDRESSES)
        return false;
    if (plan_is_message(step) && !goes_straight(step))
        return true;
    return !is_even(p, step) || reaches_a_peer(p, step);
}

static void note_step(plan *p, const plan_step *step)
{
    const plan_operand *operands[] = {&step->dst, &step->a, &step->b};
    for (int i = 0; i < 3; i++)
        p->uses_work = p->uses_work || operands[i]->buffer == PLAN_WORK;
    p->uses_messages = p->uses_messages || plan_is_message(step);
    p->uses_collectives = p->uses_collectives || step->kind == PLAN_COLL;
    p->needs_equal_parts = p->needs_equal_parts || needs_equal_parts(p, step);
    if (step->kind == PLAN_ADDRESSES) {
        p->reached_in = p->reached_in || step->a.buffer == PLAN_IN;
        p->reached_out = p->reached_out || step->dst.buffer == PLAN_OUT;
    }
}

void plan_derive(plan *p)
{
    p->uses_work = p->uses_messages = p->uses_collectives = false;
    p->reached_in = p->reached_out = p->needs_equal_parts = false;
    for (uint32_t i = 0; i < p->step_count; i++)
        note_step(p, &p->steps[i]);
}
