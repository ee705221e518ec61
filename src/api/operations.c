/* operations.c: the collectives: validate, make an entry, enqueue, return. */
#include "api/context.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const rueda_options default_options = {
    sizeof(rueda_options), RUEDA_AVERAGE, 1.0, 1.0, RUEDA_GLOBAL_SET, 0, 0, NULL};

static const char *shown(const char *name)
{
    return name == NULL ? "(unnamed)" : name;
}

static rueda_status check_tensor(const char *call, const rueda_tensor *t)
{
    if (t == NULL || t->struct_size < sizeof *t)
        return status_fail(
            RUEDA_ERR_ARGUMENT,
            "%s: tensor is NULL or its struct_size is not sizeof(rueda_tensor); start "
            "from RUEDA_TENSOR",
            call);
    if (t->name != NULL && strlen(t->name) > RUEDA_MAX_NAME)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s: the name '%.40s…' is longer than %d bytes",
                           call, t->name, RUEDA_MAX_NAME);
    if (rueda_dtype_bytes(t->dtype) == 0)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': %d is not a rueda_dtype", call,
                           shown(t->name), (int)t->dtype);
    if (t->device != RUEDA_HOST)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': only RUEDA_HOST memory is supported", call,
                           shown(t->name));
    if (t->ndim < 0 || t->ndim > RUEDA_MAX_DIMS || (t->ndim > 0 && t->shape == NULL))
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "%s '%s': ndim %d needs a shape and at most %d dimensions", call,
                           shown(t->name), t->ndim, RUEDA_MAX_DIMS);
    return RUEDA_OK;
}

static rueda_status check_shape(const char *call, const rueda_tensor *t, uint64_t *bytes)
{
    uint64_t total = rueda_dtype_bytes(t->dtype);
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0 || __builtin_mul_overflow(total, (uint64_t)t->shape[i], &total) ||
            total > (uint64_t)PTRDIFF_MAX)
            return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': dimension %d of the shape is %lld",
                               call, shown(t->name), i, (long long)t->shape[i]);
    }
    if (total > 0 && t->input == NULL)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': input is NULL", call, shown(t->name));
    *bytes = total;
    return RUEDA_OK;
}

static rueda_status check_reduction(const char *call, const rueda_tensor *t, const rueda_options *o,
                                    bool adasum_allowed)
{
    if (!kernel_supports(o->op, t->dtype) || (o->op == RUEDA_ADASUM && !adasum_allowed))
        return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': %s has no meaning for %s here", call,
                           shown(t->name), rueda_op_name(o->op), rueda_dtype_name(t->dtype));
    const bool scaled = o->prescale != 1.0 || o->postscale != 1.0;
    if (!isfinite(o->prescale) || !isfinite(o->postscale) || (scaled && t->dtype == RUEDA_BOOL))
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "%s '%s': prescale %g and postscale %g must be finite, and 1 for bool",
                           call, shown(t->name), o->prescale, o->postscale);
    return RUEDA_OK;
}

static rueda_status check_options(const char *call, const rueda_options **options)
{
    if (*options == NULL)
        *options = &default_options;
    if ((*options)->struct_size < sizeof **options)
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "%s: options.struct_size is not sizeof(rueda_options); start from "
                           "RUEDA_OPTIONS",
                           call);
    return RUEDA_OK;
}

static bool is_mapped(engine *e, const entry *own, uint64_t bytes)
{
    return bytes > 0 && heap_contains(&e->heap, own->in, bytes) && own->out != NULL &&
           heap_contains(&e->heap, own->out, bytes);
}

/* What every collective says about its tensor; the kind's own fields follow. */
static entry *entry_of(signature_kind kind, const rueda_tensor *t, const rueda_options *o)
{
    entry *own = malloc(sizeof *own);
    if (own == NULL) {
        status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory", shown(t->name));
        return NULL;
    }
    own->record = NULL;
    own->request = NULL;
    own->next = NULL;
    own->in = t->input;
    own->out = t->output;
    own->submitted_ns = os_now_coarse_ns();
    signature *s = &own->signature;
    signature_init(s, kind, t->dtype);
    s->ndim = (uint8_t)t->ndim;
    s->priority = o->priority;
    if (t->ndim > 0)
        memcpy(s->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
    if (kind == SIGNATURE_ALLREDUCE || kind == SIGNATURE_REDUCESCATTER) {
        s->op = (uint8_t)o->op;
        s->prescale = o->prescale;
        s->postscale = o->postscale;
    }
    return own;
}

/* Submits, and waits if the caller gave nowhere to put the request. Takes the entries over, and lets
 * go of the set. */
static rueda_status submit(engine *e, process_set *s, entry **entries, const char *const *names,
                           uint32_t count, rueda_request **request)
{
    rueda_request *r = request_new(count, 0);
    rueda_status status =
        r == NULL ? status_fail(RUEDA_ERR_MEMORY, "out of memory for a request") : RUEDA_OK;
    for (uint32_t i = 0; i < count && r != NULL; i++)
        entries[i]->request = r;
    if (status == RUEDA_OK)
        status = engine_submit(e, s, entries, names, count, request == NULL);
    engine_let_go(e, s);
    if (status != RUEDA_OK) {
        for (uint32_t i = 0; i < count; i++)
            entry_free(entries[i]);
        free(r);
        return status;
    }
    if (request != NULL) {
        *request = r;
        return RUEDA_OK;
    }
    status = rueda_wait(r, -1);
    rueda_request_free(r);
    return status;
}

/* After a call has failed; NULL: before it held the set. */
static rueda_status give_up(engine *e, const process_set *s, rueda_status status)
{
    engine_let_go(e, s);
    return status;
}

/* The checks all collectives share; gives engine, set (held) and the tensor's bytes. */
static rueda_status prepare(const char *call, const rueda_tensor *t, const rueda_options **o,
                            engine **e, process_set **s, uint64_t *bytes)
{
    *e = context_engine(call);
    if (*e == NULL)
        return RUEDA_ERR_STATE;
    rueda_status status = check_options(call, o);
    if (status == RUEDA_OK)
        status = check_tensor(call, t);
    if (status == RUEDA_OK)
        status = check_shape(call, t, bytes);
    return status == RUEDA_OK ? engine_set(*e, (*o)->process_set, s) : status;
}

rueda_status rueda_allreduce(const rueda_tensor *tensor, const rueda_options *options,
                             rueda_request **request)
{
    engine *e;
    process_set *s = NULL;
    uint64_t bytes;
    rueda_status status = prepare("rueda_allreduce", tensor, &options, &e, &s, &bytes);
    if (status == RUEDA_OK)
        status = check_reduction("rueda_allreduce", tensor, options, true);
    if (status != RUEDA_OK)
        return give_up(e, s, status);
    entry *own = entry_of(SIGNATURE_ALLREDUCE, tensor, options);
    if (own == NULL)
        return give_up(e, s, RUEDA_ERR_MEMORY);
    if (own->out == NULL)
        own->out = tensor->input;
    own->signature.mapped = is_mapped(e, own, bytes);
    return submit(e, s, &own, &tensor->name, 1, request);
}

/* Ranks number their groups by the names in them: any order of submission gives the same number. */
static uint64_t hash_group(const rueda_tensor *tensors, int32_t count)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (int32_t i = 0; i < count; i++) {
        for (const char *c = tensors[i].name; *c != '\0'; c++)
            hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001B3);
        hash = (hash ^ 0xff) * UINT64_C(0x100000001B3);
    }
    return hash;
}

static rueda_status check_group(const rueda_tensor *tensors, int32_t count)
{
    if (count < 1 || tensors == NULL)
        return status_fail(RUEDA_ERR_ARGUMENT,
                           "rueda_grouped_allreduce: a group needs at least one tensor");
    for (int32_t i = 0; i < count; i++) {
        if (tensors[i].name == NULL)
            return status_fail(
                RUEDA_ERR_ARGUMENT,
                "rueda_grouped_allreduce: tensor %d has no name; a group is known by "
                "the names in it",
                i);
    }
    return RUEDA_OK;
}

static rueda_status fill_group(const rueda_tensor *tensors, int32_t count,
                               const rueda_options *options, engine *e, entry **entries,
                               const char **names)
{
    const uint64_t group = hash_group(tensors, count);
    for (int32_t i = 0; i < count; i++) {
        const rueda_tensor *t = &tensors[i];
        uint64_t bytes;
        rueda_status status = check_tensor("rueda_grouped_allreduce", t);
        if (status == RUEDA_OK)
            status = check_shape("rueda_grouped_allreduce", t, &bytes);
        if (status == RUEDA_OK)
            status = check_reduction("rueda_grouped_allreduce", t, options, true);
        if (status != RUEDA_OK)
            return status;
        entries[i] = entry_of(SIGNATURE_ALLREDUCE, t, options);
        if (entries[i] == NULL)
            return RUEDA_ERR_MEMORY;
        if (entries[i]->out == NULL)
            entries[i]->out = t->input;
        entries[i]->signature.mapped = is_mapped(e, entries[i], bytes);
        entries[i]->signature.group = group;
        entries[i]->signature.group_size = (uint32_t)count;
        names[i] = t->name;
    }
    return RUEDA_OK;
}

rueda_status rueda_grouped_allreduce(const rueda_tensor *tensors, int32_t count,
                                     const rueda_options *options, rueda_request **request)
{
    engine *e = context_engine("rueda_grouped_allreduce");
    if (e == NULL)
        return RUEDA_ERR_STATE;
    process_set *s;
    rueda_status status = check_options("rueda_grouped_allreduce", &options);
    if (status == RUEDA_OK)
        status = check_group(tensors, count);
    if (status == RUEDA_OK)
        status = engine_set(e, options->process_set, &s);
    if (status != RUEDA_OK)
        return status;
    entry **entries = calloc((size_t)count, sizeof(entry *));
    const char **names = calloc((size_t)count, sizeof *names);
    if (entries == NULL || names == NULL)
        status = status_fail(RUEDA_ERR_MEMORY, "rueda_grouped_allreduce: out of memory");
    else
        status = fill_group(tensors, count, options, e, entries, names);
    if (status == RUEDA_OK) {
        status = submit(e, s, entries, names, (uint32_t)count, request);
    } else {
        engine_let_go(e, s);
        for (int32_t i = 0; entries != NULL && i < count; i++)
            entry_free(entries[i]);
    }
    free(entries);
    free(names);
    return status;
}

rueda_status rueda_allgather(const rueda_tensor *tensor, const rueda_options *options,
                             rueda_request **request)
{
    engine *e;
    process_set *s;
    uint64_t bytes;
    const rueda_status status = prepare("rueda_allgather", tensor, &options, &e, &s, &bytes);
    if (status != RUEDA_OK)
        return status;
    entry *own = entry_of(SIGNATURE_ALLGATHER, tensor, options);
    return own == NULL ? give_up(e, s, RUEDA_ERR_MEMORY)
                       : submit(e, s, &own, &tensor->name, 1, request);
}

static int index_in(const process_set *s, int32_t rank)
{
    for (uint16_t i = 0; i < s->size; i++) {
        if (s->ranks[i] == rank)
            return i;
    }
    return -1;
}

rueda_status rueda_broadcast(const rueda_tensor *tensor, const rueda_options *options,
                             rueda_request **request)
{
    engine *e;
    process_set *s;
    uint64_t bytes;
    const rueda_status status = prepare("rueda_broadcast", tensor, &options, &e, &s, &bytes);
    if (status != RUEDA_OK)
        return status;
    if (index_in(s, options->root) < 0)
        return give_up(e, s,
                       status_fail(RUEDA_ERR_ARGUMENT,
                                   "rueda_broadcast '%s': root %d is not a rank of process set %d",
                                   shown(tensor->name), options->root, options->process_set));
    entry *own = entry_of(SIGNATURE_BROADCAST, tensor, options);
    if (own == NULL)
        return give_up(e, s, RUEDA_ERR_MEMORY);
    own->signature.root = options->root;
    if (own->out == NULL)
        own->out = tensor->input;
    own->signature.mapped = is_mapped(e, own, bytes);
    return submit(e, s, &own, &tensor->name, 1, request);
}

static rueda_status check_rows(const char *call, const rueda_tensor *t)
{
    if (t->ndim > 0)
        return RUEDA_OK;
    return status_fail(RUEDA_ERR_ARGUMENT,
                       "%s '%s': a scalar has no rows to split; give it a first dimension", call,
                       shown(t->name));
}

/* Splits as given, or even ones; they must add up to the rows. */
static rueda_status set_splits(entry *own, const process_set *s, const rueda_tensor *t,
                               const int64_t *splits)
{
    signature *sig = &own->signature;
    sig->list = malloc(s->size * sizeof *sig->list);
    if (sig->list == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory", shown(t->name));
    sig->list_count = s->size;
    if (splits == NULL && t->shape[0] % s->size != 0)
        return status_fail(
            RUEDA_ERR_ARGUMENT,
            "rueda_alltoall '%s': %lld rows cannot be split evenly over %u ranks; give "
            "splits",
            shown(t->name), (long long)t->shape[0], s->size);
    int64_t sum = 0;
    for (uint16_t i = 0; i < s->size; i++) {
        sig->list[i] = splits == NULL ? t->shape[0] / s->size : splits[i];
        if (sig->list[i] < 0 || sig->list[i] > t->shape[0] - sum)
            return status_fail(
                RUEDA_ERR_ARGUMENT,
                "rueda_alltoall '%s': split %u is %lld; splits must be at least 0 and "
                "add up to the %lld rows",
                shown(t->name), i, (long long)sig->list[i], (long long)t->shape[0]);
        sum += sig->list[i];
    }
    if (sum != t->shape[0])
        return status_fail(
            RUEDA_ERR_ARGUMENT,
            "rueda_alltoall '%s': the splits add up to %lld, the tensor has %lld rows",
            shown(t->name), (long long)sum, (long long)t->shape[0]);
    return RUEDA_OK;
}

rueda_status rueda_alltoall(const rueda_tensor *tensor, const rueda_options *options,
                            rueda_request **request)
{
    engine *e;
    process_set *s = NULL;
    uint64_t bytes;
    rueda_status status = prepare("rueda_alltoall", tensor, &options, &e, &s, &bytes);
    if (status == RUEDA_OK)
        status = check_rows("rueda_alltoall", tensor);
    if (status != RUEDA_OK)
        return give_up(e, s, status);
    entry *own = entry_of(SIGNATURE_ALLTOALL, tensor, options);
    if (own == NULL)
        return give_up(e, s, RUEDA_ERR_MEMORY);
    status = set_splits(own, s, tensor, options->splits);
    if (status != RUEDA_OK)
        return entry_free(own), give_up(e, s, status);
    return submit(e, s, &own, &tensor->name, 1, request);
}

rueda_status rueda_reducescatter(const rueda_tensor *tensor, const rueda_options *options,
                                 rueda_request **request)
{
    engine *e;
    process_set *s = NULL;
    uint64_t bytes;
    rueda_status status = prepare("rueda_reducescatter", tensor, &options, &e, &s, &bytes);
    if (status == RUEDA_OK)
        status = check_rows("rueda_reducescatter", tensor);
    if (status == RUEDA_OK)
        status = check_reduction("rueda_reducescatter", tensor, options, false);
    if (status != RUEDA_OK)
        return give_up(e, s, status);
    entry *own = entry_of(SIGNATURE_REDUCESCATTER, tensor, options);
    return own == NULL ? give_up(e, s, RUEDA_ERR_MEMORY)
                       : submit(e, s, &own, &tensor->name, 1, request);
}

/* Operations without data. */
static rueda_status submit_empty(const char *call, signature_kind kind, const char *name,
                                 int32_t set, rueda_request **request)
{
    engine *e = context_engine(call);
    if (e == NULL)
        return RUEDA_ERR_STATE;
    process_set *s;
    const rueda_status status = engine_set(e, set, &s);
    if (status != RUEDA_OK)
        return status;
    const rueda_tensor nothing = RUEDA_TENSOR(name, NULL, RUEDA_U8, 0, NULL);
    entry *own = entry_of(kind, &nothing, &default_options);
    return own == NULL ? give_up(e, s, RUEDA_ERR_MEMORY) : submit(e, s, &own, &name, 1, request);
}

rueda_status rueda_barrier(int32_t process_set_, rueda_request **request)
{
    return submit_empty("rueda_barrier", SIGNATURE_BARRIER, NULL, process_set_, request);
}

rueda_status rueda_join(rueda_request **request)
{
    return submit_empty("rueda_join", SIGNATURE_JOIN, "rueda.join", RUEDA_GLOBAL_SET, request);
}
