/* mutations.h: ways to damage a plan, one step at a time. */
#ifndef RUEDA_PLAN_MUTATIONS_H
#define RUEDA_PLAN_MUTATIONS_H

#include "plan/testing.h"

#define MUTATION_LIST(X)                                                                           \
    X(DELETE)                                                                                      \
    X(DUPLICATE)                                                                                   \
    X(SWAP)                                                                                        \
    X(PEER)                                                                                        \
    X(LATER)                                                                                       \
    X(SOONER)                                                                                      \
    X(WIDER)                                                                                       \
    X(NARROWER)                                                                                    \
    X(MIDDLE)                                                                                      \
    X(STAGE)                                                                                       \
    X(FLAG_PRE)                                                                                    \
    X(FLAG_POST)                                                                                   \
    X(FLAG_ODD)                                                                                    \
    X(DST_INDEX) X(A_INDEX) X(B_INDEX) X(DST_RANK) X(A_RANK) X(B_RANK) X(A_BUFFER) X(DST_BUFFER)

enum mutation {
#define MUTATION_ENUM(name) name,
    MUTATION_LIST(MUTATION_ENUM) MUTATION_COUNT
};

static const char *const MUTATIONS[] = {
#define MUTATION_TEXT(name) #name,
    MUTATION_LIST(MUTATION_TEXT)};

static inline bool turn_index(plan_operand *o, const plan *p)
{
    uint32_t count = o->buffer == PLAN_SUMS ? 2 : p->chunks;
    if (o->buffer == PLAN_NONE || count < 2)
        return false;
    o->index = (o->index + 1) % count;
    return true;
}

static inline bool turn_rank(plan_operand *o, const plan *p)
{
    o->rank = (uint16_t)((o->rank + 1) % p->layout.ranks);
    return o->buffer != PLAN_NONE;
}

static inline bool turn_buffer(plan_operand *o)
{
    if (o->buffer < PLAN_IN || o->buffer > PLAN_SLOT)
        return false;
    o->buffer = (uint8_t)(o->buffer == PLAN_SLOT ? PLAN_IN : o->buffer + 1);
    return true;
}

static inline bool turn_peer(plan_step *s, const plan *p)
{
    bool has_peer = plan_is_message(s) || s->kind == PLAN_AWAIT;
    do
        s->peer = (uint16_t)((s->peer + 1) % p->layout.ranks);
    while (s->peer == p->layout.rank);
    return has_peer && p->layout.ranks > 2;
}

static inline bool turn_flag(plan_step *s, unsigned kind, unsigned flag)
{
    s->flags ^= (uint8_t)flag;
    return s->kind == kind;
}

/* Changes a step in place; false when the mutation does not apply. */
static inline bool mutate_step(plan *p, const plan_phase *phase, plan_step *s, enum mutation m)
{
    const unsigned depth = phase ? phase->depth : 1;
    switch (m) {
    case PEER:
        return turn_peer(s, p);
    case LATER:
        s->lag++;
        return s->kind == PLAN_AWAIT;
    case SOONER:
        s->lag--;
        return s->kind == PLAN_AWAIT;
    case WIDER:
        s->ranks++;
        return s->kind == PLAN_WEIGH;
    case NARROWER:
        s->ranks--;
        return s->kind == PLAN_WEIGH;
    case MIDDLE: /* B_RANK goes up */
        s->b.rank--;
        return s->kind == PLAN_WEIGH;
    case STAGE:
        s->stage = (uint8_t)((s->stage + 1) % depth);
        return depth > 1 && s->kind != PLAN_FENCE && s->kind != PLAN_PUBLISH;
    case FLAG_PRE:
        return turn_flag(s, PLAN_COPY, PLAN_PRESCALE) && p->layout.prescaled;
    case FLAG_POST:
        return turn_flag(s, PLAN_COPY, PLAN_POSTSCALE);
    case FLAG_ODD:
        return turn_flag(s, PLAN_DOT, PLAN_SUMS_ODD);
    case DST_INDEX:
        return turn_index(&s->dst, p);
    case A_INDEX:
        return turn_index(&s->a, p);
    case B_INDEX:
        return turn_index(&s->b, p);
    case DST_RANK:
        return turn_rank(&s->dst, p);
    case A_RANK:
        return turn_rank(&s->a, p);
    case B_RANK:
        return turn_rank(&s->b, p);
    case A_BUFFER:
        return turn_buffer(&s->a);
    case DST_BUFFER:
        return turn_buffer(&s->dst);
    default:
        return false;
    }
}

/* The phase of a step; NULL: it is before the first or after the last one. */
static inline plan_phase *phase_of(const plan *p, uint32_t i)
{
    for (uint32_t f = 0; f < p->phase_count; f++)
        if (i >= p->phases[f].first && i < p->phases[f].first + p->phases[f].count)
            return &p->phases[f];
    return NULL;
}

/* The numbers of steps after the loss (-1) of step i, or after another one (1) behind it. */
static inline void renumber(plan *p, uint32_t i, int change)
{
    plan_phase *phase = phase_of(p, i);
    for (uint32_t f = 0; f < p->phase_count; f++)
        if (p->phases[f].first > i)
            p->phases[f].first += (uint32_t)change;
    if (phase)
        phase->count += (uint32_t)change;
    else if (i < p->entry_count)
        p->entry_count += (uint32_t)change;
    p->step_count += (uint32_t)change;
}

static inline void remove_step(plan *p, uint32_t i)
{
    memmove(&p->steps[i], &p->steps[i + 1], (p->step_count - i - 1) * sizeof *p->steps);
    renumber(p, i, -1);
}

static inline void repeat_step(plan *p, uint32_t i)
{
    memmove(&p->steps[i + 1], &p->steps[i], (p->step_count - i) * sizeof *p->steps);
    renumber(p, i, 1);
}

/* With the step after it. Steps change phases only at the two ends of a plan. */
static inline bool swap_with_next(plan *p, uint32_t i)
{
    if (i + 1 == p->step_count)
        return false;
    const plan_phase *here = phase_of(p, i), *there = phase_of(p, i + 1);
    const plan_step first = p->steps[i];
    p->steps[i] = p->steps[i + 1];
    p->steps[i + 1] = first;
    return here == there || !here || !there;
}

static inline bool mutate(plan *p, uint32_t i, enum mutation m)
{
    switch (m) {
    case DELETE:
        remove_step(p, i);
        return true;
    case DUPLICATE:
        repeat_step(p, i);
        return true;
    case SWAP:
        return swap_with_next(p, i);
    default:
        return mutate_step(p, phase_of(p, i), &p->steps[i], m);
    }
}

/* A deep copy with room for one more step. */
static inline plan *copy_plan(const plan *p)
{
    plan *copy = malloc(sizeof *copy);
    *copy = *p;
    copy->steps = malloc((p->step_count + 1) * sizeof *p->steps);
    copy->phases = malloc(p->phase_count * sizeof *p->phases);
    memcpy(copy->steps, p->steps, p->step_count * sizeof *p->steps);
    memcpy(copy->phases, p->phases, p->phase_count * sizeof *p->phases);
    return copy;
}

static inline void free_clone(plan *p)
{
    free(p->steps);
    free(p->phases);
    free(p);
}

#endif
