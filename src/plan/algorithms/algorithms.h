/* algorithms.h: the authors of plans, one file each.
 *
 * An author writes the plan of b->rank for more than one rank. It returns NULL, or a static text
 * that says why it does not serve the layout.
 */
#ifndef RUEDA_PLAN_ALGORITHMS_H
#define RUEDA_PLAN_ALGORITHMS_H

#include "plan/builder.h"

typedef const char *plan_author(builder *b);

plan_author direct_allreduce, direct_allgather, direct_broadcast, direct_alltoall,
    direct_reducescatter, direct_barrier;
plan_author adasum_allreduce;

#endif
