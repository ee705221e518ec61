/* verify_race.c: happens-before.
 *
 * Each rank counts its steps (epochs) and keeps, per other rank, the last epoch of that rank which
 * surely happened before. Two accesses to the same memory, one of them a write, must be ordered.
 * Phases cut memory into pieces of different lengths, so accesses of different phases are compared
 * by whole chunk (or all slots of a rank), not by piece.
 */
#include "plan/verify.h"

#include <stdlib.h>

/* ---- Where things lie ------------------------------------------------------------------------ */

static place find_sums(verifier *v, const actor *x, const plan_operand *operand)
{
    unsigned self = x->plan->layout.rank, q = operand->rank;
    const uint16_t *host_of = x->plan->layout.host_of;
    bool shared = !host_of || host_of[q] == host_of[self];
    unsigned holder = shared ? q : self;
    return (place){&v->sum_cells[2 * ((size_t)holder * v->ranks + q) + operand->index], 0, true,
                   q == self};
}

place verify_find_address(verifier *v, const actor *x, const plan_operand *operand)
{
    cell *told = &v->actors[operand->rank].address[operand->buffer == PLAN_OUT];
    return (place){told, 0, true, operand->rank == x->plan->layout.rank};
}

place verify_find(verifier *v, const actor *x, const plan_operand *operand, uint32_t piece)
{
    const actor *holder = &v->actors[operand->rank];
    size_t i = (size_t)operand->index * v->pieces + piece;
    switch (operand->buffer) {
    case PLAN_IN:
        return (place){&holder->in[i], holder->in_span + operand->index, v->reached, false};
    case PLAN_OUT:
        return (place){&holder->out[i], holder->out_span + operand->index, v->reached, false};
    case PLAN_WORK:
        return (place){&holder->work[i], 0, false, false};
    case PLAN_SLOT:
        i = (size_t)(piece % PLAN_SLOTS) * v->cells + operand->index;
        return (place){&holder->slot[i], holder->slot_span, true, holder == x};
    default:
        return find_sums(v, x, operand);
    }
}

/* ---- Records --------------------------------------------------------------------------------- */

static void race(verifier *v, const actor *x, unsigned other, const char *what)
{
    verify_fail(v, PLAN_CHECK_RACE, x->plan->layout.rank, x->step, "rank %u may still %s it", other,
                what);
}

static void record_read(verifier *v, const actor *x, cell *c)
{
    uint16_t self = x->plan->layout.rank;
    uint32_t *link = &c->reads;
    for (; *link; link = &v->reads[*link].next)
        if (v->reads[*link].rank == self) {
            v->reads[*link].epoch = x->clock[self];
            return;
        }
    uint32_t i = v->free_read;
    if (i) {
        v->free_read = v->reads[i].next;
    } else {
        if (v->read_count == v->read_capacity) {
            read_record *larger =
                realloc(v->reads, 2 * (size_t)v->read_capacity * sizeof *v->reads);
            if (!larger) {
                v->no_memory = true;
                return;
            }
            v->reads = larger;
            v->read_capacity *= 2;
        }
        i = v->read_count++;
    }
    v->reads[i] = (read_record){.epoch = x->clock[self], .rank = self, .next = c->reads};
    c->reads = i;
}

static void drop_reads(verifier *v, cell *c)
{
    while (c->reads) {
        uint32_t i = c->reads;
        c->reads = v->reads[i].next;
        v->reads[i].next = v->free_read;
        v->free_read = i;
    }
}

static void access_cell(verifier *v, actor *x, cell *c, bool write)
{
    if (c->written > x->clock[c->writer])
        race(v, x, c->writer, "write");
    if (!write) {
        record_read(v, x, c);
        return;
    }
    for (uint32_t i = c->reads; i; i = v->reads[i].next)
        if (v->reads[i].epoch > x->clock[v->reads[i].rank])
            race(v, x, v->reads[i].rank, "read");
    drop_reads(v, c);
    c->writer = x->plan->layout.rank;
    c->written = x->clock[c->writer];
}

/* ---- Between phases -------------------------------------------------------------------------- */

static span_record *own_record(verifier *v, const actor *x, uint32_t span)
{
    uint16_t self = x->plan->layout.rank;
    for (uint32_t i = v->spans[span]; i; i = v->records[i].next)
        if (v->records[i].rank == self)
            return &v->records[i];
    if (v->record_count == v->record_capacity) {
        span_record *larger =
            realloc(v->records, 2 * (size_t)v->record_capacity * sizeof *v->records);
        if (!larger) {
            v->no_memory = true;
            return NULL;
        }
        v->records = larger;
        v->record_capacity *= 2;
    }
    uint32_t i = v->record_count++;
    v->records[i] = (span_record){.rank = self, .phase = x->phase, .next = v->spans[span]};
    v->spans[span] = i;
    return &v->records[i];
}

/* Everything other ranks did to the span in other phases must have happened before. */
static void check_span(verifier *v, const actor *x, uint32_t span, bool write)
{
    for (uint32_t i = v->spans[span]; i; i = v->records[i].next) {
        const span_record *other = &v->records[i];
        bool here = other->phase == x->phase;
        uint32_t known = x->clock[other->rank];
        if ((here ? other->write_before : other->write) > known)
            race(v, x, other->rank, "write, in another phase,");
        if (write && (here ? other->read_before : other->read) > known)
            race(v, x, other->rank, "read, in another phase,");
    }
}

static void access_span(verifier *v, const actor *x, uint32_t span, bool write)
{
    span_record *mine = own_record(v, x, span);
    uint32_t now = x->clock[x->plan->layout.rank];
    if (!mine)
        return;
    if (mine->phase != x->phase) {
        mine->phase = x->phase;
        mine->read_before = mine->read;
        mine->write_before = mine->write;
        mine->read_checked = mine->write_checked = false;
    }
    bool *checked = write ? &mine->write_checked : &mine->read_checked;
    if (!*checked)
        check_span(v, x, span, write);
    *checked = true;
    if (write)
        mine->write = now;
    else
        mine->read = now;
}

/* ---- Between operations ---------------------------------------------------------------------- */

void verify_enter(verifier *v, actor *x)
{
    const uint16_t self = x->plan->layout.rank;
    for (unsigned q = 0; q < v->ranks; q++) {
        if (q == self || !plan_same_host(x->plan, q, self))
            continue;
        x->clock[q] = x->clock[q] < EPOCH_LEFT ? EPOCH_LEFT : x->clock[q];
        x->needs[q] = x->needs[q] < EPOCH_LEFT ? EPOCH_LEFT : x->needs[q];
    }
}

/* Whatever the operation before was: until a peer has left it, it may read all that is ours. */
static void check_operation_before(verifier *v, actor *x)
{
    const uint16_t self = x->plan->layout.rank;
    x->owns_channel = true;
    for (unsigned q = 0; q < v->ranks; q++)
        if (q != self && plan_same_host(x->plan, q, self) && x->clock[q] < EPOCH_LEFT) {
            race(v, x, q, "read, for the operation before,");
            x->owns_channel = false;
        }
}

void verify_access(verifier *v, actor *x, place where, bool write)
{
    cell *c = where.cell;
    if (c->receiving || (write && c->sending))
        verify_fail(v, PLAN_CHECK_RACE, x->plan->layout.rank, x->step,
                    "touches memory that is in transfer");
    if (!where.reachable)
        return;
    if (write && where.channels && !x->owns_channel)
        check_operation_before(v, x);
    access_cell(v, x, c, write);
    if (where.span && v->first->phase_count > 1)
        access_span(v, x, where.span, write);
}

/* ---- The caller ------------------------------------------------------------------------------ */

static void touch_callers_memory(verifier *v, actor *x, plan_buffer buffer)
{
    uint32_t chunks = buffer == PLAN_IN ? v->in_chunks : v->out_chunks;
    plan_operand operand = {.buffer = (uint8_t)buffer, .rank = x->plan->layout.rank};
    for (operand.index = 0; operand.index < chunks; operand.index++)
        for (uint32_t piece = 0; piece < v->pieces; piece++)
            verify_access(v, x, verify_find(v, x, &operand, piece), true);
}

void verify_caller_touches(verifier *v, actor *x)
{
    if (!v->reached)
        return;
    touch_callers_memory(v, x, PLAN_IN);
    touch_callers_memory(v, x, PLAN_OUT);
}

void verify_join_clock(const verifier *v, actor *x, const uint32_t *clock)
{
    for (unsigned q = 0; q < v->ranks; q++)
        x->clock[q] = x->clock[q] > clock[q] ? x->clock[q] : clock[q];
}
