/* kernel_half_test.c: the two half types exhaustively, and what is not arithmetic: copies, neutral
 * values, the choice of a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel/kernel.h"
#include "kernel/kernel_reference.h"

enum { HALVES = 65536 };

static const rueda_dtype half_types[] = {RUEDA_F16, RUEDA_BF16};
static const char *const table_names[] = {"plain", "avx2", "avx512"};

static float to_float(rueda_dtype dtype, uint16_t half)
{
    return dtype == RUEDA_F16 ? kernel_f16_to_float(half) : kernel_bf16_to_float(half);
}

static uint16_t from_float(rueda_dtype dtype, float value)
{
    return dtype == RUEDA_F16 ? kernel_f16_from_float(value) : kernel_bf16_from_float(value);
}

static void expect_half(rueda_dtype dtype, float value)
{
    uint16_t got = from_float(dtype, value);
    uint64_t expected = bits_of_value(dtype, (double)value);
    if (got != expected)
        fail_msg("%s from %a: got %x, expected %llx", rueda_dtype_name(dtype), (double)value, got,
                 (unsigned long long)expected);
}

/* ---- Conversions ----------------------------------------------------------------------------- */

static void test_every_half(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (unsigned half = 0; half < HALVES; half++) {
            rueda_dtype dtype = half_types[t];
            float value = to_float(dtype, (uint16_t)half);
            double expected = value_of_bits(dtype, half);
            bool equal = (double)value == expected && !signbit(value) == !signbit(expected);
            if (isnan(expected) ? !isnan(value) : !equal)
                fail_msg("%s %x: got %a, expected %a", rueda_dtype_name(dtype), half, (double)value,
                         expected);
            unsigned back = isnan(expected) ? UINT16_MAX : half;
            if (from_float(dtype, value) != back)
                fail_msg("%s %x does not survive float", rueda_dtype_name(dtype), half);
        }
}

/* The value halfway to the next half is a float; so are its neighbours. Past the largest half lies
 * the bound from which on infinity is nearest. */
static void test_halfway_values(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (uint64_t half = 0; half < 0x8000; half++) {
            rueda_dtype dtype = half_types[t];
            double low = value_of_bits(dtype, half), high = value_of_bits(dtype, half + 1);
            if (isinf(low) || isnan(low))
                break;
            if (isinf(high))
                high = low + (low - value_of_bits(dtype, half - 1));
            float middle = (float)((low + high) / 2);
            const float values[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY)};
            for (int i = 0; i < 3; i++) {
                expect_half(dtype, values[i]);
                expect_half(dtype, -values[i]);
            }
        }
}

static void test_many_floats(void **state)
{
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 2003)
        for (int t = 0; t < 2; t++) {
            float value;
            memcpy(&value, &(uint32_t){(uint32_t)bits}, sizeof value);
            expect_half(half_types[t], value);
        }
}

/* Through the tables every half meets the conversions of the instruction set: unchanged with factor
 * 1, rounded, into the subnormals, and out of range. */
static void scale_every_half(const kernel_table *table, rueda_dtype dtype, double factor)
{
    static uint16_t source[HALVES], result[HALVES];
    for (unsigned i = 0; i < HALVES; i++)
        source[i] = (uint16_t)i;
    table->scale[dtype](result, source, HALVES, factor);
    for (unsigned i = 0; i < HALVES; i++)
        if (result[i] != reference_scale(dtype, i, factor))
            fail_msg("%s %s scale by %a, count %d, index %u: got %x", table->name,
                     rueda_dtype_name(dtype), factor, HALVES, i, result[i]);
}

static void test_every_half_in_tables(void **state)
{
    (void)state;
    static const double factors[] = {1, 1.0 / 3, 0x1.8p-9, 0x1.000002p-3, 0x1p-120, 1000, 0x1p100};
    for (size_t n = 0; n < sizeof table_names / sizeof table_names[0]; n++) {
        const kernel_table *table = kernel_table_named(table_names[n]);
        for (size_t i = 0; table != NULL && i < sizeof factors / sizeof factors[0]; i++) {
            scale_every_half(table, RUEDA_F16, factors[i]);
            scale_every_half(table, RUEDA_BF16, factors[i]);
        }
    }
}

/* ---- Copy ------------------------------------------------------------------------------------ */

static void copy_and_check(const kernel_table *table, size_t to, size_t from, size_t bytes)
{
    enum { ROOM = 8192 };
    static _Alignas(64) unsigned char source[ROOM], target[ROOM];
    uint64_t seed = 9;
    for (size_t i = 0; i < ROOM; i++)
        source[i] = (unsigned char)random_next(&seed);
    memset(target, 0xA5, sizeof target);
    table->copy_stream(target + to, source + from, bytes);
    for (size_t i = 0; i < ROOM; i++) {
        bool inside = i >= to && i < to + bytes;
        if (target[i] != (inside ? source[from + i - to] : 0xA5))
            fail_msg("%s copy_stream, count %zu, offsets %zu and %zu, index %zu", table->name,
                     bytes, to, from, i);
    }
}

static void test_copy_stream(void **state)
{
    (void)state;
    static const size_t offsets[][2] = {{64, 0}, {65, 3}, {95, 64}, {127, 1}, {96, 32}};
    for (size_t n = 0; n < sizeof table_names / sizeof table_names[0]; n++) {
        const kernel_table *table = kernel_table_named(table_names[n]);
        for (size_t i = 0; table != NULL && i < sizeof offsets / sizeof offsets[0]; i++) {
            for (size_t bytes = 0; bytes <= 200; bytes += bytes < 8 ? 1 : 7)
                copy_and_check(table, offsets[i][0], offsets[i][1], bytes);
            copy_and_check(table, offsets[i][0], offsets[i][1], 6001);
        }
    }
}

/* ---- Neutral values -------------------------------------------------------------------------- */

/* Whether x ∘ neutral is x. A negative zero may lose its sign. */
static bool is_unchanged(rueda_dtype dtype, uint64_t before, uint64_t after)
{
    if (!type_is_floating(dtype))
        return before == after;
    double x = value_of_bits(dtype, before), y = value_of_bits(dtype, after);
    return x == y || (isnan(x) && isnan(y));
}

static void check_neutral(rueda_dtype dtype, kernel_op op, size_t count)
{
    uint64_t neutral[40], seed = 11;
    memset(neutral, 0xA5, sizeof neutral);
    kernel_fill_neutral(neutral, dtype, op, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = random_next(&seed) & (dtype == RUEDA_BOOL ? 1 : all_ones(dtype));
        uint64_t other = element_get(dtype, neutral, i);
        if (!is_unchanged(dtype, value, reference_reduce(dtype, op, value, other)))
            fail_msg("%s op %d, count %zu, index %zu: %llx is not neutral", rueda_dtype_name(dtype),
                     op, count, i, (unsigned long long)other);
    }
    assert_int_equal(((unsigned char *)neutral)[count * rueda_dtype_bytes(dtype)], 0xA5);
}

static void test_neutral(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 7, 39};
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++)
        for (int op = 0; op < KERNEL_OP_COUNT; op++)
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
                check_neutral((rueda_dtype)dtype, (kernel_op)op, counts[i]);
    float extremes[2];
    kernel_fill_neutral(&extremes[0], RUEDA_F32, KERNEL_MIN, 1);
    kernel_fill_neutral(&extremes[1], RUEDA_F32, KERNEL_MAX, 1);
    assert_true(isinf(extremes[0]) && extremes[0] > 0 && isinf(extremes[1]) && extremes[1] < 0);
}

/* ---- Choices --------------------------------------------------------------------------------- */

static void test_supports(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
        rueda_dtype type = (rueda_dtype)dtype;
        assert_int_equal(kernel_supports(RUEDA_AVERAGE, type), type != RUEDA_BOOL);
        assert_int_equal(kernel_supports(RUEDA_ADASUM, type), type_is_floating(type));
        assert_true(kernel_supports(RUEDA_SUM, type) && kernel_supports(RUEDA_PRODUCT, type));
        assert_true(kernel_supports(RUEDA_MIN, type) && kernel_supports(RUEDA_MAX, type));
    }
    assert_false(kernel_supports((rueda_op)RUEDA_OP_COUNT, RUEDA_F32));
    assert_false(kernel_supports(RUEDA_SUM, (rueda_dtype)RUEDA_DTYPE_COUNT));
}

static void test_tables(void **state)
{
    (void)state;
    const kernel_table *best = kernel_table_best();
    assert_non_null(best);
    assert_ptr_equal(kernel_table_named(best->name), best);
    assert_non_null(kernel_table_named("plain"));
    assert_null(kernel_table_named("abacus"));
    assert_null(kernel_table_named(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half),  cmocka_unit_test(test_halfway_values),
        cmocka_unit_test(test_many_floats), cmocka_unit_test(test_every_half_in_tables),
        cmocka_unit_test(test_copy_stream), cmocka_unit_test(test_neutral),
        cmocka_unit_test(test_supports),    cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
