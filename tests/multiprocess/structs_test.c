/* structs_test.c: callers that were built with an older or a newer rueda.h; outputs that are too small. */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A tensor of a version to come. */
typedef struct newer_tensor {
    rueda_tensor tensor;
    uint64_t news[3];
} newer_tensor;

typedef struct newer_options {
    rueda_options options;
    double news;
} newer_options;

static void use_older(int rank, int size, const void *argument)
{
    (void)argument;
    rueda_init_options init = {.struct_size = offsetof(rueda_init_options, mpi_communicator),
                               .mpi_communicator = (void *)1}; /* beyond what it says it has */
    CHECK_OK(rueda_init(&init));
    float value = (float)rank;
    const int64_t shape[] = {1};
    rueda_tensor t = RUEDA_TENSOR("older", &value, RUEDA_F32, 1, shape);
    t.struct_size = offsetof(rueda_tensor, device);
    t.device = RUEDA_CUDA; /* likewise */
    rueda_options o = RUEDA_OPTIONS(RUEDA_SUM);
    o.struct_size = offsetof(rueda_options, prescale);
    o.prescale = 100;
    o.process_set = 100;
    CHECK_OK(rueda_allreduce(&t, &o, NULL));
    CHECK(value == (float)(size * (size - 1) / 2));
    t.struct_size--;
    CHECK_STATUS(rueda_allreduce(&t, &o, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("set it to sizeof(rueda_tensor)");
    CHECK_OK(rueda_shutdown());
}

static void what_an_older_caller_lacks_has_its_default(void **state)
{
    (void)state;
    run_ranks(1, use_older, NULL);
    run_ranks(3, use_older, NULL);
}

static void use_newer(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    float values[] = {(float)rank, (float)(10 * rank)};
    const int64_t shape[] = {1};
    newer_tensor t[2] = {{.tensor = RUEDA_TENSOR("newer", &values[0], RUEDA_F32, 1, shape)},
                         {.tensor = RUEDA_TENSOR("newest", &values[1], RUEDA_F32, 1, shape)}};
    newer_options o = {.options = RUEDA_OPTIONS(RUEDA_SUM)};
    t[0].tensor.struct_size = t[1].tensor.struct_size = sizeof t[0];
    o.options.struct_size = sizeof o;
    /* a group of them lies at the caller's distances */
    CHECK_OK(rueda_grouped_allreduce(&t[0].tensor, 2, &o.options, NULL));
    CHECK(values[0] == (float)(size * (size - 1) / 2) && values[1] == 10 * values[0]);
    t[1].tensor.struct_size = sizeof(rueda_tensor);
    CHECK_STATUS(rueda_grouped_allreduce(&t[0].tensor, 2, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("struct_size of tensor 1");
    t[0].tensor.struct_size = SIZE_MAX / 2; /* nobody looks for the second one so far away */
    CHECK_STATUS(rueda_grouped_allreduce(&t[0].tensor, 2, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("struct_size is");
    t[0].tensor.struct_size = sizeof t[0];
    t[0].news[1] = 1;
    CHECK_STATUS(rueda_allreduce(&t[0].tensor, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("a field of rueda_tensor, at byte");
    o.news = 1;
    CHECK_STATUS(rueda_allreduce(&t[1].tensor, &o.options, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("a field of rueda_options, at byte");
    o.options.struct_size = SIZE_MAX;
    CHECK_STATUS(rueda_allreduce(&t[1].tensor, &o.options, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("struct_size is");
    CHECK_OK(rueda_shutdown());
}

static void a_newer_caller_may_set_nothing_unknown(void **state)
{
    (void)state;
    run_ranks(1, use_newer, NULL);
    run_ranks(2, use_newer, NULL);
}

static void take_newer(int rank, int size, const void *argument)
{
    (void)argument;
    struct {
        rueda_output output;
        uint64_t news;
    } newer = {.output = RUEDA_OUTPUT, .news = 7};
    int32_t value = rank;
    const int64_t shape[] = {1};
    rueda_tensor t = RUEDA_TENSOR("gathered", &value, RUEDA_I32, 1, shape);
    rueda_request *request;
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_allgather(&t, NULL, &request));
    CHECK_OK(rueda_wait(request, -1));
    newer.output.struct_size = 0;
    CHECK_STATUS(rueda_take_output(request, &newer.output), RUEDA_ERR_ARGUMENT);
    newer.output.struct_size = sizeof newer;
    CHECK_OK(rueda_take_output(request, &newer.output)); /* the refusal has lost nothing */
    CHECK_EQUAL(newer.output.struct_size, sizeof newer);
    CHECK_EQUAL(newer.news, 0);
    CHECK_EQUAL(newer.output.shape[0], size);
    CHECK_EQUAL(((int32_t *)newer.output.data)[size - 1], size - 1);
    rueda_output_free(&newer.output);
    CHECK_EQUAL(newer.output.struct_size, sizeof newer); /* it can be used again */
    rueda_request_free(request);
    CHECK_OK(rueda_shutdown());
}

static void an_output_knows_its_size(void **state)
{
    (void)state;
    run_ranks(2, take_newer, NULL);
}

/* Only the last rank has too little room: it gets the error, the others their results. */
static void run_short_of_room(collective call, const char *name, int rank, int size,
                              size_t result_bytes)
{
    double input[8] = {0}, output[64] = {0};
    for (int i = 0; i < 8; i++)
        input[i] = rank + 1;
    const int64_t shape[] = {size};
    rueda_tensor t = RUEDA_TENSOR(name, input, RUEDA_F64, 1, shape);
    const bool lacks = rank == size - 1;
    t.output = output;
    t.output_bytes = lacks ? result_bytes - 1 : result_bytes;
    const rueda_status status = call(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL);
    CHECK_EQUAL(status, lacks ? RUEDA_ERR_ARGUMENT : RUEDA_OK);
    if (lacks) {
        CHECK_SAYS(name);
        CHECK_SAYS("output_bytes");
    }
    for (int i = 0; i < 64; i++)
        CHECK(lacks || i >= (int)(result_bytes / sizeof *output) ? output[i] == 0 : output[i] > 0);
}

static void lack_room(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    const size_t one = sizeof(double), each = (size_t)size * one;
    run_short_of_room(rueda_allgather, "gathered", rank, size, (size_t)size * each);
    run_short_of_room(rueda_alltoall, "exchanged", rank, size, each);
    run_short_of_room(rueda_reducescatter, "scattered", rank, size, one);
    run_short_of_room(rueda_scatter, "shared", rank, size, one);
    /* as large as the input: known, and refused, before anything is submitted */
    double data[2] = {1, 1}, result[2];
    const int64_t shape[] = {2};
    rueda_tensor t = RUEDA_TENSOR("same", data, RUEDA_F64, 1, shape);
    t.output = result;
    t.output_bytes = sizeof result - 1;
    CHECK_STATUS(rueda_allreduce(&t, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_broadcast(&t, NULL, NULL), RUEDA_ERR_ARGUMENT);
    if (rank == 0) /* the others' output is not looked at */
        CHECK_STATUS(rueda_reduce(&t, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_grouped_allreduce(&t, 1, NULL, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("the result has 16 bytes, and output_bytes is 15");
    CHECK_OK(rueda_shutdown());
}

static void a_result_without_room_is_an_error_there_alone(void **state)
{
    (void)state;
    run_ranks(1, lack_room, NULL);
    run_ranks(2, lack_room, NULL);
    run_ranks(5, lack_room, NULL);
}

static void lose_results(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    double data[4] = {0};
    const int64_t shape[] = {4};
    rueda_tensor t = RUEDA_TENSOR("lost", data, RUEDA_F64, 1, shape);
    const collective calls[] = {rueda_allgather, rueda_alltoall, rueda_reducescatter, rueda_gather,
                                rueda_scatter};
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 5 && rank == 0;
         i++) { /* nothing was submitted, or the end would disagree */
        CHECK_STATUS(calls[i](&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL), RUEDA_ERR_ARGUMENT);
        CHECK_SAYS("would be lost");
    }
    CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    CHECK_OK(rueda_shutdown());
}

static void a_result_that_nobody_could_take_is_refused(void **state)
{
    (void)state;
    run_ranks(2, lose_results, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_older_caller_lacks_has_its_default),
        cmocka_unit_test(a_newer_caller_may_set_nothing_unknown),
        cmocka_unit_test(an_output_knows_its_size),
        cmocka_unit_test(a_result_without_room_is_an_error_there_alone),
        cmocka_unit_test(a_result_that_nobody_could_take_is_refused),
    };
    return cmocka_run_group_tests_name("structs", tests, NULL, NULL);
}
