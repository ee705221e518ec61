/* kernel_reference.h: what the tests expect, computed in double by other means than the kernels.
 * An element is handled as its bits, in the low end of a uint64_t. */
#ifndef RUEDA_KERNEL_REFERENCE_H
#define RUEDA_KERNEL_REFERENCE_H

#include "kernel/kernel.h"

#include <math.h>
#include <string.h>

static inline uint64_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t mixed = (*state ^ (*state >> 29)) * UINT64_C(0x9E3779B97F4A7C15);
    return mixed ^ (mixed >> 32);
}

static inline bool type_is_floating(rueda_dtype dtype)
{
    return dtype >= RUEDA_F16;
}

static inline bool type_is_signed(rueda_dtype dtype)
{
    return dtype == RUEDA_I8 || dtype >= RUEDA_I16;
}

static inline int type_bits(rueda_dtype dtype)
{
    return (int)(8 * rueda_dtype_bytes(dtype));
}

static inline uint64_t all_ones(rueda_dtype dtype)
{
    return UINT64_MAX >> (64 - type_bits(dtype));
}

/* Bits of the fraction of a floating type. */
static inline int fraction_bits(rueda_dtype dtype)
{
    return dtype == RUEDA_F16 ? 10 : dtype == RUEDA_BF16 ? 7 : dtype == RUEDA_F32 ? 23 : 52;
}

/* ---- Elements and their bits ----------------------------------------------------------------- */

static inline uint64_t element_get(rueda_dtype dtype, const void *array, size_t index)
{
    uint64_t bits = 0;
    unsigned char bytes[8];
    size_t size = rueda_dtype_bytes(dtype);
    memcpy(bytes, (const char *)array + index * size, size);
    if (size == 1)
        bits = bytes[0];
    else if (size == 2)
        bits = *(uint16_t *)memcpy(&(uint16_t){0}, bytes, 2);
    else if (size == 4)
        bits = *(uint32_t *)memcpy(&(uint32_t){0}, bytes, 4);
    else
        memcpy(&bits, bytes, 8);
    return bits;
}

static inline void element_set(rueda_dtype dtype, void *array, size_t index, uint64_t bits)
{
    size_t size = rueda_dtype_bytes(dtype);
    char *to = (char *)array + index * size;
    if (size == 1)
        memcpy(to, &(uint8_t){(uint8_t)bits}, 1);
    else if (size == 2)
        memcpy(to, &(uint16_t){(uint16_t)bits}, 2);
    else if (size == 4)
        memcpy(to, &(uint32_t){(uint32_t)bits}, 4);
    else
        memcpy(to, &bits, 8);
}

static inline double value_of_half(int fraction, uint64_t bits)
{
    int exponent_bits = 15 - fraction;
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> fraction) & ((1 << exponent_bits) - 1);
    double mantissa = (double)(bits & ((UINT64_C(1) << fraction) - 1));
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa != 0 ? (double)NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - fraction);
    return sign * ldexp(mantissa + ldexp(1, fraction), exponent - bias - fraction);
}

/* Rounds to nearest even with nearbyint, in units of the last place of the half. */
static inline uint64_t half_of_value(int fraction, double value)
{
    int bias = (1 << (14 - fraction)) - 1;
    uint64_t infinity = (UINT64_C(0x8000) >> fraction << fraction) - (UINT64_C(1) << fraction);
    uint64_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value))
        return 0xFFFF;
    if (value == 0)
        return sign;
    if (isinf(value))
        return sign | infinity;
    int exponent = ilogb(value) < 1 - bias ? 1 - bias : ilogb(value);
    uint64_t units = (uint64_t)nearbyint(ldexp(fabs(value), fraction - exponent));
    uint64_t bits = ((uint64_t)(exponent + bias - 1) << fraction) + units;
    return sign | (bits > infinity ? infinity : bits);
}

static inline double value_of_bits(rueda_dtype dtype, uint64_t bits)
{
    if (dtype == RUEDA_F16 || dtype == RUEDA_BF16)
        return value_of_half(fraction_bits(dtype), bits);
    if (dtype == RUEDA_F32)
        return (double)*(float *)memcpy(&(float){0}, &(uint32_t){(uint32_t)bits}, 4);
    return *(double *)memcpy(&(double){0}, &bits, 8);
}

static inline uint64_t bits_of_value(rueda_dtype dtype, double value)
{
    if (isnan(value))
        return all_ones(dtype);
    if (dtype == RUEDA_F16 || dtype == RUEDA_BF16)
        return half_of_value(fraction_bits(dtype), value);
    if (dtype == RUEDA_F32)
        return *(uint32_t *)memcpy(&(uint32_t){0}, &(float){(float)value}, 4);
    return *(uint64_t *)memcpy(&(uint64_t){0}, &value, 8);
}

static inline int64_t integer_of_bits(rueda_dtype dtype, uint64_t bits)
{
    uint64_t sign = UINT64_C(1) << (type_bits(dtype) - 1);
    return type_is_signed(dtype) ? (int64_t)((bits ^ sign) - sign) : (int64_t)bits;
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* The type in which a floating type is computed. A sum or product of two floats, taken in double
 * and rounded to float, is the float result. */
static inline double rounded(rueda_dtype dtype, double value)
{
    return dtype == RUEDA_F64 ? value : (double)(float)value;
}

static inline uint64_t reference_floating(rueda_dtype dtype, kernel_op op, double a, double b)
{
    double result = op == KERNEL_SUM ? a + b : op == KERNEL_PRODUCT ? a * b : a;
    if (op == KERNEL_MIN && b < a)
        result = b;
    if (op == KERNEL_MAX && b > a)
        result = b;
    if (isnan(a) || isnan(b))
        result = NAN;
    return bits_of_value(dtype, rounded(dtype, result));
}

static inline uint64_t reference_reduce(rueda_dtype dtype, kernel_op op, uint64_t a, uint64_t b)
{
    if (dtype == RUEDA_BOOL)
        return op == KERNEL_SUM || op == KERNEL_MAX ? (a | b) != 0 : a != 0 && b != 0;
    if (type_is_floating(dtype))
        return reference_floating(dtype, op, value_of_bits(dtype, a), value_of_bits(dtype, b));
    int64_t x = integer_of_bits(dtype, a), y = integer_of_bits(dtype, b);
    uint64_t result = (uint64_t)x + (uint64_t)y;
    if (op == KERNEL_PRODUCT)
        result = (uint64_t)x * (uint64_t)y;
    else if (op != KERNEL_SUM)
        result = (uint64_t)((op == KERNEL_MIN) == (x < y) ? x : y);
    return result & all_ones(dtype);
}

static inline uint64_t reference_integer(rueda_dtype dtype, double value)
{
    int bits = type_bits(dtype) - type_is_signed(dtype);
    uint64_t largest = UINT64_MAX >> (64 - bits);
    if (isnan(value))
        return 0;
    if (trunc(value) >= ldexp(1, bits))
        return largest;
    if (value < 0 && !type_is_signed(dtype))
        return 0;
    if (trunc(value) < -ldexp(1, bits))
        return ~largest & all_ones(dtype);
    return (uint64_t)(int64_t)value & all_ones(dtype);
}

static inline uint64_t reference_scale(rueda_dtype dtype, uint64_t bits, double factor)
{
    if (!type_is_floating(dtype))
        return reference_integer(dtype, (double)integer_of_bits(dtype, bits) * factor);
    double product = value_of_bits(dtype, bits) * rounded(dtype, factor);
    return bits_of_value(dtype, rounded(dtype, product));
}

static inline uint64_t reference_combine(rueda_dtype dtype, uint64_t a, uint64_t b, double ca,
                                         double cb)
{
    double left = rounded(dtype, value_of_bits(dtype, a) * rounded(dtype, ca));
    double right = rounded(dtype, value_of_bits(dtype, b) * rounded(dtype, cb));
    return bits_of_value(dtype, rounded(dtype, left + right));
}

/* The pairwise join of the lanes first, first + stride, … as a tree. */
static inline double reference_join(const double lanes[KERNEL_LANES], int first, int stride)
{
    if (stride == KERNEL_LANES)
        return lanes[first];
    return reference_join(lanes, first, 2 * stride) +
           reference_join(lanes, first + stride, 2 * stride);
}

static inline double reference_dot(rueda_dtype dtype, const void *a, const void *b, size_t count)
{
    double lanes[KERNEL_LANES] = {0};
    for (size_t lane = 0; lane < KERNEL_LANES; lane++)
        for (size_t i = lane; i < count; i += KERNEL_LANES) {
            double x = value_of_bits(dtype, element_get(dtype, a, i));
            lanes[lane] += x * value_of_bits(dtype, element_get(dtype, b, i));
        }
    return reference_join(lanes, 0, 1);
}

#endif
