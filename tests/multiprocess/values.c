/* values.c: element types, inputs and expected results. */
#include "values.h"
#include "harness.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct format {
    int fraction, least; /* bits of the fraction, exponent of the smallest normal number */
    double largest;
} format;

static const format formats[RUEDA_DTYPE_COUNT] = {
    [RUEDA_F16] = {10, -14, 65504.0},
    [RUEDA_BF16] = {7, -126, 0x1.FEp127},
    [RUEDA_F32] = {23, -126, 0x1.FFFFFEp127},
    [RUEDA_F64] = {52, -1022, 0x1.FFFFFFFFFFFFFp1023},
};

bool is_floating(rueda_dtype dtype)
{
    return dtype >= RUEDA_F16;
}

int fraction_bits(rueda_dtype dtype)
{
    return formats[dtype].fraction;
}

double round_to(rueda_dtype dtype, double value)
{
    const format *f = &formats[dtype];
    if (dtype == RUEDA_F64 || value == 0 || !isfinite(value))
        return value;
    const int exponent = ilogb(value) > f->least ? ilogb(value) : f->least;
    const double quantum = ldexp(1.0, exponent - f->fraction);
    const double rounded = nearbyint(value / quantum) * quantum;
    return fabs(rounded) > f->largest ? copysign(INFINITY, value) : rounded;
}

/* f16: sign, 5 bits of exponent, 10 of fraction. */
static double load_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    const double sign = bits >> 15 ? -1.0 : 1.0;
    if (exponent == 31)
        return fraction == 0 ? sign * INFINITY : NAN;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25));
}

static uint16_t store_f16(double value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double size = fabs(round_to(RUEDA_F16, value));
    if (isnan(value))
        return 0x7e00;
    if (isinf(size))
        return sign | 0x7c00;
    if (size < 0x1p-14)
        return sign | (uint16_t)ldexp(size, 24);
    const int exponent = ilogb(size);
    return sign | (uint16_t)((exponent + 15) << 10) | (uint16_t)(ldexp(size, 10 - exponent) - 1024);
}

static double load_bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t store_bf16(double value)
{
    const float rounded = isnan(value) ? NAN : (float)round_to(RUEDA_BF16, value);
    uint32_t wide;
    memcpy(&wide, &rounded, sizeof wide);
    return (uint16_t)(wide >> 16);
}

#define ELEMENT(type) (((const type *)data)[index])

number value_load(rueda_dtype dtype, const void *data, size_t index)
{
    switch (dtype) {
    case RUEDA_BOOL:
    case RUEDA_U8:
        return (number){0, ELEMENT(uint8_t)};
    case RUEDA_I8:
        return (number){0, ELEMENT(int8_t)};
    case RUEDA_U16:
        return (number){0, ELEMENT(uint16_t)};
    case RUEDA_I16:
        return (number){0, ELEMENT(int16_t)};
    case RUEDA_I32:
        return (number){0, ELEMENT(int32_t)};
    case RUEDA_I64:
        return (number){0, ELEMENT(int64_t)};
    case RUEDA_F16:
        return (number){load_f16(ELEMENT(uint16_t)), 0};
    case RUEDA_BF16:
        return (number){load_bf16(ELEMENT(uint16_t)), 0};
    case RUEDA_F32:
        return (number){ELEMENT(float), 0};
    default:
        return (number){ELEMENT(double), 0};
    }
}

/* On a little-endian machine the low bytes of the whole number are the wrapped value. */
void value_store(rueda_dtype dtype, void *data, size_t index, number value)
{
    const size_t bytes = rueda_dtype_bytes(dtype);
    if (dtype == RUEDA_F16)
        ((uint16_t *)data)[index] = store_f16(value.real);
    else if (dtype == RUEDA_BF16)
        ((uint16_t *)data)[index] = store_bf16(value.real);
    else if (dtype == RUEDA_F32)
        ((float *)data)[index] = (float)value.real;
    else if (dtype == RUEDA_F64)
        ((double *)data)[index] = value.real;
    else
        memcpy((uint8_t *)data + index * bytes, &value.whole, bytes);
}

static number wrapped(rueda_dtype dtype, int64_t whole)
{
    uint64_t space = 0;
    value_store(dtype, &space, 0, (number){0, whole});
    return value_load(dtype, &space, 0);
}

bool recipe_has_meaning(const recipe *r)
{
    const bool scaled = r->prescale != 1.0 || r->postscale != 1.0;
    return r->op != RUEDA_ADASUM && !(r->dtype == RUEDA_BOOL && (r->op == RUEDA_AVERAGE || scaled));
}

static uint64_t mixed(uint64_t seed, uint64_t rank, uint64_t index)
{
    dice d = {seed * 1000003 + rank};
    d.state = roll(&d) + index;
    return roll(&d);
}

static number floating_input(const recipe *r, uint64_t random)
{
    static const double factors[] = {-2, -1, -0.5, 0.5, 1, 2};
    if (r->op == RUEDA_PRODUCT)
        return (number){factors[random % 6], 0};
    return (number){(double)(random % 5) - 2, 0}; /* 64 ranks: at most 128, exact in bf16 */
}

number recipe_input(const recipe *r, int rank, size_t index)
{
    const uint64_t random = mixed(r->seed, (uint64_t)rank, index % VALUES_PERIOD);
    if (is_floating(r->dtype))
        return floating_input(r, random);
    if (r->dtype == RUEDA_BOOL) /* any nonzero byte is true */
        return (number){0, random % 3 == 0 ? 0 : random % 3 == 1 ? 1 : (int64_t)(random >> 56 | 1)};
    /* what is scaled must not leave the type: 8 ranks × 15 fits in int8 */
    if (r->op == RUEDA_AVERAGE || r->prescale != 1.0 || r->postscale != 1.0)
        return wrapped(
            r->dtype, (int64_t)(random % 16) *
                          (r->dtype != RUEDA_U8 && r->dtype != RUEDA_U16 && random >> 63 ? -1 : 1));
    return wrapped(r->dtype, (int64_t)random);
}

/* Large tensors repeat their first period. */
void recipe_fill(const recipe *r, int rank, size_t index, void *data, size_t count)
{
    const size_t bytes = rueda_dtype_bytes(r->dtype);
    const size_t first = count < VALUES_PERIOD ? count : VALUES_PERIOD;
    for (size_t i = 0; i < first; i++)
        value_store(r->dtype, data, i, recipe_input(r, rank, index + i));
    for (size_t i = first; i < count; i++)
        memcpy((uint8_t *)data + i * bytes, (uint8_t *)data + (i - VALUES_PERIOD) * bytes, bytes);
}

static number scaled(rueda_dtype dtype, number value, double factor)
{
    if (is_floating(dtype))
        return (number){round_to(dtype, value.real * factor), 0};
    return factor == 1.0 ? value : (number){0, (int64_t)trunc((double)value.whole * factor)};
}

static number combined(const recipe *r, number a, number b)
{
    const bool is_bool = r->dtype == RUEDA_BOOL;
    switch (r->op) {
    case RUEDA_MIN:
        return is_bool ? (number){0, a.whole && b.whole}
                       : (number){fmin(a.real, b.real), a.whole < b.whole ? a.whole : b.whole};
    case RUEDA_MAX:
        return is_bool ? (number){0, a.whole || b.whole}
                       : (number){fmax(a.real, b.real), a.whole > b.whole ? a.whole : b.whole};
    case RUEDA_PRODUCT:
        return is_bool
                   ? (number){0, a.whole && b.whole}
                   : (number){a.real * b.real, (int64_t)((uint64_t)a.whole * (uint64_t)b.whole)};
    default:
        return is_bool
                   ? (number){0, a.whole || b.whole}
                   : (number){a.real + b.real, (int64_t)((uint64_t)a.whole + (uint64_t)b.whole)};
    }
}

number recipe_expected(const recipe *r, const int32_t *ranks, int count, size_t index)
{
    number result = {0, 0};
    for (int i = 0; i < count; i++) {
        const int rank = ranks == NULL ? i : ranks[i];
        const number input = scaled(r->dtype, recipe_input(r, rank, index), r->prescale);
        result = i == 0 ? input : combined(r, result, input);
    }
    if (!is_floating(r->dtype))
        result = wrapped(r->dtype, result.whole);
    if (r->op == RUEDA_AVERAGE && !is_floating(r->dtype))
        return (number){0, (int64_t)trunc((double)result.whole * r->postscale / count)};
    return scaled(r->dtype, result, r->op == RUEDA_AVERAGE ? r->postscale / count : r->postscale);
}

bool recipe_is_right(const recipe *r, number got, number expected)
{
    if (r->dtype == RUEDA_BOOL)
        return (got.whole != 0) == (expected.whole != 0);
    if (!is_floating(r->dtype))
        return got.whole == expected.whole;
    if (isnan(expected.real))
        return isnan(got.real);
    /* a factor such as 1/3 is rounded, then the product is: two roundings */
    const double slack =
        r->op == RUEDA_AVERAGE ? ldexp(fabs(expected.real), -fraction_bits(r->dtype)) : 0;
    return got.real == expected.real || fabs(got.real - expected.real) <= slack;
}

static void complain(const recipe *r, size_t index, number got, number expected)
{
    rank_fail(__FILE__, __LINE__,
              "%s of %s, element %zu: got %g (%" PRId64 "), expected %g (%" PRId64 ")",
              rueda_op_name(r->op), rueda_dtype_name(r->dtype), index, got.real, got.whole,
              expected.real, expected.whole);
}

/* Compares elements with expected[i % VALUES_PERIOD]; `right` decides. */
static void check_all(const recipe *r, const void *data, size_t elements, const number *expected,
                      bool (*right)(const recipe *r, number got, number expected))
{
    for (size_t i = 0; i < elements; i++) {
        const number got = value_load(r->dtype, data, i);
        if (!right(r, got, expected[i % VALUES_PERIOD]))
            complain(r, i, got, expected[i % VALUES_PERIOD]);
    }
}

void recipe_check(const recipe *r, const int32_t *ranks, int count, size_t index, const void *data,
                  size_t elements)
{
    static _Thread_local number expected[VALUES_PERIOD];
    for (size_t i = 0; i < elements && i < VALUES_PERIOD; i++)
        expected[i] = recipe_expected(r, ranks, count, index + i);
    check_all(r, data, elements, expected, recipe_is_right);
}

static bool is_copy(const recipe *r, number got, number expected)
{
    (void)r;
    return got.whole == expected.whole && got.real == expected.real;
}

void recipe_check_copy(const recipe *r, int rank, size_t index, const void *data, size_t elements)
{
    static _Thread_local number expected[VALUES_PERIOD];
    for (size_t i = 0; i < elements && i < VALUES_PERIOD; i++)
        expected[i] = recipe_input(r, rank, index + i);
    check_all(r, data, elements, expected, is_copy);
}
