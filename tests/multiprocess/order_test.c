/* order_test.c: ranks submit in different orders, names come and go, shapes change, the cache is small.
 * ctest: timeout=300 */
#include "tensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TASKS 30

typedef struct course {
    int iterations;
    bool new_names;   /* every iteration */
    bool new_shapes;  /* every iteration, under the same names */
    bool some_absent; /* tasks are left out in some iterations */
    bool wait_one_by_one;
} course;

/* The same on all ranks; only the order of submission differs. */
static task make_task(const course *c, int i, int iteration)
{
    static const size_t counts[] = {1, 17, 333, 1001, 5000};
    const int turn = c->new_shapes ? i + iteration : i;
    task t = {.kind = (task_kind)(i % TASK_KIND_COUNT),
              .recipe = RECIPE((rueda_dtype)(i % RUEDA_DTYPE_COUNT), RUEDA_MAX,
                               (uint64_t)(iteration * TASKS + i)),
              .count = counts[turn % 5],
              .width = 1,
              .root = turn % rueda_size(),
              .in_place = i / 6 % 2,
              .memory = i % MEMORY_KIND_COUNT};
    if (task_counts_rows(t.kind))
        t.count = (size_t)(turn % ROWS_MANY);
    if (c->new_names)
        snprintf(t.name, sizeof t.name, "task.%d.%d", iteration, i);
    else
        snprintf(t.name, sizeof t.name, "task.%d", i);
    return t;
}

static bool is_absent(const course *c, int i, int iteration)
{
    return c->some_absent && (i * 7 + iteration * 3) % 4 == 0;
}

static void iterate(const course *c, int iteration, dice *own)
{
    task tasks[TASKS];
    rueda_request *requests[TASKS];
    size_t order[TASKS], count = 0;
    shuffle(own, order, TASKS);
    for (size_t i = 0; i < TASKS; i++) {
        const int which = (int)order[i];
        if (is_absent(c, which, iteration))
            continue;
        tasks[count] = make_task(c, which, iteration);
        task_submit(&tasks[count]);
        requests[count] = tasks[count].request;
        count++;
    }
    doing("iteration %d, wait for all", iteration);
    if (!c->wait_one_by_one)
        CHECK_OK(rueda_wait_all(requests, count, -1));
    for (size_t i = 0; i < count; i++)
        task_finish(&tasks[i]);
}

static void run_course(int rank, int size, const void *argument)
{
    const course *c = argument;
    dice own = {(unsigned long long)(rank * 1000 + size)};
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < c->iterations; i++)
        iterate(c, i, &own);
    CHECK_OK(rueda_shutdown());
}

static void on_several_rank_counts(const course *c, const char *const *environment)
{
    static const int ranks[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
        run_job(&(job){
            .ranks = ranks[i], .body = run_course, .argument = c, .environment = environment});
}

static void ranks_submit_in_any_order(void **state)
{
    (void)state;
    on_several_rank_counts(&(course){.iterations = 20}, NULL);
    on_several_rank_counts(&(course){.iterations = 20, .wait_one_by_one = true}, NULL);
}

static void names_may_change_every_iteration(void **state)
{
    (void)state;
    on_several_rank_counts(&(course){.iterations = 20, .new_names = true}, NULL);
}

static void shapes_of_a_name_may_change(void **state)
{
    (void)state;
    on_several_rank_counts(&(course){.iterations = 20, .new_shapes = true}, NULL);
}

static void tensors_may_pause(void **state)
{
    (void)state;
    on_several_rank_counts(&(course){.iterations = 20, .some_absent = true, .new_shapes = true},
                           NULL);
}

static void a_small_cache_evicts(void **state)
{
    (void)state;
    static const char *const two[] = {"RUEDA_CACHE_CAPACITY=2", NULL};
    static const char *const twenty[] = {"RUEDA_CACHE_CAPACITY=20", NULL};
    const course steady = {.iterations = 12};
    const course wild = {.iterations = 12, .some_absent = true, .new_shapes = true};
    on_several_rank_counts(&steady, two);
    on_several_rank_counts(&wild, two);
    on_several_rank_counts(&steady, twenty);
    on_several_rank_counts(&wild, twenty);
    on_several_rank_counts(&(course){.iterations = 12, .new_names = true}, twenty);
}

static void no_cache_at_all_works(void **state)
{
    (void)state;
    static const char *const none[] = {"RUEDA_CACHE_CAPACITY=0", NULL};
    on_several_rank_counts(&(course){.iterations = 12}, none);
    on_several_rank_counts(&(course){.iterations = 6, .new_shapes = true}, none);
}

/* The second time a tensor is known: no words about it are needed. */
static void repeat_steadily(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    rueda_stats first = {.struct_size = sizeof first}, last = first;
    const course c = {0};
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < TASKS; k += TASK_KIND_COUNT) {
            task t = make_task(&c, k, i);
            task_run(&t);
        }
        if (i == 0)
            CHECK_OK(rueda_get_stats(&first));
    }
    CHECK_OK(rueda_get_stats(&last));
    CHECK_EQUAL(last.announcements, first.announcements);
    CHECK_EQUAL(last.operations, 20 * first.operations);
    CHECK(last.rounds > first.rounds);
    CHECK(last.launches <= last.operations);
    CHECK_OK(rueda_shutdown());
}

static void known_tensors_are_not_described_again(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run_ranks(ranks, repeat_steadily, NULL);
}

/* More descriptions than fit in one round. */
#define CROWD 600
static void submit_a_crowd(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    static float data[CROWD];
    static rueda_request *requests[CROWD];
    static size_t order[CROWD];
    const int64_t shape[] = {1};
    dice own = {(unsigned long long)rank};
    CHECK_OK(rueda_init(NULL));
    for (int iteration = 0; iteration < 4; iteration++) {
        shuffle(&own, order, CROWD);
        for (size_t i = 0; i < CROWD; i++) {
            char name[RUEDA_MAX_NAME + 1];
            const int length = snprintf(name, sizeof name, "%zu.", order[i]);
            memset(name + length, 'x', sizeof name - 1 - (size_t)length);
            name[sizeof name - 1] = '\0'; /* as long as a name may be */
            data[order[i]] = (float)(order[i] + (size_t)rank);
            const rueda_tensor t = RUEDA_TENSOR(name, &data[order[i]], RUEDA_F32, 1, shape);
            CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &requests[i]));
        }
        doing("iteration %d of the crowd", iteration);
        CHECK_OK(rueda_wait_all(requests, CROWD, -1));
        for (size_t i = 0; i < CROWD; i++) {
            CHECK(data[i] == (float)(i * (size_t)size) + (float)(size * (size - 1) / 2));
            rueda_request_free(requests[i]);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void many_new_tensors_take_several_rounds(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run_ranks(ranks, submit_a_crowd, NULL);
    static const char *const few[] = {"RUEDA_CACHE_CAPACITY=100", NULL};
    run_job(&(job){.ranks = 3, .body = submit_a_crowd, .environment = few});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_submit_in_any_order),
        cmocka_unit_test(names_may_change_every_iteration),
        cmocka_unit_test(shapes_of_a_name_may_change),
        cmocka_unit_test(tensors_may_pause),
        cmocka_unit_test(a_small_cache_evicts),
        cmocka_unit_test(no_cache_at_all_works),
        cmocka_unit_test(known_tensors_are_not_described_again),
        cmocka_unit_test(many_new_tensors_take_several_rounds),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
