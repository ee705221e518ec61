/* rooted.c: the collectives with one root. */
#include "api/call.h"

static rueda_status check_root(const collective_call *c)
{
    for (uint16_t i = 0; i < c->set->size; i++) {
        if (c->set->ranks[i] == c->options.root)
            return RUEDA_OK;
    }
    return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': root %d is not a rank of process set %d",
                       c->function, call_shown(c->tensor.name), c->options.root,
                       c->options.process_set);
}

static bool is_root(const collective_call *c)
{
    return c->options.root == c->engine->who.rank;
}

static rueda_status finish_rooted(const collective_call *c, entry *own, rueda_request **request)
{
    if (own != NULL)
        own->signature.root = c->options.root;
    return call_finish(c, own == NULL ? RUEDA_ERR_MEMORY : RUEDA_OK, own, request);
}

rueda_status context_broadcast(const context *here, const rueda_tensor *tensor,
                               const rueda_options *options, rueda_request **request)
{
    collective_call c;
    rueda_status status = call_read(&c, here, "rueda_broadcast", tensor, options);
    if (status == RUEDA_OK)
        status = check_root(&c);
    if (status == RUEDA_OK)
        status = call_check_output(&c);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    return finish_rooted(&c, call_entry_in_place(&c, SIGNATURE_BROADCAST), request);
}

CALL_PUBLIC(broadcast)

/* Whether peers can reach the input, of which there must be something. */
static bool input_is_mapped(const collective_call *c)
{
    return c->bytes > 0 && heap_contains(c->engine->heap, c->tensor.input, c->bytes);
}

/* The entry of a rank of which peers reach the input, and nothing else. */
static entry *entry_to_root(const collective_call *c, signature_kind kind)
{
    entry *own = call_entry(c, kind);
    if (own != NULL)
        own->signature.mapped = input_is_mapped(c);
    return own;
}

rueda_status context_reduce(const context *here, const rueda_tensor *tensor,
                            const rueda_options *options, rueda_request **request)
{
    collective_call c;
    rueda_status status = call_read(&c, here, "rueda_reduce", tensor, options);
    if (status == RUEDA_OK)
        status = check_root(&c);
    if (status == RUEDA_OK)
        status = call_check_reduction(&c, false);
    if (status == RUEDA_OK && is_root(&c))
        status = call_check_output(&c);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    entry *own = is_root(&c) ? call_entry_in_place(&c, SIGNATURE_REDUCE)
                             : entry_to_root(&c, SIGNATURE_REDUCE);
    return finish_rooted(&c, own, request);
}

CALL_PUBLIC(reduce)

rueda_status context_gather(const context *here, const rueda_tensor *tensor,
                            const rueda_options *options, rueda_request **request)
{
    collective_call c;
    rueda_status status = call_read(&c, here, "rueda_gather", tensor, options);
    if (status == RUEDA_OK)
        status = check_root(&c);
    if (status == RUEDA_OK && is_root(&c))
        status = call_check_taker(&c, request);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    entry *own = entry_to_root(&c, SIGNATURE_GATHER);
    if (own != NULL && is_root(&c))
        own->signature.mapped = true; /* nobody reaches the root's own memory */
    return finish_rooted(&c, own, request);
}

CALL_PUBLIC(gather)

/* The root alone has an input. */
static rueda_status read_scatter(collective_call *c, const context *here,
                                 const rueda_tensor *tensor, const rueda_options *options)
{
    rueda_status status = call_begin(c, here, "rueda_scatter", options);
    if (status == RUEDA_OK)
        status = call_read_tensor(c, tensor);
    if (status == RUEDA_OK)
        status = call_check_rows(c);
    if (status == RUEDA_OK)
        status = call_measure(c, is_root(c));
    return status == RUEDA_OK ? call_hold_set(c) : status;
}

rueda_status context_scatter(const context *here, const rueda_tensor *tensor,
                             const rueda_options *options, rueda_request **request)
{
    collective_call c;
    rueda_status status = read_scatter(&c, here, tensor, options);
    if (status == RUEDA_OK)
        status = check_root(&c);
    if (status == RUEDA_OK)
        status = call_check_taker(&c, request);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    entry *own = call_entry(&c, SIGNATURE_SCATTER);
    if (own != NULL)
        own->signature.mapped = !is_root(&c) || input_is_mapped(&c);
    if (own != NULL && is_root(&c))
        status = call_set_splits(&c, own);
    if (status == RUEDA_OK)
        return finish_rooted(&c, own, request);
    return call_finish(&c, status, own, request);
}

CALL_PUBLIC(scatter)
