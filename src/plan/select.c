/* select.c: which algorithm for what, as rows of data. The first row that fits decides. */
#include "plan/plan.h"

plan_algorithm plan_select(const plan_choice *choice, bool *small)
{
    *small = choice->bytes <= 16384;
    return choice->adasum ? PLAN_ALGORITHM_ADASUM : PLAN_ALGORITHM_DIRECT;
}
