/* requests_test.c: requests, their outputs, defaults, shared memory and statistics.
 * ctest: timeout=120 */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static rueda_request *submit(const char *name, float *data, int64_t count, rueda_dtype dtype)
{
    const rueda_tensor t = RUEDA_TENSOR(name, data, dtype, 1, &count);
    rueda_request *request;
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request));
    return request;
}

/* The first and the third disagree, in different ways. */
static void wait_for_many(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    float data[4] = {1, 1, 1, 1};
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_wait_all(NULL, 0, -1));
    rueda_request *requests[4];
    if (rank != 0)
        meet(); /* until rank 0 has seen that it waits */
    requests[0] = submit("fine", &data[0], 1, RUEDA_F32);
    if (rank == 0) {
        CHECK_STATUS(rueda_wait_all(requests, 1, 0), RUEDA_PENDING);
        meet();
    }
    requests[1] = submit("type", &data[1], 1, rank == 0 ? RUEDA_F32 : RUEDA_I32);
    requests[2] = submit("fine too", &data[2], 1, RUEDA_F32);
    requests[3] = submit("shape", &data[3], rank == 0 ? 1 : 0, RUEDA_F32);
    CHECK_STATUS(rueda_wait_all(requests, 4, INT64_MAX), RUEDA_ERR_MISMATCH); /* no overflow */
    CHECK_SAYS("'type'"); /* the first in order */
    CHECK(data[0] == (float)size && data[2] == (float)size);
    rueda_output output = RUEDA_OUTPUT;
    CHECK_STATUS(rueda_take_output(requests[1], &output), RUEDA_ERR_STATE);
    for (int i = 0; i < 4; i++) {
        CHECK(rueda_poll(requests[i]));
        CHECK_STATUS(rueda_wait(requests[i], 0), i % 2 ? RUEDA_ERR_MISMATCH : RUEDA_OK);
        rueda_request_free(requests[i]);
    }
    CHECK_OK(rueda_shutdown());
}

static void wait_all_gives_the_first_error_in_order(void **state)
{
    (void)state;
    run_ranks(2, wait_for_many, NULL);
    run_ranks(3, wait_for_many, NULL);
}

static void take_early(int rank, int size, const void *argument)
{
    (void)argument;
    float value = (float)rank;
    const int64_t shape[] = {1};
    rueda_tensor t = RUEDA_TENSOR("gathered", &value, RUEDA_F32, 1, shape);
    rueda_request *request = NULL;
    rueda_output output = RUEDA_OUTPUT;
    CHECK_OK(rueda_init(NULL));
    if (rank == 0)
        CHECK_OK(rueda_allgather(&t, NULL, &request));
    if (rank == 0 && size > 1) { /* alone it may have ended already */
        CHECK_STATUS(rueda_take_output(request, &output), RUEDA_ERR_STATE);
        CHECK_SAYS("has not ended");
        CHECK(output.data == NULL);
    }
    meet();
    if (rank != 0)
        CHECK_OK(rueda_allgather(&t, NULL, &request));
    CHECK_OK(rueda_wait(request, -1));
    CHECK_OK(rueda_take_output(request, &output));
    rueda_request_free(request); /* the output is ours now */
    for (int i = 0; i < size; i++)
        CHECK(((float *)output.data)[i] == (float)i);
    rueda_output_free(&output);
    rueda_output_free(&output); /* twice is allowed */
    /* an output that nobody takes goes with its request */
    CHECK_OK(rueda_allgather(&t, NULL, &request));
    CHECK_OK(rueda_wait(request, -1));
    rueda_request_free(request);
    CHECK_OK(run_and_drop(rueda_allgather, &t, NULL));
    CHECK_OK(rueda_shutdown());
}

static void an_output_is_handed_over_once_it_is_there(void **state)
{
    (void)state;
    run_ranks(1, take_early, NULL);
    run_ranks(3, take_early, NULL);
}

/* No name, no options, no dimensions. */
static void use_defaults(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 10; i++) {
        double value = 2 * rank + i;
        const rueda_tensor scalar = RUEDA_TENSOR(NULL, &value, RUEDA_F64, 0, NULL);
        CHECK_OK(rueda_allreduce(&scalar, NULL, NULL));
        CHECK(value == size - 1 + i); /* the average of 2r is size − 1 */
        value = rank;
        CHECK_OK(rueda_broadcast(&scalar, NULL, NULL));
        CHECK(value == 0);
        value = rank;
        rueda_request *request;
        rueda_output output = RUEDA_OUTPUT;
        CHECK_OK(rueda_allgather(&scalar, NULL, &request));
        CHECK_OK(rueda_wait(request, -1));
        CHECK_OK(rueda_take_output(request, &output));
        CHECK(output.ndim == 1 && output.shape[0] == size);
        for (int r = 0; r < size; r++)
            CHECK(((double *)output.data)[r] == r);
        rueda_output_free(&output);
        rueda_request_free(request);
    }
    /* rows without elements are still rows */
    const int64_t flat[] = {2 * size + 1, 0};
    const rueda_tensor empty = RUEDA_TENSOR("empty", NULL, RUEDA_F32, 2, flat);
    rueda_request *request;
    rueda_output output = RUEDA_OUTPUT;
    CHECK_OK(rueda_reducescatter(&empty, NULL, &request));
    CHECK_OK(rueda_wait(request, -1));
    CHECK_OK(rueda_take_output(request, &output));
    CHECK_EQUAL(output.shape[0], size == 1 ? 3 : 2 + (rank == 0));
    rueda_output_free(&output);
    rueda_request_free(request);
    /* the output may be the input, said explicitly */
    float data[] = {1, 2};
    const int64_t shape[] = {2};
    rueda_tensor t = RUEDA_TENSOR("same", data, RUEDA_F32, 1, shape);
    t.output = data;
    t.output_bytes = sizeof data;
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
    CHECK(data[0] == (float)size && data[1] == (float)(2 * size));
    CHECK_OK(rueda_shutdown());
}

static void names_options_and_dimensions_have_defaults(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run_ranks(ranks, use_defaults, NULL);
}

static void use_shared_memory(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    uint8_t *first = rueda_alloc(100), *rest = NULL;
    CHECK(first != NULL && (uintptr_t)first % 64 == 0);
    for (int i = 0; i < 100; i++)
        CHECK(first[i] == 0);
    CHECK(rueda_alloc(0) != NULL);
    CHECK(rueda_alloc(SIZE_MAX) == NULL);
    CHECK_SAYS("RUEDA_HEAP_MAX");
    for (void *next; (next = rueda_alloc(100000)) != NULL; rest = next)
        memset(next, 1, 100000);
    CHECK(rest != NULL);
    rueda_free(rest);
    rest = rueda_alloc(100000); /* it is there again, and clean */
    CHECK(rest != NULL);
    for (int i = 0; i < 100000; i++)
        CHECK(rest[i] == 0);
    /* a tensor in the middle of a block */
    float *middle = (float *)(void *)(rest + 400);
    middle[0] = 1;
    rueda_request *request = submit("middle", middle, 1000, RUEDA_F32);
    CHECK_OK(rueda_wait(request, -1));
    CHECK(middle[0] == (float)size && middle[-1] == 0 && middle[1000] == 0);
    rueda_request_free(request);
    CHECK_OK(rueda_shutdown()); /* what is in use stays so, and counts */
    CHECK_OK(rueda_init(NULL));
    CHECK(rueda_alloc(1000000) == NULL);
    CHECK_SAYS("RUEDA_HEAP_MAX");
    rueda_free(first);
    CHECK((first = rueda_alloc(100)) != NULL);
    CHECK_OK(rueda_shutdown());
}

static void shared_memory_is_clean_and_limited(void **state)
{
    (void)state;
    static const char *const little[] = {"RUEDA_HEAP_MAX=2M", NULL};
    run_job(&(job){.ranks = 1, .body = use_shared_memory, .environment = little});
    run_job(&(job){.ranks = 3, .body = use_shared_memory, .environment = little});
}

static void count_things(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    rueda_stats before = {.struct_size = sizeof before}, after = before;
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_get_stats(&before));
    for (int i = 0; i < 5; i++) {
        task t = {.recipe = RECIPE(RUEDA_F32, RUEDA_SUM, 1), .count = 1000, .name = "counted"};
        task_run(&t);
    }
    CHECK_OK(rueda_get_stats(&after));
    CHECK_EQUAL(after.operations - before.operations, 5);
    CHECK_EQUAL(after.launches - before.launches, 5);
    CHECK_EQUAL(after.bytes - before.bytes, 5 * 1000 * sizeof(float));
    CHECK_EQUAL(after.announcements - before.announcements, 1);
    CHECK(after.rounds - before.rounds >= 5);
    CHECK(size == 1 || after.control_messages - before.control_messages >= 5);
    /* an older caller's structure ends earlier */
    struct {
        rueda_stats stats;
    } old;
    memset(&old, 0x77, sizeof old);
    old.stats.struct_size = offsetof(rueda_stats, launches);
    CHECK_OK(rueda_get_stats(&old.stats));
    CHECK_EQUAL(old.stats.operations, after.operations);
    CHECK_EQUAL(old.stats.launches, INT64_C(0x7777777777777777));
    CHECK_OK(rueda_shutdown());
}

static void statistics_count_what_happened(void **state)
{
    (void)state;
    run_ranks(1, count_things, NULL);
    run_ranks(3, count_things, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_all_gives_the_first_error_in_order),
        cmocka_unit_test(an_output_is_handed_over_once_it_is_there),
        cmocka_unit_test(names_options_and_dimensions_have_defaults),
        cmocka_unit_test(shared_memory_is_clean_and_limited),
        cmocka_unit_test(statistics_count_what_happened),
    };
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
