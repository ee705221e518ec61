/* dlpack.h: the part of DLPack 1.x that we use, by its published layout (dmlc.github.io/dlpack). */
#ifndef RUEDA_NATIVE_DLPACK_H
#define RUEDA_NATIVE_DLPACK_H

#include <stdint.h>

#define DLPACK_MAJOR 1

enum { DL_CPU = 1, DL_CUDA_HOST = 3 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

typedef struct dl_type {
    uint8_t code, bits;
    uint16_t lanes;
} dl_type;

typedef struct dl_tensor {
    void *data;
    int32_t device, device_index;
    int32_t ndim;
    dl_type type;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: contiguous */
    uint64_t byte_offset;
} dl_tensor;

/* What a capsule named "dltensor" holds; whoever takes it calls the deleter. */
typedef struct dl_managed {
    dl_tensor tensor;
    void *owner;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

/* What a type's __dlpack_c_exchange_api__ holds, a capsule named "dlpack_exchange_api". */
typedef struct dl_exchange {
    uint32_t major, minor;
    struct dl_exchange *older;
    void (*unused[3])(void);
    int (*tensor_from_object)(void *object, dl_tensor *out); /* may be NULL */
} dl_exchange;

#endif
