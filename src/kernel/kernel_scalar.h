/* kernel_scalar.h: what one element means. Shared by the plain kernels and the single-value
 * functions; the vector kernels must give the same bits.
 *
 * A NaN that a kernel writes has all bits set, in every floating type. Processors differ in which
 * operand's NaN survives an addition and compilers may swap operands, so one fixed pattern is the
 * only one that every table can give; all ones is the pattern that costs one "or" in vectors.
 */
#ifndef RUEDA_KERNEL_SCALAR_H
#define RUEDA_KERNEL_SCALAR_H

#include "kernel/kernel.h"

#include <string.h>

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float unify_nan_f32(float value)
{
    return value == value ? value : float_of_bits(UINT32_MAX);
}

static inline double unify_nan_f64(double value)
{
    if (value == value)
        return value;
    memset(&value, 0xFF, sizeof value);
    return value;
}

static inline float f16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 31;
    uint32_t fraction = half & 0x3FF;
    if (exponent == 31 && fraction != 0)
        return float_of_bits(sign | 0x7FC00000 | fraction << 13);
    if (exponent == 31)
        return float_of_bits(sign | 0x7F800000);
    if (exponent == 0) /* zero and subnormals: whole multiples of 2^-24, normal as floats */
        return float_of_bits(sign | bits_of_float((float)fraction * 0x1p-24f));
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Drops the low `shift` bits, to nearest, ties to even. */
static inline uint32_t shift_to_nearest(uint32_t bits, unsigned shift)
{
    uint32_t odd = (bits >> shift) & 1;
    return (bits + ((UINT32_C(1) << (shift - 1)) - 1) + odd) >> shift;
}

static inline uint16_t f16_from_float(float value)
{
    uint32_t sign = (bits_of_float(value) >> 16) & 0x8000;
    uint32_t magnitude = bits_of_float(value) & 0x7FFFFFFF;
    uint32_t exponent = magnitude >> 23;
    if (magnitude > 0x7F800000)
        return UINT16_MAX;
    if (magnitude >= 0x477FF000) /* 65520 is halfway between the largest half and 2^16 */
        return (uint16_t)(sign | 0x7C00);
    if (exponent >= 113) /* a normal half: only the bias differs, a carry moves into the exponent */
        return (uint16_t)(sign | shift_to_nearest(magnitude - (UINT32_C(112) << 23), 13));
    if (exponent < 102) /* below half of the smallest subnormal */
        return (uint16_t)sign;
    uint32_t significand = (magnitude & 0x7FFFFF) | 0x800000;
    return (uint16_t)(sign | shift_to_nearest(significand, 126 - exponent));
}

static inline float bf16_to_float(uint16_t half)
{
    return float_of_bits((uint32_t)half << 16);
}

static inline uint16_t bf16_from_float(float value)
{
    return value == value ? (uint16_t)shift_to_nearest(bits_of_float(value), 16) : UINT16_MAX;
}

/* Adds the lanes of a dot product to its sum. The order is part of the result. */
static inline void add_lanes(double *sum, double lanes[KERNEL_LANES])
{
    for (size_t width = KERNEL_LANES / 2; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
    *sum = unify_nan_f64(*sum + lanes[0]);
}

#endif
