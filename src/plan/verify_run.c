/* verify_run.c: ticks, waiting and messages.
 *
 * Each rank runs until it waits; when nobody can go on and somebody is not done, that is a deadlock.
 * Messages are rendezvous: a transfer ends only when its counterpart has started. The n-th SEND from
 * x to y belongs to the n-th RECV at y from x. */
#include "plan/verify.h"

#include <stdlib.h>
#include <string.h>

/* ---- Messages -------------------------------------------------------------------------------- */

static transfer *new_transfer(verifier *v)
{
    transfer *t = v->spare_transfers;
    if (t) {
        v->spare_transfers = t->in_flight;
        return t;
    }
    t = malloc(sizeof *t);
    uint32_t *clock = malloc(v->ranks * sizeof *clock);
    if (!t || !clock) {
        free(t);
        free(clock);
        v->no_memory = true;
        return NULL;
    }
    t->clock = clock;
    return t;
}

static void push(queue *q, transfer *t)
{
    t->in_queue = NULL;
    if (q->tail)
        q->tail->in_queue = t;
    else
        q->head = t;
    q->tail = t;
}

static transfer *pop(queue *q)
{
    transfer *t = q->head;
    q->head = t->in_queue;
    if (!q->head)
        q->tail = NULL;
    return t;
}

static void deliver_sums(verifier *v, const transfer *from, const transfer *to)
{
    const plan_operand *dst = &to->step->dst;
    const sums *source = &v->actors[from->rank].own_sums[from->step->a.index];
    sums *mirror = &v->mirrors[2 * ((size_t)to->rank * v->ranks + dst->rank) + dst->index];
    uint64_t *covered = mirror->covered;
    memcpy(covered, source->covered, v->words * sizeof *covered);
    *mirror = *source;
    mirror->covered = covered;
}

static void meet(verifier *v, transfer *from, transfer *to)
{
    const plan_phase *phase = &v->first->phases[to->phase];
    from->matched = to->matched = true;
    v->actors[from->rank].unmatched--;
    v->actors[to->rank].unmatched--;
    memcpy(to->clock, from->clock, v->ranks * sizeof *to->clock);
    if (!verify_same_extent(v, from, to)) {
        verify_fail(v, PLAN_CHECK_MATCHING, to->rank,
                    (uint32_t)(to->step - v->plans[to->rank]->steps),
                    "gets another chunk, piece or phase from rank %u", from->rank);
        return;
    }
    if (to->step->dst.buffer == PLAN_SUMS)
        deliver_sums(v, from, to);
    else if (to->step->dst.buffer != PLAN_NONE && phase->once)
        for (uint32_t piece = 0; piece < v->pieces; piece++)
            verify_deliver(v, from, to, piece);
    else if (to->step->dst.buffer != PLAN_NONE)
        verify_deliver(v, from, to, to->piece);
}

/* Marks memory as touched, and as in transfer (change 1) or not any more (change −1). */
static void hold_source(verifier *v, actor *x, place from, int change)
{
    from.cell->sending = (uint8_t)(from.cell->sending - (change < 0));
    verify_access(v, x, from, false);
    from.cell->sending = (uint8_t)(from.cell->sending + (change > 0));
}

static void hold_target(verifier *v, actor *x, place to, int change)
{
    to.cell->receiving = (uint8_t)(to.cell->receiving - (change < 0));
    verify_access(v, x, to, true);
    to.cell->receiving = (uint8_t)(to.cell->receiving + (change > 0));
}

static void hold(verifier *v, actor *x, const transfer *t, uint32_t piece, int change)
{
    const plan_operand *a = &t->step->a, *dst = &t->step->dst;
    place from = {0}, to = {0};
    if (a->buffer != PLAN_NONE)
        from = verify_find(v, x, a, piece);
    if (dst->buffer != PLAN_NONE)
        to = verify_find(v, x, dst, piece);
    if (from.cell && from.cell != to.cell)
        hold_source(v, x, from, change);
    if (to.cell)
        hold_target(v, x, to, change);
}

static void hold_all(verifier *v, actor *x, const transfer *t, int change)
{
    const plan_operand *any = t->step->dst.buffer ? &t->step->dst : &t->step->a;
    bool whole = v->first->phases[t->phase].once && any->buffer != PLAN_SUMS;
    uint32_t first = whole ? 0 : t->piece, end = whole ? v->pieces : t->piece + 1;
    for (uint32_t piece = first; piece < end; piece++)
        hold(v, x, t, piece, change);
}

static void start_transfer(verifier *v, actor *x, const plan_step *step, uint32_t piece)
{
    uint16_t self = x->plan->layout.rank;
    bool sends = step->kind == PLAN_SEND;
    transfer *t = new_transfer(v);
    if (!t)
        return;
    *t = (transfer){
        .step = step, .phase = x->phase, .piece = piece, .rank = self, .clock = t->clock};
    memcpy(t->clock, x->clock, v->ranks * sizeof *t->clock);
    t->in_flight = x->flying;
    x->flying = t;
    x->unmatched++;
    hold_all(v, x, t, 1);
    queue *q = sends ? &v->queues[(size_t)self * v->ranks + step->peer]
                     : &v->queues[(size_t)step->peer * v->ranks + self];
    bool waiting = q->head && (q->head->step->kind == PLAN_SEND) != sends;
    if (!waiting)
        push(q, t);
    else if (sends)
        meet(v, t, pop(q));
    else
        meet(v, pop(q), t);
}

/* Rank q does not get on until x has come to where it is now. */
static void is_needed(verifier *v, const actor *x, unsigned q)
{
    const uint16_t self = x->plan->layout.rank;
    uint32_t *need = &v->actors[q].needs[self];
    *need = *need < x->clock[self] ? x->clock[self] : *need;
}

/* Ends all transfers of a rank, if their counterparts have started. The other end of a message may need
 * this one until here: a SEND to take the rest of it, a RECV to give it. */
static bool fence(verifier *v, actor *x)
{
    if (x->unmatched)
        return false;
    while (x->flying) {
        transfer *t = x->flying;
        x->flying = t->in_flight;
        is_needed(v, x, t->step->peer);
        if (t->step->kind != PLAN_SEND)
            verify_join_clock(v, x, t->clock);
        hold_all(v, x, t, -1);
        t->in_flight = v->spare_transfers;
        v->spare_transfers = t;
    }
    return true;
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

static uint32_t ticks_of(const verifier *v, const plan_phase *phase)
{
    return phase->once ? 1 : v->pieces + phase->depth - 1;
}

static bool await(verifier *v, actor *x, const plan_step *step)
{
    const actor *peer = &v->actors[step->peer];
    uint32_t now = x->published + 1;
    if (step->lag >= now)
        return true;
    if (peer->published < now - step->lag)
        return false;
    const uint32_t *then = peer->tick_clocks[now - step->lag - 1];
    verify_join_clock(v, x, then);
    if (x->needs[step->peer] < then[step->peer])
        x->needs[step->peer] = then[step->peer];
    return true;
}

static void publish(verifier *v, actor *x)
{
    if (x->flying)
        verify_fail(v, PLAN_CHECK_RACE, x->plan->layout.rank, x->step,
                    "publishes while transfers are under way");
    memcpy(x->tick_clocks[x->published++], x->clock, v->ranks * sizeof *x->clock);
}

/* The memory is the transport's from here on. */
static void enter_collective(verifier *v, actor *x, const plan_step *step)
{
    for (uint32_t piece = 0; piece < v->pieces; piece++) {
        if (step->a.buffer != PLAN_NONE)
            verify_access(v, x, verify_find(v, x, &step->a, piece), false);
        verify_access(v, x, verify_find(v, x, &step->dst, piece), true);
    }
    x->collective = step;
    v->collecting++;
}

/* Everybody has heard of everybody. */
static void end_collective(verifier *v)
{
    verify_collect(v);
    for (unsigned r = 1; r < v->ranks; r++)
        verify_join_clock(v, &v->actors[0], v->actors[r].clock);
    for (unsigned r = 0; r < v->ranks; r++) {
        verify_join_clock(v, &v->actors[r], v->actors[0].clock);
        v->actors[r].collected = true;
    }
    v->collecting = 0;
}

static bool collect(verifier *v, actor *x, const plan_step *step)
{
    if (x->collective == NULL)
        enter_collective(v, x, step);
    if (v->collecting == v->ranks)
        end_collective(v);
    if (!x->collected)
        return false;
    x->collected = false;
    x->collective = NULL;
    for (unsigned q = 0; q < v->ranks; q++)
        is_needed(v, x, q);
    return true;
}

/* Runs one step; false when it has to wait. `phase` is NULL outside of phases. */
static bool run_step(verifier *v, actor *x, const plan_phase *phase, const plan_step *step)
{
    bool always = step->kind == PLAN_FENCE || step->kind == PLAN_PUBLISH;
    bool once = !phase || phase->once;
    bool has_piece = x->tick >= step->stage && x->tick - step->stage < v->pieces;
    uint32_t piece = once ? 0 : x->tick - step->stage;
    if (!always && !once && !has_piece)
        return true;
    x->clock[x->plan->layout.rank]++;
    switch ((plan_kind)step->kind) {
    case PLAN_SEND:
    case PLAN_RECV:
    case PLAN_RECV_REDUCE:
        start_transfer(v, x, step, piece);
        return true;
    case PLAN_FENCE:
        return fence(v, x);
    case PLAN_AWAIT:
        return await(v, x, step);
    case PLAN_PUBLISH:
        publish(v, x);
        return true;
    case PLAN_ENTER:
        verify_enter(v, x);
        return true;
    case PLAN_WEIGH:
    case PLAN_ADDRESSES:
    case PLAN_START_SUMS:
        verify_step(v, x, step, 0);
        return true;
    case PLAN_COLL:
        return collect(v, x, step);
    case PLAN_LEAVE:
        return true;
    default:
        for (uint32_t i = piece; i < (once ? v->pieces : piece + 1); i++)
            verify_step(v, x, step, i);
        return true;
    }
}

static void end_phase(verifier *v, actor *x)
{
    if (x->flying)
        verify_fail(v, PLAN_CHECK_RACE, x->plan->layout.rank, x->step,
                    "a phase ends while transfers are under way");
    x->phase++;
    x->tick = 0;
}

static bool settled(const verifier *v)
{
    return v->no_memory || v->verdict.failed != PLAN_CHECK_OK;
}

/* Before the first phase. None of it waits: that the peers have left is given, and what is proved is that
 * it is known. */
static void enter(verifier *v, actor *x)
{
    const plan *p = x->plan;
    for (x->step = 0; x->step < p->entry_count; x->step++)
        run_step(v, x, NULL, &p->steps[x->step]);
    x->entered = true;
}

/* Runs a rank until it waits or ends; whether it got anywhere. */
static bool run_actor(verifier *v, actor *x)
{
    const plan *p = x->plan;
    bool moved = !x->entered;
    if (!x->entered)
        enter(v, x);
    while (x->phase < p->phase_count && !settled(v)) {
        const plan_phase *phase = &p->phases[x->phase];
        if (x->tick >= ticks_of(v, phase)) {
            end_phase(v, x);
            x->step = x->phase < p->phase_count ? p->phases[x->phase].first : p->step_count - 1;
            moved = true;
            continue;
        }
        for (; x->step < phase->first + phase->count; x->step++, moved = true)
            if (!run_step(v, x, phase, &p->steps[x->step]) || settled(v))
                return moved;
        x->tick++;
        x->step = phase->first;
    }
    run_step(v, x, NULL, &p->steps[p->step_count - 1]); /* LEAVE */
    verify_caller_touches(v, x);
    x->done = true;
    return true;
}

static void report_deadlock(verifier *v)
{
    for (unsigned r = 0; r < v->ranks; r++) {
        const actor *x = &v->actors[r];
        if (x->done)
            continue;
        verify_fail(v, PLAN_CHECK_DEADLOCK, r, x->step, "waits for ever");
        return;
    }
}

void verify_run(verifier *v)
{
    unsigned done = 0;
    bool moved = true;
    for (unsigned r = 0; r < v->ranks; r++) {
        v->actors[r].clock[r] = EPOCH_CAME;
        verify_caller_touches(v, &v->actors[r]);
    }
    while (done < v->ranks && moved && !settled(v)) {
        moved = false;
        for (unsigned r = 0; r < v->ranks && !settled(v); r++) {
            if (v->actors[r].done)
                continue;
            moved = run_actor(v, &v->actors[r]) || moved;
            done += v->actors[r].done;
        }
    }
    if (done < v->ranks && !settled(v))
        report_deadlock(v);
}
