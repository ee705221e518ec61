/* builder.c: what authors call: plans, phases, data steps. See builder.h; edges are added in
 * builder_edges.c when a phase closes. */
#include "plan/builder.h"

#include <stdlib.h>
#include <string.h>

/* ---- Memory ---------------------------------------------------------------------------------- */

void *builder_grow(builder *b, void *array, uint32_t count, uint32_t *capacity, size_t size)
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
    return plan_same_host(b->plan, q, b->rank);
}

/* ---- Phases ---------------------------------------------------------------------------------- */

static void open_phase(builder *b, plan_phase phase)
{
    builder_close_phase(b);
    b->phase = phase;
    b->open = true;
    b->settled = false;
    b->stage = 0;
}

void builder_loop(builder *b, unsigned depth, unsigned cells)
{
    open_phase(b,
               (plan_phase){.depth = (uint16_t)depth, .cells = (uint16_t)cells, .publishes = true});
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
    b->drafts = builder_grow(b, b->drafts, b->draft_count, &b->draft_capacity, sizeof *b->drafts);
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
    b->marks[q] |= BUILDER_READS_SLOTS;
}

void builder_reached(builder *b, plan_buffer buffer)
{
    b->reached_in = b->reached_in || buffer == PLAN_IN;
    b->reached_out = b->reached_out || buffer == PLAN_OUT;
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

void builder_start_sums(builder *b, unsigned parity)
{
    if (b->open)
        draft(b, (plan_step){.kind = PLAN_START_SUMS, .dst = own(b, PLAN_SUMS, parity)});
    else
        b->starts_sums = true;
}

void builder_weigh(builder *b, unsigned first, unsigned middle, unsigned end, unsigned parity)
{
    draft(b, (plan_step){.kind = PLAN_WEIGH,
                         .ranks = (uint16_t)(end - first),
                         .a = at(PLAN_SUMS, first, parity),
                         .b = at(PLAN_SUMS, middle, parity)});
}

void builder_combine(builder *b, plan_operand dst, plan_operand lower, plan_operand upper)
{
    draft(b, (plan_step){.kind = PLAN_COMBINE, .dst = dst, .a = lower, .b = upper});
}

void builder_collect(builder *b, plan_operand dst, plan_operand a)
{
    draft(b, (plan_step){.kind = PLAN_COLL, .dst = dst, .a = a});
}

void builder_reduce_in_order(builder *b, plan_operand out, plan_operand own_part,
                             plan_operand spare, plan_buffer buffer, uint32_t index, unsigned first,
                             unsigned end)
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

/* Whether a step writes what peers of this host may read: they may still do so for the operation before. */
static bool writes_for_peers(const builder *b, const plan_step *step)
{
    bool slot = step->dst.buffer == PLAN_SLOT && step->dst.rank == b->rank;
    return slot || step->kind == PLAN_START_SUMS || step->kind == PLAN_ADDRESSES;
}

static bool has_neighbour(const builder *b)
{
    for (unsigned q = 0; q < b->ranks; q++)
        if (q != b->rank && builder_same_host(b, q))
            return true;
    return false;
}

static unsigned list_entry(const builder *b, plan_step entry[3])
{
    const plan *p = b->plan;
    plan_operand in = b->reached_in ? own(b, PLAN_IN, 0) : nothing();
    plan_operand out = b->reached_out ? own(b, PLAN_OUT, 0) : nothing();
    unsigned count = 1; /* after ENTER */
    if (b->reached_in || b->reached_out)
        entry[count++] = (plan_step){.kind = PLAN_ADDRESSES, .dst = out, .a = in};
    if (b->starts_sums)
        entry[count++] = (plan_step){.kind = PLAN_START_SUMS, .dst = own(b, PLAN_SUMS, 0)};
    bool enters = count > 1;
    for (uint32_t i = 0; i < p->step_count && !enters; i++)
        enters = writes_for_peers(b, &p->steps[i]);
    if (enters && has_neighbour(b)) {
        entry[0] = (plan_step){.kind = PLAN_ENTER};
        return count;
    }
    memmove(entry, entry + 1, (count - 1) * sizeof *entry);
    return count - 1;
}

/* Puts the steps of the entry before all others. */
static void add_entry(builder *b)
{
    plan *p = b->plan;
    plan_step entry[3];
    const unsigned count = list_entry(b, entry);
    for (unsigned i = 0; i < count; i++)
        builder_emit(b, entry[i]);
    if (b->failed || count == 0)
        return; /* a barrier by messages has no entry, and perhaps no step at all */
    memmove(p->steps + count, p->steps, (p->step_count - count) * sizeof *p->steps);
    memcpy(p->steps, entry, count * sizeof *entry);
    p->entry_count = count;
    for (uint32_t i = 0; i < p->phase_count; i++)
        p->phases[i].first += count;
}

plan *builder_finish(builder *b)
{
    builder_close_phase(b);
    add_entry(b);
    builder_emit(b, (plan_step){.kind = PLAN_LEAVE});
    plan *p = b->failed ? NULL : b->plan;
    if (p) {
        b->plan = NULL;
        plan_derive(p);
    }
    builder_abandon(b);
    return p;
}
