/* collectives_test.c: allgather, broadcast, alltoall, reducescatter and barrier, against plain loops.
 * ctest: timeout=300 */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int rank_counts[] = {1, 2, 3, 4, 5, 8};
#define RANK_COUNTS (sizeof rank_counts / sizeof rank_counts[0])

/* Rows of each rank: even, uneven with none on some ranks, none but one, none at all, many. */
enum { SHAPES = 5 };
static size_t rows_of_rank(int shape, int rank)
{
    switch (shape) {
    case 0:
        return 3;
    case 1:
        return (size_t)(rank % 3) * 5;
    case 2:
        return rank == 0 ? 7 : 0;
    case 3:
        return 0;
    default:
        return 9001 + (size_t)rank * 1000;
    }
}

static size_t width_of(int shape)
{
    return shape == 4 ? 13 : shape + 1;
}

/* Runs the call, with or without an output of the caller's, and hands the output over. */
typedef rueda_status (*collective)(const rueda_tensor *, const rueda_options *, rueda_request **);
static rueda_output run_collective(collective call, rueda_tensor *tensor, const rueda_options *options,
                                   size_t output_bytes, bool own_output)
{
    rueda_request *request;
    rueda_output output;
    tensor->output = own_output ? memory_take(MEMORY_PRIVATE, output_bytes) : NULL;
    CHECK_OK(call(tensor, options, &request));
    CHECK_STATUS(rueda_wait(request, -1), RUEDA_OK);
    CHECK_OK(rueda_take_output(request, &output));
    CHECK_EQUAL(output.bytes, output_bytes);
    CHECK_EQUAL(output.owned, !own_output);
    CHECK(!own_output || output.data == tensor->output);
    CHECK_STATUS(rueda_take_output(request, &output), RUEDA_ERR_STATE); /* works once */
    rueda_request_free(request);
    return output;
}

static void end_collective(rueda_tensor *tensor, rueda_output *output)
{
    rueda_output_free(output);
    CHECK(output->data == NULL);
    free(tensor->output);
    free(tensor->input);
}

static void try_allgather(rueda_dtype dtype, int shape, bool own_output)
{
    const recipe r = RECIPE(dtype, RUEDA_SUM, (uint64_t)shape + 5);
    const int rank = rueda_rank(), size = rueda_size();
    const size_t rows = rows_of_rank(shape, rank), width = width_of(shape);
    size_t total = 0;
    for (int i = 0; i < size; i++)
        total += rows_of_rank(shape, i);
    char name[64];
    snprintf(name, sizeof name, "allgather.%s.%d.%d", rueda_dtype_name(dtype), shape, own_output);
    doing("%s", name);
    const int64_t extents[] = {(int64_t)rows, (int64_t)width};
    rueda_tensor tensor =
        RUEDA_TENSOR(name, rows_of(&r, rank, rows, width, MEMORY_PRIVATE), dtype, 2, extents);
    const size_t bytes = rueda_dtype_bytes(dtype);
    rueda_output output =
        run_collective(rueda_allgather, &tensor, NULL, total * width * bytes, own_output);
    CHECK_EQUAL(output.ndim, 2);
    CHECK_EQUAL(output.shape[0], total);
    CHECK_EQUAL(output.shape[1], width);
    const uint8_t *at = output.data;
    for (int i = 0; i < size; i++) {
        const size_t elements = rows_of_rank(shape, i) * width;
        recipe_check_copy(&r, i, 0, at, elements);
        at += elements * bytes;
    }
    end_collective(&tensor, &output);
}

static void try_broadcast(rueda_dtype dtype, int root, size_t count, bool in_place, memory_kind memory)
{
    const recipe r = RECIPE(dtype, RUEDA_SUM, (uint64_t)root + count);
    const int64_t extents[] = {(int64_t)count};
    char name[80];
    snprintf(name, sizeof name, "broadcast.%s.%d.%zu.%d.%d", rueda_dtype_name(dtype), root, count,
             in_place, memory);
    doing("%s", name);
    void *input = rows_of(&r, rueda_rank(), count, 1, memory);
    rueda_tensor tensor = RUEDA_TENSOR(name, input, dtype, 1, extents);
    if (!in_place)
        tensor.output = memory_take(memory, count * rueda_dtype_bytes(dtype));
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.root = root;
    CHECK_OK(rueda_broadcast(&tensor, &options, NULL));
    recipe_check_copy(&r, root, 0, in_place ? input : tensor.output, count);
    if (!in_place) {
        recipe_check_copy(&r, rueda_rank(), 0, input, count);
        memory_give(memory, tensor.output);
    }
    memory_give(memory, input);
}

/* Rows that rank `from` sends to rank `to`. */
static size_t split(int shape, int from, int to)
{
    return shape == 0 ? 4 : rows_of_rank(shape, (from * 2 + to) % 5);
}

static void try_alltoall(rueda_dtype dtype, int shape, bool own_output)
{
    const recipe r = RECIPE(dtype, RUEDA_SUM, (uint64_t)shape + 5);
    const int rank = rueda_rank(), size = rueda_size();
    const size_t width = width_of(shape), bytes = rueda_dtype_bytes(dtype);
    int64_t splits[HARNESS_MAX_RANKS];
    size_t rows = 0, total = 0;
    for (int i = 0; i < size; i++) {
        splits[i] = (int64_t)split(shape, rank, i);
        rows += (size_t)splits[i];
        total += split(shape, i, rank);
    }
    char name[64];
    snprintf(name, sizeof name, "alltoall.%s.%d.%d", rueda_dtype_name(dtype), shape, own_output);
    doing("%s", name);
    const int64_t extents[] = {(int64_t)rows, (int64_t)width};
    rueda_tensor tensor =
        RUEDA_TENSOR(name, rows_of(&r, rank, rows, width, MEMORY_PRIVATE), dtype, 2, extents);
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.splits = shape == 0 ? NULL : splits;
    rueda_output output =
        run_collective(rueda_alltoall, &tensor, &options, total * width * bytes, own_output);
    CHECK_EQUAL(output.shape[0], total);
    CHECK_EQUAL(output.received_count, size);
    const uint8_t *at = output.data;
    for (int from = 0; from < size; from++) {
        const size_t received = split(shape, from, rank);
        size_t before = 0;
        for (int to = 0; to < rank; to++)
            before += split(shape, from, to);
        CHECK_EQUAL(output.received_splits[from], received);
        recipe_check_copy(&r, from, before * width, at, received * width);
        at += received * width * bytes;
    }
    end_collective(&tensor, &output);
}

static void try_reducescatter(recipe r, size_t rows, size_t width, bool own_output)
{
    const size_t rank = (size_t)rueda_rank(), size = (size_t)rueda_size();
    const size_t mine = rows / size + (rank < rows % size);
    const size_t before = rank * (rows / size) + (rank < rows % size ? rank : rows % size);
    char name[80];
    snprintf(name, sizeof name, "reducescatter.%s.%s.%zu.%zu.%d.%g", rueda_dtype_name(r.dtype),
             rueda_op_name(r.op), rows, width, own_output, r.postscale);
    doing("%s", name);
    const int64_t extents[] = {(int64_t)rows, (int64_t)width};
    rueda_tensor tensor = RUEDA_TENSOR(
        name, rows_of(&r, (int)rank, rows, width, MEMORY_PRIVATE), r.dtype, 2, extents);
    rueda_options options = RUEDA_OPTIONS(r.op);
    options.prescale = r.prescale;
    options.postscale = r.postscale;
    rueda_output output = run_collective(rueda_reducescatter, &tensor, &options,
                                         mine * width * rueda_dtype_bytes(r.dtype), own_output);
    CHECK_EQUAL(output.shape[0], mine);
    CHECK_EQUAL(output.shape[1], width);
    recipe_check(&r, NULL, (int)size, before * width, output.data, mine * width);
    recipe_check_copy(&r, (int)rank, 0, tensor.input, rows * width);
    end_collective(&tensor, &output);
}

static void gather_everything(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++)
        for (int shape = 0; shape < SHAPES; shape++)
            try_allgather((rueda_dtype)dtype, shape, (shape + dtype) % 2);
    CHECK_OK(rueda_shutdown());
}

static void broadcast_everything(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    static const size_t counts[] = {0, 1, 17, 1001};
    CHECK_OK(rueda_init(NULL));
    for (int root = 0; root < size; root++) {
        for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++)
            for (size_t i = 0; i < 8; i++)
                try_broadcast((rueda_dtype)dtype, root, counts[i / 2], i % 2, dtype % 3);
        for (int memory = 0; memory < MEMORY_KIND_COUNT; memory++)
            try_broadcast(RUEDA_F32, root, 300001, root % 2, (memory_kind)memory);
    }
    CHECK_OK(rueda_shutdown());
}

static void exchange_everything(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++)
        for (int shape = 0; shape < (dtype % 3 == 0 ? SHAPES : SHAPES - 1); shape++)
            try_alltoall((rueda_dtype)dtype, shape, (shape + dtype) % 2);
    CHECK_OK(rueda_shutdown());
}

static void scatter_everything(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    CHECK_OK(rueda_init(NULL));
    const size_t rows[] = {0, 1, (size_t)size - 1, (size_t)size, (size_t)size + 1, 101};
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
        for (int op = 0; op < RUEDA_OP_COUNT; op++) {
            recipe r = RECIPE((rueda_dtype)dtype, (rueda_op)op, (uint64_t)dtype);
            for (size_t i = 0; i < 6 && recipe_has_meaning(&r); i++)
                try_reducescatter(r, rows[i], 1 + i, (i + (size_t)op) % 2);
        }
    }
    recipe scaled = {RUEDA_F32, RUEDA_SUM, 0.5, 4, 3};
    try_reducescatter(scaled, 1001, 7, true);
    try_reducescatter(RECIPE(RUEDA_F32, RUEDA_AVERAGE, 4), 100003, 5, false);
    CHECK_OK(rueda_shutdown());
}

/* Nobody leaves a barrier before the last has come. */
static void meet_often(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int i = 1; i <= 200; i++) {
        doing("barrier %d", i);
        atomic_fetch_add(job_counter(0), 1);
        CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
        CHECK(atomic_load(job_counter(0)) >= i * size);
    }
    CHECK_OK(rueda_shutdown());
}

static void on_all_rank_counts(job_body body)
{
    for (size_t i = 0; i < RANK_COUNTS; i++)
        run_ranks(rank_counts[i], body, NULL);
}

static void allgather_joins_differing_first_dimensions(void **state)
{
    (void)state;
    on_all_rank_counts(gather_everything);
}

static void broadcast_copies_from_every_root(void **state)
{
    (void)state;
    on_all_rank_counts(broadcast_everything);
}

static void alltoall_follows_the_splits(void **state)
{
    (void)state;
    on_all_rank_counts(exchange_everything);
}

static void reducescatter_gives_the_first_ranks_one_row_more(void **state)
{
    (void)state;
    on_all_rank_counts(scatter_everything);
}

static void barrier_holds_until_all_have_come(void **state)
{
    (void)state;
    on_all_rank_counts(meet_often);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allgather_joins_differing_first_dimensions),
        cmocka_unit_test(broadcast_copies_from_every_root),
        cmocka_unit_test(alltoall_follows_the_splits),
        cmocka_unit_test(reducescatter_gives_the_first_ranks_one_row_more),
        cmocka_unit_test(barrier_holds_until_all_have_come),
    };
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
