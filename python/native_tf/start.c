/* start.c: the kernels that hand tensors to the library; they never block. */
#include "pending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_GROUP = 100000, /* tensors that start together */
    MAX_TF_DIMS = 254,  /* TensorFlow's own limit */
    SHOWN_BYTES = 40    /* of a name that is too long */
};

/* By the number of TensorFlow's type; -1: cannot be combined. */
static int dtype_of(int type)
{
    static const signed char dtypes[] = {
        [1] = RUEDA_F32,   [2] = RUEDA_F64,  [3] = RUEDA_I32,  [4] = RUEDA_U8,
        [5] = RUEDA_I16,   [6] = RUEDA_I8,   [9] = RUEDA_I64,  [10] = RUEDA_BOOL,
        [14] = RUEDA_BF16, [17] = RUEDA_U16, [19] = RUEDA_F16,
    };
    if (type < 1 || type >= (int)sizeof dtypes || (dtypes[type] == RUEDA_BOOL && type != 10))
        return -1;
    return dtypes[type];
}

/* What a start operation was built with. */
typedef struct start {
    int32_t count;                     /* of tensors; more than one: a group */
    char (*names)[RUEDA_MAX_NAME + 1]; /* one for each */
    int64_t kind;                      /* index into `operations` */
    rueda_options options;
} start;

typedef rueda_status (*operation)(const rueda_tensor *, const rueda_options *, rueda_request **);
static const operation operations[] = {rueda_allreduce, rueda_allgather, rueda_broadcast,
                                       rueda_alltoall, rueda_reducescatter};
#define OPERATIONS ((int64_t)(sizeof operations / sizeof operations[0]))

void delete_start(void *kernel)
{
    start *s = kernel;
    if (s != NULL)
        free(s->names);
    free(s);
}

static void refuse_name(const char *name, TF_Status *status)
{
    char text[128];
    int shown = (int)strnlen(name, SHOWN_BYTES);
    while (shown > 0 && ((unsigned char)name[shown] & 0xC0) == 0x80)
        shown--; /* not into a character of several bytes: Python must be able to read it */
    snprintf(text, sizeof text, "tensor '%.*s…': a name has at most %d bytes", shown, name,
             RUEDA_MAX_NAME);
    tf.SetStatus(status, TF_INVALID_ARGUMENT, text);
}

/* The names of all tensors come in one string, each followed by a line feed. */
static void read_names(start *s, TF_OpKernelConstruction *construction, TF_Status *status)
{
    const size_t bytes = (size_t)s->count * (RUEDA_MAX_NAME + 1) + 1;
    char *text = calloc(1, bytes);
    s->names = calloc((size_t)s->count, sizeof *s->names);
    if (text == NULL || s->names == NULL) {
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "no memory for names");
        free(text);
        return;
    }
    tf.OpKernelConstruction_GetAttrString(construction, "tensor_names", text, bytes - 1, status);
    const char *from = text;
    for (int32_t i = 0; i < s->count && tf.GetCode(status) == TF_OK; i++) {
        const size_t length = strcspn(from, "\n");
        if (length > RUEDA_MAX_NAME || from[length] == '\0')
            refuse_name(from, status);
        else
            memcpy(s->names[i], from, length);
        from += length + 1;
    }
    free(text);
}

/* Attributes of TensorFlow have no type for it: the bits of a double, as an integer. */
static void read_double(TF_OpKernelConstruction *construction, const char *name, double *value,
                        TF_Status *status)
{
    int64_t bits = 0;
    tf.OpKernelConstruction_GetAttrInt64(construction, name, &bits, status);
    memcpy(value, &bits, sizeof bits);
}

static void read_attributes(start *s, TF_OpKernelConstruction *construction, TF_Status *status)
{
    int64_t op = 0, set = 0, root = 0, count = 0;
    double prescale = 1, postscale = 1;
    tf.OpKernelConstruction_GetAttrInt64(construction, "kind", &s->kind, status);
    tf.OpKernelConstruction_GetAttrInt64(construction, "count", &count, status);
    tf.OpKernelConstruction_GetAttrInt64(construction, "reduce_op", &op, status);
    tf.OpKernelConstruction_GetAttrInt64(construction, "process_set", &set, status);
    tf.OpKernelConstruction_GetAttrInt64(construction, "root", &root, status);
    read_double(construction, "prescale_bits", &prescale, status);
    read_double(construction, "postscale_bits", &postscale, status);
    if (tf.GetCode(status) == TF_OK &&
        (s->kind < 0 || s->kind >= OPERATIONS || count < 1 || count > MAX_GROUP))
        tf.SetStatus(status, TF_INVALID_ARGUMENT, "no such kind or size of operation");
    s->count = (int32_t)count;
    s->options = RUEDA_OPTIONS((rueda_op)op);
    s->options.process_set = (int32_t)set;
    s->options.root = (int32_t)root;
    s->options.prescale = prescale;
    s->options.postscale = postscale;
}

void *create_start(TF_OpKernelConstruction *construction)
{
    start *s = calloc(1, sizeof *s);
    TF_Status *status = tf.NewStatus();
    if (s == NULL)
        tf.SetStatus(status, TF_RESOURCE_EXHAUSTED, "no memory for an operation");
    else
        read_attributes(s, construction, status);
    if (s != NULL && tf.GetCode(status) == TF_OK)
        read_names(s, construction, status);
    if (tf.GetCode(status) != TF_OK)
        tf.OpKernelConstruction_Failure(construction, status);
    tf.DeleteStatus(status);
    return s;
}

/* Describes a tensor to the library; its shape is kept in `shape`. */
static bool describe(pending *p, int32_t i, const char *name, rueda_tensor *tensor,
                     int64_t shape[RUEDA_MAX_DIMS])
{
    TF_Tensor *input = p->tensors[i].input, *output = p->tensors[i].output;
    const int dtype = dtype_of(tf.TensorType(input));
    char text[RUEDA_MAX_NAME + 128];
    if (dtype < 0 || tf.NumDims(input) > RUEDA_MAX_DIMS) {
        snprintf(text, sizeof text,
                 "tensor '%s': a type that cannot be combined, or more than %d "
                 "dimensions",
                 name, RUEDA_MAX_DIMS);
        pending_fail(p, RUEDA_ERR_ARGUMENT, text);
        return false;
    }
    for (int d = 0; d < tf.NumDims(input); d++)
        shape[d] = tf.Dim(input, d);
    /* without a name the engine counts submissions */
    *tensor = RUEDA_TENSOR(*name == '\0' ? NULL : name, tf.TensorData(input), (rueda_dtype)dtype,
                           tf.NumDims(input), shape);
    if (output != NULL) {
        tensor->output = tf.TensorData(output);
        tensor->output_bytes = tf.TensorByteSize(output);
    }
    return true;
}

static rueda_status hand_over(const start *s, const rueda_options *options,
                              const rueda_tensor *tensors, pending *p)
{
    if (s->count > 1)
        return rueda_grouped_allreduce(tensors, s->count, options, &p->request);
    return operations[s->kind](tensors, options, &p->request);
}

/* Who asks for a set without being in it gave a wrong argument; the job itself is in order. */
static bool is_outside(const rueda_options *options)
{
    return rueda_process_set_size(options->process_set) > 0 &&
           rueda_process_set_rank(options->process_set) < 0;
}

static void submit(const start *s, const rueda_options *options, pending *p)
{
    rueda_tensor one, *tensors = &one;
    int64_t one_shape[1][RUEDA_MAX_DIMS], (*shapes)[RUEDA_MAX_DIMS] = one_shape;
    if (s->count > 1) {
        tensors = calloc((size_t)s->count, sizeof *tensors);
        shapes = calloc((size_t)s->count, sizeof *shapes);
    }
    bool fine = tensors != NULL && shapes != NULL;
    if (!fine)
        pending_fail(p, RUEDA_ERR_MEMORY, "no memory for a group");
    for (int32_t i = 0; i < s->count && fine; i++)
        fine = describe(p, i, s->names[i], &tensors[i], shapes[i]);
    if (fine) {
        rueda_status status = hand_over(s, options, tensors, p);
        if (status == RUEDA_ERR_DUPLICATE) {
            pending_settle();
            status = hand_over(s, options, tensors, p);
        }
        if (status != RUEDA_OK)
            pending_fail(p, is_outside(options) ? RUEDA_ERR_ARGUMENT : status, rueda_error());
    }
    if (s->count > 1) {
        free(tensors);
        free(shapes);
    }
}

static bool allocate_outputs(TF_OpKernelContext *context, pending *p)
{
    TF_Status *status = tf.NewStatus();
    bool fine = true;
    for (int32_t i = 0; i < p->count && fine; i++) {
        TF_Tensor *input = p->tensors[i].input;
        int64_t shape[MAX_TF_DIMS];
        for (int d = 0; d < tf.NumDims(input); d++)
            shape[d] = tf.Dim(input, d);
        p->tensors[i].output =
            tf.AllocateOutput(context, i, tf.TensorType(input), shape, tf.NumDims(input),
                              tf.TensorByteSize(input), status);
        fine = p->tensors[i].output != NULL;
    }
    tf.DeleteStatus(status);
    return fine;
}

void compute_start(void *kernel, TF_OpKernelContext *context)
{
    const start *s = kernel;
    pending *p = pending_create(context, s->count);
    if (p == NULL)
        return;
    if (!allocate_outputs(context, p)) {
        fail(context, RUEDA_ERR_MEMORY, "no memory for the output");
        pending_free(p);
        return;
    }
    submit(s, &s->options, p);
    pending_give(p, context, s->count);
}

void compute_start_sized(void *kernel, TF_OpKernelContext *context)
{
    const start *s = kernel;
    pending *p = pending_create(context, 1);
    if (p == NULL)
        return;
    TF_Tensor *splits = NULL;
    TF_Status *status = tf.NewStatus();
    tf.GetInput(context, 1, &splits, status);
    tf.DeleteStatus(status);
    const size_t count = splits == NULL ? 0 : tf.TensorByteSize(splits) / sizeof(int64_t);
    if (count > 0 && count != (size_t)rueda_process_set_size(s->options.process_set)) {
        pending_fail(p, RUEDA_ERR_ARGUMENT,
                     "alltoall: there must be one split for each rank of the set");
    } else {
        rueda_options options = s->options;
        options.splits = count == 0 ? NULL : tf.TensorData(splits);
        submit(s, &options, p);
    }
    pending_give(p, context, 0);
    if (splits != NULL)
        tf.DeleteTensor(splits);
}
