/* exec.c: walks phases, ticks and steps. */
#include "exec/exec.h"

#include <stdlib.h>

#define PIECE_BYTES 65536 /* of a phase without slots: stays in a core's own cache */
#define PIECE_LEAST 32768 /* smaller pieces cost more in flags than they gain in overlap */

#define TICKS_SPARE 512 /* more than the stages of any phase */

_Static_assert(PLAN_SLOTS == 4, "segment.c lays out four slots");

static uint64_t flag_value(const exec_op *o, uint64_t tick)
{
    return (o->bound.sequence << EXEC_TICK_BITS) + tick;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Chunks that are one piece by any rule: the smallest operations are spared three divisions. */
static bool is_one_piece(const exec_op *o, const plan_phase *phase)
{
    const uint64_t bytes = o->bound.largest * o->element;
    return phase->once || (bytes <= EXEC_DOT_BLOCK && o->bound.piece_limit == 0 &&
                           (phase->cells == 0 || bytes <= o->cell_bytes));
}

/* The piece length of a phase; the same on all ranks, since it follows from agreed numbers only. */
static uint64_t piece_elements(const exec_op *o, const plan_phase *phase)
{
    const uint64_t most = phase->cells > 0 ? o->cell_bytes : PIECE_BYTES;
    uint64_t bytes = round_up(o->bound.largest * o->element / o->bound.pieces + 1, OS_CACHE_LINE);
    if (bytes < PIECE_LEAST)
        bytes = PIECE_LEAST;
    if (bytes > most)
        bytes = most;
    if (o->bound.plan->layout.adasum && bytes > EXEC_DOT_BLOCK)
        bytes -= bytes % EXEC_DOT_BLOCK; /* however long pieces are, the blocks are the same */
    if (o->bound.piece_limit > 0 && bytes > o->bound.piece_limit)
        bytes = o->bound.piece_limit;
    return bytes / o->element;
}

/* Nothing to do in it, and nobody waits for its ticks: it is left out. */
static bool is_idle(const exec_op *o, const plan_phase *phase)
{
    const plan_step *steps = &o->bound.plan->steps[phase->first];
    if (phase->publishes)
        return false;
    for (uint32_t i = 0; i < phase->count; i++) {
        if (!exec_is_idle(o, &steps[i]))
            return false;
    }
    return true;
}

static void enter_phase(exec_op *o)
{
    const plan_phase *phase = &o->bound.plan->phases[o->phase];
    o->cell_bytes = 0;
    if (phase->cells > 0)
        o->cell_bytes = o->slot_bytes / phase->cells / OS_CACHE_LINE * OS_CACHE_LINE;
    const bool one = is_one_piece(o, phase);
    o->piece = one ? o->bound.largest : piece_elements(o, phase);
    o->pieces = one ? 1 : (uint32_t)((o->bound.largest + o->piece - 1) / o->piece);
    o->ticks = phase->once ? 1 : o->pieces + phase->depth - 1;
    if (is_idle(o, phase))
        o->ticks = 0;
    o->tick = o->step = 0;
}

/* Every cell holds at least a line, and the pieces are so large that their ticks can be counted. */
static bool slots_suffice(const exec_op *o)
{
    uint64_t ticks = 0;
    for (uint32_t f = 0; f < o->bound.plan->phase_count; f++) {
        const uint16_t cells = o->bound.plan->phases[f].cells;
        const uint64_t cell = cells > 0 ? o->slot_bytes / cells : PIECE_BYTES;
        if (cell < OS_CACHE_LINE)
            return false;
        ticks +=
            o->bound.largest * o->element / (cell / OS_CACHE_LINE * OS_CACHE_LINE) + TICKS_SPARE;
    }
    return ticks < (UINT64_C(1) << EXEC_TICK_BITS);
}

static rueda_status take_memory(exec_op *o)
{
    if (!o->bound.plan->layout.adasum)
        return RUEDA_OK;
    o->coefficients = calloc(o->bound.tensor_count, 2 * sizeof *o->coefficients);
    o->norms = calloc(o->bound.tensor_count, sizeof *o->norms);
    if (o->coefficients == NULL || o->norms == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for an Adasum operation");
    for (uint32_t t = 0; t < o->bound.tensor_count; t++)
        o->norms[t].counted = 1; /* of a rank that is alone: nobody weighs it */
    return RUEDA_OK;
}

void exec_scratch_free(exec_scratch *s)
{
    free(s->memory);
    *s = (exec_scratch){NULL, 0};
}

/* Only when the channel's earlier operation is done: it used the same memory. */
static rueda_status take_scratch(exec_op *o)
{
    exec_scratch *s = o->bound.scratch;
    const exec_tensor *last = &o->bound.tensors[o->bound.tensor_count - 1];
    const size_t needed = round_up((last->offset + last->count) * o->element + 1, OS_CACHE_LINE);
    if (s->bytes < needed) {
        exec_scratch_free(s);
        s->memory = os_large_alloc(needed);
        if (s->memory == NULL)
            return status_fail(RUEDA_ERR_MEMORY, "no %zu bytes for the work of an operation",
                               needed);
        s->bytes = needed;
    }
    o->work = s->memory;
    return RUEDA_OK;
}

rueda_status exec_start(exec_op *o, const exec_launch *launch, const kernel_table *kernel)
{
    *o = (exec_op){.bound = *launch,
                   .kernel = kernel,
                   .element = rueda_dtype_bytes(launch->dtype),
                   .index = launch->channel->members->index,
                   .slot_bytes =
                       launch->slot_bytes != 0 ? launch->slot_bytes : launch->channel->slot_bytes,
                   .waiting_for = -1};
    if (!slots_suffice(o))
        return status_fail(
            RUEDA_ERR_ARGUMENT,
            "RUEDA_SLOT_BYTES=%llu is too small for a tensor of this size on %u ranks: raise it",
            (unsigned long long)launch->channel->slot_bytes, launch->plan->layout.ranks);
    o->traces_ticks = exec_trace_wants_ticks(o);
    const rueda_status status = take_memory(o);
    if (status != RUEDA_OK)
        exec_fini(o);
    return status;
}

void exec_fini(exec_op *o)
{
    free(o->coefficients);
    free(o->norms);
    free(o->messages);
    o->work = NULL;
    o->coefficients = NULL;
    o->norms = NULL;
    o->messages = NULL;
}

static bool peer_reached(exec_op *o, uint16_t peer, uint64_t value)
{
    const segment_flag *flag = o->bound.channel->peers[peer].flag;
    if (flag == NULL)
        return true;
    /* by the distance: flags may count beyond the last number and on from 0 */
    if ((int64_t)(atomic_load_explicit(&flag->value, memory_order_acquire) - value) >= 0)
        return true;
    o->waiting_for = peer;
    return false;
}

/* Whether all members whose flags we see have left the channel's operation before. */
static bool enter(exec_op *o)
{
    for (uint16_t i = 0; i < o->bound.plan->layout.ranks; i++) {
        if (i != o->index && !peer_reached(o, i, flag_value(o, 0)))
            return false;
    }
    return true;
}

static void tell_addresses(exec_op *o, const plan_step *step)
{
    const transport_peer *self = &o->bound.channel->peers[o->index];
    const uintptr_t heap = (uintptr_t)self->heap;
    for (uint32_t i = 0; i < o->bound.tensor_count; i++) {
        if (step->a.buffer == PLAN_IN)
            self->addresses[i].in = (uintptr_t)o->bound.tensors[i].in - heap;
        if (step->dst.buffer == PLAN_OUT)
            self->addresses[i].out = (uintptr_t)o->bound.tensors[i].out - heap;
    }
}

static void set_flag(exec_op *o, uint64_t value)
{
    segment_flag *flag = o->bound.channel->peers[o->index].flag;
    if (flag == NULL)
        return;
    atomic_store_explicit(&flag->value, value, memory_order_release);
    world_point();
    control_notify(o->bound.channel->members);
}

/* After the very last tick LEAVE says more. */
static void publish(exec_op *o)
{
    const bool last = o->phase + 1 == o->bound.plan->phase_count && o->tick + 1 == o->ticks;
    if (!last)
        set_flag(o, flag_value(o, o->published + o->tick + 1));
}

/* Not as long as something that others need waits for our calls. */
static bool leave(exec_op *o)
{
    const transport_table *table = o->bound.channel->table;
    if (table->flushed != NULL && !table->flushed(o->bound.channel))
        return false;
    set_flag(o, (o->bound.sequence + 1) << EXEC_TICK_BITS);
    return true;
}

static bool awaited(exec_op *o, const plan_step *step)
{
    const uint64_t tick = o->published + o->tick + 1;
    return step->lag >= tick || peer_reached(o, step->peer, flag_value(o, tick - step->lag));
}

/* A step waits for a peer's memory: messages that were started need not. */
static rueda_status move_meanwhile(exec_op *o, bool *moved)
{
    bool done;
    const int waiting_for = o->waiting_for;
    const rueda_status status =
        o->message_count > 0 ? exec_messages_progress(o, &done, moved) : RUEDA_OK;
    o->waiting_for = waiting_for;
    return status;
}

/* One step of a phase; *blocked: it must be tried again. */
static rueda_status run_step(exec_op *o, const plan_step *step, bool *blocked, bool *moved)
{
    const uint32_t piece = o->tick - step->stage;
    switch ((plan_kind)step->kind) {
    case PLAN_COPY:
    case PLAN_REDUCE:
    case PLAN_DOT:
    case PLAN_COMBINE:
        exec_data_step(o, step, piece);
        return RUEDA_OK;
    case PLAN_WEIGH:
        exec_weigh(o, step);
        return RUEDA_OK;
    case PLAN_PUBLISH:
        publish(o);
        return RUEDA_OK;
    case PLAN_AWAIT:
        *blocked = !awaited(o, step);
        return *blocked ? move_meanwhile(o, moved) : RUEDA_OK;
    case PLAN_SEND:
    case PLAN_RECV:
    case PLAN_RECV_REDUCE:
        return exec_message_start(o, step, piece);
    case PLAN_FENCE: {
        bool done;
        const rueda_status status = exec_messages_progress(o, &done, moved);
        *blocked = !done;
        return status;
    }
    case PLAN_COLL: {
        bool done = false;
        const rueda_status status = exec_collect(o, step, &done);
        *blocked = !done;
        return status;
    }
    case PLAN_START_SUMS:
        exec_start_sums(o, step->dst.index);
        return RUEDA_OK;
    default:
        break;
    }
    return status_fail(RUEDA_ERR_INTERNAL, "a plan has a step of kind %u in a phase", step->kind);
}

static bool has_piece(const exec_op *o, const plan_step *step)
{
    return step->kind == PLAN_PUBLISH || step->kind == PLAN_FENCE ||
           (step->stage <= o->tick && o->tick - step->stage < o->pieces);
}

/* A step before the first or after the last phase. Apart from the others, which run a thousand times as
 * often: the smallest operations would lose some percent by it. */
static rueda_status run_outer_step(exec_op *o, const plan_step *step, bool *blocked)
{
    switch ((plan_kind)step->kind) {
    case PLAN_ENTER:
        *blocked = !enter(o);
        return RUEDA_OK;
    case PLAN_ADDRESSES:
        tell_addresses(o, step);
        return RUEDA_OK;
    case PLAN_START_SUMS:
        exec_start_sums(o, step->dst.index);
        return RUEDA_OK;
    case PLAN_LEAVE:
        *blocked = !leave(o);
        return RUEDA_OK;
    default:
        return status_fail(RUEDA_ERR_INTERNAL, "a plan has a step of kind %u outside of its phases",
                           step->kind);
    }
}

static rueda_status try_outer_step(exec_op *o, const plan_step *step, bool *blocked, bool *moved)
{
    world_point();
    if (o->bound.fault != NULL)
        fault_before_step(o->bound.fault, o->executed, o->bound.channel->members->job);
    const rueda_status status = run_outer_step(o, step, blocked);
    if (status != RUEDA_OK || *blocked)
        return status;
    *moved = true;
    o->executed++;
    return RUEDA_OK;
}

/* The steps before the first phase, and then into it. */
static rueda_status run_entry(exec_op *o, uint64_t limit, bool *blocked, bool *moved)
{
    const plan *p = o->bound.plan;
    if (p->uses_work && o->work == NULL) {
        const rueda_status status = take_scratch(o);
        if (status != RUEDA_OK)
            return status;
    }
    for (; o->step < p->entry_count && o->executed < limit; o->step++) {
        const rueda_status status = try_outer_step(o, &p->steps[o->step], blocked, moved);
        if (status != RUEDA_OK || *blocked)
            return status;
    }
    if (o->step < p->entry_count)
        return RUEDA_OK;
    o->entered = true;
    o->step = 0;
    if (p->phase_count > 0)
        enter_phase(o);
    return RUEDA_OK;
}

static rueda_status run_tick(exec_op *o, uint64_t limit, bool *blocked, bool *moved)
{
    const plan_phase *phase = &o->bound.plan->phases[o->phase];
    const plan_step *steps = &o->bound.plan->steps[phase->first];
    while (o->step < phase->count) {
        const plan_step *step = &steps[o->step];
        if (has_piece(o, step)) {
            if (o->executed == limit)
                return RUEDA_OK;
            world_point();
            if (o->bound.fault != NULL)
                fault_before_step(o->bound.fault, o->executed, o->bound.channel->members->job);
            const rueda_status status = run_step(o, step, blocked, moved);
            if (status != RUEDA_OK || *blocked)
                return status;
            *moved = true;
            o->executed++;
        }
        o->step++;
    }
    o->step = 0;
    o->tick++;
    o->tries = 0;
    if (o->traces_ticks)
        exec_trace_tick(o);
    return RUEDA_OK;
}

/* Leaves phases that are done; false: the plan is done. */
static bool in_phase(exec_op *o)
{
    const plan *p = o->bound.plan;
    while (o->phase < p->phase_count && o->tick == o->ticks) {
        if (p->phases[o->phase].publishes)
            o->published += o->ticks;
        if (++o->phase < p->phase_count)
            enter_phase(o);
    }
    return o->phase < p->phase_count;
}

uint32_t exec_next_step(const exec_op *o)
{
    const plan *p = o->bound.plan;
    if (!o->entered)
        return o->step;
    return o->phase < p->phase_count ? p->phases[o->phase].first + o->step : p->step_count - 1;
}

/* All steps, in their order, as far as it goes. */
static rueda_status run_plan(exec_op *o, uint64_t limit, bool *blocked, bool *moved, bool *done)
{
    const plan *p = o->bound.plan;
    rueda_status status = RUEDA_OK;
    if (!o->entered)
        status = run_entry(o, limit, blocked, moved);
    while (status == RUEDA_OK && !*blocked && o->executed < limit && in_phase(o))
        status = run_tick(o, limit, blocked, moved);
    if (status != RUEDA_OK || *blocked || o->executed >= limit)
        return status;
    status = try_outer_step(o, &p->steps[p->step_count - 1], blocked, moved);
    *done = status == RUEDA_OK && !*blocked;
    return status;
}

rueda_status exec_run(exec_op *o, uint32_t budget, exec_result *result, bool *moved)
{
    bool blocked = false, done = false;
    o->waiting_for = -1;
    const rueda_status status = run_plan(o, o->executed + budget, &blocked, moved, &done);
    *result = done ? EXEC_DONE : blocked || status != RUEDA_OK ? EXEC_BLOCKED : EXEC_MORE;
    if (o->bound.trace == NULL)
        return status;
    if (status != RUEDA_OK || (blocked && o->tries++ == EXEC_TRIES_TOLD))
        exec_trace_stuck(o, status != RUEDA_OK);
    if (done)
        exec_trace_end(o);
    return status;
}
