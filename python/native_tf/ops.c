/* ops.c: the four operations and their kernels; see README.md. */
#include "tf.h"

#include <rueda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    char name[RUEDA_MAX_NAME + 1];
    int64_t kind; /* index into `operations` */
    rueda_options options;
} start;

/* An operation under way; its address is the handle. */
typedef struct pending {
    rueda_request *request;
    TF_Tensor *input, *output; /* output NULL: the library allocates it */
    int type;
} pending;

typedef rueda_status (*operation)(const rueda_tensor *, const rueda_options *, rueda_request **);
static const operation operations[] = {rueda_allreduce, rueda_allgather, rueda_broadcast,
                                       rueda_alltoall, rueda_reducescatter};
#define OPERATIONS ((int64_t)(sizeof operations / sizeof operations[0]))

/* ---- Errors ------------------------------------------------------------------------------------- */

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

static void fail(TF_OpKernelContext *context, int code, const char *text)
{
    TF_Status *status = tf.NewStatus();
    tf.SetStatus(status, code, text);
    tf.OpKernelContext_Failure(context, status);
    tf.DeleteStatus(status);
}

/* ---- Starting ----------------------------------------------------------------------------------- */

static void *create_start(TF_OpKernelConstruction *construction)
{
    start *s = calloc(1, sizeof *s);
    TF_Status *status = tf.NewStatus();
    int64_t op = 0, set = 0, root = 0, priority = 0;
    float prescale = 1, postscale = 1;
    tf.OpKernelConstruction_GetAttrString(construction, "tensor_name", s->name, RUEDA_MAX_NAME,
                                          status);
    tf.OpKernelConstruction_GetAttrInt64(construction, "kind", &s->kind, status);
    tf.OpKernelConstruction_GetAttrInt64(construction, "reduce_op", &op, status);
    tf.OpKernelConstruction_GetAttrInt64(construction, "process_set", &set, status);
    tf.OpKernelConstruction_GetAttrInt64(construction, "root", &root, status);
    tf.OpKernelConstruction_GetAttrInt64(construction, "priority", &priority, status);
    tf.OpKernelConstruction_GetAttrFloat(construction, "prescale", &prescale, status);
    tf.OpKernelConstruction_GetAttrFloat(construction, "postscale", &postscale, status);
    if (tf.GetCode(status) == TF_OK && (s->kind < 0 || s->kind >= OPERATIONS))
        tf.SetStatus(status, TF_INVALID_ARGUMENT, "no such kind of operation");
    if (tf.GetCode(status) != TF_OK)
        tf.OpKernelConstruction_Failure(construction, status);
    tf.DeleteStatus(status);
    s->options = RUEDA_OPTIONS((rueda_op)op);
    s->options.process_set = (int32_t)set;
    s->options.root = (int32_t)root;
    s->options.priority = (int32_t)priority;
    s->options.prescale = prescale;
    s->options.postscale = postscale;
    return s;
}

static void delete_start(void *kernel)
{
    free(kernel);
}

static void drop(pending *p)
{
    if (p == NULL)
        return;
    rueda_request_free(p->request);
    if (p->input != NULL)
        tf.DeleteTensor(p->input);
    if (p->output != NULL)
        tf.DeleteTensor(p->output);
    free(p);
}

/* Submits; NULL: failed, and the context knows. */
static pending *submit(const start *s, TF_OpKernelContext *context, pending *p,
                       const int64_t *shape)
{
    const int dtype = dtype_of(p->type);
    char text[RUEDA_MAX_NAME + 64];
    if (dtype < 0) {
        snprintf(text, sizeof text, "tensor '%s': its type cannot be combined", s->name);
        fail(context, TF_INVALID_ARGUMENT, text);
        return drop(p), NULL;
    }
    /* without a name the engine counts submissions */
    rueda_tensor tensor = RUEDA_TENSOR(*s->name == '\0' ? NULL : s->name, tf.TensorData(p->input),
                                       (rueda_dtype)dtype, tf.NumDims(p->input), shape);
    tensor.output = p->output == NULL ? NULL : tf.TensorData(p->output);
    const rueda_status status = operations[s->kind](&tensor, &s->options, &p->request);
    if (status != RUEDA_OK) {
        fail(context, code_of(status), rueda_error());
        return drop(p), NULL;
    }
    return p;
}

/* The input of a start, and its shape. NULL: failed. */
static pending *take_input(TF_OpKernelContext *context, int64_t shape[RUEDA_MAX_DIMS])
{
    pending *p = calloc(1, sizeof *p);
    TF_Status *status = tf.NewStatus();
    tf.GetInput(context, 0, &p->input, status);
    const bool fine = tf.GetCode(status) == TF_OK && tf.NumDims(p->input) <= RUEDA_MAX_DIMS;
    if (!fine)
        fail(context, TF_INVALID_ARGUMENT, "the tensor cannot be read, or has too many dimensions");
    tf.DeleteStatus(status);
    if (!fine)
        return drop(p), NULL;
    p->type = tf.TensorType(p->input);
    for (int i = 0; i < tf.NumDims(p->input); i++)
        shape[i] = tf.Dim(p->input, i);
    return p;
}

/* Output `index` of the operation becomes the handle. */
static void give_handle(TF_OpKernelContext *context, int index, pending *p)
{
    TF_Status *status = tf.NewStatus();
    TF_Tensor *handle =
        tf.AllocateOutput(context, index, TF_INT64, NULL, 0, sizeof(int64_t), status);
    if (handle != NULL) {
        const int64_t value = (int64_t)(intptr_t)p;
        memcpy(tf.TensorData(handle), &value, sizeof value);
        tf.DeleteTensor(handle);
    }
    tf.DeleteStatus(status);
}

static void compute_start(void *kernel, TF_OpKernelContext *context)
{
    const start *s = kernel;
    int64_t shape[RUEDA_MAX_DIMS];
    pending *p = take_input(context, shape);
    if (p == NULL)
        return;
    TF_Status *status = tf.NewStatus();
    p->output = tf.AllocateOutput(context, 0, p->type, shape, tf.NumDims(p->input),
                                  tf.TensorByteSize(p->input), status);
    tf.DeleteStatus(status);
    if (p->output == NULL) {
        fail(context, TF_RESOURCE_EXHAUSTED, "no memory for the output");
        drop(p);
        return;
    }
    if (submit(s, context, p, shape) != NULL)
        give_handle(context, 1, p);
}

static void compute_start_sized(void *kernel, TF_OpKernelContext *context)
{
    start s = *(const start *)kernel;
    int64_t shape[RUEDA_MAX_DIMS];
    pending *p = take_input(context, shape);
    TF_Tensor *splits = NULL;
    TF_Status *status = tf.NewStatus();
    if (p != NULL)
        tf.GetInput(context, 1, &splits, status);
    tf.DeleteStatus(status);
    if (p == NULL)
        return;
    const size_t count = splits == NULL ? 0 : tf.TensorByteSize(splits) / sizeof(int64_t);
    if (count > 0 && count != (size_t)rueda_set_size(s.options.process_set)) {
        fail(context, TF_INVALID_ARGUMENT,
             "alltoall: there must be one split for each rank of the set");
        drop(p);
    } else {
        s.options.splits = count == 0 ? NULL : tf.TensorData(splits);
        if (submit(&s, context, p, shape) != NULL)
            give_handle(context, 0, p);
    }
    if (splits != NULL)
        tf.DeleteTensor(splits);
}

/* ---- Waiting ------------------------------------------------------------------------------------ */

static void *create_nothing(TF_OpKernelConstruction *construction)
{
    (void)construction;
    return NULL;
}

static void delete_nothing(void *kernel)
{
    (void)kernel;
}

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

/* All handles are waited for, also after one has failed: nobody may touch a tensor afterwards. */
static void compute_wait(void *kernel, TF_OpKernelContext *context)
{
    (void)kernel;
    const int count = tf.NumInputs(context) / 2;
    rueda_status first = RUEDA_OK;
    char text[1024] = "";
    TF_Status *status = tf.NewStatus();
    for (int i = 0; i < count; i++) {
        pending *p = read_handle(context, count + i);
        const rueda_status ended = p == NULL ? RUEDA_ERR_INTERNAL : rueda_wait(p->request, -1);
        if (ended != RUEDA_OK && first == RUEDA_OK) {
            first = ended;
            snprintf(text, sizeof text, "%s", rueda_error());
        }
        if (ended == RUEDA_OK)
            tf.SetOutput(context, i, p->output, status);
        drop(p);
    }
    tf.DeleteStatus(status);
    if (first != RUEDA_OK)
        fail(context, code_of(first), text);
}

static void give_received(TF_OpKernelContext *context, const rueda_output *output)
{
    const int64_t count = output->received_count;
    TF_Status *status = tf.NewStatus();
    TF_Tensor *received =
        tf.AllocateOutput(context, 1, TF_INT32, &count, 1, (size_t)count * sizeof(int32_t), status);
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
        fail(context, TF_RESOURCE_EXHAUSTED, "no memory for the output");
    else if (output->bytes > 0)
        memcpy(tf.TensorData(tensor), output->data, output->bytes);
    if (tensor != NULL)
        tf.DeleteTensor(tensor);
    tf.DeleteStatus(status);
}

static void compute_take(void *kernel, TF_OpKernelContext *context)
{
    (void)kernel;
    pending *p = read_handle(context, 0);
    rueda_output output = {0};
    rueda_status status = p == NULL ? RUEDA_ERR_INTERNAL : rueda_wait(p->request, -1);
    if (status == RUEDA_OK)
        status = rueda_take_output(p->request, &output);
    if (status != RUEDA_OK) {
        fail(context, code_of(status), rueda_error());
    } else {
        give_output(context, &output, p->type);
        give_received(context, &output);
        rueda_output_free(&output);
    }
    drop(p);
}

/* ---- Shapes ------------------------------------------------------------------------------------- */

static void copy_shape(TF_ShapeInferenceContext *context, int from, int to, TF_Status *status)
{
    TF_ShapeHandle *shape = tf.NewShapeHandle();
    tf.ShapeInferenceContextGetInput(context, from, shape, status);
    tf.ShapeInferenceContextSetOutput(context, to, shape, status);
    tf.DeleteShapeHandle(shape);
}

static void set_scalar(TF_ShapeInferenceContext *context, int to, TF_Status *status)
{
    TF_ShapeHandle *scalar = tf.ShapeInferenceContextScalar(context);
    tf.ShapeInferenceContextSetOutput(context, to, scalar, status);
    tf.DeleteShapeHandle(scalar);
}

static void shape_start(TF_ShapeInferenceContext *context, TF_Status *status)
{
    copy_shape(context, 0, 0, status);
    set_scalar(context, 1, status);
}

static void shape_start_sized(TF_ShapeInferenceContext *context, TF_Status *status)
{
    set_scalar(context, 0, status);
}

static void shape_wait(TF_ShapeInferenceContext *context, TF_Status *status)
{
    const int count = (int)tf.ShapeInferenceContextNumInputs(context) / 2;
    for (int i = 0; i < count; i++)
        copy_shape(context, i, i, status);
}

static void shape_unknown(TF_ShapeInferenceContext *context, TF_Status *status)
{
    tf.ShapeInferenceContextSetUnknownShape(context, status);
}

/* ---- Registration ------------------------------------------------------------------------------- */

typedef struct registration {
    const char *name;
    const char *inputs[4], *outputs[3];
    const char *attributes[10];
    bool stateful;
    tf_shape_function *shape;
    tf_create_function *create;
    tf_compute_function *compute;
    tf_delete_function *delete;
} registration;

#define START_ATTRIBUTES                                                                           \
    {                                                                                              \
        "T: {float, double, int32, uint8, int16, int8, int64, bool, bfloat16, uint16, half}",      \
            "tensor_name: string", "kind: int", "reduce_op: int", "prescale: float = 1.0",         \
            "postscale: float = 1.0", "process_set: int = 0", "root: int = 0",                     \
            "priority: int = 0", NULL                                                              \
    }

static const registration registrations[] = {
    {.name = "RuedaStart",
     .inputs = {"tensor: T", "guard: int32"},
     .outputs = {"output: T", "handle: int64"},
     .attributes = START_ATTRIBUTES,
     .shape = shape_start,
     .create = create_start,
     .compute = compute_start,
     .delete = delete_start},
    {.name = "RuedaStartSized",
     .inputs = {"tensor: T", "splits: int64", "guard: int32"},
     .outputs = {"handle: int64"},
     .attributes = START_ATTRIBUTES,
     .shape = shape_start_sized,
     .create = create_start,
     .compute = compute_start_sized,
     .delete = delete_start},
    {.name = "RuedaWait",
     .inputs = {"outputs: T", "handles: N * int64"},
     .outputs = {"results: T"},
     .attributes = {"N: int >= 1", "T: list(type) >= 1"},
     .stateful = true,
     .shape = shape_wait,
     .create = create_nothing,
     .compute = compute_wait,
     .delete = delete_nothing},
    {.name = "RuedaTake",
     .inputs = {"handle: int64"},
     .outputs = {"output: T", "received_splits: int32"},
     .attributes = {"T: type"},
     .stateful = true,
     .shape = shape_unknown,
     .create = create_nothing,
     .compute = compute_take,
     .delete = delete_nothing},
};

static void register_one(const registration *r, TF_Status *status)
{
    TF_OpDefinitionBuilder *builder = tf.NewOpDefinitionBuilder(r->name);
    for (int i = 0; r->attributes[i] != NULL; i++)
        tf.OpDefinitionBuilderAddAttr(builder, r->attributes[i]);
    for (int i = 0; r->inputs[i] != NULL; i++)
        tf.OpDefinitionBuilderAddInput(builder, r->inputs[i]);
    for (int i = 0; r->outputs[i] != NULL; i++)
        tf.OpDefinitionBuilderAddOutput(builder, r->outputs[i]);
    if (r->stateful)
        tf.OpDefinitionBuilderSetIsStateful(builder, true);
    tf.OpDefinitionBuilderSetShapeInferenceFunction(builder, r->shape);
    tf.RegisterOpDefinition(builder, status);
    if (tf.GetCode(status) == TF_OK)
        tf.RegisterKernelBuilder(
            r->name, tf.NewKernelBuilder(r->name, "CPU", r->create, r->compute, r->delete), status);
}

__attribute__((constructor)) static void register_all(void)
{
    const char *missing;
    if (!tf_find(&missing)) {
        fprintf(stderr,
                "rueda: this TensorFlow has no %s; import tensorflow first, 2.12 or newer\n",
                missing);
        return;
    }
    TF_Status *status = tf.NewStatus();
    for (size_t i = 0; i < sizeof registrations / sizeof registrations[0]; i++)
        register_one(&registrations[i], status);
    tf.DeleteStatus(status);
}
