/* pending.h: an operation between its start and its wait, and the functions that both kernels have. */
#ifndef RUEDA_NATIVE_TF_PENDING_H
#define RUEDA_NATIVE_TF_PENDING_H

#include "tf.h"

#include <rueda.h>

/* The handle that travels through the graph is its own beginning, and it lives as long as that tensor:
 * TensorFlow lets go of it after the wait, or when a step ends early and there will be no wait. It owns its
 * tensors until the operation has ended. A start that failed hands its error on: then the wait runs in any
 * case, and those started beside it are waited for. */
typedef struct pending {
    int64_t handle; /* its address */
    rueda_request *request;
    rueda_status status;  /* of the start */
    char *error;          /* what it said; NULL: nothing */
    int type;             /* of the only tensor, for an output that the library allocates */
    struct pending *next; /* of those that nobody waits for any more */
    bool hopeless;        /* it did not end in time */
    int32_t count;
    struct {
        TF_Tensor *input, *output; /* output NULL: the library allocates it */
    } tensors[];
} pending;

/* Takes the first `count` inputs of the kernel. NULL: no memory, and the context knows. */
pending *pending_create(TF_OpKernelContext *context, int32_t count);

/* Keeps an error for the wait to tell; the text is copied. */
void pending_fail(pending *p, rueda_status status, const char *text);

/* Waits. The final status; `*error` becomes the sentence of a bad one, which is valid until `p` is freed
 * or the thread has its next error. NULL was lost. */
rueda_status pending_finish(const pending *p, const char **error);

/* Output `index` of the kernel becomes the handle, which owns `p` from now on. */
void pending_give(pending *p, TF_OpKernelContext *context, int index);

/* Of a start that gives no handle. NULL is fine. */
void pending_free(pending *p);

/* Waits until the operations have ended that nobody waits for any more: a step that ended early leaves their
 * names in flight, here and on the other ranks. Not for long, and for each only once. */
void pending_settle(void);

/* For Python, by ctypes: waits for what a handle stands for, at most so long; whether it has ended. */
int rueda_tf_wait(int64_t handle, int64_t timeout_ms);

/* Ends the kernel with an error of TensorFlow's class for the status. */
void fail(TF_OpKernelContext *context, rueda_status status, const char *text);

/* The kernels, for registration. */
tf_create_function create_start;
tf_delete_function delete_start;
tf_create_function create_wait;
tf_delete_function delete_wait;
tf_compute_function compute_start, compute_start_sized, compute_wait, compute_take;
tf_async_function compute_wait_later, compute_take_later;

#endif
