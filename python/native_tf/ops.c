/* ops.c: the operations, their shapes and their registration; see README.md. */
#include "due.h"
#include "later.h"
#include "pending.h"

#include <stdio.h>

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

/* Inputs are the tensors and the guard. */
static void shape_start(TF_ShapeInferenceContext *context, TF_Status *status)
{
    const int count = (int)tf.ShapeInferenceContextNumInputs(context) - 1;
    for (int i = 0; i < count; i++)
        copy_shape(context, i, i, status);
    set_scalar(context, count, status);
}

static void shape_scalar(TF_ShapeInferenceContext *context, TF_Status *status)
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
    tf_async_function *compute_later; /* NULL: none */
    tf_delete_function *delete;
} registration;

#define TYPES "{float, double, int32, uint8, int16, int8, int64, bool, bfloat16, uint16, half}"
#define START_ATTRIBUTES                                                                           \
    "tensor_names: string", "kind: int", "reduce_op: int", "prescale_bits: int",                   \
        "postscale_bits: int", "process_set: int = 0", "root: int = 0", "count: int = 1"
#define WAIT_ATTRIBUTE "blocks: bool = false"

static const registration registrations[] = {
    {.name = "RuedaStart",
     .inputs = {"tensors: T", "guard: int32"},
     .outputs = {"outputs: T", "handle: int64"},
     .attributes = {("T: list(" TYPES ") >= 1"), START_ATTRIBUTES},
     .shape = shape_start,
     .create = create_start,
     .compute = compute_start,
     .delete = delete_start},
    {.name = "RuedaStartSized",
     .inputs = {"tensor: T", "splits: int64", "guard: int32"},
     .outputs = {"handle: int64"},
     .attributes = {("T: " TYPES), START_ATTRIBUTES},
     .shape = shape_scalar,
     .create = create_start,
     .compute = compute_start_sized,
     .delete = delete_start},
    {.name = "RuedaWait",
     .inputs = {"outputs: T", "handles: N * int64"},
     .outputs = {"results: T"},
     .attributes = {"N: int >= 1", "T: list(type) >= 1", WAIT_ATTRIBUTE},
     .stateful = true,
     .shape = shape_wait,
     .create = create_wait,
     .compute = compute_wait,
     .compute_later = compute_wait_later,
     .delete = delete_wait},
    {.name = "RuedaTake",
     .inputs = {"handle: int64"},
     .outputs = {"output: T", "received_splits: int32"},
     .attributes = {"T: type", WAIT_ATTRIBUTE},
     .stateful = true,
     .shape = shape_unknown,
     .create = create_wait,
     .compute = compute_take,
     .compute_later = compute_take_later,
     .delete = delete_wait},
    {.name = "RuedaDue",
     .inputs = {"guard: int32"},
     .outputs = {"due: bool"},
     .attributes = {"key: int"},
     .shape = shape_scalar,
     .create = create_due,
     .compute = compute_due,
     .delete = delete_due},
};

static TF_KernelBuilder *make_kernel(const registration *r)
{
    if (r->compute_later != NULL && later_possible())
        return tf.NewAsyncKernelBuilder(r->name, "CPU", r->create, r->compute_later, r->delete);
    return tf.NewKernelBuilder(r->name, "CPU", r->create, r->compute, r->delete);
}

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
        tf.RegisterKernelBuilder(r->name, make_kernel(r), status);
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
