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

/* The piece length of a phase; the same on all ranks, since it follows from agreed numbers only. */
static uint64_t piece_elements(const exec_op *o, const plan_phase *phase)
{
    if (phase->once)
        return o->bound.largest;
    const uint64_t most = phase->cells > 0 ? o->cell_bytes : PIECE_BYTES;
    const uint64_t wanted = o->bound.channel->group->job->pieces;
    uint64_t bytes = round_up(o->bound.largest * o->element / wanted + 1, OS_CACHE_LINE);
    if (bytes < PIECE_LEAST)
        bytes = PIECE_LEAST;
    if (bytes > most)
        bytes = most;
    if (o->bound.plan->layout.adasum && bytes > EXEC_DOT_BLOCK)
        bytes -= bytes % EXEC_DOT_BLOCK; /* however long pieces are, the blocks are the same */
    return bytes / o->element;
}

/* The level whose sums the next phase weighs, if it does: they must start from zero. */
static void prepare_sums(exec_op *o)
{
    const plan *p = o->bound.plan;
    if (!p->layout.adasum || o->phase + 1 >= p->phase_count)
        return;
    const plan_phase *next = &p->phases[o->phase + 1];
    for (uint32_t i = 0; i < next->count; i++) {
        const plan_step *step = &p->steps[next->first + i];
        if (step->kind == PLAN_WEIGH)
            exec_prepare_sums(o, step->a.index);
    }
}

/* Nothing to do in it, and nobody waits for its ticks: it is left out. */
static bool is_idle(const exec_op *o, const plan_phase *phase)
{
    const plan_step *steps = &o->bound.plan->steps[phase->first];
    for (uint32_t i = 0; i < phase->count; i++) {
        if (!exec_is_idle(o, &steps[i]))
            return false;
    }
    return !phase->publishes;
}

static void enter_phase(exec_op *o)
{
    const plan_phase *phase = &o->bound.plan->phases[o->phase];
    o->cell_bytes = 0;
    if (phase->cells > 0)
        o->cell_bytes = o->bound.channel->slot_bytes / phase->cells / OS_CACHE_LINE * OS_CACHE_LINE;
    o->piece = piece_elements(o, phase);
    o->pieces = phase->once ? 1 : (uint32_t)((o->bound.largest + o->piece - 1) / o->piece);
    o->ticks = phase->once ? 1 : o->pieces + phase->depth - 1;
    if (is_idle(o, phase))
        o->ticks = 0;
    o->tick = o->step = 0;
    prepare_sums(o);
}

/* Every cell holds at least a line, and the pieces are so large that their ticks can be counted. */
static bool slots_suffice(const exec_op *o)
{
    uint64_t ticks = 0;
    for (uint32_t f = 0; f < o->bound.plan->phase_count; f++) {
        const uint16_t cells = o->bound.plan->phases[f].cells;
        const uint64_t cell = cells > 0 ? o->bound.channel->slot_bytes / cells : PIECE_BYTES;
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

/* Peers read the addresses after our first PUBLISH. */
static void publish_addresses(exec_op *o)
{
    const control_group *g = o->bound.channel->group;
    segment_address *addresses = o->bound.channel->peers[o->index].addresses;
    for (uint32_t i = 0; i < o->bound.tensor_count; i++) {
        addresses[i].in = (uint64_t)(o->bound.tensors[i].in - g->job->segment->base);
        addresses[i].out = (uint64_t)(o->bound.tensors[i].out - g->job->segment->base);
    }
}

rueda_status exec_start(exec_op *o, const exec_launch *launch, const kernel_table *kernel)
{
    *o = (exec_op){.bound = *launch,
                   .kernel = kernel,
                   .element = rueda_dtype_bytes(launch->dtype),
                   .index = launch->channel->group->index,
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
    if (flag == NULL || atomic_load_explicit(&flag->value, memory_order_acquire) >= value)
        return true;
    o->waiting_for = peer;
    return false;
}

/* Our slots, sums and addresses are free when all peers have finished the previous operation. */
static rueda_status enter(exec_op *o)
{
    const plan *p = o->bound.plan;
    for (uint16_t i = 0; p->uses_peers && i < p->layout.ranks; i++) {
        if (i != o->index && !peer_reached(o, i, flag_value(o, 0)))
            return RUEDA_OK;
    }
    const rueda_status status = p->uses_work ? take_scratch(o) : RUEDA_OK;
    if (status != RUEDA_OK)
        return status;
    if (p->layout.mapped)
        publish_addresses(o);
    o->entered = true;
    if (p->phase_count > 0)
        enter_phase(o);
    return RUEDA_OK;
}

static void set_flag(exec_op *o, uint64_t value)
{
    segment_flag *flag = o->bound.channel->peers[o->index].flag;
    if (flag == NULL)
        return;
    atomic_store_explicit(&flag->value, value, memory_order_release);
    control_notify(o->bound.channel->group);
}

static uint64_t finished_value(const exec_op *o)
{
    return (o->bound.sequence + 1) << EXEC_TICK_BITS;
}

static void publish(exec_op *o)
{
    const bool last = o->phase + 1 == o->bound.plan->phase_count && o->tick + 1 == o->ticks;
    set_flag(o, last ? finished_value(o) : flag_value(o, o->published + o->tick + 1));
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

/* One step; *blocked: it must be tried again. */
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
    case PLAN_KIND_COUNT:
        break;
    }
    return status_fail(RUEDA_ERR_INTERNAL, "a plan has a step of unknown kind %u", step->kind);
}

static bool has_piece(const exec_op *o, const plan_step *step)
{
    return step->kind == PLAN_PUBLISH || step->kind == PLAN_FENCE ||
           (step->stage <= o->tick && o->tick - step->stage < o->pieces);
}

static rueda_status run_tick(exec_op *o, bool *blocked, bool *moved)
{
    const plan_phase *phase = &o->bound.plan->phases[o->phase];
    const plan_step *steps = &o->bound.plan->steps[phase->first];
    while (o->step < phase->count) {
        const plan_step *step = &steps[o->step];
        if (has_piece(o, step)) {
            if (o->bound.fault != NULL)
                fault_before_step(o->bound.fault, o->executed, o->bound.channel->group->job);
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

static bool ends_with_publish(const plan *p)
{
    return p->phase_count > 0 && p->phases[p->phase_count - 1].publishes;
}

rueda_status exec_run(exec_op *o, uint32_t budget, exec_result *result, bool *moved)
{
    *result = EXEC_BLOCKED;
    o->waiting_for = -1;
    if (!o->entered) {
        const rueda_status status = enter(o);
        if (status != RUEDA_OK || !o->entered)
            return status;
        *moved = true;
    }
    while (in_phase(o)) {
        if (budget-- == 0) {
            *result = EXEC_MORE;
            return RUEDA_OK;
        }
        bool blocked = false;
        const rueda_status status = run_tick(o, &blocked, moved);
        if (status != RUEDA_OK || blocked) {
            if (o->bound.trace != NULL && (status != RUEDA_OK || o->tries++ == EXEC_TRIES_TOLD))
                exec_trace_stuck(o, status != RUEDA_OK);
            return status;
        }
        o->tries = 0;
        if (o->traces_ticks)
            exec_trace_tick(o);
    }
    const transport_table *table = o->bound.channel->table;
    if (table->flushed != NULL && !table->flushed(o->bound.channel))
        return RUEDA_OK; /* blocked: our part is done, and others have not all of it */
    if (!ends_with_publish(o->bound.plan))
        set_flag(o, finished_value(o));
    if (o->bound.trace != NULL)
        exec_trace_end(o);
    *result = EXEC_DONE;
    return RUEDA_OK;
}
