/* reducer.h: gradients on their way, from the backward pass into buckets and to the engine.
 *
 * A reducer knows the gradient of each parameter, and some buckets. A parameter's hook runs after its gradient was
 * accumulated: it counts the pass, moves the gradient into its place in the bucket, makes that place
 * the parameter's .grad, and submits the bucket when it is full. All of it is C, because it runs for
 * every parameter of every step; whatever is not the common case (sparse, strange strides, another type
 * on the wire, the first pass, which only learns the order) is handed to `slow`, a Python callable.
 *
 * A round lasts from the first gradient until finish(). Invariant: a bucket is submitted once a round,
 * when all of its gradients have arrived, and nobody writes into it until its request has ended.
 */
#ifndef RUEDA_NATIVE_REDUCER_H
#define RUEDA_NATIVE_REDUCER_H

#include "native.h"

enum { SENTENCE_BYTES = 512 }; /* of an error that is kept until all buckets have ended */

typedef struct gradient {
    PyObject *view; /* its place in the bucket, shaped like the parameter; NULL: always slow */
    dl_tensor look; /* of the view; shape and strides point into `extents` */
    int64_t extents[2 * RUEDA_MAX_DIMS];
    size_t bytes;
    char *flag; /* where the bucket says that this rank has a gradient; NULL: nowhere */
    Py_ssize_t bucket;
    long passes_left;
    bool arrived;
    bool fresh; /* a backward pass has added to the gradient since it was last combined */
} gradient;

typedef struct bucket {
    pending *pending; /* keeps its tensor; None: `full` submits it */
    tensor_info info;
    char name[RUEDA_MAX_NAME + 1];
    rueda_options options;
    Py_ssize_t members, arrived;
} bucket;

typedef struct reducer {
    PyObject_HEAD
    native *state;
    gradient *gradients;
    Py_ssize_t gradient_count;
    bucket *buckets;
    Py_ssize_t bucket_count;
    PyObject *begin, *slow, *full, *task_id;
    long task;           /* the backward pass last seen */
    bool enabled;        /* hooks do something */
    bool open;           /* within a round */
    bool may_go_on;      /* more passes than announced are fine */
    unsigned generation; /* in which the ranks have agreed on the buckets */
} reducer;

/* Says that a gradient's place in its bucket is filled; submits a full bucket. `present`: this rank has a
 * gradient there. False with an exception. */
bool reducer_arrive(reducer *r, gradient *g, bool present);

/* ---- gradient.c */

/* Reads (view, bucket, address of the flag, passes); false with an exception. */
bool gradient_make(native *state, gradient *g, PyObject *row);
/* Moves a parameter's gradient into its place and makes that place the gradient. 1: done, 0: not this
 * way, -1: exception. */
int gradient_take(native *state, gradient *g, PyObject *parameter);

/* ---- bucket.c */

/* Reads (flat tensor or None, name, options …); false with an exception. */
bool bucket_make(native *state, bucket *b, PyObject *row);
/* "This rank has a gradient here": one or zero in the type of the bucket. */
void bucket_write_flag(const bucket *b, char *flag, bool present);
/* Whether, after the round, no rank had a gradient here. */
bool bucket_flag_is_zero(const bucket *b, const char *flag);
/* False with an exception. */
bool bucket_submit(native *state, bucket *b);
/* Waits for the bucket's request, if it has one; keeps the first error and its sentence. False with an
 * exception: Ctrl-C; the request stays. */
bool bucket_end(native *state, bucket *b, rueda_status *first, char sentence[SENTENCE_BYTES]);
/* Drops it; what the engine still works on stays until that has ended. */
void bucket_release(native *state, bucket *b);

/* ---- hook.c */

/* The callable for a gradient; NULL with an exception. */
PyObject *hook_new(reducer *r, Py_ssize_t index);

#endif
