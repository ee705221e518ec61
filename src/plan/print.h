/* print.h: one step in words. */
#ifndef RUEDA_PLAN_PRINT_H
#define RUEDA_PLAN_PRINT_H

#include "plan/plan.h"

#define PLAN_STEP_TEXT 128 /* bytes that hold any step's words */

/* "GET_REDUCE out[1] ← in[1] ∘ rank 0 slot[1]" */
void plan_describe_step(const plan *p, const plan_step *step, char text[PLAN_STEP_TEXT]);

#endif
