/* tf.h: the part of TensorFlow's C interface that we use, and how it is found. */
#ifndef RUEDA_NATIVE_TF_H
#define RUEDA_NATIVE_TF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct TF_Status TF_Status;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;
typedef struct TF_ShapeHandle TF_ShapeHandle;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;
typedef struct TF_AsyncOpKernelDoneCallback TF_AsyncOpKernelDoneCallback;

enum { TF_INT32 = 3, TF_INT64 = 9, TF_BOOL = 10 };
/* Codes of TF_Status. */
enum {
    TF_OK = 0,
    TF_UNKNOWN = 2,
    TF_INVALID_ARGUMENT = 3,
    TF_RESOURCE_EXHAUSTED = 8,
    TF_FAILED_PRECONDITION = 9,
    TF_ABORTED = 10,
    TF_INTERNAL = 13
};

typedef void tf_shape_function(TF_ShapeInferenceContext *, TF_Status *);
typedef void *tf_create_function(TF_OpKernelConstruction *);
typedef void tf_compute_function(void *, TF_OpKernelContext *);
typedef void tf_async_function(void *, TF_OpKernelContext *, TF_AsyncOpKernelDoneCallback *);
typedef void tf_delete_function(void *);
typedef void tf_free_function(void *data, size_t bytes, void *argument);

/* result, name without TF_, parameters */
#define TF_FUNCTIONS(X)                                                                            \
    X(TF_Status *, NewStatus, (void))                                                              \
    X(void, DeleteStatus, (TF_Status *))                                                           \
    X(void, SetStatus, (TF_Status *, int code, const char *message))                               \
    X(int, GetCode, (const TF_Status *))                                                           \
    X(TF_OpDefinitionBuilder *, NewOpDefinitionBuilder, (const char *name))                        \
    X(void, RegisterOpDefinition, (TF_OpDefinitionBuilder *, TF_Status *))                         \
    X(void, OpDefinitionBuilderAddAttr, (TF_OpDefinitionBuilder *, const char *))                  \
    X(void, OpDefinitionBuilderAddInput, (TF_OpDefinitionBuilder *, const char *))                 \
    X(void, OpDefinitionBuilderAddOutput, (TF_OpDefinitionBuilder *, const char *))                \
    X(void, OpDefinitionBuilderSetIsStateful, (TF_OpDefinitionBuilder *, bool))                    \
    X(void, OpDefinitionBuilderSetShapeInferenceFunction,                                          \
      (TF_OpDefinitionBuilder *, tf_shape_function *))                                             \
    X(int64_t, ShapeInferenceContextNumInputs, (TF_ShapeInferenceContext *))                       \
    X(TF_ShapeHandle *, NewShapeHandle, (void))                                                    \
    X(void, DeleteShapeHandle, (TF_ShapeHandle *))                                                 \
    X(void, ShapeInferenceContextGetInput,                                                         \
      (TF_ShapeInferenceContext *, int, TF_ShapeHandle *, TF_Status *))                            \
    X(void, ShapeInferenceContextSetOutput,                                                        \
      (TF_ShapeInferenceContext *, int, TF_ShapeHandle *, TF_Status *))                            \
    X(TF_ShapeHandle *, ShapeInferenceContextScalar, (TF_ShapeInferenceContext *))                 \
    X(void, ShapeInferenceContextSetUnknownShape, (TF_ShapeInferenceContext *, TF_Status *))       \
    X(TF_KernelBuilder *, NewKernelBuilder,                                                        \
      (const char *op, const char *device, tf_create_function *, tf_compute_function *,            \
       tf_delete_function *))                                                                      \
    X(void, RegisterKernelBuilder, (const char *name, TF_KernelBuilder *, TF_Status *))            \
    X(void, OpKernelConstruction_GetAttrInt64,                                                     \
      (TF_OpKernelConstruction *, const char *, int64_t *, TF_Status *))                           \
    X(void, OpKernelConstruction_GetAttrBool,                                                      \
      (TF_OpKernelConstruction *, const char *, unsigned char *, TF_Status *))                     \
    X(void, OpKernelConstruction_GetAttrString,                                                    \
      (TF_OpKernelConstruction *, const char *, char *, size_t, TF_Status *))                      \
    X(void, OpKernelConstruction_Failure, (TF_OpKernelConstruction *, TF_Status *))                \
    X(int, NumInputs, (TF_OpKernelContext *))                                                      \
    X(void, GetInput, (TF_OpKernelContext *, int, TF_Tensor **, TF_Status *))                      \
    X(void, SetOutput, (TF_OpKernelContext *, int, const TF_Tensor *, TF_Status *))                \
    X(TF_Tensor *, AllocateOutput,                                                                 \
      (TF_OpKernelContext *, int, int type, const int64_t *, int, size_t, TF_Status *))            \
    X(void, OpKernelContext_Failure, (TF_OpKernelContext *, TF_Status *))                          \
    X(TF_Tensor *, NewTensor,                                                                      \
      (int type, const int64_t *, int, void *, size_t, tf_free_function *, void *))                \
    X(void, DeleteTensor, (TF_Tensor *))                                                           \
    X(int, TensorType, (const TF_Tensor *))                                                        \
    X(int, NumDims, (const TF_Tensor *))                                                           \
    X(int64_t, Dim, (const TF_Tensor *, int))                                                      \
    X(size_t, TensorByteSize, (const TF_Tensor *))                                                 \
    X(void *, TensorData, (const TF_Tensor *))

/* The same, for those that 2.12 does not have: NULL where they are missing. */
#define TF_NEWER_FUNCTIONS(X)                                                                      \
    X(TF_KernelBuilder *, NewAsyncKernelBuilder,                                                   \
      (const char *op, const char *device, tf_create_function *, tf_async_function *,              \
       tf_delete_function *))                                                                      \
    X(void, RunAsyncOpKernelDoneCallback, (TF_AsyncOpKernelDoneCallback *))

/* The functions, by their names; filled once by tf_find. */
typedef struct tf_table {
#define TF_MEMBER(result, name, parameters) result(*name) parameters;
    TF_FUNCTIONS(TF_MEMBER)
    TF_NEWER_FUNCTIONS(TF_MEMBER)
} tf_table;
extern tf_table tf;

/* False: TensorFlow is not in this process, or lacks a function; `*missing` names it. */
bool tf_find(const char **missing);

/* Whether TensorFlow has a symbol. */
bool tf_has(const char *symbol);

#endif
