/* builder.c: see builder.h. The data steps of a phase are kept as drafts until it closes, because
 * what must be awaited in an early stage depends on what later stages wait for. */
#include "plan/builder.h"

#include <stdlib.h>
#include <string.h>

enum { READS_OUR_SLOTS = 1, AWAITED_LATER = 2 };

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Makes room for one more element: returns the array, moved if need be. */
static void *grow(builder *b, void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (b->failed || count < *capacity)
        return array;
    uint32_t wanted = *capacity ? *capacity * 2 : 64;
    void *larger = realloc(array, (size_t)wanted * size);
    if (!larger) {
        b->failed = true;
        return array;
    }
    *capacity = wanted;
    return larger;
}

static bool copy_hosts(plan *p, const plan_layout *layout)
{
    p->layout = *layout;
    if (!layout->host_of)
        return true;
    size_t bytes = layout->ranks * sizeof(uint16_t);
    uint16_t *hosts = malloc(bytes);
    if (hosts)
        memcpy(hosts, layout->host_of, bytes);
    p->layout.host_of = hosts;
    return hosts != NULL;
}

builder *builder_start(plan_collective collective, plan_algorithm algorithm,
                       const plan_layout *layout)
{
    builder *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->ranks = layout->ranks;
    b->rank = layout->rank;
    b->plan = calloc(1, sizeof *b->plan);
    b->marks = calloc(layout->ranks, sizeof *b->marks);
    b->awaited = calloc(layout->ranks, sizeof *b->awaited);
    if (!b->plan || !b->marks || !b->awaited || !copy_hosts(b->plan, layout)) {
        builder_abandon(b);
        return NULL;
    }
    b->plan->collective = collective;
    b->plan->algorithm = algorithm;
    return b;
}

void builder_abandon(builder *b)
{
    if (!b)
        return;
    plan_free(b->plan);
    free(b->drafts);
    free(b->transfers);
    free(b->marks);
    free(b->awaited);
    free(b);
}

void builder_chunks(builder *b, uint32_t chunks)
{
    b->plan->chunks = chunks;
}

bool builder_same_host(const builder *b, unsigned q)
{
    const uint16_t *host_of = b->plan->layout.host_of;
    return !host_of || host_of[q] == host_of[b->rank];
}

/* ---- Deriving edges -------------------------------------------------------------------------- */

static void emit(builder *b, plan_step step)
{
    plan *p = b->plan;
    p->steps = grow(b, p->steps, p->step_count, &b->step_capacity, sizeof *p->steps);
    if (!b->failed)
        p->steps[p->step_count++] = step;
}

static bool is_message(const plan_step *step)
{
    return step->kind == PLAN_SEND || step->kind == PLAN_RECV || step->kind == PLAN_RECV_REDUCE;
}

static void emit_await(builder *b, unsigned q, unsigned stage, unsigned lag)
{
    emit(b, (plan_step){.kind = PLAN_AWAIT,
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
    if (is_message(step) || step->zero)
        return;
    if (step->kind == PLAN_WEIGH) {
        for (unsigned q = step->a.rank; q < (unsigned)step->a.rank + step->lag; q++)
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
        b->marks[q] |= AWAITED_LATER;
}

/* A slot written in stage s for piece i was last read for piece i − PLAN_SLOTS, at the latest in
 * stage depth − 1. A later stage's AWAIT in the tick before covers that. */
static void await_slot_readers(builder *b, unsigned stage)
{
    unsigned lag = stage + PLAN_SLOTS + 1 - b->phase.depth;
    for (unsigned q = 0; q < b->ranks; q++)
        if (b->marks[q] == READS_OUR_SLOTS)
            emit_await(b, q, stage, lag);
}

/* Whether both name the same memory. Of allreduce and broadcast, the output may be the input. */
static bool same_memory(const builder *b, const plan_operand *x, const plan_operand *y)
{
    bool in_place = b->plan->collective == PLAN_ALLREDUCE || b->plan->collective == PLAN_BROADCAST;
    bool callers = (x->buffer == PLAN_IN || x->buffer == PLAN_OUT) &&
                   (y->buffer == PLAN_IN || y->buffer == PLAN_OUT);
    return x->buffer != PLAN_NONE && x->rank == y->rank && x->index == y->index &&
           (x->buffer == y->buffer || (in_place && callers));
}

static bool in_transfer(const builder *b, const plan_operand *memory, unsigned stage, bool write)
{
    for (uint32_t i = 0; i < b->transfer_count; i++) {
        const builder_transfer *t = &b->transfers[i];
        if (t->stage == stage && (write || t->written) && same_memory(b, &t->memory, memory))
            return true;
    }
    return false;
}

static bool sums_in_transfer(const builder *b)
{
    for (uint32_t i = 0; i < b->transfer_count; i++)
        if (b->transfers[i].memory.buffer == PLAN_SUMS)
            return true;
    return false;
}

static void emit_fence(builder *b)
{
    if (b->transfer_count)
        emit(b, (plan_step){.kind = PLAN_FENCE});
    b->transfer_count = 0;
}

static void fence_before(builder *b, const plan_step *step)
{
    bool sums = step->kind == PLAN_WEIGH || step->kind == PLAN_DOT;
    if (in_transfer(b, &step->dst, step->stage, true) ||
        in_transfer(b, &step->a, step->stage, false) ||
        in_transfer(b, &step->b, step->stage, false) || (sums && sums_in_transfer(b)))
        emit_fence(b);
}

static void note_transfer(builder *b, const plan_operand *memory, unsigned stage, bool written)
{
    if (memory->buffer == PLAN_NONE && b->transfer_count)
        return;
    b->transfers =
        grow(b, b->transfers, b->transfer_count, &b->transfer_capacity, sizeof *b->transfers);
    if (!b->failed)
        b->transfers[b->transfer_count++] = (builder_transfer){*memory, (uint8_t)stage, written};
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
    emit(b, final);
    if (!is_message(step))
        return;
    if (step->kind != PLAN_RECV)
        note_transfer(b, &step->a, step->stage, false);
    if (step->kind != PLAN_SEND)
        note_transfer(b, &step->dst, step->stage, true);
}

static void close_phase(builder *b)
{
    plan *p = b->plan;
    bool slots_free[PLAN_SLOTS] = {false};
    p->phases = grow(b, p->phases, p->phase_count, &b->phase_capacity, sizeof *p->phases);
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
        emit(b, (plan_step){.kind = PLAN_PUBLISH});
    b->phase.count = p->step_count - b->phase.first;
    p->phases[p->phase_count++] = b->phase;
    b->draft_count = 0;
    b->open = false;
    memset(b->marks, 0, b->ranks);
}

/* ---- Phases ---------------------------------------------------------------------------------- */

static void open_phase(builder *b, plan_phase phase)
{
    close_phase(b);
    b->phase = phase;
    b->open = true;
    b->settled = false;
    b->stage = 0;
}

void builder_loop(builder *b, unsigned depth, unsigned cells)
{
    open_phase(
        b, (plan_phase){.depth = (uint16_t)depth, .cells = (uint16_t)cells, .publishes = true});
}

void builder_loop_messages(builder *b, unsigned depth)
{
    open_phase(b, (plan_phase){.depth = (uint16_t)depth});
}

void builder_once(builder *b, bool publishes)
{
    open_phase(b, (plan_phase){.depth = 1, .once = true, .publishes = publishes});
}

static void draft(builder *b, plan_step step)
{
    b->drafts = grow(b, b->drafts, b->draft_count, &b->draft_capacity, sizeof *b->drafts);
    step.stage = b->stage;
    step.zero = b->settled;
    if (!b->failed)
        b->drafts[b->draft_count++] = step;
}

void builder_meet_here(builder *b, unsigned first, unsigned end)
{
    for (unsigned q = first; q < end; q++)
        draft(b, (plan_step){.kind = PLAN_AWAIT, .peer = (uint16_t)q});
}

void builder_meet(builder *b, unsigned first, unsigned end)
{
    builder_once(b, true);
    builder_meet_here(b, first, end);
}

void builder_stage(builder *b, unsigned stage)
{
    b->stage = (uint8_t)stage;
}

void builder_settled(builder *b, bool settled)
{
    b->settled = settled;
}

void builder_read_by(builder *b, unsigned q)
{
    b->marks[q] |= READS_OUR_SLOTS;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

void builder_copy(builder *b, plan_operand dst, plan_operand a, unsigned flags)
{
    draft(b, (plan_step){.kind = PLAN_COPY, .flags = (uint8_t)flags, .dst = dst, .a = a});
}

void builder_reduce(builder *b, plan_operand dst, plan_operand a, plan_operand other)
{
    draft(b, (plan_step){.kind = PLAN_REDUCE, .dst = dst, .a = a, .b = other});
}

void builder_send(builder *b, unsigned peer, plan_operand a)
{
    draft(b, (plan_step){.kind = PLAN_SEND, .peer = (uint16_t)peer, .a = a});
}

void builder_recv(builder *b, unsigned peer, plan_operand dst)
{
    draft(b, (plan_step){.kind = PLAN_RECV, .peer = (uint16_t)peer, .dst = dst});
}

void builder_recv_reduce(builder *b, unsigned peer, plan_operand dst, plan_operand a,
                         unsigned flags)
{
    draft(b, (plan_step){.kind = PLAN_RECV_REDUCE,
                         .flags = (uint8_t)flags,
                         .peer = (uint16_t)peer,
                         .dst = dst,
                         .a = a});
}

void builder_dot(builder *b, plan_operand dst, plan_operand lower, plan_operand upper,
                 unsigned flags)
{
    draft(b, (plan_step){
                 .kind = PLAN_DOT, .flags = (uint8_t)flags, .dst = dst, .a = lower, .b = upper});
}

void builder_weigh(builder *b, unsigned first, unsigned middle, unsigned end, unsigned parity)
{
    draft(b, (plan_step){.kind = PLAN_WEIGH,
                         .lag = (uint16_t)(end - first),
                         .a = at(PLAN_SUMS, first, parity),
                         .b = at(PLAN_SUMS, middle, parity)});
}

void builder_combine(builder *b, plan_operand dst, plan_operand lower, plan_operand upper)
{
    draft(b, (plan_step){.kind = PLAN_COMBINE, .dst = dst, .a = lower, .b = upper});
}

void builder_reduce_in_order(builder *b, plan_operand out, plan_operand own_part,
                             plan_operand spare, plan_buffer buffer, uint32_t index,
                             unsigned first, unsigned end)
{
    plan_operand sum = nothing();
    for (unsigned q = first; q < end; q++) {
        plan_operand part = q == b->rank ? own_part : at(buffer, q, index);
        bool keep_own = own_part.buffer == PLAN_IN && q < b->rank;
        plan_operand next = keep_own ? spare : out;
        if (q == first) {
            sum = part;
            continue;
        }
        builder_reduce(b, next, sum, part);
        sum = next;
    }
}

/* ---- The end --------------------------------------------------------------------------------- */

static void note_use(plan *p, const plan_step *step, const plan_operand *operand)
{
    bool message = is_message(step);
    if (operand->buffer == PLAN_WORK)
        p->uses_work = true;
    if (operand->buffer != PLAN_NONE && operand->rank != p->layout.rank && !message &&
        step->kind != PLAN_WEIGH)
        p->uses_peers = true;
    p->uses_peers = p->uses_peers || step->kind == PLAN_AWAIT;
    p->uses_messages = p->uses_messages || message;
}

plan *builder_finish(builder *b)
{
    close_phase(b);
    plan *p = b->failed ? NULL : b->plan;
    if (p) {
        b->plan = NULL;
        for (uint32_t i = 0; i < p->step_count; i++) {
            note_use(p, &p->steps[i], &p->steps[i].dst);
            note_use(p, &p->steps[i], &p->steps[i].a);
            note_use(p, &p->steps[i], &p->steps[i].b);
        }
    }
    builder_abandon(b);
    return p;
}
