/* launch.c: from decided tensors to operations in flight: each gets a plan and a channel.
 *
 * Invariant: which plan and which channel follows from agreed numbers only, so all members launch the
 * same operations in the same order.
 */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES (256 * KIB) /* from here on an operation uses the lane for large ones */
#define STREAM_BYTES (32 * MIB) /* an output of this size does not stay in a cache anyway */

static const kernel_op kernel_ops[RUEDA_OP_COUNT] = {
    [RUEDA_AVERAGE] = KERNEL_SUM, [RUEDA_SUM] = KERNEL_SUM, [RUEDA_ADASUM] = KERNEL_SUM,
    [RUEDA_MIN] = KERNEL_MIN,     [RUEDA_MAX] = KERNEL_MAX, [RUEDA_PRODUCT] = KERNEL_PRODUCT};

/* The tensor has no operation: nothing of it has to be moved, or it is refused. */
static void end_record(engine *e, process_set *s, record *r, rueda_status status, const char *text)
{
    if (r->launching != NULL)
        engine_end_entry(e, s, r->launching, status, text);
    else if (r->cache.bit < 0)
        negotiation_settle(&s->negotiation, r);
}

static void to_lane(engine *e, operation *o, uint64_t bytes)
{
    process_set *s = o->set;
    const uint32_t channels = e->segment.header->channels;
    const uint32_t small_channels = channels > 1 ? channels / 2 : 1;
    o->bytes = bytes;
    o->large = bytes >= LARGE_BYTES;
    const lane l = o->large ? LANE_LARGE : LANE_SMALL;
    const uint64_t turn = s->launched[l]++;
    if (!o->large)
        o->channel = (uint32_t)(turn % small_channels);
    else if (channels > 1)
        o->channel = small_channels + (uint32_t)(turn % (channels - small_channels));
}

/* In place the output was just read as input and is in the cache: no reason to go past it. */
static bool streams(const operation *o)
{
    return o->bytes >= (uint64_t)STREAM_BYTES && o->tensors[0].in != o->tensors[0].out;
}

/* Whether nothing of it is ours. Neutral values must stay what they are: they are not scaled. */
static bool is_neutral(const operation *o)
{
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->entries[i] != NULL)
            return false;
    }
    return true;
}

static rueda_status start(engine *e, operation *o, const record *r, const plan *p, uint64_t largest,
                          const exec_extent *in, const exec_extent *out)
{
    process_set *s = o->set;
    const signature *sig = &r->agreed;
    const uint64_t number = s->next_number++;
    const bool average = sig->op == RUEDA_AVERAGE && signature_reduces(o->kind);
    const double postscale = average ? sig->postscale / s->size : sig->postscale;
    const bool divides = average && postscale != 1.0 && sig->dtype < RUEDA_F16;
    uint64_t slot_bytes = e->segment.header->slot_bytes;
    if (s != &e->sets[RUEDA_GLOBAL_SET]) {
        const uint64_t bytes = largest * rueda_dtype_bytes((rueda_dtype)sig->dtype);
        const rueda_status provided = sets_provide(e, o, p, bytes, &slot_bytes);
        if (provided != RUEDA_OK)
            return provided;
    }
    const exec_launch launch = {
        .plan = p,
        .channel = s->channels[o->channel],
        .scratch = &s->scratch[o->channel],
        .sequence = s->begun[o->channel],
        .number = number,
        .dtype = (rueda_dtype)sig->dtype,
        .op = kernel_ops[sig->op],
        .prescale = is_neutral(o) ? 1.0 : sig->prescale,
        .postscale = postscale,
        .divisor = divides ? s->size / sig->postscale : 0,
        .tensors = o->tensors,
        .tensor_count = o->count,
        .in = in,
        .out = out,
        .largest = largest,
        .pieces = e->pieces,
        .slot_bytes = slot_bytes,
        .stream = streams(o),
        .trace = trace_if_on(&e->trace),
        .fault = fault_for(&e->fault, (uint32_t)e->who.rank, s->members.set, number)};
    o->decided_ns = e->decided_ns;
    const rueda_status status = exec_start(&o->exec, &launch, e->kernel);
    if (status != RUEDA_OK)
        return status;
    atomic_fetch_add_explicit(&e->counters.launches, 1, memory_order_relaxed);
    s->begun[o->channel]++;
    operation_append(o->kind >= SIGNATURE_ADD_SET ? &e->set_operations : &s->flight[o->large], o);
    return RUEDA_OK;
}

/* A rank that has joined takes part with values that change nothing. */
static rueda_status make_neutral(operation *o, const record *r, uint64_t elements)
{
    const rueda_dtype dtype = (rueda_dtype)r->agreed.dtype;
    o->neutral = malloc(elements * rueda_dtype_bytes(dtype) + 1);
    if (o->neutral == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory after join", r->name);
    kernel_fill_neutral(o->neutral, dtype, kernel_ops[r->agreed.op], elements);
    return RUEDA_OK;
}

static void bind_tensor(operation *o, uint32_t i, record *r, uint64_t offset)
{
    const uint64_t count = signature_elements(&r->agreed);
    entry *own = r->launching;
    const uint64_t skip = offset * rueda_dtype_bytes((rueda_dtype)r->agreed.dtype);
    o->entries[i] = own;
    o->tensors[i] = (exec_tensor){offset, count, own != NULL ? own->in : o->neutral + skip,
                                  own != NULL ? own->out : o->neutral + skip};
}

/* Tensors we only stand in for count as outstanding, too: someone must drive the operation, even if
 * our join has ended with the round that decided it. Nobody here needs their records. */
static void count_neutral(engine *e, process_set *s, record *const *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (records[i]->launching != NULL)
            continue;
        atomic_fetch_add(&e->outstanding, 1);
        if (records[i]->cache.bit < 0)
            negotiation_settle(&s->negotiation, records[i]);
    }
}

static rueda_status launch_fused(engine *e, process_set *s, record **records, uint32_t count)
{
    uint64_t elements = 0;
    bool all_here = true;
    for (uint32_t i = 0; i < count; i++) {
        elements += signature_elements(&records[i]->agreed);
        all_here = all_here && records[i]->launching != NULL;
    }
    const record *first = records[0];
    const uint64_t element_bytes = rueda_dtype_bytes((rueda_dtype)first->agreed.dtype);
    const plan *p;
    rueda_status status = plans_find(e, s, first, elements * element_bytes, count, &p);
    if (status != RUEDA_OK)
        return status;
    operation *o = operation_new(count, p->chunks);
    if (o == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory", first->name);
    o->set = s;
    o->kind = SIGNATURE_ALLREDUCE;
    if (!all_here)
        status = make_neutral(o, first, elements);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count && status == RUEDA_OK; i++) {
        bind_tensor(o, i, records[i], offset);
        offset += o->tensors[i].count;
    }
    const uint64_t largest = shape_fused(e, o->extents, p, elements, element_bytes);
    to_lane(e, o, elements * element_bytes);
    if (status == RUEDA_OK)
        status = start(e, o, first, p, largest, o->extents, o->extents);
    if (status != RUEDA_OK)
        operation_free(o);
    else if (!all_here)
        count_neutral(e, s, records, count);
    return status;
}

static rueda_status launch_single(engine *e, process_set *s, record *r)
{
    const bool by_rows = r->agreed.kind == SIGNATURE_GATHER || r->agreed.kind == SIGNATURE_SCATTER;
    const uint64_t bytes = by_rows ? shape_rows(r, s) * signature_row_elements(&r->agreed) *
                                         rueda_dtype_bytes((rueda_dtype)r->agreed.dtype)
                                   : signature_bytes(&r->agreed);
    const plan *p;
    rueda_status status = plans_find(e, s, r, bytes, 1, &p);
    if (status != RUEDA_OK)
        return status;
    const uint32_t chunks = p->chunks > s->size ? p->chunks : s->size;
    operation *o = operation_new(1, chunks);
    if (o == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory", r->name);
    o->set = s;
    o->kind = r->agreed.kind;
    o->entries[0] = r->launching;
    uint64_t largest;
    status = shape_single(o, r, p->chunks, chunks, &largest);
    const bool has_data = r->agreed.kind < SIGNATURE_BARRIER;
    if (status == RUEDA_OK && has_data && largest == 0) {
        operation_finish(e, o, RUEDA_OK, "");
        return RUEDA_OK;
    }
    to_lane(e, o,
            o->kind < SIGNATURE_BARRIER
                ? largest * s->size * rueda_dtype_bytes((rueda_dtype)r->agreed.dtype)
                : 0);
    if (status == RUEDA_OK)
        status = start(e, o, r, p, largest, o->extents, o->extents + chunks);
    if (status != RUEDA_OK)
        operation_free(o);
    return status;
}

static rueda_status launch_next(engine *e, process_set *s, record **list, uint32_t count,
                                record **fused)
{
    record *r = list[0];
    if (r->agreed.kind != SIGNATURE_ALLREDUCE) {
        const rueda_status status = launch_single(e, s, r);
        if (status != RUEDA_OK)
            end_record(e, s, r, status, status_text());
        return status;
    }
    if (signature_bytes(&r->agreed) == 0) {
        end_record(e, s, r, RUEDA_OK, "");
        return RUEDA_OK;
    }
    const uint32_t taken = fuse_take(e, list, count, fused);
    const rueda_status status = launch_fused(e, s, fused, taken);
    if (status == RUEDA_OK)
        return RUEDA_OK;
    char text[STATUS_TEXT_MAX];
    snprintf(text, sizeof text, "%s", status_text());
    for (uint32_t i = 0; i < taken; i++)
        end_record(e, s, fused[i], status, text);
    return status_restore(status, text);
}

/* Errors that all members find alike. */
static rueda_status check_agreed(const process_set *s, const record *r)
{
    if (r->conflicting)
        return status_restore(RUEDA_ERR_MISMATCH, r->conflict);
    if (!r->whole && r->agreed.kind != SIGNATURE_ALLREDUCE)
        return status_fail(
            RUEDA_ERR_JOINED,
            "tensor '%s': %s cannot run while rank %d has joined: until all ranks have, only allreduce "
            "works; let every rank call join, and submit it again when join has returned",
            r->name, signature_kind_name(r->agreed.kind), s->ranks[s->negotiation.last_joined]);
    return RUEDA_OK;
}

/* Of a group that one member has spoilt, this one may be known and come again. */
static void refuse(engine *e, process_set *s, record *r, rueda_status status, const char *text)
{
    free(r->conflict);
    r->conflict = NULL;
    r->conflicting = false;
    end_record(e, s, r, status, text);
}

void launch_decided(engine *e, process_set *s, const negotiation_result *result)
{
    if (result->count == 0)
        return;
    record **list = malloc(2 * result->count * sizeof *list);
    if (list == NULL) {
        engine_break_all(e, status_fail(RUEDA_ERR_MEMORY, "out of memory to launch operations"));
        for (uint32_t i = 0; i < result->count; i++)
            refuse(e, s, result->decided[i], e->broken, e->broken_text);
        engine_tell_waiters(e);
        return;
    }
    memcpy(list, result->decided, result->count * sizeof *list);
    for (uint32_t i = 0; i < result->count; i++) {
        if (list[i] == NULL)
            continue;
        rueda_status status = e->broken == RUEDA_OK ? check_agreed(s, list[i])
                                                    : status_restore(e->broken, e->broken_text);
        if (status != RUEDA_OK) {
            refuse(e, s, list[i], status, status_text());
            continue;
        }
        status = launch_next(e, s, list + i, result->count - i, list + result->count);
        if (status != RUEDA_OK)
            engine_break_all(e, status);
    }
    free(list);
    engine_tell_waiters(e);
}
