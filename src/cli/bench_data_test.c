/* bench_data_test.c: the bench's data fits a collective computed by hand, and its check notices what
 * is wrong. The source is included because the library for tests holds no commands. */
#include "cli/bench_data.c" // NOLINT

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define RANKS_MAX 5
#define COUNT 9000 /* more than two tiles */

static float buffers[2][RANKS_MAX][COUNT];

static bench_data make(plan_collective collective, rueda_op op, int rank, int size)
{
    bench_data d = {
        .collective = collective, .op = op, .dtype = RUEDA_F32, .rank = rank, .size = size};
    bench_data_shape(&d, bench_data_round(collective, 8000, size));
    d.input = buffers[0][rank];
    d.output = bench_data_in_place(collective) ? d.input : buffers[1][rank];
    bench_data_fill(&d);
    return d;
}

static void sum_all(int size)
{
    for (int i = 0; i < COUNT; i++) {
        float sum = 0;
        for (int r = 0; r < size; r++)
            sum += buffers[0][r][i];
        for (int r = 0; r < size; r++)
            buffers[0][r][i] = sum;
    }
}

static void repeated_sums_in_place_are_expected(void **state)
{
    (void)state;
    for (int size = 2; size <= RANKS_MAX; size++) {
        bench_data d[RANKS_MAX];
        for (int r = 0; r < size; r++)
            d[r] = make(PLAN_ALLREDUCE, RUEDA_SUM, r, size);
        const int burst = bench_data_burst(&d[0]);
        assert_true(burst > 10);
        for (int i = 0; i <= burst; i++)
            sum_all(size);
        for (int r = 0; r < size; r++)
            assert_int_equal(bench_data_check(&d[r], burst + 1), 0);
    }
}

static void alltoall_is_expected(void **state)
{
    enum { SIZE = 4, SHARE = 2000 };
    (void)state;
    bench_data d[SIZE];
    for (int r = 0; r < SIZE; r++)
        d[r] = make(PLAN_ALLTOALL, RUEDA_SUM, r, SIZE);
    for (int from = 0; from < SIZE; from++) {
        for (int to = 0; to < SIZE; to++)
            memcpy(buffers[1][to] + from * SHARE, buffers[0][from] + to * SHARE,
                   SHARE * sizeof(float));
    }
    for (int r = 0; r < SIZE; r++)
        assert_int_equal(bench_data_check(&d[r], 3), 0);
}

/* Rank 0 gets the sum, all parts, or gives each its part. */
static void collectives_with_a_root_are_expected(void **state)
{
    enum { SIZE = 4, SHARE = 2000 };
    (void)state;
    bench_data d[SIZE];
    for (int r = 0; r < SIZE; r++)
        d[r] = make(PLAN_REDUCE_TO_ROOT, RUEDA_SUM, r, SIZE);
    sum_all(SIZE);
    memcpy(buffers[1][0], buffers[0][0], sizeof buffers[1][0]);
    for (int r = 0; r < SIZE; r++)
        assert_int_equal(bench_data_check(&d[r], 3), 0);
    for (int r = 0; r < SIZE; r++)
        d[r] = make(PLAN_GATHER, RUEDA_SUM, r, SIZE);
    for (int r = 0; r < SIZE; r++)
        memcpy(buffers[1][0] + r * SHARE, buffers[0][r], SHARE * sizeof(float));
    for (int r = 0; r < SIZE; r++)
        assert_int_equal(bench_data_check(&d[r], 3), 0);
    for (int r = 0; r < SIZE; r++)
        d[r] = make(PLAN_SCATTER, RUEDA_SUM, r, SIZE);
    for (int r = 0; r < SIZE; r++) {
        memcpy(buffers[1][r], buffers[0][0] + r * SHARE, SHARE * sizeof(float));
        assert_int_equal(d[r].out_count, SHARE);
        assert_int_equal(bench_data_check(&d[r], 3), 0);
    }
}

static void a_collective_that_does_nothing_is_noticed(void **state)
{
    (void)state;
    for (int collective = 0; collective < PLAN_BARRIER; collective++) {
        uint64_t wrong = 0;
        for (int r = 0; r < 2; r++) {
            const bench_data d = make((plan_collective)collective, RUEDA_SUM, r, 2);
            wrong += bench_data_check(&d, 1);
        }
        assert_true(wrong > 0);
    }
}

static void one_wrong_element_and_misplaced_pieces_are_noticed(void **state)
{
    (void)state;
    bench_data d = make(PLAN_ALLREDUCE, RUEDA_MAX, 0, 1);
    assert_int_equal(bench_data_check(&d, 1), 0);
    buffers[0][0][5000] += 1;
    assert_int_equal(bench_data_check(&d, 1), 1);
    d = make(PLAN_ALLREDUCE, RUEDA_MAX, 0, 1);
    memmove(buffers[0][0] + 4096, buffers[0][0], 1024 * sizeof(float));
    assert_true(bench_data_check(&d, 1) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_sums_in_place_are_expected),
        cmocka_unit_test(alltoall_is_expected),
        cmocka_unit_test(collectives_with_a_root_are_expected),
        cmocka_unit_test(a_collective_that_does_nothing_is_noticed),
        cmocka_unit_test(one_wrong_element_and_misplaced_pieces_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
