/* wait.c: the kernels that end when the library has finished. */
#include "later.h"
#include "pending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_BYTES = 1024 };

static pending *read_handle(TF_OpKernelContext *context, int index)
{
    TF_Tensor *tensor = NULL;
    TF_Status *status = tf.NewStatus();
    int64_t value = 0;
    tf.GetInput(context, index, &tensor, status);
    if (tf.GetCode(status) == TF_OK)
        memcpy(&value, tf.TensorData(tensor), sizeof value);
    if (tensor != NULL)
        tf.DeleteTensor(tensor);
    tf.DeleteStatus(status);
    return (pending *)(intptr_t)value;
}

__attribute__((visibility("default"))) int rueda_tf_wait(int64_t handle, int64_t timeout_ms)
{
    const pending *p = (const pending *)(intptr_t)handle;
    return p->status != RUEDA_OK || rueda_wait(p->request, timeout_ms) != RUEDA_PENDING;
}

/* All handles are waited for, also after one has failed: nobody may touch a tensor afterwards. Inputs are
 * the tensors, and then for each its handle; those of a group have the same. */
static void wait_for_all(TF_OpKernelContext *context)
{
    const int count = tf.NumInputs(context) / 2;
    rueda_status first = RUEDA_OK;
    char text[ERROR_BYTES] = "";
    TF_Status *status = tf.NewStatus();
    for (int next = 0; next < count;) {
        pending *p = read_handle(context, count + next);
        const char *error = "";
        const rueda_status ended = pending_finish(p, &error);
        if (ended != RUEDA_OK && first == RUEDA_OK) {
            first = ended;
            snprintf(text, sizeof text, "%s", error);
        }
        const int end = next + (p == NULL ? 1 : p->count);
        for (int i = 0; next < end; i++, next++)
            if (ended == RUEDA_OK && p != NULL)
                tf.SetOutput(context, next, p->tensors[i].output, status);
    }
    tf.DeleteStatus(status);
    if (first != RUEDA_OK)
        fail(context, first, text);
}

static void give_received(TF_OpKernelContext *context, const rueda_output *output)
{
    const int64_t count = output->received_count;
    TF_Status *status = tf.NewStatus();
    TF_Tensor *received =
        tf.AllocateOutput(context, 1, TF_INT32, &count, 1, (size_t)count * sizeof(int32_t), status);
    if (received == NULL)
        fail(context, RUEDA_ERR_MEMORY, "no memory for the received splits");
    for (int32_t i = 0; received != NULL && i < output->received_count; i++)
        ((int32_t *)tf.TensorData(received))[i] = (int32_t)output->received_splits[i];
    if (received != NULL)
        tf.DeleteTensor(received);
    tf.DeleteStatus(status);
}

/* TensorFlow wants its tensors aligned to 64 bytes, which the library's outputs may not be: copies. */
static void give_output(TF_OpKernelContext *context, const rueda_output *output, int type)
{
    TF_Status *status = tf.NewStatus();
    TF_Tensor *tensor =
        tf.AllocateOutput(context, 0, type, output->shape, output->ndim, output->bytes, status);
    if (tensor == NULL)
        fail(context, RUEDA_ERR_MEMORY, "no memory for the output");
    else if (output->bytes > 0)
        memcpy(tf.TensorData(tensor), output->data, output->bytes);
    if (tensor != NULL)
        tf.DeleteTensor(tensor);
    tf.DeleteStatus(status);
}

static void take(TF_OpKernelContext *context)
{
    pending *p = read_handle(context, 0);
    rueda_output output = RUEDA_OUTPUT;
    const char *error = "";
    rueda_status status = pending_finish(p, &error);
    if (status == RUEDA_OK && (status = rueda_take_output(p->request, &output)) != RUEDA_OK)
        error = rueda_error();
    if (status != RUEDA_OK) {
        fail(context, status, error);
    } else {
        give_output(context, &output, p->type);
        give_received(context, &output);
        rueda_output_free(&output);
    }
}

/* ---- The kernels -------------------------------------------------------------------------------- */

/* What a wait was built with. */
typedef struct waiter {
    unsigned char blocks; /* the caller has nothing else to do */
} waiter;

void *create_wait(TF_OpKernelConstruction *construction)
{
    waiter *w = calloc(1, sizeof *w);
    TF_Status *status = tf.NewStatus();
    if (w == NULL)
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "no memory for an operation");
    else
        tf.OpKernelConstruction_GetAttrBool(construction, "blocks", &w->blocks, status);
    if (tf.GetCode(status) != TF_OK)
        tf.OpKernelConstruction_Failure(construction, status);
    tf.DeleteStatus(status);
    return w;
}

void delete_wait(void *kernel)
{
    free(kernel);
}

void compute_wait(void *kernel, TF_OpKernelContext *context)
{
    (void)kernel;
    wait_for_all(context);
}

void compute_take(void *kernel, TF_OpKernelContext *context)
{
    (void)kernel;
    take(context);
}

static void now_or_later(const waiter *w, void (*work)(TF_OpKernelContext *),
                         TF_OpKernelContext *context, TF_AsyncOpKernelDoneCallback *done)
{
    if (w->blocks) {
        work(context);
        tf.RunAsyncOpKernelDoneCallback(done);
    } else {
        later(work, context, done);
    }
}

void compute_wait_later(void *kernel, TF_OpKernelContext *context,
                        TF_AsyncOpKernelDoneCallback *done)
{
    now_or_later(kernel, wait_for_all, context, done);
}

void compute_take_later(void *kernel, TF_OpKernelContext *context,
                        TF_AsyncOpKernelDoneCallback *done)
{
    now_or_later(kernel, take, context, done);
}
