/* join_test.c: ranks with different amounts of data.
 * ctest: threads timeout=120 */
#include "tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Rank r has r + `extra` batches; the others' sums go on without it. */
static void train_unevenly(int rank, int size, const void *argument)
{
    const int extra = *(const int *)argument;
    CHECK_OK(rueda_init(NULL));
    CHECK_EQUAL(rueda_last_joined(), -1);
    for (int epoch = 0; epoch < 3; epoch++) {
        for (int batch = 0; batch < rank + extra; batch++) {
            double values[3] = {rank + 1, rank + 1, rank + 1};
            float largest = (float)rank, product = 2;
            const int64_t shape[] = {3}, one[] = {1};
            int first =
                batch - extra + 1 > 0 ? batch - extra + 1 : 0; /* ranks before it have joined */
            double sum = 0, factor = 1;
            doing("epoch %d, batch %d", epoch, batch);
            for (int r = first; r < size; r++)
                sum += r + 1, factor *= 2;
            const rueda_tensor a = RUEDA_TENSOR("sum", values, RUEDA_F64, 1, shape);
            CHECK_OK(rueda_allreduce(&a, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
            CHECK(values[0] == sum && values[2] == sum);
            const rueda_tensor b = RUEDA_TENSOR("average", values, RUEDA_F64, 1, shape);
            values[0] = values[1] = values[2] = rank + 1;
            CHECK_OK(rueda_allreduce(&b, NULL, NULL));
            CHECK(values[1] > sum / size * 0.999999 && values[1] < sum / size * 1.000001);
            const rueda_tensor c = RUEDA_TENSOR("max", &largest, RUEDA_F32, 1, one);
            CHECK_OK(rueda_allreduce(&c, &RUEDA_OPTIONS(RUEDA_MAX), NULL));
            CHECK(largest == (float)(size - 1));
            const rueda_tensor d = RUEDA_TENSOR("product", &product, RUEDA_F32, 1, one);
            CHECK_OK(rueda_allreduce(&d, &RUEDA_OPTIONS(RUEDA_PRODUCT), NULL));
            CHECK(product == (float)factor);
        }
        doing("epoch %d, join", epoch);
        CHECK_OK(rueda_join(NULL));
        CHECK_EQUAL(rueda_last_joined(), size - 1);
    }
    CHECK_OK(rueda_shutdown());
}

static void joined_ranks_contribute_neutral_values(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++) {
        run_ranks(ranks, train_unevenly, &(int){0});
        run_ranks(ranks, train_unevenly, &(int){2});
    }
}

/* gradient ← Adasum of all ranks' multiples of {1, 2, 3}, which comes to `mean` of them. */
static void combine_multiples(double factor, double mean)
{
    double gradient[] = {1 * factor, 2 * factor, 3 * factor};
    const int64_t shape[] = {3};
    const rueda_tensor t = RUEDA_TENSOR("gradient", gradient, RUEDA_F64, 1, shape);
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_ADASUM), NULL));
    for (int i = 0; i < 3; i++)
        CHECK(fabs(gradient[i] - mean * (i + 1)) < 1e-14);
}

/* Adasum with ranks that have joined: zeros, which do not count. Of three ranks and more the last three
 * train on, with 3, 1 and 2 times the same: the mean is 2. Otherwise one does, and its gradient passes. */
static void adasum_after_join(int rank, int size, const void *argument)
{
    (void)argument;
    const int training = size < 3 ? 1 : 3, first = size - training;
    const double worth = training == 1 ? 1 : 3 * 2 * 2 / (3 * 3 + 1 * 1 + 2 * 2.0);
    rueda_stats stats = {.struct_size = sizeof stats};
    CHECK_OK(rueda_init(NULL));
    for (int epoch = 0; epoch < 2; epoch++) {
        combine_multiples(1, 1);
        for (int batch = 0; batch < (rank >= first ? 3 : 0); batch++) {
            combine_multiples(training == 1 ? 2 : (rank - first + 2) % 3 + 1, 2);
            CHECK_OK(rueda_get_stats(&stats));
            CHECK(fabs(stats.workers_worth - worth) < 1e-14);
        }
        CHECK_OK(rueda_join(NULL));
    }
    CHECK_OK(rueda_shutdown());
}

static void joined_ranks_have_no_weight_in_adasum(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 6; ranks++)
        run_ranks(ranks, adasum_after_join, NULL);
}

/* Peers cannot reach the neutral values of a joined rank where the tensors themselves lie. */
static void join_with_shared_memory(int rank, int size, const void *argument)
{
    (void)argument;
    const int64_t shape[] = {30011};
    CHECK_OK(rueda_init(NULL));
    float *data = rueda_alloc((size_t)shape[0] * sizeof *data);
    const rueda_tensor t = RUEDA_TENSOR("shared", data, RUEDA_F32, 1, shape);
    for (int epoch = 0; epoch < 3; epoch++) {
        for (int batch = 0; batch <= rank; batch++) {
            doing("epoch %d, batch %d", epoch, batch);
            for (int64_t i = 0; i < shape[0]; i++)
                data[i] = 1;
            CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
            for (int64_t i = 0; i < shape[0]; i++)
                CHECK(data[i] == (float)(size - batch));
        }
        CHECK_OK(rueda_join(NULL));
    }
    CHECK_OK(rueda_shutdown());
}

static void joined_ranks_take_part_in_shared_memory(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run_ranks(ranks, join_with_shared_memory, NULL);
}

/* Other operations fail on every rank that waits for them, and the job goes on. */
static void use_other_operations(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    rueda_request *join = NULL;
    if (rank == 0) {
        CHECK_OK(rueda_join(&join));
        CHECK_STATUS(rueda_wait(join, 1), RUEDA_PENDING);
        rueda_request *twice;
        CHECK_STATUS(rueda_join(&twice), RUEDA_ERR_DUPLICATE);
        CHECK_SAYS("has joined already: wait until that join has ended");
    }
    meet();
    if (rank != 0) {
        float data[4] = {1, 2, 3, 4};
        const int64_t shape[] = {4};
        const rueda_tensor t = RUEDA_TENSOR("t", data, RUEDA_F32, 1, shape);
        CHECK_STATUS(run_and_drop(rueda_allgather, &t, NULL), RUEDA_ERR_JOINED);
        CHECK_SAYS("rank 0 has joined");
        CHECK_SAYS("submit it again when join has returned");
        CHECK_STATUS(rueda_broadcast(&t, NULL, NULL), RUEDA_ERR_JOINED);
        CHECK_STATUS(run_and_drop(rueda_reducescatter, &t, NULL), RUEDA_ERR_JOINED);
        CHECK_STATUS(rueda_reduce(&t, NULL, NULL), RUEDA_ERR_JOINED);
        CHECK_STATUS(run_and_drop(rueda_gather, &t, NULL), RUEDA_ERR_JOINED);
        CHECK_STATUS(run_and_drop(rueda_scatter, &t, NULL), RUEDA_ERR_JOINED);
        CHECK_STATUS(rueda_barrier(RUEDA_GLOBAL_SET, NULL), RUEDA_ERR_JOINED);
        const rueda_tensor unnamed = RUEDA_TENSOR(NULL, data, RUEDA_F32, 1, shape);
        CHECK_STATUS(run_and_drop(rueda_allgather, &unnamed, NULL), RUEDA_ERR_JOINED);
        CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
        CHECK(data[3] == 4 * 2);
        CHECK_OK(rueda_join(&join));
    }
    CHECK_OK(rueda_wait(join, -1));
    rueda_request_free(join);
    CHECK(rueda_last_joined() != 0);
    task after = {
        .kind = TASK_ALLGATHER, .recipe = RECIPE(RUEDA_F32, RUEDA_SUM, 1), .count = 1, .name = "t"};
    task_run(&after);
    doing("unnamed operations after the join");
    CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    const rueda_tensor unnamed = RUEDA_TENSOR(NULL, &(float){1}, RUEDA_F32, 0, NULL);
    CHECK_OK(run_and_drop(rueda_allgather, &unnamed, NULL));
    CHECK_OK(rueda_shutdown());
}

static void other_operations_fail_while_a_rank_has_joined(void **state)
{
    (void)state;
    run_ranks(3, use_other_operations, NULL);
}

/* Nobody has data: joins end at once, again and again; the last one is agreed. */
static void join_in_a_row(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 50; i++) {
        doing("join %d", i);
        CHECK_OK(rueda_join(NULL));
        double last = rueda_last_joined();
        CHECK(last >= 0 && last < size);
        const double mine = last;
        const int64_t shape[] = {1};
        const rueda_tensor t = RUEDA_TENSOR("last", &last, RUEDA_F64, 1, shape);
        CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_MAX), NULL));
        CHECK(last == mine);
    }
    CHECK_OK(rueda_shutdown());
}

static void joins_follow_each_other(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run_ranks(ranks, join_in_a_row, NULL);
}

/* A rank describes a tensor anew (other memory) and joins at once, while the others use its bit. */
static void join_right_after_submitting(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 20; i++) {
        task tasks[4];
        rueda_request *join;
        doing("turn %d", i);
        for (int k = 0; k < 4; k++) {
            tasks[k] = (task){.kind = k < 3 ? TASK_ALLREDUCE : TASK_BROADCAST,
                              .recipe = RECIPE(RUEDA_F32, RUEDA_SUM, (uint64_t)i),
                              .count = 500,
                              .memory = rank == i % size && i % 2 ? MEMORY_PRIVATE : MEMORY_SHARED};
            snprintf(tasks[k].name, RUEDA_MAX_NAME, "tensor.%d", k);
            task_submit(&tasks[k]);
        }
        CHECK_OK(rueda_join(&join));
        for (int k = 0; k < 4; k++)
            task_finish(&tasks[k]);
        CHECK_OK(rueda_wait(join, -1));
        rueda_request_free(join);
    }
    CHECK_OK(rueda_shutdown());
}

static void a_rank_may_join_with_requests_pending(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run_ranks(ranks, join_right_after_submitting, NULL);
}

static void reduce_scaled(rueda_op op, double prescale, double expected)
{
    double value = 3;
    const rueda_tensor t = RUEDA_TENSOR("scaled", &value, RUEDA_F64, 0, NULL);
    rueda_options options = RUEDA_OPTIONS(op);
    options.prescale = prescale;
    CHECK_OK(rueda_allreduce(&t, &options, NULL));
    CHECK(value == expected);
}

/* Factors are for data; values that change nothing are not to be changed. */
static void scale_after_join(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    if (rank == 1) {
        reduce_scaled(RUEDA_PRODUCT, 2, 6);
        reduce_scaled(RUEDA_MIN, -1, -3);
        reduce_scaled(RUEDA_MAX, -1, -3);
        reduce_scaled(RUEDA_MIN, 0, 0);
        reduce_scaled(RUEDA_SUM, 0.5, 1.5);
    }
    CHECK_OK(rueda_join(NULL));
    CHECK_OK(rueda_shutdown());
}

static void neutral_values_are_not_scaled(void **state)
{
    (void)state;
    run_ranks(2, scale_after_join, NULL);
}

/* Rank 0's join ends with the round that decides rank 1's last tensor; then it makes no call. */
static void compute_after_join(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    static float data[4 << 20];
    const int64_t shape[] = {4 << 20};
    CHECK_OK(rueda_init(NULL));
    if (rank == 0) {
        rueda_request *join;
        CHECK_OK(rueda_join(&join));
        CHECK_STATUS(rueda_wait(join, 1), RUEDA_PENDING);
        meet();
        CHECK_OK(rueda_wait(join, -1));
        rueda_request_free(join);
    } else {
        const rueda_tensor t = RUEDA_TENSOR("last", data, RUEDA_F32, 1, shape);
        rueda_request *requests[2];
        meet();
        CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &requests[0]));
        CHECK_OK(rueda_join(&requests[1]));
        CHECK_OK(rueda_wait_all(requests, 2, -1));
        rueda_request_free(requests[0]);
        rueda_request_free(requests[1]);
    }
    doing("nothing with rueda");
    meet();
    CHECK_OK(rueda_shutdown());
}

static void a_rank_goes_on_helping_after_its_join(void **state)
{
    (void)state;
    run_ranks(2, compute_after_join, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_ranks_contribute_neutral_values),
        cmocka_unit_test(joined_ranks_have_no_weight_in_adasum),
        cmocka_unit_test(joined_ranks_take_part_in_shared_memory),
        cmocka_unit_test(other_operations_fail_while_a_rank_has_joined),
        cmocka_unit_test(joins_follow_each_other),
        cmocka_unit_test(a_rank_may_join_with_requests_pending),
        cmocka_unit_test(neutral_values_are_not_scaled),
        cmocka_unit_test(a_rank_goes_on_helping_after_its_join),
    };
    return cmocka_run_group_tests_name("join", tests, NULL, NULL);
}
