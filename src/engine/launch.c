/* launch.c: from decided tensors to operations in flight: fusion, outputs, chunks, plan, channel.
 *
 * Invariant: which tensors are fused, which plan and which channel they get follows from agreed
 * numbers only, so all members launch the same operations in the same order.
 */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES (256 * KIB) /* from here on an operation uses the lane for large ones */
#define STREAM_BYTES (32 * MIB) /* an output of this size does not stay in a cache anyway */
#define CHUNK_ALIGN 64          /* bytes; chunks of a fused space start at such multiples */

static const kernel_op kernel_ops[RUEDA_OP_COUNT] = {
    [RUEDA_AVERAGE] = KERNEL_SUM, [RUEDA_SUM] = KERNEL_SUM, [RUEDA_ADASUM] = KERNEL_SUM,
    [RUEDA_MIN] = KERNEL_MIN,     [RUEDA_MAX] = KERNEL_MAX, [RUEDA_PRODUCT] = KERNEL_PRODUCT};

static void fail_record(engine *e, process_set *s, record *r, rueda_status status, const char *text)
{
    if (r->launching != NULL)
        engine_end_entry(e, s, r->launching, status, text);
    else if (r->bit < 0)
        negotiation_settle(&s->negotiation, r);
}

static bool can_fuse(const engine *e, const record *a, const record *b)
{
    const signature *x = &a->agreed, *y = &b->agreed;
    const bool alone = e->settings.deterministic && x->op == RUEDA_ADASUM;
    return !alone && y->kind == SIGNATURE_ALLREDUCE && x->dtype == y->dtype && x->op == y->op &&
           x->prescale == y->prescale && x->postscale == y->postscale &&
           a->all_mapped == b->all_mapped && a->whole == b->whole && !b->conflicting;
}

static uint32_t fuse_limit(const record *r)
{
    if (r->all_mapped)
        return SEGMENT_ADDRESSES;
    return r->agreed.op == RUEDA_ADASUM ? SEGMENT_SUMS : UINT32_MAX;
}

static uint64_t bytes_of(const record *r)
{
    return signature_elements(&r->agreed) * rueda_dtype_bytes((rueda_dtype)r->agreed.dtype);
}

/* Chunks of this size; the last ones are shorter or empty. Returns the largest. */
static uint64_t split_by_size(exec_extent *extents, uint32_t chunks, uint64_t elements,
                              uint64_t size)
{
    for (uint32_t c = 0; c < chunks; c++) {
        const uint64_t start = c * size < elements ? c * size : elements;
        const uint64_t end = start + size < elements ? start + size : elements;
        extents[c] = (exec_extent){start, end - start};
    }
    return size < elements ? size : elements;
}

/* Even chunks; the same split on all ranks. Returns the largest. */
static uint64_t split_evenly(exec_extent *extents, uint32_t chunks, uint64_t elements,
                             uint64_t element_bytes)
{
    const uint64_t unit = CHUNK_ALIGN / element_bytes;
    const uint64_t size = ((elements + chunks - 1) / chunks + unit - 1) / unit * unit;
    return split_by_size(extents, chunks, elements, size);
}

/* The bits of a dot product depend on how many ranks share it: where they must not, the first chunk
 * is all there is, and at every join a single rank weighs it. */
static uint64_t split_tensors(const engine *e, exec_extent *extents, const plan *p,
                              uint64_t elements, uint64_t element_bytes)
{
    if (p->layout.adasum && e->settings.deterministic)
        return split_by_size(extents, p->chunks, elements, elements);
    return split_evenly(extents, p->chunks, elements, element_bytes);
}

/* Consecutive chunks of rows[i] rows each. Returns the largest. */
static uint64_t split_by_rows(exec_extent *extents, uint32_t chunks, const int64_t *rows,
                              uint64_t row_elements)
{
    uint64_t offset = 0, largest = 0;
    for (uint32_t c = 0; c < chunks; c++) {
        const uint64_t count = (uint64_t)rows[c] * row_elements;
        extents[c] = (exec_extent){offset, count};
        offset += count;
        largest = count > largest ? count : largest;
    }
    return largest;
}

/* The first rows % ranks ranks get one row more. */
static uint64_t split_rows_evenly(exec_extent *extents, uint32_t ranks, uint64_t rows,
                                  uint64_t row_elements)
{
    uint64_t offset = 0;
    for (uint32_t c = 0; c < ranks; c++) {
        const uint64_t count = (rows / ranks + (c < rows % ranks)) * row_elements;
        extents[c] = (exec_extent){offset, count};
        offset += count;
    }
    return (rows / ranks + (rows % ranks > 0)) * row_elements;
}

/* The neutral values of a member that has joined are in private memory. */
static bool is_mapped(const record *r)
{
    return r->all_mapped && r->agreed.prescale == 1.0 && r->whole;
}

static plan_choice choice_of(const engine *e, const process_set *s, const record *r, uint64_t bytes)
{
    return (plan_choice){
        .collective =
            r->agreed.kind <= SIGNATURE_BARRIER ? (plan_collective)r->agreed.kind : PLAN_BARRIER,
        .ranks = s->size,
        .hosts = s->hosts,
        .bytes = bytes,
        .adasum = r->agreed.kind == SIGNATURE_ALLREDUCE && r->agreed.op == RUEDA_ADASUM,
        .shared_memory = s->hosts < s->size || s->hosts == 1,
        .mapped = s->hosts == 1 && is_mapped(r),
        .equal_parts = !r->unequal,
        .deterministic = e->settings.deterministic != 0,
        .native =
            e->transports.table->collect != NULL && s->size == e->who.size && s->hosts == s->size};
}

static uint16_t index_of(const process_set *s, int32_t rank)
{
    uint16_t i = 0;
    while (i + 1 < s->size && s->ranks[i] != rank)
        i++;
    return i;
}

static rueda_status find_plan(engine *e, process_set *s, const record *r, uint64_t bytes,
                              uint32_t tensors, const plan **found)
{
    const plan_choice choice = choice_of(e, s, r, bytes);
    const plan_layout layout = {
        .ranks = s->size,
        .rank = s->index,
        .host_of = s->host_of,
        .root = signature_has_root(r->agreed.kind) ? index_of(s, r->agreed.root) : 0,
        .adasum = choice.adasum,
        .mapped = choice.mapped,
        .prescaled = r->agreed.prescale != 1.0,
        .packed = choice.native && tensors > 1};
    return plans_get(e, s, choice.collective, &choice, layout, found);
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
static bool stands_in(const operation *o)
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
        .prescale = stands_in(o) ? 1.0 : sig->prescale,
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
static rueda_status stand_in(operation *o, const record *r, uint64_t elements)
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
static void lend(engine *e, process_set *s, record *const *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (records[i]->launching != NULL)
            continue;
        atomic_fetch_add(&e->outstanding, 1);
        if (records[i]->bit < 0)
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
    rueda_status status = find_plan(e, s, first, elements * element_bytes, count, &p);
    if (status != RUEDA_OK)
        return status;
    operation *o = operation_new(count, p->chunks);
    if (o == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory", first->name);
    o->set = s;
    o->kind = SIGNATURE_ALLREDUCE;
    if (!all_here)
        status = stand_in(o, first, elements);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count && status == RUEDA_OK; i++) {
        bind_tensor(o, i, records[i], offset);
        offset += o->tensors[i].count;
    }
    const uint64_t largest = split_tensors(e, o->extents, p, elements, element_bytes);
    to_lane(e, o, elements * element_bytes);
    if (status == RUEDA_OK)
        status = start(e, o, first, p, largest, o->extents, o->extents);
    if (status != RUEDA_OK)
        operation_free(o);
    else if (!all_here)
        lend(e, s, records, count);
    return status;
}

/* The caller's output is too small. The others still need this rank, so the operation runs into memory
 * that nobody sees, and the request ends with the error. */
static void refuse_output(const entry *own, const record *r, uint64_t bytes)
{
    status_fail(RUEDA_ERR_ARGUMENT,
                "tensor '%s': the result has %llu bytes, and output_bytes is %llu", r->name,
                (unsigned long long)bytes, (unsigned long long)own->out_bytes);
    own->request->status = RUEDA_ERR_ARGUMENT;
    own->request->text = strdup(status_text());
}

/* The output of operations whose size depends on all ranks. */
static rueda_status provide_output(entry *own, const record *r, uint64_t rows,
                                   uint64_t row_elements)
{
    rueda_output *output = &own->request->output;
    const uint64_t bytes = rows * row_elements * rueda_dtype_bytes((rueda_dtype)r->agreed.dtype);
    *output = (rueda_output){.bytes = bytes, .ndim = r->agreed.ndim > 0 ? r->agreed.ndim : 1};
    memcpy(output->shape, r->agreed.shape, r->agreed.ndim * sizeof output->shape[0]);
    output->shape[0] = (int64_t)rows;
    const bool fits = own->out == NULL || own->out_bytes >= bytes;
    if (!fits)
        refuse_output(own, r, bytes);
    if (own->out == NULL || !fits) {
        own->out = aligned_alloc(OS_CACHE_LINE, (bytes / OS_CACHE_LINE + 1) * OS_CACHE_LINE);
        if (own->out == NULL)
            return status_fail(RUEDA_ERR_MEMORY,
                               "tensor '%s': no memory for an output of %llu bytes", r->name,
                               (unsigned long long)bytes);
        own->request->owns_output = true;
    }
    output->data = own->out;
    own->request->has_output = fits;
    return RUEDA_OK;
}

static rueda_status provide_splits(entry *own, const record *r, uint16_t size)
{
    rueda_output *output = &own->request->output;
    output->received_splits = malloc(size * sizeof *output->received_splits);
    if (output->received_splits == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory", r->name);
    memcpy(output->received_splits, r->rows, size * sizeof *r->rows);
    output->received_count = size;
    return RUEDA_OK;
}

static uint64_t sum_rows(const int64_t *rows, uint16_t count)
{
    uint64_t sum = 0;
    for (uint16_t i = 0; i < count; i++)
        sum += (uint64_t)rows[i];
    return sum;
}

static uint64_t share_of(uint64_t rows, const process_set *s)
{
    return rows / s->size + (s->index < rows % s->size);
}

/* Chunks of IN and OUT (`chunks` after it) and the output, as the collective wants them; `parts` are
 * the plan's. *largest: of any rank. */
static rueda_status shape_operation(operation *o, const record *r, uint32_t parts, uint32_t chunks,
                                    uint64_t *largest)
{
    process_set *s = o->set;
    entry *own = o->entries[0];
    exec_extent *in = o->extents, *out = o->extents + chunks;
    const uint64_t row = signature_row_elements(&r->agreed);
    const uint64_t elements = signature_elements(&own->signature);
    rueda_status status = RUEDA_OK;
    uint64_t rows;
    *largest = 0;
    switch ((signature_kind)o->kind) {
    case SIGNATURE_BROADCAST:
    case SIGNATURE_REDUCE:
        *largest =
            split_evenly(in, parts, elements, rueda_dtype_bytes((rueda_dtype)r->agreed.dtype));
        memcpy(out, in, parts * sizeof *in);
        break;
    case SIGNATURE_ALLGATHER:
        in[0] = (exec_extent){0, elements};
        *largest = split_by_rows(out, s->size, r->rows, row);
        status = provide_output(own, r, sum_rows(r->rows, s->size), row);
        break;
    case SIGNATURE_GATHER: /* also the others know where the root's chunks lie */
        in[0] = (exec_extent){0, elements};
        *largest = split_by_rows(out, s->size, r->rows, row);
        rows = s->ranks[s->index] == r->agreed.root ? sum_rows(r->rows, s->size) : 0;
        status = provide_output(own, r, rows, row);
        break;
    case SIGNATURE_SCATTER:
        *largest = split_by_rows(in, s->size, r->rows, row);
        out[0] = (exec_extent){0, in[s->index].count};
        status = provide_output(own, r, (uint64_t)r->rows[s->index], row);
        break;
    case SIGNATURE_REDUCESCATTER:
        *largest = split_rows_evenly(in, s->size, (uint64_t)r->agreed.shape[0], row);
        out[0] = (exec_extent){0, in[s->index].count};
        status = provide_output(own, r, share_of((uint64_t)r->agreed.shape[0], s), row);
        break;
    case SIGNATURE_ALLTOALL:
        split_by_rows(in, s->size, own->signature.list, row);
        split_by_rows(out, s->size, r->rows, row);
        *largest = r->largest_rows * row;
        status = provide_output(own, r, sum_rows(r->rows, s->size), row);
        if (status == RUEDA_OK)
            status = provide_splits(own, r, s->size);
        break;
    default:
        break;
    }
    o->tensors[0] = (exec_tensor){0, elements, own->in, own->out};
    return status;
}

static rueda_status launch_single(engine *e, process_set *s, record *r)
{
    const bool by_rows = r->agreed.kind == SIGNATURE_GATHER || r->agreed.kind == SIGNATURE_SCATTER;
    const uint64_t bytes = by_rows
                               ? sum_rows(r->rows, s->size) * signature_row_elements(&r->agreed) *
                                     rueda_dtype_bytes((rueda_dtype)r->agreed.dtype)
                               : bytes_of(r);
    const plan *p;
    rueda_status status = find_plan(e, s, r, bytes, 1, &p);
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
    status = shape_operation(o, r, p->chunks, chunks, &largest);
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

/* Takes r and all later records that go with it out of the list. Groups stay whole. */
static uint32_t gather(engine *e, record **list, uint32_t count, record **fused)
{
    record *first = list[0];
    const uint32_t limit = fuse_limit(first);
    uint64_t bytes = 0;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count && taken < limit; i++) {
        record *r = list[i];
        if (r == NULL || (i > 0 && !can_fuse(e, first, r)))
            continue;
        const bool same_group = r->agreed.group_size > 0 && r->agreed.group == first->agreed.group;
        if (i > 0 && !same_group && bytes + bytes_of(r) > (uint64_t)e->settings.fusion_threshold)
            continue;
        bytes += bytes_of(r);
        fused[taken++] = r;
        list[i] = NULL;
    }
    return taken;
}

static rueda_status launch_next(engine *e, process_set *s, record **list, uint32_t count,
                                record **fused)
{
    record *r = list[0];
    if (r->agreed.kind != SIGNATURE_ALLREDUCE) {
        const rueda_status status = launch_single(e, s, r);
        if (status != RUEDA_OK)
            fail_record(e, s, r, status, status_text());
        return status;
    }
    if (bytes_of(r) == 0) {
        fail_record(e, s, r, RUEDA_OK, "");
        return RUEDA_OK;
    }
    const uint32_t taken = gather(e, list, count, fused);
    const rueda_status status = launch_fused(e, s, fused, taken);
    if (status == RUEDA_OK)
        return RUEDA_OK;
    char text[STATUS_TEXT_MAX];
    snprintf(text, sizeof text, "%s", status_text());
    for (uint32_t i = 0; i < taken; i++)
        fail_record(e, s, fused[i], status, text);
    return status_restore(status, text);
}

/* Errors that all members find alike. */
static rueda_status objection(const process_set *s, const record *r)
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
    fail_record(e, s, r, status, text);
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
        rueda_status status = e->broken == RUEDA_OK ? objection(s, list[i])
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
