/* sendrecv.c: send and recv, between two ranks of a set. */
#include "api/call.h"

#include <stdlib.h>
#include <string.h>

/* The member that has this global rank. */
static rueda_status find_member(const collective_call *c, int32_t rank, int32_t *member)
{
    for (uint16_t i = 0; i < c->set->size; i++) {
        if (c->set->ranks[i] == rank) {
            *member = i;
            return RUEDA_OK;
        }
    }
    return status_fail(RUEDA_ERR_ARGUMENT, "%s '%s': rank %d is not a rank of process set %d",
                       c->function, call_shown(c->tensor.name), rank, c->options.process_set);
}

static p2p_call *new_call(const collective_call *c, bool sends, int32_t member)
{
    const rueda_tensor *t = &c->tensor;
    p2p_call *own = p2p_call_new(t->name);
    if (own == NULL)
        return NULL;
    own->sends = sends;
    own->member = member;
    own->data = !sends && t->output != NULL ? t->output : t->input;
    own->submitted_ns = world_now_coarse_ns();
    own->tensor =
        (p2p_tensor){.dtype = (uint8_t)t->dtype, .ndim = (uint8_t)t->ndim, .bytes = c->bytes};
    if (t->ndim > 0)
        memcpy(own->tensor.shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
    own->request = request_new(1, 0);
    if (own->request != NULL)
        return own;
    p2p_call_free(own);
    return NULL;
}

static rueda_status finish(const collective_call *c, p2p_call *own, rueda_request **request)
{
    if (own == NULL)
        return call_abandon(c, status_fail(RUEDA_ERR_MEMORY, "%s '%s': out of memory", c->function,
                                           call_shown(c->tensor.name)));
    rueda_request *r = own->request;
    const rueda_status status = engine_submit_call(c->engine, c->set, own, request == NULL);
    engine_release_set(c->engine, c->set);
    if (status != RUEDA_OK) {
        p2p_call_free(own);
        free(r);
        return status;
    }
    return call_give(c, r, request);
}

rueda_status context_send(const context *here, const rueda_tensor *tensor, int32_t to,
                          const rueda_options *options, rueda_request **request)
{
    collective_call c;
    int32_t member = 0;
    rueda_status status = call_read(&c, here, "rueda_send", tensor, options);
    if (status == RUEDA_OK)
        status = find_member(&c, to, &member);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    return finish(&c, new_call(&c, true, member), request);
}

/* The input is looked at only where it takes the output's place. */
static rueda_status read_receive(collective_call *c, const context *here,
                                 const rueda_tensor *tensor, const rueda_options *options)
{
    rueda_status status = call_begin(c, here, "rueda_recv", options);
    if (status == RUEDA_OK)
        status = call_read_tensor(c, tensor);
    if (status == RUEDA_OK)
        status = call_measure(c, c->tensor.output == NULL);
    if (status == RUEDA_OK)
        status = call_check_output(c);
    return status == RUEDA_OK ? call_hold_set(c) : status;
}

rueda_status context_recv(const context *here, const rueda_tensor *tensor, int32_t from,
                          const rueda_options *options, rueda_request **request)
{
    collective_call c;
    int32_t member = P2P_ANYONE;
    rueda_status status = read_receive(&c, here, tensor, options);
    if (status == RUEDA_OK && from != RUEDA_ANY_RANK)
        status = find_member(&c, from, &member);
    if (status != RUEDA_OK)
        return call_abandon(&c, status);
    return finish(&c, new_call(&c, false, member), request);
}

rueda_status rueda_send(const rueda_tensor *tensor, int32_t to, const rueda_options *options,
                        rueda_request **request)
{
    return context_send(context_of_process(), tensor, to, options, request);
}

rueda_status rueda_recv(const rueda_tensor *tensor, int32_t from, const rueda_options *options,
                        rueda_request **request)
{
    return context_recv(context_of_process(), tensor, from, options, request);
}
