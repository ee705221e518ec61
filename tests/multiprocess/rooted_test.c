/* rooted_test.c: reduce, gather and scatter, to and from every root, against plain loops.
 * ctest: timeout=300 */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int rank_counts[] = {1, 2, 3, 4, 5, 8};
#define RANK_COUNTS (sizeof rank_counts / sizeof rank_counts[0])

static void on_all_rank_counts(job_body body)
{
    for (size_t i = 0; i < RANK_COUNTS; i++)
        run_ranks(rank_counts[i], body, NULL);
}

static void try_task(task t)
{
    task_name(&t);
    task_run(&t);
}

/* ---- Reduce ---------------------------------------------------------------------------------- */

/* Sizes of the form for latency, of the one for bandwidth, odd ones, none. */
static const size_t counts[] = {0, 1, 17, 1001, 30011};
#define COUNTS (sizeof counts / sizeof counts[0])

static void reduce_everything(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
        for (int op = 0; op < RUEDA_OP_COUNT; op++) {
            recipe r = RECIPE((rueda_dtype)dtype, (rueda_op)op, (uint64_t)dtype);
            for (size_t i = 0; i < COUNTS && recipe_has_meaning(&r); i++)
                try_task((task){.kind = TASK_REDUCE,
                                .recipe = r,
                                .count = counts[i],
                                .root = (dtype + op + (int)i) % size,
                                .in_place = (i + (size_t)op) % 2,
                                .memory = (dtype + op) % MEMORY_KIND_COUNT});
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void reduce_to_every_root(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int root = 0; root < size; root++) {
        for (size_t i = 0; i < 2 * COUNTS; i++) {
            task t = {.kind = TASK_REDUCE,
                      .recipe = RECIPE(RUEDA_F32, RUEDA_SUM, i),
                      .count = counts[i / 2],
                      .root = root,
                      .in_place = i % 2,
                      .memory = i % MEMORY_KIND_COUNT};
            try_task(t);
            t.recipe = (recipe){RUEDA_F64, RUEDA_AVERAGE, 0.5, 4, 3};
            try_task(t);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void reduce_combines_every_type_by_every_operation(void **state)
{
    (void)state;
    on_all_rank_counts(reduce_everything);
}

static void reduce_goes_to_every_root(void **state)
{
    (void)state;
    on_all_rank_counts(reduce_to_every_root);
}

/* What cannot be rounded away: the order shows. */
static float awkward(int rank, size_t i)
{
    return 1.0f / (float)(3 + 7 * rank + (int)(i % 11)) * (rank % 2 == 0 ? 1e4f : -1.0f);
}

/* Where the order is fixed, it is that of an allreduce, whatever the root. */
static void compare_with_allreduce(int rank, int size, const void *argument)
{
    (void)argument;
    enum { MOST = 20011 };
    static float all[MOST], one[MOST];
    CHECK_OK(rueda_init(NULL));
    for (int root = 0; root < size; root++) {
        for (size_t n = 1; n <= MOST; n = n * 20 + 11) {
            const int64_t shape[] = {(int64_t)n};
            const rueda_tensor a = RUEDA_TENSOR("all", all, RUEDA_F32, 1, shape);
            const rueda_tensor b = RUEDA_TENSOR("one", one, RUEDA_F32, 1, shape);
            rueda_options o = RUEDA_OPTIONS(RUEDA_SUM);
            o.root = root;
            for (size_t i = 0; i < n; i++)
                all[i] = one[i] = awkward(rank, i);
            CHECK_OK(rueda_allreduce(&a, &o, NULL));
            CHECK_OK(rueda_reduce(&b, &o, NULL));
            doing("compare %zu at root %d", n, root);
            CHECK(rank != root || memcmp(all, one, n * sizeof *all) == 0);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void deterministic_reduce_has_the_bits_of_allreduce(void **state)
{
    (void)state;
    static const char *const environment[] = {"RUEDA_DETERMINISTIC=1", NULL};
    for (size_t i = 1; i < RANK_COUNTS; i++)
        run_job(&(job){
            .ranks = rank_counts[i], .body = compare_with_allreduce, .environment = environment});
}

/* ---- Gather and scatter ---------------------------------------------------------------------- */

static void move_everything(int rank, int size, const void *argument)
{
    (void)rank;
    const task_kind kind = *(const task_kind *)argument;
    CHECK_OK(rueda_init(NULL));
    for (int root = 0; root < size; root++) {
        for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
            for (size_t rows = 0; rows < ROWS_COUNT; rows++)
                try_task((task){.kind = kind,
                                .recipe = RECIPE((rueda_dtype)dtype, RUEDA_SUM, rows),
                                .count = rows,
                                .width = rows + 1,
                                .root = root,
                                .in_place = (rows + (size_t)dtype) % 2,
                                .memory = (dtype + root) % MEMORY_KIND_COUNT});
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void move_on_all_rank_counts(task_kind kind)
{
    for (size_t i = 0; i < RANK_COUNTS; i++)
        run_ranks(rank_counts[i], move_everything, &kind);
}

static void gather_joins_differing_first_dimensions(void **state)
{
    (void)state;
    move_on_all_rank_counts(TASK_GATHER);
}

static void scatter_follows_the_splits(void **state)
{
    (void)state;
    move_on_all_rank_counts(TASK_SCATTER);
}

static void gather_scalars(int rank, int size, const void *argument)
{
    (void)argument;
    int32_t value = 10 * rank, all[HARNESS_MAX_RANKS] = {0};
    CHECK_OK(rueda_init(NULL));
    rueda_tensor t = RUEDA_TENSOR("scalar", &value, RUEDA_I32, 0, NULL);
    rueda_options o = RUEDA_OPTIONS(RUEDA_SUM);
    o.root = size - 1;
    t.output = rank == size - 1 ? all : NULL;
    t.output_bytes = (size_t)size * sizeof value;
    CHECK_OK(rueda_gather(&t, &o, NULL)); /* nobody but the root could lose anything */
    for (int i = 0; i < size; i++)
        CHECK_EQUAL(all[i], rank == size - 1 ? 10 * i : 0);
    CHECK_OK(rueda_shutdown());
}

static void gather_takes_scalars_and_needs_an_output_at_the_root_alone(void **state)
{
    (void)state;
    run_ranks(1, gather_scalars, NULL);
    run_ranks(4, gather_scalars, NULL);
}

/* The same name again and again with other roots, rows and splits: what is known is not taken for granted. */
static void change_often(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int turn = 0; turn < 60; turn++) {
        for (int kind = TASK_REDUCE; kind <= TASK_SCATTER; kind++) {
            task t = {.kind = (task_kind)kind,
                      .recipe = RECIPE(RUEDA_I32, RUEDA_SUM, (uint64_t)turn),
                      .count = task_counts_rows((task_kind)kind) ? (size_t)(turn / 3 % ROWS_MANY)
                                                                 : 5u * (size_t)(turn / 4),
                      .width = 2,
                      .root = turn / 2 % size,
                      .in_place = turn % 2};
            snprintf(t.name, sizeof t.name, "changing.%d", kind);
            task_run(&t);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void roots_and_rows_may_change_under_a_name(void **state)
{
    (void)state;
    run_ranks(2, change_often, NULL);
    run_ranks(5, change_often, NULL);
    static const char *const none[] = {"RUEDA_CACHE_CAPACITY=0", NULL};
    run_job(&(job){.ranks = 3, .body = change_often, .environment = none});
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* A rank that does not come is named, and the others go on with the rest. */
static void leave_out(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    float data[4] = {1, 2, 3, 4};
    const int64_t shape[] = {4};
    const rueda_tensor t = RUEDA_TENSOR("absent", data, RUEDA_F32, 1, shape);
    rueda_request *request = NULL;
    CHECK_OK(rueda_init(NULL));
    if (rank != 1) {
        CHECK_OK(rueda_reduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request));
        CHECK_STATUS(rueda_wait(request, 20), RUEDA_PENDING);
    }
    CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL)); /* others are not held up */
    if (rank == 1)
        CHECK_OK(rueda_reduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request));
    CHECK_OK(rueda_wait(request, -1));
    CHECK(data[3] == (rank == 0 ? 12.0f : 4.0f));
    rueda_request_free(request);
    CHECK_OK(rueda_shutdown());
}

static void a_late_rank_is_waited_for(void **state)
{
    (void)state;
    run_ranks(3, leave_out, NULL);
}

/* Rank 0 is not in the set: it can be no root there, and may not call. */
static void use_set(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    const int32_t members[] = {1, 2};
    const int32_t *const lists[] = {members};
    const rueda_init_options options = {.struct_size = sizeof options,
                                        .set_count = 1,
                                        .set_ranks = lists,
                                        .set_sizes = &(int32_t){2}};
    CHECK_OK(rueda_init(&options));
    static const collective calls[] = {rueda_reduce, rueda_gather, rueda_scatter};
    float data[4] = {1, 2, 3, 4}, result[8];
    const int64_t shape[] = {4};
    rueda_tensor t = RUEDA_TENSOR("t", data, RUEDA_F32, 1, shape);
    rueda_options o = RUEDA_OPTIONS(RUEDA_SUM);
    t.output = result;
    t.output_bytes = sizeof result;
    o.process_set = 1;
    for (int i = 0; i < 3; i++) {
        o.root = 0;
        CHECK_STATUS(calls[i](&t, &o, NULL), rank == 0 ? RUEDA_ERR_STATE : RUEDA_ERR_ARGUMENT);
        o.root = 2; /* the second of the set */
        if (rank > 0)
            CHECK_OK(calls[i](&t, &o, NULL));
        CHECK(rank != 2 || i != 0 || result[3] == 8);
        CHECK(rank != 2 || i != 1 || (result[3] == 4 && result[4] == 1));
        CHECK(rank == 0 || i != 2 || result[1] == (rank == 1 ? 2.0f : 4.0f));
    }
    CHECK_OK(rueda_shutdown());
}

static void a_root_is_a_global_rank_of_the_set(void **state)
{
    (void)state;
    run_ranks(3, use_set, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reduce_combines_every_type_by_every_operation),
        cmocka_unit_test(reduce_goes_to_every_root),
        cmocka_unit_test(deterministic_reduce_has_the_bits_of_allreduce),
        cmocka_unit_test(gather_joins_differing_first_dimensions),
        cmocka_unit_test(scatter_follows_the_splits),
        cmocka_unit_test(gather_takes_scalars_and_needs_an_output_at_the_root_alone),
        cmocka_unit_test(roots_and_rows_may_change_under_a_name),
        cmocka_unit_test(a_late_rank_is_waited_for),
        cmocka_unit_test(a_root_is_a_global_rank_of_the_set),
    };
    return cmocka_run_group_tests_name("rooted", tests, NULL, NULL);
}
