/* rounds.c: what the algorithms by messages share. */
#include "plan/algorithms/algorithms.h"

unsigned rounds_of(unsigned ranks)
{
    unsigned rounds = 0;
    while ((1u << rounds) < ranks)
        rounds++;
    return rounds;
}

void open_rounds(builder *b, unsigned rounds)
{
    builder_loop_messages(b, rounds <= PLAN_STAGES ? rounds : 1);
}

void start_round(builder *b, unsigned round)
{
    builder_stage(b, b->phase.depth > 1 ? round : 0);
}

plan_buffer contribution(builder *b, plan_buffer scaled, unsigned chunks)
{
    if (!b->plan->layout.prescaled)
        return PLAN_IN;
    for (unsigned c = 0; c < chunks; c++)
        builder_copy(b, own(b, scaled, c), own(b, PLAN_IN, c), PLAN_PRESCALE);
    return scaled;
}
