/* due.c: RuedaDue tells whether a part of a graph is to run in this step, without asking Python for it. */
#include "due.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_KEYS = 4096 };

/* What the keys stand for is Python's; a key that it has not set, as in another process, is not due. */
static _Atomic unsigned char is_due[MAX_KEYS];

__attribute__((visibility("default"))) void rueda_tf_set_due(int64_t key, int due)
{
    if (key >= 0 && key < MAX_KEYS)
        atomic_store(&is_due[key], due != 0);
}

void *create_due(TF_OpKernelConstruction *construction)
{
    int64_t *key = malloc(sizeof *key);
    TF_Status *status = tf.NewStatus();
    if (key == NULL)
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "no memory for an operation");
    else
        tf.OpKernelConstruction_GetAttrInt64(construction, "key", key, status);
    if (tf.GetCode(status) != TF_OK)
        tf.OpKernelConstruction_Failure(construction, status);
    tf.DeleteStatus(status);
    return key;
}

void delete_due(void *kernel)
{
    free(kernel);
}

void compute_due(void *kernel, TF_OpKernelContext *context)
{
    const int64_t key = *(const int64_t *)kernel;
    TF_Status *status = tf.NewStatus();
    TF_Tensor *due = tf.AllocateOutput(context, 0, TF_BOOL, NULL, 0, 1, status);
    if (due == NULL) {
        tf.OpKernelContext_Failure(context, status);
    } else {
        *(unsigned char *)tf.TensorData(due) =
            key >= 0 && key < MAX_KEYS && atomic_load(&is_due[key]) != 0;
        tf.DeleteTensor(due);
    }
    tf.DeleteStatus(status);
}
