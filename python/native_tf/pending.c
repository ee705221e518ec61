/* pending.c: what start and wait share. */
#include "pending.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT = 256,    /* at least what TensorFlow asks of a tensor that it does not copy */
    SETTLE_SECONDS = 10 /* after that the other ranks will hardly have these operations */
};

/* Operations without a wait: a step has ended early. They keep their tensors until they have ended. */
static struct {
    pthread_mutex_t lock, settling;
    pending *first;
} orphans = {.lock = PTHREAD_MUTEX_INITIALIZER, .settling = PTHREAD_MUTEX_INITIALIZER};

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
    case RUEDA_ERR_MEMBERS:
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
    const size_t bytes = sizeof(pending) + (size_t)count * sizeof(((pending *)NULL)->tensors[0]);
    pending *p = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    TF_Status *status = tf.NewStatus();
    if (p != NULL) {
        memset(p, 0, bytes);
        p->handle = (int64_t)(intptr_t)p;
        p->count = count;
    }
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

/* Takes a list, or one, and frees all that have ended. */
static void adopt(pending *more)
{
    pthread_mutex_lock(&orphans.lock);
    pending **at = &orphans.first;
    while (*at != NULL)
        at = &(*at)->next;
    *at = more;
    for (at = &orphans.first; *at != NULL;) {
        pending *p = *at;
        if (p->request != NULL && !rueda_poll(p->request)) {
            at = &p->next;
        } else {
            *at = p->next;
            pending_free(p);
        }
    }
    pthread_mutex_unlock(&orphans.lock);
}

static pending *take_orphans(void)
{
    pthread_mutex_lock(&orphans.lock);
    pending *all = orphans.first;
    orphans.first = NULL;
    pthread_mutex_unlock(&orphans.lock);
    return all;
}

void pending_settle(void)
{
    pthread_mutex_lock(&orphans.settling);
    pending *all = take_orphans();
    bool hopeful = true;
    for (pending *p = all; p != NULL; p = p->next) {
        if (hopeful && !p->hopeless)
            hopeful = rueda_wait(p->request, SETTLE_SECONDS * 1000) != RUEDA_PENDING;
        p->hopeless = p->hopeless || !hopeful;
    }
    adopt(all);
    pthread_mutex_unlock(&orphans.settling);
}

/* TensorFlow has let go of the handle. */
static void release(void *data, size_t bytes, void *argument)
{
    (void)bytes;
    (void)argument;
    adopt(data);
}

void pending_give(pending *p, TF_OpKernelContext *context, int index)
{
    TF_Status *status = tf.NewStatus();
    TF_Tensor *handle = tf.NewTensor(TF_INT64, NULL, 0, p, sizeof p->handle, release, NULL);
    if (handle == NULL) {
        fail(context, RUEDA_ERR_MEMORY, "no memory for a handle");
        adopt(p);
    } else {
        tf.SetOutput(context, index, handle, status);
        tf.DeleteTensor(handle);
    }
    tf.DeleteStatus(status);
}
