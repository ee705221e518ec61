/* shape.c: which part of a tensor is which chunk of a plan, and the outputs whose size depends on all ranks.
 *
 * Invariant: how a tensor is split follows from agreed numbers only, so all members split it alike.
 */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_ALIGN 64 /* bytes; chunks of a fused space start at such multiples */

/* ---- Chunks ---------------------------------------------------------------------------------- */

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
uint64_t shape_fused(const engine *e, exec_extent *extents, const plan *p, uint64_t elements,
                     uint64_t element_bytes)
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

/* ---- Outputs --------------------------------------------------------------------------------- */

uint64_t shape_rows(const record *r, const process_set *s)
{
    uint64_t sum = 0;
    for (uint16_t i = 0; i < s->size; i++)
        sum += (uint64_t)r->rows[i];
    return sum;
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

static uint64_t share_of(uint64_t rows, const process_set *s)
{
    return rows / s->size + (s->index < rows % s->size);
}

rueda_status shape_single(operation *o, const record *r, uint32_t parts, uint32_t chunks,
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
        status = provide_output(own, r, shape_rows(r, s), row);
        break;
    case SIGNATURE_GATHER: /* also the others know where the root's chunks lie */
        in[0] = (exec_extent){0, elements};
        *largest = split_by_rows(out, s->size, r->rows, row);
        rows = s->ranks[s->index] == r->agreed.root ? shape_rows(r, s) : 0;
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
        status = provide_output(own, r, shape_rows(r, s), row);
        if (status == RUEDA_OK)
            status = provide_splits(own, r, s->size);
        break;
    default:
        break;
    }
    o->tensors[0] = (exec_tensor){0, elements, own->in, own->out};
    return status;
}
