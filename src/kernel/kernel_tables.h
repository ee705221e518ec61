/* kernel_tables.h: the tables there are, and how one is put together from its functions. */
#ifndef RUEDA_KERNEL_TABLES_H
#define RUEDA_KERNEL_TABLES_H

#include "kernel/kernel.h"

extern const kernel_table kernel_table_plain;

#if defined(__x86_64__)
#define KERNEL_X86 1
extern const kernel_table kernel_table_avx2;
extern const kernel_table kernel_table_avx512;
#endif

/* X(type, element, NAME) for the integer types; `b8`, the truth values, has kernels of its own. */
#define KERNEL_INTEGER_LIST(X)                                                                     \
    X(u8, uint8_t, U8)                                                                             \
    X(i8, int8_t, I8)                                                                              \
    X(u16, uint16_t, U16)                                                                          \
    X(i16, int16_t, I16)                                                                           \
    X(i32, int32_t, I32)                                                                           \
    X(i64, int64_t, I64)

/* The bounds of the integer types. */
#define U8_SMALLEST 0
#define U8_LARGEST UINT8_MAX
#define I8_SMALLEST INT8_MIN
#define I8_LARGEST INT8_MAX
#define U16_SMALLEST 0
#define U16_LARGEST UINT16_MAX
#define I16_SMALLEST INT16_MIN
#define I16_LARGEST INT16_MAX
#define I32_SMALLEST INT32_MIN
#define I32_LARGEST INT32_MAX
#define I64_SMALLEST INT64_MIN
#define I64_LARGEST INT64_MAX

/* X(type, element, NAME) for the floating types. */
#define KERNEL_FLOATING_LIST(X)                                                                    \
    X(f16, uint16_t, F16)                                                                          \
    X(bf16, uint16_t, BF16)                                                                        \
    X(f32, float, F32)                                                                             \
    X(f64, double, F64)

#define KERNEL_REDUCE_ROW(type, element, NAME)                                                     \
    [RUEDA_##NAME] = {[KERNEL_SUM] = reduce_##type##_sum,                                          \
                      [KERNEL_MIN] = reduce_##type##_min,                                          \
                      [KERNEL_MAX] = reduce_##type##_max,                                          \
                      [KERNEL_PRODUCT] = reduce_##type##_product},
#define KERNEL_SCALE_SLOT(type, element, NAME) [RUEDA_##NAME] = scale_##type,
#define KERNEL_DIVIDE_SLOT(type, element, NAME) [RUEDA_##NAME] = divide_##type,
#define KERNEL_DOT_SLOT(type, element, NAME) [RUEDA_##NAME] = dot_##type,
#define KERNEL_COMBINE_SLOT(type, element, NAME) [RUEDA_##NAME] = combine_##type,

/* The table of the functions reduce_f32_sum, scale_f32, … of the file it stands in. */
#define KERNEL_TABLE_OF_FILE(name_)                                                                \
    {                                                                                              \
        .name = (name_),                                                                           \
        .reduce = {KERNEL_REDUCE_ROW(b8, uint8_t, BOOL) KERNEL_INTEGER_LIST(KERNEL_REDUCE_ROW)     \
                       KERNEL_FLOATING_LIST(KERNEL_REDUCE_ROW)},                                   \
        .scale = {KERNEL_INTEGER_LIST(KERNEL_SCALE_SLOT) KERNEL_FLOATING_LIST(KERNEL_SCALE_SLOT)}, \
        .divide = {KERNEL_INTEGER_LIST(KERNEL_DIVIDE_SLOT)},                                       \
        .dot = {KERNEL_FLOATING_LIST(KERNEL_DOT_SLOT)},                                            \
        .combine = {KERNEL_FLOATING_LIST(KERNEL_COMBINE_SLOT)}, .copy_stream = copy_stream,        \
    }

#endif
