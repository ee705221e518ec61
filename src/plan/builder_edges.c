/* builder_edges.c: derives PUBLISH, AWAIT and FENCE from which memory the steps of a phase name.
 *
 * The data steps are kept as drafts until the phase closes, because what must be awaited in an early
 * stage depends on what later stages wait for. */
#include "plan/builder.h"

#include <string.h>

void builder_emit(builder *b, plan_step step)
{
    plan *p = b->plan;
    p->steps = builder_grow(b, p->steps, p->step_count, &b->step_capacity, sizeof *p->steps);
    if (!b->failed)
        p->steps[p->step_count++] = step;
}

static void emit_await(builder *b, unsigned q, unsigned stage, unsigned lag)
{
    builder_emit(b, (plan_step){.kind = PLAN_AWAIT,
                                .stage = (uint8_t)stage,
                                .peer = (uint16_t)q,
                                .lag = (uint16_t)lag});
}

static void await_once(builder *b, unsigned q, unsigned stage)
{
    uint32_t stamp = (b->plan->phase_count + 1) << 8 | stage;
    if (q == b->rank || !builder_same_host(b, q) || b->awaited[q] == stamp)
        return;
    b->awaited[q] = stamp;
    emit_await(b, q, stage, 1);
}

/* Calls visit for each peer that a step may have to wait for: whose memory it names, unless that is
 * settled. A message names only own memory. */
static void each_peer(builder *b, const plan_step *step,
                      void (*visit)(builder *b, unsigned q, unsigned stage))
{
    const plan_operand *operands[] = {&step->dst, &step->a, &step->b};
    if (plan_is_message(step) || step->zero)
        return;
    if (step->kind == PLAN_WEIGH) {
        for (unsigned q = step->a.rank; q < (unsigned)step->a.rank + step->ranks; q++)
            visit(b, q, step->stage);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (operands[i]->buffer != PLAN_NONE && operands[i]->rank != b->rank)
            visit(b, operands[i]->rank, step->stage);
}

static void mark_later(builder *b, unsigned q, unsigned stage)
{
    if (stage >= 1)
        b->marks[q] |= BUILDER_AWAITED_LATER;
}

/* A slot written in stage s for piece i was last read for piece i − PLAN_SLOTS: in a deep phase in the
 * stage after s, else at the latest in stage depth − 1. There a later stage's AWAIT in the tick before
 * may cover that; the stages of a deep phase need not have a piece at the same time. */
static void await_slot_readers(builder *b, unsigned stage)
{
    bool deep = b->phase.depth >= PLAN_SLOTS;
    unsigned read_in = deep ? stage + 1 : b->phase.depth - 1u;
    for (unsigned q = 0; q < b->ranks; q++)
        if (deep ? q != b->rank && builder_same_host(b, q) : b->marks[q] == BUILDER_READS_SLOTS)
            emit_await(b, q, stage, stage + PLAN_SLOTS - read_in);
}

/* Whether both name the same memory. */
static bool same_memory(const builder *b, const plan_operand *x, const plan_operand *y)
{
    bool in_place = plan_may_be_in_place(b->plan->collective);
    bool callers = (x->buffer == PLAN_IN || x->buffer == PLAN_OUT) &&
                   (y->buffer == PLAN_IN || y->buffer == PLAN_OUT);
    return x->buffer != PLAN_NONE && x->rank == y->rank && x->index == y->index &&
           (x->buffer == y->buffer || (in_place && callers));
}

static bool in_transfer(const builder *b, const plan_operand *memory, unsigned stage, bool write)
{
    for (uint32_t i = b->by_index[memory->index % BUILDER_BUCKETS]; i;
         i = b->transfers[i - 1].next) {
        const builder_transfer *t = &b->transfers[i - 1];
        if (t->stage == stage && (write || t->written) && same_memory(b, &t->memory, memory))
            return true;
    }
    return false;
}

static void emit_fence(builder *b)
{
    if (b->transfer_count)
        builder_emit(b, (plan_step){.kind = PLAN_FENCE});
    b->transfer_count = 0;
    b->sums_in_transfer = false;
    memset(b->by_index, 0, sizeof b->by_index);
}

static void fence_before(builder *b, const plan_step *step)
{
    bool sums = step->kind == PLAN_WEIGH || step->kind == PLAN_DOT || step->kind == PLAN_START_SUMS;
    if (in_transfer(b, &step->dst, step->stage, true) ||
        in_transfer(b, &step->a, step->stage, false) ||
        in_transfer(b, &step->b, step->stage, false) || (sums && b->sums_in_transfer))
        emit_fence(b);
}

static void note_transfer(builder *b, const plan_operand *memory, unsigned stage, bool written)
{
    uint32_t *bucket = &b->by_index[memory->index % BUILDER_BUCKETS];
    b->transfers = builder_grow(b, b->transfers, b->transfer_count, &b->transfer_capacity,
                                sizeof *b->transfers);
    if (b->failed)
        return;
    b->transfers[b->transfer_count++] =
        (builder_transfer){*memory, *bucket, (uint8_t)stage, written};
    *bucket = b->transfer_count;
    b->sums_in_transfer = b->sums_in_transfer || memory->buffer == PLAN_SUMS;
}

static void emit_with_edges(builder *b, const plan_step *step, bool *slots_free)
{
    fence_before(b, step);
    each_peer(b, step, await_once);
    bool writes_slot = step->dst.buffer == PLAN_SLOT && step->dst.rank == b->rank;
    if (writes_slot && !slots_free[step->stage]) {
        slots_free[step->stage] = true;
        await_slot_readers(b, step->stage);
    }
    plan_step final = *step;
    final.zero = 0;
    builder_emit(b, final);
    if (!plan_is_message(step))
        return;
    if (step->kind != PLAN_RECV)
        note_transfer(b, &step->a, step->stage, false);
    if (step->kind != PLAN_SEND)
        note_transfer(b, &step->dst, step->stage, true);
}

void builder_close_phase(builder *b)
{
    plan *p = b->plan;
    bool slots_free[PLAN_STAGES] = {false};
    p->phases = builder_grow(b, p->phases, p->phase_count, &b->phase_capacity, sizeof *p->phases);
    if (!b->open || b->failed)
        return;
    for (uint32_t i = 0; i < b->draft_count; i++)
        each_peer(b, &b->drafts[i], mark_later);
    b->phase.first = p->step_count;
    for (uint32_t i = 0; i < b->draft_count; i++)
        if (b->drafts[i].kind == PLAN_AWAIT)
            await_once(b, b->drafts[i].peer, 0);
        else
            emit_with_edges(b, &b->drafts[i], slots_free);
    emit_fence(b);
    if (b->phase.publishes)
        builder_emit(b, (plan_step){.kind = PLAN_PUBLISH});
    b->phase.count = p->step_count - b->phase.first;
    p->phases[p->phase_count++] = b->phase;
    b->draft_count = 0;
    b->open = false;
    memset(b->marks, 0, b->ranks);
}
