/* collectives_test.c: allgather, broadcast, alltoall, reducescatter and barrier, against plain loops
 * (rooted_test.c has those with one root); and every collective by every algorithm.
 * ctest: not_asan timeout=300 */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include <cmocka.h>

static const int rank_counts[] = {1, 2, 3, 4, 5, 8};
#define RANK_COUNTS (sizeof rank_counts / sizeof rank_counts[0])

static void try_task(task t)
{
    task_name(&t);
    task_run(&t);
}

static void gather_everything(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
        for (size_t rows = 0; rows < ROWS_COUNT; rows++) {
            try_task((task){.kind = TASK_ALLGATHER,
                            .recipe = RECIPE((rueda_dtype)dtype, RUEDA_SUM, rows),
                            .count = rows,
                            .width = rows + 1,
                            .in_place = (rows + (size_t)dtype) % 2,
                            .memory = dtype % 3});
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void broadcast_everything(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    static const size_t counts[] = {0, 1, 17, 1001, 100003};
    CHECK_OK(rueda_init(NULL));
    for (int root = 0; root < size; root++) {
        for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
            const recipe r = RECIPE((rueda_dtype)dtype, RUEDA_SUM, (uint64_t)root);
            for (size_t i = 0; i < (dtype == RUEDA_F32 ? 10 : 8); i++)
                try_task((task){.kind = TASK_BROADCAST,
                                .recipe = r,
                                .count = counts[i / 2],
                                .root = root,
                                .in_place = i % 2,
                                .memory = (dtype + root) % 3});
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void exchange_everything(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
        for (size_t rows = 0; rows < (dtype % 3 == 0 ? ROWS_COUNT : ROWS_MANY); rows++)
            try_task((task){.kind = TASK_ALLTOALL,
                            .recipe = RECIPE((rueda_dtype)dtype, RUEDA_SUM, rows),
                            .count = rows,
                            .width = rows + 1,
                            .in_place = (rows + (size_t)dtype) % 2,
                            .memory = dtype % 3});
    }
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
                try_task((task){.kind = TASK_REDUCESCATTER,
                                .recipe = r,
                                .count = rows[i],
                                .width = i + 1,
                                .in_place = (i + (size_t)op) % 2,
                                .memory = dtype % 3});
        }
    }
    task scaled = {.kind = TASK_REDUCESCATTER,
                   .recipe = {RUEDA_F32, RUEDA_SUM, 0.5, 4, 3},
                   .count = 1001,
                   .width = 7};
    try_task(scaled);
    scaled.recipe.op = RUEDA_AVERAGE;
    scaled.count = 30011;
    try_task(scaled);
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

/* A small and a large tensor of every kind, private and shared; algorithms that do not serve a
 * collective give way to the table's choice. */
static void try_every_kind(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    static const rueda_dtype dtypes[] = {RUEDA_F32, RUEDA_BF16, RUEDA_I64, RUEDA_U8};
    CHECK_OK(rueda_init(NULL));
    for (int kind = 0; kind < TASK_KIND_COUNT; kind++) {
        const bool by_rows = task_counts_rows((task_kind)kind);
        for (size_t i = 0; i < 24; i++) {
            static const size_t counts[] = {1, 17, 1001, 60013};
            static const rueda_op ops[] = {RUEDA_SUM, RUEDA_AVERAGE, RUEDA_MAX};
            task t = {.kind = (task_kind)kind,
                      .recipe = RECIPE(dtypes[i / 4 % 4], ops[i % 3], i),
                      .count = by_rows ? i % ROWS_COUNT : counts[i % 4],
                      .width = by_rows ? 3 : 1,
                      .root = (int)i % size,
                      .in_place = i / 2 % 2,
                      .memory = i / 8};
            const bool scales = t.kind == TASK_ALLREDUCE || t.kind == TASK_REDUCE;
            t.recipe.prescale = i % 5 == 4 && scales ? 0.5 : 1.0;
            try_task(t);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void every_algorithm_gives_the_same_results(void **state)
{
    (void)state;
    static const char *const algorithms[] = {
        "RUEDA_ALGORITHM=direct",   "RUEDA_ALGORITHM=ring",   "RUEDA_ALGORITHM=doubling",
        "RUEDA_ALGORITHM=halving",  "RUEDA_ALGORITHM=tree",   "RUEDA_ALGORITHM=bruck",
        "RUEDA_ALGORITHM=pairwise", "RUEDA_ALGORITHM=adasum", "RUEDA_ALGORITHM=hierarchical"};
    static const int ranks[] = {2, 3, 4, 5, 8};
    /* the first works in shared memory alone */
    for (size_t i = harness_shares_memory() ? 0 : 1; i < sizeof algorithms / sizeof algorithms[0];
         i++) {
        const char *const environment[] = {algorithms[i], NULL};
        print_message("%s\n", algorithms[i]);
        for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++)
            run_job(&(job){.ranks = ranks[r], .body = try_every_kind, .environment = environment});
    }
}

static void deterministic_mode_is_right_too(void **state)
{
    (void)state;
    static const char *const environment[] = {"RUEDA_DETERMINISTIC=1", NULL};
    for (int ranks = 2; ranks <= 5; ranks++)
        run_job(&(job){.ranks = ranks, .body = try_every_kind, .environment = environment});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allgather_joins_differing_first_dimensions),
        cmocka_unit_test(broadcast_copies_from_every_root),
        cmocka_unit_test(alltoall_follows_the_splits),
        cmocka_unit_test(reducescatter_gives_the_first_ranks_one_row_more),
        cmocka_unit_test(barrier_holds_until_all_have_come),
        cmocka_unit_test(every_algorithm_gives_the_same_results),
        cmocka_unit_test(deterministic_mode_is_right_too),
    };
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
