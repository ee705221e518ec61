/* call.c: see call.h. */
#include "api/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const rueda_tensor default_tensor = {.struct_size = sizeof default_tensor};
static const rueda_options default_options = {
    sizeof(rueda_options), RUEDA_AVERAGE, 1.0, 1.0, RUEDA_GLOBAL_SET, 0, 0, NULL};

const struct_kind call_tensor_kind = {"rueda_tensor", offsetof(rueda_tensor, device),
                                      sizeof(rueda_tensor), &default_tensor};
static const struct_kind options_kind = {"rueda_options", offsetof(rueda_options, prescale),
                                         sizeof(rueda_options), &default_options};

const char *call_shown(const char *name)
{
    return name == NULL ? "(unnamed)" : name;
}

static rueda_status check_tensor(const char *call, const rueda_tensor *t)
{
    if (t->name != NULL && strlen(t->name) > RUEDA_MAX_NAME)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s: the name '%.40s…' is longer than %d bytes",
                           call, t->name, RUEDA_MAX_NAME);
    if (rueda_dtype_bytes(t->dtype) == 0)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': %d is not a rueda_dtype", call,
                           call_shown(t->name), (int)t->dtype);
    if (t->device != RUEDA_HOST)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': only RUEDA_HOST memory is supported", call,
                           call_shown(t->name));
    if (t->ndim < 0 || t->ndim > RUEDA_MAX_DIMS || (t->ndim > 0 && t->shape == NULL))
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "%s '%s': ndim %d needs a shape and at most %d dimensions", call,
                           call_shown(t->name), t->ndim, RUEDA_MAX_DIMS);
    return RUEDA_OK;
}

rueda_status call_measure(collective_call *c, bool reads_input)
{
    const rueda_tensor *t = &c->tensor;
    uint64_t total = rueda_dtype_bytes(t->dtype);
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0 || __builtin_mul_overflow(total, (uint64_t)t->shape[i], &total) ||
            total > (uint64_t)PTRDIFF_MAX)
            return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': dimension %d of the shape is %lld",
                               c->function, call_shown(t->name), i, (long long)t->shape[i]);
    }
    if (reads_input && total > 0 && t->input == NULL)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': input is NULL", c->function,
                           call_shown(t->name));
    c->bytes = total;
    return RUEDA_OK;
}

rueda_status call_check_reduction(const collective_call *c, bool adasum_allowed)
{
    const rueda_tensor *t = &c->tensor;
    const rueda_options *o = &c->options;
    if ((unsigned)o->op >= RUEDA_OP_COUNT)
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "%s '%s': op=%d is no operation; give RUEDA_AVERAGE, RUEDA_SUM, "
                           "RUEDA_ADASUM, RUEDA_MIN, RUEDA_MAX or RUEDA_PRODUCT",
                           c->function, call_shown(t->name), (int)o->op);
    if (o->op == RUEDA_ADASUM && !adasum_allowed)
        return status_fail(
            RUEDA_ERR_ARGUMENT,
            "%s '%s': only rueda_allreduce combines by adasum; use that, or another op",
            c->function, call_shown(t->name));
    if (!kernel_supports(o->op, t->dtype))
        return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': %s has no meaning for %s here",
                           c->function, call_shown(t->name), rueda_op_name(o->op),
                           rueda_dtype_name(t->dtype));
    const bool scaled = o->prescale != 1.0 || o->postscale != 1.0;
    if (!isfinite(o->prescale) || !isfinite(o->postscale) || (scaled && t->dtype == RUEDA_BOOL))
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "%s '%s': prescale %g and postscale %g must be finite, and 1 for bool",
                           c->function, call_shown(t->name), o->prescale, o->postscale);
    return RUEDA_OK;
}

rueda_status call_check_output(const collective_call *c)
{
    const rueda_tensor *t = &c->tensor;
    if (t->output == NULL || t->output_bytes >= c->bytes)
        return RUEDA_OK;
    return status_fail(RUEDA_ERR_ARGUMENT,
                       "%s '%s': the result has %llu bytes, and output_bytes is %zu", c->function,
                       call_shown(t->name), (unsigned long long)c->bytes, t->output_bytes);
}

rueda_status call_check_taker(const collective_call *c, rueda_request *const *request)
{
    if (c->tensor.output != NULL || request != NULL)
        return RUEDA_OK;
    return status_fail(RUEDA_ERR_ARGUMENT,
                       "%s '%s': its result would be lost; give a request and take its output, or "
                       "give an output",
                       c->function, call_shown(c->tensor.name));
}

static bool is_mapped(engine *e, const entry *own, uint64_t bytes)
{
    return bytes > 0 && heap_contains(e->heap, own->in, bytes) && own->out != NULL &&
           heap_contains(e->heap, own->out, bytes);
}

entry *call_entry(const collective_call *c, signature_kind kind)
{
    const rueda_tensor *t = &c->tensor;
    const rueda_options *o = &c->options;
    entry *own = malloc(sizeof *own);
    if (own == NULL) {
        status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory", call_shown(t->name));
        return NULL;
    }
    own->record = NULL;
    own->request = NULL;
    own->next = NULL;
    own->in = t->input;
    own->out = t->output;
    own->out_bytes = t->output_bytes;
    own->submitted_ns = world_now_coarse_ns();
    signature *s = &own->signature;
    signature_init(s, kind, t->dtype);
    s->ndim = (uint8_t)t->ndim;
    s->priority = o->priority;
    if (t->ndim > 0)
        memcpy(s->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
    if (signature_reduces(kind)) {
        s->op = (uint8_t)o->op;
        s->prescale = o->prescale;
        s->postscale = o->postscale;
    }
    return own;
}

rueda_status call_give(const collective_call *c, rueda_request *r, rueda_request **request)
{
    if (request != NULL) {
        *request = r;
        return RUEDA_OK;
    }
    const rueda_status status = context_wait(c->here, r, -1);
    rueda_request_free(r);
    return status;
}

rueda_status call_submit(const collective_call *c, entry **entries, const char *const *names,
                         uint32_t count, rueda_request **request)
{
    rueda_request *r = request_new(count, 0);
    rueda_status status =
        r == NULL ? status_fail(RUEDA_ERR_MEMORY, "out of memory for a request") : RUEDA_OK;
    for (uint32_t i = 0; i < count && r != NULL; i++)
        entries[i]->request = r;
    if (status == RUEDA_OK)
        status = engine_submit(c->engine, c->set, entries, names, count, request == NULL);
    engine_release_set(c->engine, c->set);
    if (status != RUEDA_OK) {
        for (uint32_t i = 0; i < count; i++)
            entry_free(entries[i]);
        free(r);
        return status;
    }
    return call_give(c, r, request);
}

rueda_status call_abandon(const collective_call *c, rueda_status status)
{
    engine_release_set(c->engine, c->set);
    return status;
}

rueda_status call_begin(collective_call *c, const context *here, const char *function,
                        const rueda_options *options)
{
    c->function = function;
    c->set = NULL;
    c->here = here;
    c->engine = context_engine(here, function);
    if (c->engine == NULL)
        return RUEDA_ERR_STATE;
    if (options == NULL)
        options = &default_options;
    if (options->struct_size != sizeof *options)
        return struct_read(function, &options_kind, options, &c->options);
    c->options = *options; /* built with this header, as nearly all are: in the way of every call */
    return RUEDA_OK;
}

rueda_status call_read_tensor(collective_call *c, const rueda_tensor *tensor)
{
    rueda_status status = RUEDA_OK;
    if (tensor != NULL && tensor->struct_size == sizeof *tensor)
        c->tensor = *tensor;
    else
        status = struct_read(c->function, &call_tensor_kind, tensor, &c->tensor);
    return status == RUEDA_OK ? check_tensor(c->function, &c->tensor) : status;
}

rueda_status call_hold_set(collective_call *c)
{
    return engine_set(c->engine, c->options.process_set, &c->set);
}

rueda_status call_read(collective_call *c, const context *here, const char *function,
                       const rueda_tensor *tensor, const rueda_options *options)
{
    rueda_status status = call_begin(c, here, function, options);
    if (status == RUEDA_OK)
        status = call_read_tensor(c, tensor);
    if (status == RUEDA_OK)
        status = call_measure(c, true);
    return status == RUEDA_OK ? call_hold_set(c) : status;
}

rueda_status call_finish(const collective_call *c, rueda_status status, entry *own,
                         rueda_request **request)
{
    if (status == RUEDA_OK)
        return call_submit(c, &own, &c->tensor.name, 1, request);
    if (own != NULL)
        entry_free(own);
    return call_abandon(c, status);
}

entry *call_entry_in_place(const collective_call *c, signature_kind kind)
{
    entry *own = call_entry(c, kind);
    if (own == NULL)
        return NULL;
    if (own->out == NULL)
        own->out = c->tensor.input;
    own->signature.mapped = is_mapped(c->engine, own, c->bytes);
    return own;
}

rueda_status call_check_rows(const collective_call *c)
{
    if (c->tensor.ndim > 0)
        return RUEDA_OK;
    return status_fail(RUEDA_ERR_ARGUMENT,
                       "%s '%s': a scalar has no rows to split; give it a first dimension",
                       c->function, call_shown(c->tensor.name));
}

static rueda_status wrong_split(const collective_call *c, uint16_t i, int64_t split)
{
    return status_fail(
        RUEDA_ERR_ARGUMENT,
        "%s '%s': split %u is %lld; splits must be at least 0 and add up to the %lld "
        "rows",
        c->function, call_shown(c->tensor.name), i, (long long)split,
        (long long)c->tensor.shape[0]);
}

rueda_status call_set_splits(const collective_call *c, entry *own)
{
    const uint16_t size = c->set->size;
    const int64_t *splits = c->options.splits, rows = c->tensor.shape[0];
    signature *s = &own->signature;
    int64_t sum = 0;
    s->list = malloc(size * sizeof *s->list);
    if (s->list == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory",
                           call_shown(c->tensor.name));
    s->list_count = size;
    for (uint16_t i = 0; i < size; i++) {
        s->list[i] = splits == NULL ? rows / size + (i < rows % size) : splits[i];
        if (s->list[i] < 0 || s->list[i] > rows - sum)
            return wrong_split(c, i, s->list[i]);
        sum += s->list[i];
    }
    if (sum != rows)
        return status_fail(
            RUEDA_ERR_ARGUMENT, "%s '%s': the splits add up to %lld, the tensor has %lld rows",
            c->function, call_shown(c->tensor.name), (long long)sum, (long long)rows);
    return RUEDA_OK;
}
