/* kernel_test.c: every table against the reference, to the bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel/kernel.h"
#include "kernel/kernel_reference.h"

enum { GUARD = 64, MAX_COUNT = 4099, MAX_OFFSET = 3, MAX_BYTES = (MAX_COUNT + MAX_OFFSET) * 8 };

static const char *const op_names[KERNEL_OP_COUNT] = {"sum", "min", "max", "product"};
static const size_t large_counts[] = {255, 256, 257, 1000, MAX_COUNT};

/* Elements from the start of each buffer, and whether the result replaces an operand. */
typedef enum target { TARGET_APART, TARGET_A, TARGET_B } target;
typedef struct layout {
    size_t a, b, dst;
    target target;
} layout;
static const layout layouts[] = {
    {0, 0, 0, TARGET_APART}, {1, 2, 3, TARGET_APART}, {3, 0, 1, TARGET_APART},
    {0, 1, 0, TARGET_A},     {2, 0, 0, TARGET_B},
};

/* The operands of a test and its output. Aligned as long as no offset is added. */
static _Alignas(64) unsigned char memory_a[MAX_BYTES], memory_b[MAX_BYTES];
static _Alignas(64) unsigned char memory_dst[GUARD + MAX_BYTES + GUARD];
static unsigned char saved_a[MAX_BYTES], saved_b[MAX_BYTES];

typedef struct operands {
    rueda_dtype dtype;
    size_t count;
    unsigned char *a, *b, *dst;
} operands;

/* ---- Data ------------------------------------------------------------------------------------ */

enum { SPECIALS = 18 };

/* Zero, infinity, quiet and signalling NaN, subnormals, the largest number, one; both signs. */
static uint64_t special_bits(rueda_dtype dtype, uint64_t which)
{
    int fraction = fraction_bits(dtype);
    uint64_t unit = UINT64_C(1) << fraction, sign = UINT64_C(1) << (type_bits(dtype) - 1);
    uint64_t infinity = sign - unit;
    uint64_t quiet = infinity | unit >> 1 | 5, signalling = infinity | 3;
    uint64_t one = bits_of_value(dtype, 1);
    const uint64_t magnitudes[SPECIALS / 2] = {0,        infinity, quiet,        signalling, 1,
                                               unit - 1, unit,     infinity - 1, one};
    return magnitudes[which % SPECIALS / 2] | (which % 2 ? sign : 0);
}

/* A mixture: special values, numbers near each other, any bits at all. */
static uint64_t mixed_bits(rueda_dtype dtype, uint64_t *seed)
{
    uint64_t random = random_next(seed);
    unsigned kind = random >> 40 & 7;
    if (dtype == RUEDA_BOOL)
        return kind < 4 ? 0 : random & 0xFF;
    if (type_is_floating(dtype) && kind == 0)
        return special_bits(dtype, random);
    if (type_is_floating(dtype) && kind < 6)
        return bits_of_value(dtype, (double)(int64_t)random_next(seed) * 0x1p-60);
    if (kind < 2)
        return (kind == 0 ? random % 100 : all_ones(dtype) >> 1) & all_ones(dtype);
    return random & all_ones(dtype);
}

static void fill_mixed(rueda_dtype dtype, void *array, size_t count, uint64_t *seed)
{
    for (size_t i = 0; i < count; i++)
        element_set(dtype, array, i, mixed_bits(dtype, seed));
}

static void restore_operands(void)
{
    memcpy(memory_a, saved_a, sizeof memory_a);
    memcpy(memory_b, saved_b, sizeof memory_b);
    memset(memory_dst, 0xA5, sizeof memory_dst);
}

/* Floating types begin with every pair of special values. */
static void new_operands(rueda_dtype dtype, uint64_t seed)
{
    fill_mixed(dtype, saved_a, MAX_COUNT + MAX_OFFSET, &seed);
    fill_mixed(dtype, saved_b, MAX_COUNT + MAX_OFFSET, &seed);
    for (size_t i = 0; type_is_floating(dtype) && i < SPECIALS * SPECIALS; i++) {
        element_set(dtype, saved_a, i, special_bits(dtype, i / SPECIALS));
        element_set(dtype, saved_b, i, special_bits(dtype, i % SPECIALS));
    }
}

static operands place(rueda_dtype dtype, size_t count, layout layout)
{
    size_t size = rueda_dtype_bytes(dtype);
    operands at = {dtype, count, memory_a + layout.a * size, memory_b + layout.b * size, NULL};
    at.dst = layout.target == TARGET_A   ? at.a
             : layout.target == TARGET_B ? at.b
                                         : memory_dst + GUARD + layout.dst * size;
    restore_operands();
    return at;
}

/* ---- Comparison ------------------------------------------------------------------------------ */

static void expect_bits(const char *table, const char *op, operands at, size_t index,
                        uint64_t expected)
{
    uint64_t got = element_get(at.dtype, at.dst, index);
    if (got != expected)
        fail_msg("%s %s %s, count %zu, index %zu: got %llx, expected %llx", table,
                 rueda_dtype_name(at.dtype), op, at.count, index, (unsigned long long)got,
                 (unsigned long long)expected);
}

/* Nothing but the output was written. */
static void expect_guards(const char *table, const char *op, operands at, layout layout)
{
    if (layout.target != TARGET_APART)
        return;
    const unsigned char *end = at.dst + at.count * rueda_dtype_bytes(at.dtype);
    for (int i = 1; i <= GUARD; i++)
        if (at.dst[-i] != 0xA5 || end[i - 1] != 0xA5)
            fail_msg("%s %s %s, count %zu: wrote outside the output, %d bytes away", table,
                     rueda_dtype_name(at.dtype), op, at.count, i);
}

typedef struct job {
    const kernel_table *table;
    rueda_dtype dtype;
    kernel_op op;
    double ca, cb;
} job;
typedef void check_function(const job *job, size_t count, layout layout);

/* All small counts in one layout each, large ones in every layout. */
static void check_counts(check_function *check, const job *job)
{
    const size_t layout_count = sizeof layouts / sizeof layouts[0];
    for (size_t count = 0; count <= 150; count++)
        check(job, count, layouts[count % layout_count]);
    for (size_t i = 0; i < sizeof large_counts / sizeof large_counts[0]; i++)
        for (size_t k = 0; k < layout_count; k++)
            check(job, large_counts[i], layouts[k]);
}

/* Calls `test` for every table of this processor. */
static void for_each_table(void (*test)(const kernel_table *table))
{
    static const char *const names[] = {"plain", "avx2", "avx512"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const kernel_table *table = kernel_table_named(names[i]);
        if (table == NULL)
            print_message("table %s: not on this processor\n", names[i]);
        else
            test(table);
    }
}

/* ---- Reduce, scale, divide, combine ---------------------------------------------------------- */

static void check_reduce(const job *job, size_t count, layout layout)
{
    operands at = place(job->dtype, count, layout);
    job->table->reduce[job->dtype][job->op](at.dst, at.a, at.b, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t a = element_get(job->dtype, saved_a, layout.a + i);
        uint64_t b = element_get(job->dtype, saved_b, layout.b + i);
        expect_bits(job->table->name, op_names[job->op], at, i,
                    reference_reduce(job->dtype, job->op, a, b));
    }
    expect_guards(job->table->name, op_names[job->op], at, layout);
}

static void reduce_of_table(const kernel_table *table)
{
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++)
        for (int op = 0; op < KERNEL_OP_COUNT; op++) {
            new_operands((rueda_dtype)dtype, 1000 + (uint64_t)dtype);
            check_counts(check_reduce, &(job){table, (rueda_dtype)dtype, (kernel_op)op, 0, 0});
        }
}

static void test_reduce(void **state)
{
    (void)state;
    for_each_table(reduce_of_table);
}

static void check_scale(const job *job, size_t count, layout layout)
{
    if (layout.target == TARGET_B)
        return;
    operands at = place(job->dtype, count, layout);
    job->table->scale[job->dtype](at.dst, at.a, count, job->ca);
    for (size_t i = 0; i < count; i++) {
        uint64_t source = element_get(job->dtype, saved_a, layout.a + i);
        expect_bits(job->table->name, "scale", at, i, reference_scale(job->dtype, source, job->ca));
    }
    expect_guards(job->table->name, "scale", at, layout);
}

static void check_divide(const job *job, size_t count, layout layout)
{
    if (layout.target == TARGET_B)
        return;
    operands at = place(job->dtype, count, layout);
    job->table->divide[job->dtype](at.dst, at.a, count, job->ca);
    for (size_t i = 0; i < count; i++) {
        uint64_t source = element_get(job->dtype, saved_a, layout.a + i);
        double quotient = (double)integer_of_bits(job->dtype, source) / job->ca;
        expect_bits(job->table->name, "divide", at, i, reference_integer(job->dtype, quotient));
    }
    expect_guards(job->table->name, "divide", at, layout);
}

static void scale_of_table(const kernel_table *table)
{
    static const double factors[] = {1, 1.0 / 3, -1, 2.5, 0, 1e-6, 1e300, -INFINITY, NAN};
    assert_null(table->scale[RUEDA_BOOL]);
    assert_null(table->divide[RUEDA_BOOL]);
    for (int dtype = RUEDA_BOOL + 1; dtype < RUEDA_DTYPE_COUNT; dtype++) {
        new_operands((rueda_dtype)dtype, 2000 + (uint64_t)dtype);
        assert_int_equal(table->divide[dtype] != NULL, !type_is_floating((rueda_dtype)dtype));
        for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
            job job = {table, (rueda_dtype)dtype, KERNEL_SUM, factors[i], 0};
            check_counts(check_scale, &job);
            if (table->divide[dtype] != NULL)
                check_counts(check_divide, &job);
        }
    }
}

static void test_scale(void **state)
{
    (void)state;
    for_each_table(scale_of_table);
}

/* n · (1/n) truncates to 0 for some n; n / n must not. */
static void whole_quotients_of_table(const kernel_table *table)
{
    for (int32_t n = 1; n <= 4096; n++) {
        int32_t multiples[] = {n, -n, 2 * n, 3 * n, 100 * n, 2 * n - 1};
        table->divide[RUEDA_I32](multiples, multiples, 6, n);
        int32_t expected[] = {1, -1, 2, 3, 100, 1};
        for (int i = 0; i < 6; i++)
            if (multiples[i] != expected[i])
                fail_msg("%s divide by %d, index %d: got %d", table->name, n, i, multiples[i]);
    }
}

static void test_whole_quotients(void **state)
{
    (void)state;
    for_each_table(whole_quotients_of_table);
}

/* The integers next to the bounds of int64 that are doubles, and the bounds themselves. */
static void int64_bounds_of_table(const kernel_table *table)
{
    const int64_t below = INT64_MAX - 1023;
    const int64_t source[] = {INT64_MAX, INT64_MIN, below, -below, below - 1024};
    int64_t result[5];
    table->scale[RUEDA_I64](result, source, 5, 1);
    for (int i = 0; i < 5; i++)
        if (result[i] != source[i])
            fail_msg("%s int64 scale, count 5, index %d: got %lld", table->name, i,
                     (long long)result[i]);
}

static void test_int64_bounds(void **state)
{
    (void)state;
    for_each_table(int64_bounds_of_table);
}

static void check_combine(const job *job, size_t count, layout layout)
{
    operands at = place(job->dtype, count, layout);
    job->table->combine[job->dtype](at.dst, at.a, at.b, count, job->ca, job->cb);
    for (size_t i = 0; i < count; i++) {
        uint64_t a = element_get(job->dtype, saved_a, layout.a + i);
        uint64_t b = element_get(job->dtype, saved_b, layout.b + i);
        expect_bits(job->table->name, "combine", at, i,
                    reference_combine(job->dtype, a, b, job->ca, job->cb));
    }
    expect_guards(job->table->name, "combine", at, layout);
}

static void combine_of_table(const kernel_table *table)
{
    static const double factors[][2] = {{1, 1}, {1.0 / 3, 0.7}, {-1, 1e-40}, {0, INFINITY}};
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
        assert_int_equal(table->combine[dtype] != NULL, type_is_floating((rueda_dtype)dtype));
        if (table->combine[dtype] == NULL)
            continue;
        new_operands((rueda_dtype)dtype, 3000 + (uint64_t)dtype);
        for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
            const double *pair = factors[i];
            check_counts(check_combine,
                         &(job){table, (rueda_dtype)dtype, KERNEL_SUM, pair[0], pair[1]});
        }
    }
}

static void test_combine(void **state)
{
    (void)state;
    for_each_table(combine_of_table);
}

/* ---- Dot ------------------------------------------------------------------------------------- */

static void expect_sum(const job *job, size_t count, int index, double got, double expected)
{
    if (bits_of_value(RUEDA_F64, expected) != element_get(RUEDA_F64, &got, 0))
        fail_msg("%s %s dot, count %zu, sum %d: got %a, expected %a", job->table->name,
                 rueda_dtype_name(job->dtype), count, index, got, expected);
}

static void check_dot(const job *job, size_t count, layout layout)
{
    operands at = place(job->dtype, count, layout);
    double sums[3] = {job->ca, 0, job->cb};
    job->table->dot[job->dtype](at.a, at.b, count, sums);
    expect_sum(job, count, 0, sums[0], job->ca + reference_dot(job->dtype, at.a, at.b, count));
    expect_sum(job, count, 1, sums[1], reference_dot(job->dtype, at.a, at.a, count));
    expect_sum(job, count, 2, sums[2], job->cb + reference_dot(job->dtype, at.b, at.b, count));
}

/* Numbers of moderate size, so that the sums do not all end in infinity or NaN. */
static void replace_extremes(rueda_dtype dtype, unsigned char *array)
{
    for (size_t i = 0; i < MAX_COUNT + MAX_OFFSET; i++)
        if (!(fabs(value_of_bits(dtype, element_get(dtype, array, i))) < 1000))
            element_set(dtype, array, i, bits_of_value(dtype, -(double)i / 3));
}

static void dot_of_table(const kernel_table *table)
{
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
        assert_int_equal(table->dot[dtype] != NULL, type_is_floating((rueda_dtype)dtype));
        if (table->dot[dtype] == NULL)
            continue;
        new_operands((rueda_dtype)dtype, 4000 + (uint64_t)dtype);
        check_counts(check_dot, &(job){table, (rueda_dtype)dtype, KERNEL_SUM, 0, 0});
        replace_extremes((rueda_dtype)dtype, saved_a);
        replace_extremes((rueda_dtype)dtype, saved_b);
        check_counts(check_dot, &(job){table, (rueda_dtype)dtype, KERNEL_SUM, 0.5, -7});
    }
}

static void test_dot(void **state)
{
    (void)state;
    for_each_table(dot_of_table);
}

/* Small whole numbers: every order of addition gives the exact sums. */
static void exact_dot_of_table(const kernel_table *table)
{
    static float a[MAX_COUNT], b[MAX_COUNT];
    int64_t expected[3] = {0};
    uint64_t seed = 5;
    for (int i = 0; i < MAX_COUNT; i++) {
        int64_t x = (int64_t)(random_next(&seed) % 2001) - 1000;
        int64_t y = (int64_t)(random_next(&seed) % 2001) - 1000;
        a[i] = (float)x, b[i] = (float)y;
        expected[0] += x * y, expected[1] += x * x, expected[2] += y * y;
    }
    double sums[3] = {0};
    table->dot[RUEDA_F32](a, b, MAX_COUNT, sums);
    job job = {table, RUEDA_F32, KERNEL_SUM, 0, 0};
    for (int k = 0; k < 3; k++)
        expect_sum(&job, MAX_COUNT, k, sums[k], (double)expected[k]);
}

static void test_exact_dot(void **state)
{
    (void)state;
    for_each_table(exact_dot_of_table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce),          cmocka_unit_test(test_scale),
        cmocka_unit_test(test_whole_quotients), cmocka_unit_test(test_int64_bounds),
        cmocka_unit_test(test_combine),         cmocka_unit_test(test_dot),
        cmocka_unit_test(test_exact_dot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
