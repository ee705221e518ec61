/* host_order.c: see host_order.h. */
#include "plan/host_order.h"

#include <string.h>

/* The first rank on the host of rank q. */
static unsigned first_beside(const plan_layout *layout, unsigned q)
{
    unsigned first = 0;
    while (layout->host_of[first] != layout->host_of[q])
        first++;
    return first;
}

bool host_order_is_kept(const plan_layout *layout)
{
    const uint16_t *host_of = layout->host_of;
    for (unsigned q = 1; host_of && q < layout->ranks; q++)
        if (host_of[q] != host_of[q - 1] && first_beside(layout, q) != q)
            return false;
    return true;
}

void host_order_find(const plan_layout *layout, uint16_t *order)
{
    unsigned placed = 0;
    for (unsigned first = 0; first < layout->ranks; first++)
        for (unsigned q = first; q < layout->ranks && first_beside(layout, first) == first; q++)
            if (layout->host_of[q] == layout->host_of[first])
                order[placed++] = (uint16_t)q;
}

static uint16_t place_of(const uint16_t *order, unsigned rank)
{
    uint16_t place = 0;
    while (order[place] != rank)
        place++;
    return place;
}

plan_layout host_order_layout(const plan_layout *layout, const uint16_t *order, uint16_t *host_of)
{
    plan_layout sorted = *layout;
    for (unsigned i = 0; i < layout->ranks; i++)
        host_of[i] = layout->host_of[order[i]];
    sorted.host_of = host_of;
    sorted.rank = place_of(order, layout->rank);
    sorted.root = place_of(order, layout->root);
    return sorted;
}

/* Whether the chunks of a buffer are those of the ranks. */
static bool is_by_rank(plan_collective collective, plan_buffer buffer)
{
    switch (collective) {
    case PLAN_ALLGATHER:
    case PLAN_GATHER:
        return buffer == PLAN_OUT;
    case PLAN_REDUCESCATTER:
    case PLAN_SCATTER:
        return buffer == PLAN_IN || buffer == PLAN_WORK;
    case PLAN_ALLTOALL:
        return buffer == PLAN_IN || buffer == PLAN_OUT || buffer == PLAN_WORK;
    default:
        return false;
    }
}

/* ADDRESSES are those of a whole buffer, not of a chunk. */
static void rename_operand(const plan *p, plan_kind kind, plan_operand *operand,
                           const uint16_t *order)
{
    if (operand->buffer == PLAN_NONE)
        return;
    operand->rank = order[operand->rank];
    if (kind != PLAN_ADDRESSES && is_by_rank(p->collective, (plan_buffer)operand->buffer))
        operand->index = order[operand->index];
}

void host_order_rename(plan *p, const plan_layout *layout, const uint16_t *order)
{
    uint16_t *host_of = (uint16_t *)(uintptr_t)p->layout.host_of; /* the plan's own memory */
    memcpy(host_of, layout->host_of, layout->ranks * sizeof *host_of);
    p->layout.rank = layout->rank;
    p->layout.root = layout->root;
    for (uint32_t i = 0; i < p->step_count; i++) {
        plan_step *step = &p->steps[i];
        rename_operand(p, (plan_kind)step->kind, &step->dst, order);
        rename_operand(p, (plan_kind)step->kind, &step->a, order);
        rename_operand(p, (plan_kind)step->kind, &step->b, order);
        if (plan_is_message(step) || step->kind == PLAN_AWAIT)
            step->peer = order[step->peer];
    }
}
