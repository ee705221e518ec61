/* grouped_test.c: groups of allreduces run together or not at all.
 * ctest: threads timeout=120 */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS 7
#define GROUPS 6

typedef struct group {
    char names[MEMBERS][32];
    float *data[MEMBERS];
    int64_t shapes[MEMBERS][1];
    rueda_tensor tensors[MEMBERS];
    rueda_request *request;
} group;

static recipe recipe_of(int number, int member)
{
    return RECIPE(RUEDA_F32, RUEDA_SUM, (uint64_t)(number * MEMBERS + member));
}

static void fill_group(group *g, int number, memory_kind memory)
{
    for (int i = 0; i < MEMBERS; i++) {
        const recipe r = recipe_of(number, i);
        const size_t count = (size_t)(i * i * 40 + number);
        snprintf(g->names[i], sizeof g->names[i], "group%d.%d", number, i);
        g->shapes[i][0] = (int64_t)count;
        g->data[i] = memory_take(memory, count * sizeof(float));
        recipe_fill(&r, rueda_rank(), 0, g->data[i], count);
        g->tensors[i] = RUEDA_TENSOR(g->names[i], g->data[i], RUEDA_F32, 1, g->shapes[i]);
    }
}

static void submit_group(group *g)
{
    CHECK_OK(rueda_grouped_allreduce(g->tensors, MEMBERS, &RUEDA_OPTIONS(RUEDA_SUM), &g->request));
}

static void drop_group(group *g, memory_kind memory)
{
    rueda_request_free(g->request);
    for (int i = 0; i < MEMBERS; i++)
        memory_give(memory, g->data[i]);
}

static void check_group(group *g, int number, memory_kind memory)
{
    CHECK_OK(rueda_wait(g->request, -1));
    for (int i = 0; i < MEMBERS; i++) {
        const recipe r = recipe_of(number, i);
        recipe_check(&r, NULL, rueda_size(), 0, g->data[i], (size_t)g->shapes[i][0]);
    }
    drop_group(g, memory);
}

/* Several groups and single tensors in flight, in another order on every rank. */
static void submit_groups_in_any_order(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    dice own = {(unsigned long long)rank};
    group groups[GROUPS];
    CHECK_OK(rueda_init(NULL));
    for (int iteration = 0; iteration < 30; iteration++) {
        const memory_kind memory = iteration / 3 % MEMORY_KIND_COUNT;
        size_t order[GROUPS];
        doing("iteration %d", iteration);
        shuffle(&own, order, GROUPS);
        task single = {.recipe = RECIPE(RUEDA_F32, RUEDA_SUM, 9), .count = 77, .name = "single"};
        for (size_t i = 0; i < GROUPS; i++) {
            fill_group(&groups[order[i]], (int)order[i], memory);
            submit_group(&groups[order[i]]);
            if (i == (size_t)rank % GROUPS)
                task_submit(&single);
        }
        for (int i = 0; i < GROUPS; i++)
            check_group(&groups[i], i, memory);
        task_finish(&single);
    }
    CHECK_OK(rueda_shutdown());
}

static void groups_may_come_in_any_order(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run_ranks(ranks, submit_groups_in_any_order, NULL);
    static const char *const tiny[] = {"RUEDA_FUSION_THRESHOLD=1K", "RUEDA_CACHE_CAPACITY=5", NULL};
    run_job(&(job){.ranks = 3, .body = submit_groups_in_any_order, .environment = tiny});
}

/* One member differs on one rank: all fail, on all ranks, and the names work again afterwards. */
static void spoil_a_group(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int spoilt = 0; spoilt < MEMBERS; spoilt++) {
        group g;
        doing("member %d spoilt", spoilt);
        fill_group(&g, 3, MEMORY_PRIVATE);
        if (rank == size - 1)
            g.tensors[spoilt].dtype = RUEDA_I32;
        submit_group(&g);
        CHECK_STATUS(rueda_wait(g.request, -1), RUEDA_ERR_MISMATCH);
        CHECK_SAYS(g.names[spoilt]);
        CHECK_SAYS("float32");
        CHECK_SAYS("int32");
        drop_group(&g, MEMORY_PRIVATE);
        fill_group(&g, 3, MEMORY_PRIVATE);
        submit_group(&g);
        check_group(&g, 3, MEMORY_PRIVATE);
    }
    CHECK_OK(rueda_shutdown());
}

static void one_disagreement_fails_the_whole_group(void **state)
{
    (void)state;
    run_ranks(2, spoil_a_group, NULL);
    run_ranks(4, spoil_a_group, NULL);
}

/* Members submitted singly by one rank do not start anything: the groups differ. */
static void group_differently(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    group g;
    fill_group(&g, 1, MEMORY_PRIVATE);
    const int32_t count = rank == 0 ? MEMBERS : 1;
    rueda_request *rest[MEMBERS] = {NULL};
    const rueda_options sum = RUEDA_OPTIONS(RUEDA_SUM);
    CHECK_OK(rueda_grouped_allreduce(g.tensors, count, &sum, &g.request));
    for (int i = count; i < MEMBERS; i++)
        CHECK_OK(rueda_allreduce(&g.tensors[i], &sum, &rest[i]));
    CHECK_STATUS(rueda_wait(g.request, -1), RUEDA_ERR_MISMATCH);
    CHECK_SAYS("group");
    for (int i = count; i < MEMBERS; i++) {
        CHECK_STATUS(rueda_wait(rest[i], -1), RUEDA_ERR_MISMATCH);
        rueda_request_free(rest[i]);
    }
    drop_group(&g, MEMORY_PRIVATE);
    CHECK_OK(rueda_shutdown());
}

static void different_groupings_are_a_disagreement(void **state)
{
    (void)state;
    run_ranks(2, group_differently, NULL);
}

/* While the second rank's part is missing no member ends. */
static void wait_for_the_last_member(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    group g;
    CHECK_OK(rueda_init(NULL));
    fill_group(&g, 2, MEMORY_PRIVATE);
    if (rank == 0) {
        submit_group(&g);
        CHECK_STATUS(rueda_wait(g.request, 20), RUEDA_PENDING);
        CHECK_EQUAL(rueda_poll(g.request), 0);
    }
    meet();
    if (rank != 0)
        submit_group(&g);
    check_group(&g, 2, MEMORY_PRIVATE);
    CHECK_OK(rueda_shutdown());
}

static void a_group_starts_when_all_of_it_is_there(void **state)
{
    (void)state;
    run_ranks(2, wait_for_the_last_member, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_may_come_in_any_order),
        cmocka_unit_test(one_disagreement_fails_the_whole_group),
        cmocka_unit_test(different_groupings_are_a_disagreement),
        cmocka_unit_test(a_group_starts_when_all_of_it_is_there),
    };
    return cmocka_run_group_tests_name("grouped", tests, NULL, NULL);
}
