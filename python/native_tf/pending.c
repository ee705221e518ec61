/* pending.c: what start and wait share. */
#include "pending.h"

#include <stdlib.h>
#include <string.h>

static int code_of(rueda_status status)
{
    switch (status) {
    case RUEDA_OK:
        return TF_OK;
    case RUEDA_ERR_ARGUMENT:
    case RUEDA_ERR_DUPLICATE:
        return TF_INVALID_ARGUMENT;
    case RUEDA_ERR_MISMATCH:
    case RUEDA_ERR_STATE:
    case RUEDA_ERR_JOINED:
        return TF_FAILED_PRECONDITION;
    case RUEDA_ERR_SHUTDOWN:
    case RUEDA_ERR_PEER:
    case RUEDA_ERR_STALLED:
        return TF_ABORTED;
    case RUEDA_ERR_MEMORY:
        return TF_RESOURCE_EXHAUSTED;
    default:
        return TF_UNKNOWN;
    }
}

void fail(TF_OpKernelContext *context, rueda_status code, const char *text)
{
    TF_Status *status = tf.NewStatus();
    tf.SetStatus(status, code_of(code), text);
    tf.OpKernelContext_Failure(context, status);
    tf.DeleteStatus(status);
}

pending *pending_create(TF_OpKernelContext *context, int32_t count)
{
    pending *p = calloc(1, sizeof *p + (size_t)count * sizeof p->tensors[0]);
    TF_Status *status = tf.NewStatus();
    if (p != NULL)
        p->count = count;
    for (int32_t i = 0; i < count && p != NULL && tf.GetCode(status) == TF_OK; i++)
        tf.GetInput(context, i, &p->tensors[i].input, status);
    if (p == NULL || tf.GetCode(status) != TF_OK) {
        fail(context, RUEDA_ERR_MEMORY, "the tensors cannot be read");
        pending_free(p);
        p = NULL;
    } else {
        p->type = tf.TensorType(p->tensors[0].input);
    }
    tf.DeleteStatus(status);
    return p;
}

void pending_fail(pending *p, rueda_status status, const char *text)
{
    p->status = status;
    p->error = strdup(text);
}

rueda_status pending_finish(const pending *p, const char **error)
{
    if (p == NULL) {
        *error = "an operation was lost between its start and its wait";
        return RUEDA_ERR_INTERNAL;
    }
    if (p->status != RUEDA_OK) {
        *error = p->error != NULL ? p->error : "no memory for an error";
        return p->status;
    }
    const rueda_status status = rueda_wait(p->request, -1);
    if (status != RUEDA_OK)
        *error = rueda_error();
    return status;
}

void pending_free(pending *p)
{
    if (p == NULL)
        return;
    rueda_request_free(p->request);
    for (int32_t i = 0; i < p->count; i++) {
        if (p->tensors[i].input != NULL)
            tf.DeleteTensor(p->tensors[i].input);
        if (p->tensors[i].output != NULL)
            tf.DeleteTensor(p->tensors[i].output);
    }
    free(p->error);
    free(p);
}
