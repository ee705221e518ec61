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
    X(STAGE)                                                                                       \
    X(FLAG_PRE)                                                                                    \
    X(FLAG_POST)                                                                                   \
    X(FLAG_START)                                                                                  \
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
    bool has_peer = s->kind == PLAN_SEND || s->kind == PLAN_RECV || s->kind == PLAN_RECV_REDUCE ||
                    s->kind == PLAN_AWAIT;
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
    switch (m) {
    case PEER:
        return turn_peer(s, p);
    case LATER:
        s->lag++;
        return s->kind == PLAN_AWAIT;
    case SOONER:
        s->lag--;
        return s->kind == PLAN_AWAIT;
    case STAGE:
        s->stage = (uint8_t)((s->stage + 1) % phase->depth);
        return phase->depth > 1 && s->kind != PLAN_FENCE && s->kind != PLAN_PUBLISH;
    case FLAG_PRE:
        return turn_flag(s, PLAN_COPY, PLAN_PRESCALE) && p->layout.prescaled;
    case FLAG_POST:
        return turn_flag(s, PLAN_COPY, PLAN_POSTSCALE);
    case FLAG_START:
        return turn_flag(s, PLAN_DOT, PLAN_SUMS_START);
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

static inline void remove_step(plan *p, uint32_t f, uint32_t i)
{
    memmove(&p->steps[i], &p->steps[i + 1], (p->step_count - i - 1) * sizeof *p->steps);
    p->step_count--;
    p->phases[f].count--;
    for (uint32_t g = f + 1; g < p->phase_count; g++)
        p->phases[g].first--;
}

static inline void repeat_step(plan *p, uint32_t f, uint32_t i)
{
    memmove(&p->steps[i + 1], &p->steps[i], (p->step_count - i) * sizeof *p->steps);
    p->step_count++;
    p->phases[f].count++;
    for (uint32_t g = f + 1; g < p->phase_count; g++)
        p->phases[g].first++;
}

static inline bool mutate(plan *p, uint32_t f, uint32_t i, enum mutation m)
{
    plan_phase *phase = &p->phases[f];
    if (m == DELETE) {
        remove_step(p, f, i);
        return true;
    }
    if (m == DUPLICATE) {
        repeat_step(p, f, i);
        return true;
    }
    if (m == SWAP) {
        plan_step first = p->steps[i];
        if (i + 1 == phase->first + phase->count)
            return false;
        p->steps[i] = p->steps[i + 1];
        p->steps[i + 1] = first;
        return true;
    }
    return mutate_step(p, phase, &p->steps[i], m);
}

/* A deep copy with room for one more step. */
static inline plan *clone(const plan *p)
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
