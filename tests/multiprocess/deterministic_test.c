/* deterministic_test.c: with RUEDA_DETERMINISTIC an allreduce gives exactly the bits of its written
 * definition, whatever the number of ranks, the memory, the size and what was submitted with it: the
 * binary tree over the ranks; for Adasum with dot products that are added up in 16 lanes inside each
 * block of 8 KiB, and block by block.
 * ctest: timeout=300 */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LANES 16
#define BLOCK (8192 / sizeof(float))
#define MOST_RANKS 9

static const size_t counts[] = {1, 10, 2049, 12011, 70001};
#define TENSORS (sizeof counts / sizeof counts[0])

static void fill(float *values, size_t count, int index)
{
    dice d = {1000 * (unsigned long long)index + count};
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((double)(long long)roll(&d) / 9e18);
}

/* ---- The definition -------------------------------------------------------------------------- */

static double dot(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t first = 0; first < count; first += BLOCK) {
        double lanes[LANES] = {0};
        for (size_t i = 0; i < BLOCK && first + i < count; i++)
            lanes[i % LANES] += (double)a[first + i] * (double)b[first + i];
        for (size_t width = LANES / 2; width > 0; width /= 2) {
            for (size_t i = 0; i < width; i++)
                lanes[i] += lanes[i + width];
        }
        sum += lanes[0];
    }
    return sum;
}

/* What a vector keeps that stands for `ranks` of `all`: of equal blocks, it loses half of the projection. */
static double kept(double ab, double aa, int ranks, int all)
{
    return 2 * ranks == all ? 1 - ab / (2 * aa) : 1 - ab / ((double)all / ranks * aa);
}

static void join(rueda_op op, float *a, const float *b, int ranks_a, int ranks_b, size_t count)
{
    const double ab = dot(a, b, count);
    const double keep_a = kept(ab, dot(a, a, count), ranks_a, ranks_a + ranks_b);
    const double keep_b = kept(ab, dot(b, b, count), ranks_b, ranks_a + ranks_b);
    for (size_t i = 0; i < count; i++) {
        if (op == RUEDA_ADASUM)
            a[i] = (float)keep_a * a[i] + (float)keep_b * b[i];
        else
            a[i] = a[i] + b[i];
    }
}

/* What the ranks first … first + span − 1 come to; those beyond the last do not count. */
static float *expect(rueda_op op, int first, int span, int size, size_t count)
{
    if (span == 1) {
        float *values = malloc(sizeof *values * count);
        CHECK(values != NULL);
        fill(values, count, first);
        return values;
    }
    float *lower = expect(op, first, span / 2, size, count);
    if (first + span / 2 < size) {
        float *upper = expect(op, first + span / 2, span / 2, size, count);
        const int above = size - first - span / 2;
        join(op, lower, upper, span / 2, above < span / 2 ? above : span / 2, count);
        free(upper);
    }
    return lower;
}

static float *expected_values(rueda_op op, int size, size_t count)
{
    int span = 1;
    while (span < size)
        span *= 2;
    float *values = expect(op == RUEDA_AVERAGE ? RUEDA_SUM : op, 0, span, size, count);
    for (size_t i = 0; op == RUEDA_AVERAGE && i < count; i++)
        values[i] = values[i] * (float)(1.0 / size);
    return values;
}

/* ---- The library ----------------------------------------------------------------------------- */

static void try_op(rueda_op op, memory_kind memory, bool together, int rank, int size)
{
    static const char *const names[TENSORS] = {"a", "b", "c", "d", "e"};
    float *data[TENSORS];
    int64_t shapes[TENSORS][1];
    rueda_tensor tensors[TENSORS];
    const rueda_options options = RUEDA_OPTIONS(op);
    for (size_t t = 0; t < TENSORS; t++) {
        data[t] = memory_take(memory, sizeof(float) * counts[t]);
        fill(data[t], counts[t], rank);
        shapes[t][0] = (int64_t)counts[t];
        tensors[t] = RUEDA_TENSOR(names[t], data[t], RUEDA_F32, 1, shapes[t]);
    }
    if (together)
        CHECK_OK(rueda_grouped_allreduce(tensors, TENSORS, &options, NULL));
    for (size_t t = 0; t < TENSORS; t++) {
        doing("%s of %zu elements on %d ranks, memory %d", rueda_op_name(op), counts[t], size,
              memory);
        if (!together)
            CHECK_OK(rueda_allreduce(&tensors[t], &options, NULL));
        if (rank == 0 || rank == size - 1) { /* all have the same: adasum_test and allreduce_test */
            float *expected = expected_values(op, size, counts[t]);
            CHECK(memcmp(data[t], expected, sizeof(float) * counts[t]) == 0);
            free(expected);
        }
        memory_give(memory, data[t]);
    }
}

static void try_all(int rank, int size, const void *argument)
{
    (void)argument;
    static const rueda_op ops[] = {RUEDA_SUM, RUEDA_AVERAGE, RUEDA_ADASUM};
    CHECK_OK(rueda_init(NULL));
    for (size_t i = 0; i < 6; i++) {
        try_op(ops[i % 3], MEMORY_PRIVATE, i < 3, rank, size);
        try_op(ops[i % 3], MEMORY_SHARED, i < 3, rank, size);
    }
    CHECK_OK(rueda_shutdown());
}

static void the_bits_are_those_of_the_tree(void **state)
{
    (void)state;
    static const char *const environment[] = {"RUEDA_DETERMINISTIC=1", NULL};
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        run_job(&(job){.ranks = ranks, .body = try_all, .environment = environment});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_bits_are_those_of_the_tree)};
    return cmocka_run_group_tests_name("deterministic", tests, NULL, NULL);
}
