/* allreduce_test.c: every type, operation, size and kind of memory, against a plain loop.
 * ctest: timeout=300 */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const int rank_counts[] = {1, 2, 3, 4, 5, 8};
#define RANK_COUNTS (sizeof rank_counts / sizeof rank_counts[0])

static const size_t sizes[] = {0, 1, 17, 1001};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* All sizes of one recipe, in flight together: they may be fused. */
static void try_recipe(recipe r, memory_kind memory)
{
    task tasks[2 * SIZES];
    size_t count = 0;
    if (!recipe_has_meaning(&r))
        return;
    for (size_t i = 0; i < 2 * SIZES; i++) {
        r.seed++;
        tasks[i] = (task){.recipe = r, .count = sizes[i / 2], .in_place = i % 2, .memory = memory};
        task_name(&tasks[i]);
        task_submit(&tasks[i]);
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        task_finish(&tasks[i]);
    }
}

static void try_all_recipes(int rank, int size, const void *argument)
{
    (void)argument, (void)rank;
    CHECK_OK(rueda_init(NULL));
    CHECK_EQUAL(rueda_size(), size);
    for (int memory = 0; memory < MEMORY_KIND_COUNT; memory++) {
        for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
            for (int op = 0; op < RUEDA_OP_COUNT; op++) {
                recipe r = RECIPE((rueda_dtype)dtype, (rueda_op)op, (uint64_t)(dtype * 100 + op));
                try_recipe(r, (memory_kind)memory);
            }
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void allreduce_is_right_for_all_types_and_operations(void **state)
{
    (void)state;
    for (size_t i = 0; i < RANK_COUNTS; i++)
        run_ranks(rank_counts[i], try_all_recipes, NULL);
}

static void try_scales(int rank, int size, const void *argument)
{
    (void)argument, (void)rank, (void)size;
    static const rueda_op ops[] = {RUEDA_SUM, RUEDA_AVERAGE, RUEDA_MAX};
    CHECK_OK(rueda_init(NULL));
    for (int memory = 0; memory < MEMORY_KIND_COUNT; memory++) {
        for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
            for (size_t op = 0; op < 3; op++) {
                recipe r = RECIPE((rueda_dtype)dtype, ops[op], 77);
                r.prescale = 0.5;
                try_recipe(r, (memory_kind)memory);
                r.postscale = 2;
                try_recipe(r, (memory_kind)memory);
                r.prescale = 1;
                r.postscale = 0.25;
                try_recipe(r, (memory_kind)memory);
            }
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void prescale_and_postscale_multiply(void **state)
{
    (void)state;
    for (size_t i = 0; i < RANK_COUNTS; i++)
        run_ranks(rank_counts[i], try_scales, NULL);
}

/* Larger than a piece, than all slots, and than the fusion threshold where one is set. */
static void try_large(int rank, int size, const void *argument)
{
    (void)argument, (void)rank, (void)size;
    static const rueda_dtype dtypes[] = {RUEDA_U8,   RUEDA_I64, RUEDA_F16,
                                         RUEDA_BF16, RUEDA_F32, RUEDA_F64};
    CHECK_OK(rueda_init(NULL));
    for (size_t i = 0; i < 18; i++) {
        recipe r = RECIPE(dtypes[i % 6], i % 4 < 3 ? RUEDA_SUM : RUEDA_AVERAGE, i);
        task large = {.recipe = r, .count = 300001, .in_place = i / 6 % 2, .memory = i / 6};
        task small = {.recipe = r, .count = 33, .in_place = true, .memory = i / 6};
        task_name(&large);
        task_name(&small);
        task_submit(&large);
        task_submit(&small);
        task_finish(&small);
        task_finish(&large);
    }
    CHECK_OK(rueda_shutdown());
}

static void large_tensors_move_in_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < RANK_COUNTS; i++)
        run_ranks(rank_counts[i], try_large, NULL);
}

static void tensors_above_the_fusion_threshold_go_alone(void **state)
{
    (void)state;
    static const char *const small[] = {"RUEDA_FUSION_THRESHOLD=64K", NULL};
    static const char *const none[] = {"RUEDA_FUSION_THRESHOLD=0", NULL};
    run_job(&(job){.ranks = 3, .body = try_large, .environment = small});
    run_job(&(job){.ranks = 2, .body = try_all_recipes, .environment = none});
}

/* Many more pieces than slots, with chunks that end inside a cache line. */
static void small_slots_are_used_again_and_again(void **state)
{
    (void)state;
    static const char *const environment[] = {"RUEDA_SLOT_BYTES=4K", NULL};
    run_job(&(job){.ranks = 2, .body = try_large, .environment = environment});
    run_job(&(job){.ranks = 5, .body = try_all_recipes, .environment = environment});
}

static void one_channel_is_enough(void **state)
{
    (void)state;
    static const char *const environment[] = {"RUEDA_CHANNELS=1", NULL};
    run_job(&(job){.ranks = 3, .body = try_large, .environment = environment});
    run_job(&(job){.ranks = 4, .body = try_scales, .environment = environment});
}

/* 49 × (1/49.0) is less than 1 and would be truncated to 0. */
static void average_many(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    int32_t ones[5] = {1, -1, 2, 0, 100};
    const int64_t shape[] = {5};
    const rueda_tensor t = RUEDA_TENSOR("ones", ones, RUEDA_I32, 1, shape);
    CHECK_OK(rueda_allreduce(&t, NULL, NULL));
    CHECK(ones[0] == 1 && ones[1] == -1 && ones[2] == 2 && ones[3] == 0 && ones[4] == 100);
    CHECK_OK(rueda_shutdown());
}

static void averages_of_integers_are_divided(void **state)
{
    (void)state;
    run_ranks(49, average_many, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_is_right_for_all_types_and_operations),
        cmocka_unit_test(prescale_and_postscale_multiply),
        cmocka_unit_test(large_tensors_move_in_pieces),
        cmocka_unit_test(tensors_above_the_fusion_threshold_go_alone),
        cmocka_unit_test(small_slots_are_used_again_and_again),
        cmocka_unit_test(one_channel_is_enough),
        cmocka_unit_test(averages_of_integers_are_divided),
    };
    return cmocka_run_group_tests_name("allreduce", tests, NULL, NULL);
}
