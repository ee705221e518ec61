/* kernel_plain.c: the kernels as loops over single elements. They define the results; the vector
 * tables repeat them faster. */
#include "kernel/kernel_scalar.h"
#include "kernel/kernel_tables.h"

/* ---- One element ----------------------------------------------------------------------------- */

/* Sums and products in uint64_t, where overflow wraps; its low bits are those of every narrower
 * type, signed or not. */
#define INTEGER_ELEMENT(type, element, NAME)                                                       \
    static inline element sum_##type(element a, element b)                                         \
    {                                                                                              \
        return (element)((uint64_t)a + (uint64_t)b);                                               \
    }                                                                                              \
    static inline element product_##type(element a, element b)                                     \
    {                                                                                              \
        return (element)((uint64_t)a * (uint64_t)b);                                               \
    }                                                                                              \
    static inline element min_##type(element a, element b)                                         \
    {                                                                                              \
        return b < a ? b : a;                                                                      \
    }                                                                                              \
    static inline element max_##type(element a, element b)                                         \
    {                                                                                              \
        return b > a ? b : a;                                                                      \
    }
KERNEL_INTEGER_LIST(INTEGER_ELEMENT)

static inline uint8_t sum_b8(uint8_t a, uint8_t b)
{
    return a != 0 || b != 0;
}

static inline uint8_t max_b8(uint8_t a, uint8_t b)
{
    return a != 0 || b != 0;
}

static inline uint8_t product_b8(uint8_t a, uint8_t b)
{
    return a != 0 && b != 0;
}

static inline uint8_t min_b8(uint8_t a, uint8_t b)
{
    return a != 0 && b != 0;
}

/* a + b is NaN if either is; a comparison with NaN is false. */
#define FLOATING_ELEMENT(type, element)                                                            \
    static inline element sum_##type(element a, element b)                                         \
    {                                                                                              \
        return unify_nan_##type(a + b);                                                            \
    }                                                                                              \
    static inline element product_##type(element a, element b)                                     \
    {                                                                                              \
        return unify_nan_##type(a * b);                                                            \
    }                                                                                              \
    static inline element min_##type(element a, element b)                                         \
    {                                                                                              \
        return b < a ? b : b >= a ? a : sum_##type(a, b);                                          \
    }                                                                                              \
    static inline element max_##type(element a, element b)                                         \
    {                                                                                              \
        return b > a ? b : b <= a ? a : sum_##type(a, b);                                          \
    }                                                                                              \
    static inline element scaled_##type(element a, double factor)                                  \
    {                                                                                              \
        return unify_nan_##type(a * (element)factor);                                              \
    }                                                                                              \
    static inline element combined_##type(element a, element b, double ca, double cb)              \
    {                                                                                              \
        element left = (element)ca * a;                                                            \
        element right = (element)cb * b;                                                           \
        return unify_nan_##type(left + right);                                                     \
    }                                                                                              \
    static inline double widened_##type(element a)                                                 \
    {                                                                                              \
        return (double)a;                                                                          \
    }
FLOATING_ELEMENT(f32, float)
FLOATING_ELEMENT(f64, double)

#define HALF_OPERATION(type, op)                                                                   \
    static inline uint16_t op##_##type(uint16_t a, uint16_t b)                                     \
    {                                                                                              \
        return type##_from_float(op##_f32(type##_to_float(a), type##_to_float(b)));                \
    }
#define HALF_ELEMENT(type)                                                                         \
    HALF_OPERATION(type, sum)                                                                      \
    HALF_OPERATION(type, min)                                                                      \
    HALF_OPERATION(type, max)                                                                      \
    HALF_OPERATION(type, product)                                                                  \
    static inline uint16_t scaled_##type(uint16_t a, double factor)                                \
    {                                                                                              \
        return type##_from_float(scaled_f32(type##_to_float(a), factor));                          \
    }                                                                                              \
    static inline uint16_t combined_##type(uint16_t a, uint16_t b, double ca, double cb)           \
    {                                                                                              \
        return type##_from_float(combined_f32(type##_to_float(a), type##_to_float(b), ca, cb));    \
    }                                                                                              \
    static inline double widened_##type(uint16_t a)                                                \
    {                                                                                              \
        return (double)type##_to_float(a);                                                         \
    }
HALF_ELEMENT(f16)
HALF_ELEMENT(bf16)

/* (double)INT64_MAX is 2^63: one above the largest value, which is why the test is >=. */
#define INTEGER_OF_DOUBLE(type, element, NAME)                                                     \
    static inline element type##_of_double(double value)                                           \
    {                                                                                              \
        const element smallest = NAME##_SMALLEST, largest = NAME##_LARGEST;                        \
        if (value >= (double)largest)                                                              \
            return largest;                                                                        \
        if (value <= (double)smallest)                                                             \
            return smallest;                                                                       \
        return value == value ? (element)value : 0;                                                \
    }
KERNEL_INTEGER_LIST(INTEGER_OF_DOUBLE)

/* ---- Arrays ---------------------------------------------------------------------------------- */

#define REDUCE(type, element, op)                                                                  \
    static void reduce_##type##_##op(void *dst, const void *a, const void *b, size_t count)        \
    {                                                                                              \
        element *out = dst;                                                                        \
        const element *x = a, *y = b;                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = op##_##type(x[i], y[i]);                                                      \
    }
#define REDUCE_ALL(type, element, NAME)                                                            \
    REDUCE(type, element, sum)                                                                     \
    REDUCE(type, element, min)                                                                     \
    REDUCE(type, element, max)                                                                     \
    REDUCE(type, element, product)
REDUCE_ALL(b8, uint8_t, BOOL)
KERNEL_INTEGER_LIST(REDUCE_ALL)
KERNEL_FLOATING_LIST(REDUCE_ALL)

#define SCALE_INTEGER(type, element, NAME)                                                         \
    static void scale_##type(void *dst, const void *src, size_t count, double factor)              \
    {                                                                                              \
        element *out = dst;                                                                        \
        const element *x = src;                                                                    \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = type##_of_double((double)x[i] * factor);                                      \
    }                                                                                              \
    static void divide_##type(void *dst, const void *src, size_t count, double divisor)            \
    {                                                                                              \
        element *out = dst;                                                                        \
        const element *x = src;                                                                    \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = type##_of_double((double)x[i] / divisor);                                     \
    }
KERNEL_INTEGER_LIST(SCALE_INTEGER)

#define SCALE_FLOATING(type, element, NAME)                                                        \
    static void scale_##type(void *dst, const void *src, size_t count, double factor)              \
    {                                                                                              \
        element *out = dst;                                                                        \
        const element *x = src;                                                                    \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = scaled_##type(x[i], factor);                                                  \
    }
KERNEL_FLOATING_LIST(SCALE_FLOATING)

#define COMBINE(type, element, NAME)                                                               \
    static void combine_##type(void *dst, const void *a, const void *b, size_t count, double ca,   \
                               double cb)                                                          \
    {                                                                                              \
        element *out = dst;                                                                        \
        const element *x = a, *y = b;                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = combined_##type(x[i], y[i], ca, cb);                                          \
    }
KERNEL_FLOATING_LIST(COMBINE)

#define DOT(type, element, NAME)                                                                   \
    static void dot_##type(const void *a, const void *b, size_t count, double sums[3])             \
    {                                                                                              \
        double lanes[3][KERNEL_LANES] = {{0}};                                                     \
        const element *x = a, *y = b;                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            double left = widened_##type(x[i]), right = widened_##type(y[i]);                      \
            lanes[0][i % KERNEL_LANES] += left * right;                                            \
            lanes[1][i % KERNEL_LANES] += left * left;                                             \
            lanes[2][i % KERNEL_LANES] += right * right;                                           \
        }                                                                                          \
        for (int k = 0; k < 3; k++)                                                                \
            add_lanes(&sums[k], lanes[k]);                                                         \
    }
KERNEL_FLOATING_LIST(DOT)

static void copy_stream(void *dst, const void *src, size_t bytes)
{
    if (bytes > 0) /* memcpy forbids null pointers even for nothing */
        memcpy(dst, src, bytes);
}

const kernel_table kernel_table_plain = KERNEL_TABLE_OF_FILE("plain");
