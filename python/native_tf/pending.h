/* pending.h: an operation between its start and its wait, and the functions that both kernels have. */
#ifndef RUEDA_NATIVE_TF_PENDING_H
#define RUEDA_NATIVE_TF_PENDING_H

#include "tf.h"

#include <rueda.h>

/* Its address is the handle that travels through the graph. It owns its tensors until its wait has ended.
 * A start that failed hands its error on: then the wait runs in any case, and leaves nothing behind. */
typedef struct pending {
    rueda_request *request;
    rueda_status status; /* of the start */
    char *error;         /* what it said; NULL: nothing */
    int type;            /* of the only tensor, for an output that the library allocates */
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

/* NULL is fine. */
void pending_free(pending *p);

/* Ends the kernel with an error of TensorFlow's class for the status. */
void fail(TF_OpKernelContext *context, rueda_status status, const char *text);

/* The kernels, for registration. */
tf_create_function create_start;
tf_delete_function delete_start;
tf_compute_function compute_start, compute_start_sized, compute_wait, compute_take;

#endif
