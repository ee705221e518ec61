/* host_order.h: plans for hosts whose ranks do not follow each other.
 *
 * An author that may choose the order of ranks writes for hosts side by side. The plan of any other
 * layout is the one of its ranks sorted by host, with the names of ranks and of their chunks given back.
 * Invariant: what a rank ends with does not depend on the order, but for the order of a reduction.
 */
#ifndef RUEDA_PLAN_HOST_ORDER_H
#define RUEDA_PLAN_HOST_ORDER_H

#include "plan/plan.h"

/* Whether the ranks of each host follow each other. */
bool host_order_is_kept(const plan_layout *layout);

/* order[i] ← the i-th rank when the hosts come in the order of their first ranks. */
void host_order_find(const plan_layout *layout, uint16_t *order);

/* The layout as `order` has it; host_of is room for the hosts and must outlive it. */
plan_layout host_order_layout(const plan_layout *layout, const uint16_t *order, uint16_t *host_of);

/* Gives the names of `layout` back to a plan of host_order_layout. */
void host_order_rename(plan *p, const plan_layout *layout, const uint16_t *order);

#endif
