/* operations.c: the collectives without a root: validate, make an entry, enqueue, return. */
#include "api/call.h"
#include "base/hash.h"

#include <stdlib.h>

rueda_status context_allreduce(const context *here, const rueda_tensor *tensor,
                               const rueda_options *options, rueda_request **request)
{
    collective_call c;
    rueda_status status = call_read(&c, here, "rueda_allreduce", tensor, options);
    if (status == RUEDA_OK)
        status = call_check_reduction(&c, true);
    if (status == RUEDA_OK)
        status = call_check_output(&c);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    entry *own = call_entry_in_place(&c, SIGNATURE_ALLREDUCE);
    return call_finish(&c, own == NULL ? RUEDA_ERR_MEMORY : RUEDA_OK, own, request);
}

CALL_PUBLIC(allreduce)

/* Callers of other versions have another distance between the tensors of an array. */
static const rueda_tensor *tensor_at(const rueda_tensor *tensors, int32_t i)
{
    return (const rueda_tensor *)((const char *)tensors + (size_t)i * tensors->struct_size);
}

/* Ranks number their groups by the names in them: any order of submission gives the same number. */
static uint64_t hash_group(const rueda_tensor *tensors, int32_t count)
{
    uint64_t hash = 0;
    for (int32_t i = 0; i < count; i++) {
        const char *name = tensor_at(tensors, i)->name;
        hash = hash_bytes(hash, name, strlen(name));
    }
    return hash;
}

static rueda_status check_group(const char *call, const rueda_tensor *tensors, int32_t count)
{
    if (count < 1 || tensors == NULL)
        return status_fail(RUEDA_ERR_ARGUMENT, "%s: a group needs at least one tensor", call);
    size_t
        bytes; /* from one tensor to the next: nothing behind the first is read before it is known */
    const rueda_status status = struct_read_size(call, &call_tensor_kind, tensors, &bytes);
    if (status != RUEDA_OK)
        return status;
    for (int32_t i = 0; i < count; i++) {
        const rueda_tensor *t = tensor_at(tensors, i);
        if (t->struct_size != bytes)
            return status_fail(RUEDA_ERR_ARGUMENT,
                               "%s: struct_size of tensor %d is %zu, of the first %zu; set it to "
                               "sizeof(rueda_tensor)",
                               call, i, t->struct_size, bytes);
        if (t->name == NULL)
            return status_fail(RUEDA_ERR_ARGUMENT,
                               "%s: tensor %d has no name; a group is known by the names in it",
                               call, i);
    }
    return RUEDA_OK;
}

/* The entry of one tensor of a group. */
static rueda_status enter_member(collective_call *c, const rueda_tensor *tensor, entry **own)
{
    rueda_status status = call_read_tensor(c, tensor);
    if (status == RUEDA_OK)
        status = call_measure(c, true);
    if (status == RUEDA_OK)
        status = call_check_reduction(c, true);
    if (status == RUEDA_OK)
        status = call_check_output(c);
    if (status != RUEDA_OK)
        return status;
    *own = call_entry_in_place(c, SIGNATURE_ALLREDUCE);
    return *own == NULL ? RUEDA_ERR_MEMORY : RUEDA_OK;
}

static rueda_status fill_group(collective_call *c, const rueda_tensor *tensors, int32_t count,
                               entry **entries, const char **names)
{
    const uint64_t group = hash_group(tensors, count);
    for (int32_t i = 0; i < count; i++) {
        const rueda_status status = enter_member(c, tensor_at(tensors, i), &entries[i]);
        if (status != RUEDA_OK)
            return status;
        entries[i]->signature.group = group;
        entries[i]->signature.group_size = (uint32_t)count;
        names[i] = c->tensor.name;
    }
    return RUEDA_OK;
}

rueda_status context_grouped_allreduce(const context *here, const rueda_tensor *tensors,
                                       int32_t count, const rueda_options *options,
                                       rueda_request **request)
{
    collective_call c;
    rueda_status status = call_begin(&c, here, "rueda_grouped_allreduce", options);
    if (status == RUEDA_OK)
        status = check_group(c.function, tensors, count);
    if (status == RUEDA_OK)
        status = call_hold_set(&c);
    if (status != RUEDA_OK)
        return status;
    entry **entries = calloc((size_t)count, sizeof(entry *));
    const char **names = calloc((size_t)count, sizeof *names);
    if (entries == NULL || names == NULL)
        status = status_fail(RUEDA_ERR_MEMORY, "%s: out of memory", c.function);
    else
        status = fill_group(&c, tensors, count, entries, names);
    if (status == RUEDA_OK) {
        status = call_submit(&c, entries, names, (uint32_t)count, request);
    } else {
        call_abandon(&c, status);
        for (int32_t i = 0; entries != NULL && i < count; i++)
            entry_free(entries[i]);
    }
    free(entries);
    free(names);
    return status;
}

rueda_status rueda_grouped_allreduce(const rueda_tensor *tensors, int32_t count,
                                     const rueda_options *options, rueda_request **request)
{
    return context_grouped_allreduce(context_of_process(), tensors, count, options, request);
}

rueda_status context_allgather(const context *here, const rueda_tensor *tensor,
                               const rueda_options *options, rueda_request **request)
{
    collective_call c;
    rueda_status status = call_read(&c, here, "rueda_allgather", tensor, options);
    if (status == RUEDA_OK)
        status = call_check_taker(&c, request);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    entry *own = call_entry(&c, SIGNATURE_ALLGATHER);
    return call_finish(&c, own == NULL ? RUEDA_ERR_MEMORY : RUEDA_OK, own, request);
}

CALL_PUBLIC(allgather)

/* Without splits every rank gets as many rows. */
static rueda_status check_even(const collective_call *c)
{
    const int64_t rows = c->tensor.shape[0];
    if (c->options.splits != NULL || rows % c->set->size == 0)
        return RUEDA_OK;
    return status_fail(RUEDA_ERR_ARGUMENT,
                       "%s '%s': %lld rows cannot be split evenly over %u ranks; give splits",
                       c->function, call_shown(c->tensor.name), (long long)rows, c->set->size);
}

rueda_status context_alltoall(const context *here, const rueda_tensor *tensor,
                              const rueda_options *options, rueda_request **request)
{
    collective_call c;
    rueda_status status = call_read(&c, here, "rueda_alltoall", tensor, options);
    if (status == RUEDA_OK)
        status = call_check_rows(&c);
    if (status == RUEDA_OK)
        status = call_check_taker(&c, request);
    if (status == RUEDA_OK)
        status = check_even(&c);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    entry *own = call_entry(&c, SIGNATURE_ALLTOALL);
    status = own == NULL ? RUEDA_ERR_MEMORY : call_set_splits(&c, own);
    return call_finish(&c, status, own, request);
}

CALL_PUBLIC(alltoall)

rueda_status context_reducescatter(const context *here, const rueda_tensor *tensor,
                                   const rueda_options *options, rueda_request **request)
{
    collective_call c;
    rueda_status status = call_read(&c, here, "rueda_reducescatter", tensor, options);
    if (status == RUEDA_OK)
        status = call_check_rows(&c);
    if (status == RUEDA_OK)
        status = call_check_reduction(&c, false);
    if (status == RUEDA_OK)
        status = call_check_taker(&c, request);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    entry *own = call_entry(&c, SIGNATURE_REDUCESCATTER);
    return call_finish(&c, own == NULL ? RUEDA_ERR_MEMORY : RUEDA_OK, own, request);
}

CALL_PUBLIC(reducescatter)

/* Operations without data. */
static rueda_status submit_empty(const context *here, const char *call, signature_kind kind,
                                 const char *name, int32_t set, rueda_request **request)
{
    collective_call c;
    rueda_status status = call_begin(&c, here, call, NULL);
    if (status != RUEDA_OK)
        return status;
    c.tensor = RUEDA_TENSOR(name, NULL, RUEDA_U8, 0, NULL);
    c.options.process_set = set;
    status = call_hold_set(&c);
    if (status != RUEDA_OK)
        return status;
    entry *own = call_entry(&c, kind);
    return call_finish(&c, own == NULL ? RUEDA_ERR_MEMORY : RUEDA_OK, own, request);
}

rueda_status context_barrier(const context *here, int32_t set, rueda_request **request)
{
    return submit_empty(here, "rueda_barrier", SIGNATURE_BARRIER, NULL, set, request);
}

rueda_status rueda_barrier(int32_t process_set_, rueda_request **request)
{
    return context_barrier(context_of_process(), process_set_, request);
}

rueda_status context_join(const context *here, rueda_request **request)
{
    return submit_empty(here, "rueda_join", SIGNATURE_JOIN, "rueda.join", RUEDA_GLOBAL_SET,
                        request);
}

rueda_status rueda_join(rueda_request **request)
{
    return context_join(context_of_process(), request);
}
