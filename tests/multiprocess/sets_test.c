/* sets_test.c: process sets: made at init, added and removed while running, overlapping, at work
 * together.
 * ctest: not_asan threads timeout=180 */
#include "tensors.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void run_task_in(int32_t set, task_kind kind, int turn)
{
    task t = {.kind = kind,
              .recipe = RECIPE(RUEDA_F32, RUEDA_SUM, (uint64_t)turn),
              .count = task_counts_rows(kind) ? (size_t)(turn % ROWS_MANY) : 101,
              .root = turn % rueda_process_set_size(set),
              .in_place = turn % 2,
              .memory = (memory_kind)(turn / 2 % MEMORY_KIND_COUNT),
              .set = set};
    snprintf(t.name, sizeof t.name, "%s.%d", task_kind_name(kind), turn % 3);
    task_run(&t);
}

static void run_all_kinds_in(int32_t set)
{
    for (int turn = 0; turn < 6 && rueda_process_set_rank(set) >= 0; turn++)
        for (int kind = 0; kind < TASK_KIND_COUNT; kind++)
            run_task_in(set, (task_kind)kind, turn);
}

/* Sets of a job of four: the even ranks, the odd ones, the last three, one alone. */
static const int32_t even[] = {2, 0}, odd[] = {1, 3}, last[] = {3, 1, 2}, alone[] = {2};
static const int32_t *const lists[] = {even, odd, last, alone};
static const int32_t lengths[] = {2, 2, 3, 1};

static void check_membership(int rank)
{
    int32_t ranks[4] = {-7, -7, -7, -7};
    CHECK_EQUAL(rueda_process_set_size(0), 4);
    CHECK_EQUAL(rueda_process_set_rank(0), rank);
    CHECK_EQUAL(rueda_process_set_size(3), 3);
    CHECK_EQUAL(rueda_process_set_rank(3), rank - 1);
    CHECK_EQUAL(rueda_process_set_rank(1), rank % 2 == 0 ? rank / 2 : -1);
    CHECK_EQUAL(rueda_process_set_ranks(3, ranks, 2),
                3); /* sorted, and no more than there is room for */
    CHECK(ranks[0] == 1 && ranks[1] == 2 && ranks[2] == -7);
    CHECK_EQUAL(rueda_process_set_size(5), -1);
    CHECK_EQUAL(rueda_process_set_rank(-1), -1);
    CHECK_EQUAL(rueda_process_set_ranks(RUEDA_MAX_SETS + 1, ranks, 4), -1);
}

static void use_first_sets(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    const rueda_init_options options = {
        .struct_size = sizeof options, .set_count = 4, .set_ranks = lists, .set_sizes = lengths};
    const rueda_init_options missing = {
        .struct_size = sizeof missing, .set_count = 4, .set_ranks = NULL, .set_sizes = NULL};
    CHECK_STATUS(rueda_init(&missing), RUEDA_ERR_ARGUMENT);
    CHECK_OK(rueda_init(&options));
    check_membership(rank);
    for (int32_t set = 0; set <= 4; set++)
        run_all_kinds_in(set);
    CHECK_OK(rueda_shutdown());
}

static void sets_given_at_init_work(void **state)
{
    (void)state;
    run_ranks(4, use_first_sets, NULL);
}

/* Everything in flight at once, each rank in an order of its own. */
static void use_sets_together(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    const rueda_init_options options = {
        .struct_size = sizeof options, .set_count = 4, .set_ranks = lists, .set_sizes = lengths};
    dice own = {(unsigned long long)rank};
    CHECK_OK(rueda_init(&options));
    for (int iteration = 0; iteration < 25; iteration++) {
        task tasks[40];
        size_t order[40], count = 0;
        shuffle(&own, order, 40);
        for (size_t i = 0; i < 40; i++) {
            const int32_t set = (int32_t)(order[i] % 5);
            if (rueda_process_set_rank(set) < 0)
                continue;
            tasks[count] = (task){.recipe = RECIPE(RUEDA_I32, RUEDA_SUM, order[i]),
                                  .count = 1 + order[i] * 300,
                                  .in_place = true,
                                  .set = set};
            snprintf(tasks[count].name, RUEDA_MAX_NAME, "together.%zu", order[i] / 5);
            task_submit(&tasks[count++]);
        }
        for (size_t i = 0; i < count; i++)
            task_finish(&tasks[i]);
    }
    CHECK_OK(rueda_shutdown());
}

static void overlapping_sets_work_at_the_same_time(void **state)
{
    (void)state;
    run_ranks(4, use_sets_together, NULL);
}

static void add_and_remove(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 40; i++) {
        const int32_t members[] = {i % size, (i + 1) % size};
        int32_t set = -1, again = -1, whole = -1;
        doing("add and remove, turn %d", i);
        CHECK_OK(rueda_process_set_add(members, 2, &set));
        CHECK_EQUAL(set, 1); /* ids are used again */
        CHECK_EQUAL(rueda_process_set_rank(set) >= 0, rank == members[0] || rank == members[1]);
        CHECK_STATUS(rueda_process_set_add(members, 2, &again), RUEDA_ERR_ARGUMENT);
        CHECK_SAYS("exists");
        CHECK_EQUAL(again, -1);
        CHECK_OK(rueda_process_set_add((int32_t[]){i % size}, 1, &whole));
        CHECK_EQUAL(whole, 2);
        if (i % 8 == 0)
            run_all_kinds_in(set);
        run_task_in(RUEDA_GLOBAL_SET, TASK_ALLREDUCE, i);
        run_all_kinds_in(whole);
        CHECK_OK(rueda_process_set_remove(set));
        CHECK_EQUAL(rueda_process_set_size(set), -1);
        CHECK_OK(rueda_process_set_remove(whole));
    }
    CHECK_OK(rueda_shutdown());
}

static void sets_come_and_go_while_running(void **state)
{
    (void)state;
    for (int ranks = 3; ranks <= 5; ranks++) /* of two the pair would be the global set */
        run_ranks(ranks, add_and_remove, NULL);
}

static void misuse_sets(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    const rueda_init_options options = {
        .struct_size = sizeof options, .set_count = 1, .set_ranks = lists, .set_sizes = lengths};
    int32_t set = -1;
    float data = 1;
    const int64_t shape[] = {1};
    const rueda_tensor t = RUEDA_TENSOR("t", &data, RUEDA_F32, 1, shape);
    rueda_options in_set = RUEDA_OPTIONS(RUEDA_SUM);
    CHECK_OK(rueda_init(&options));
    in_set.process_set = 1;
    if (rank % 2 == 1) {
        rueda_request *request = NULL;
        CHECK_STATUS(rueda_allreduce(&t, &in_set, &request), RUEDA_ERR_STATE);
        CHECK_SAYS("not in process set 1");
        CHECK(request == NULL);
        CHECK_STATUS(rueda_barrier(1, NULL), RUEDA_ERR_STATE);
    } else {
        CHECK_OK(rueda_allreduce(&t, &in_set, NULL));
        CHECK(data == 2);
    }
    in_set.process_set = 9;
    CHECK_STATUS(rueda_allreduce(&t, &in_set, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_barrier(-1, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_process_set_add((int32_t[]){0, 4}, 2, &set), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_process_set_add((int32_t[]){0, 0}, 2, &set), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_process_set_add((int32_t[]){-1}, 1, &set), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_process_set_add(even, 0, &set), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_process_set_add(NULL, 2, &set), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_process_set_add(even, 2, NULL), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_process_set_remove(RUEDA_GLOBAL_SET), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_process_set_remove(7), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_process_set_add((int32_t[]){0, 1, 2, 3}, 4, &set), RUEDA_ERR_ARGUMENT);
    CHECK_EQUAL(set, -1);
    run_all_kinds_in(RUEDA_GLOBAL_SET);
    CHECK_OK(rueda_shutdown());
}

static void misuse_of_sets_is_an_error_and_harms_nothing(void **state)
{
    (void)state;
    run_ranks(4, misuse_sets, NULL);
}

/* Ranks that add different sets, or remove different ones, all learn of it. */
static void disagree_about_sets(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    int32_t set = -1, other = -1;
    const int32_t pair[] = {0, rank == 1 ? 2 : 1};
    CHECK_OK(rueda_init(NULL));
    CHECK_STATUS(rueda_process_set_add(pair, 2, &set), RUEDA_ERR_MISMATCH);
    CHECK_SAYS("process sets to add: One rank named the ranks [0, 1], but another rank named the "
               "ranks [0, 2]. These are rank 0 and rank 1");
    CHECK_OK(rueda_process_set_add(even, 2, &set));
    CHECK_OK(rueda_process_set_add((int32_t[]){1}, 1, &other));
    CHECK_STATUS(rueda_process_set_remove(rank == 2 ? other : set), RUEDA_ERR_MISMATCH);
    run_all_kinds_in(set);
    run_all_kinds_in(other);
    CHECK_OK(rueda_shutdown());
}

static void disagreement_about_sets_is_an_error_for_all(void **state)
{
    (void)state;
    run_ranks(3, disagree_about_sets, NULL);
}

/* Only one of two members has submitted: the removal ends its request. */
static void remove_busy_set(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    static float data[1000];
    const int64_t shape[] = {1000};
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 20; i++) {
        int32_t set;
        rueda_request *request = NULL;
        rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
        const rueda_tensor t = RUEDA_TENSOR("left behind", data, RUEDA_F32, 1, shape);
        doing("removal %d", i);
        CHECK_OK(rueda_process_set_add(even, 2, &set));
        options.process_set = set;
        run_all_kinds_in(i % 4 == 0 ? set : RUEDA_GLOBAL_SET);
        if (rank == i % 2 * 2)
            CHECK_OK(rueda_allreduce(&t, &options, &request));
        CHECK_OK(rueda_process_set_remove(set));
        if (request != NULL) {
            CHECK_STATUS(rueda_wait(request, -1), RUEDA_ERR_SHUTDOWN);
            CHECK_SAYS("removed");
            rueda_request_free(request);
        }
        CHECK_STATUS(rueda_allreduce(&t, &options, NULL), RUEDA_ERR_ARGUMENT);
    }
    run_all_kinds_in(RUEDA_GLOBAL_SET);
    CHECK_OK(rueda_shutdown());
}

static void removal_ends_pending_requests(void **state)
{
    (void)state;
    run_ranks(3, remove_busy_set, NULL);
}

/* Submits to whatever set is there, until told to stop. */
static _Atomic int32_t current_set;
static _Atomic bool enough;

static void *submit_all_the_time(void *argument)
{
    static float data[8];
    const int64_t shape[] = {8};
    for (unsigned i = 0; !enough; i++) {
        char name[16];
        snprintf(name, sizeof name, "t.%u", i % 16);
        const rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F32, 1, shape);
        rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
        rueda_stats stats = {.struct_size = sizeof stats};
        rueda_request *request = NULL;
        options.process_set = current_set;
        if (rueda_allreduce(&t, &options, &request) == RUEDA_OK)
            rueda_request_free(request);
        CHECK_OK(rueda_get_stats(&stats));
    }
    return argument;
}

static void remove_under_a_thread(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    pthread_t thread;
    CHECK_OK(rueda_init(NULL));
    current_set = 1;
    CHECK(pthread_create(&thread, NULL, submit_all_the_time, NULL) == 0);
    for (int i = 0; i < 300; i++) {
        int32_t set;
        doing("set %d", i);
        CHECK_OK(rueda_process_set_add((int32_t[]){0}, 1, &set));
        current_set = set;
        CHECK_OK(rueda_process_set_remove(set));
    }
    enough = true;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_OK(rueda_shutdown());
}

static void a_set_may_go_while_a_thread_submits(void **state)
{
    (void)state;
    run_ranks(2, remove_under_a_thread, NULL);
}

static void *remove_current_set(void *argument)
{
    CHECK_OK(rueda_process_set_remove(current_set));
    return argument;
}

/* A set takes the place of one that is being removed, while a slower member still works there. */
static void replace_a_busy_set(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    enum { COUNT = 1 << 16, TENSORS = 4 };
    static float data[TENSORS][COUNT];
    const int64_t shape[] = {COUNT};
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 50; i++) {
        rueda_request *requests[TENSORS];
        pthread_t thread;
        int32_t set;
        doing("replacement %d", i);
        CHECK_OK(rueda_process_set_add((int32_t[]){0, 1}, 2, &set));
        current_set = set;
        for (int k = 0; k < TENSORS && rank < 2; k++) {
            rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
            char name[16];
            snprintf(name, sizeof name, "t.%d", k);
            options.process_set = set;
            const rueda_tensor t = RUEDA_TENSOR(name, data[k], RUEDA_F32, 1, shape);
            CHECK_OK(k % 2 ? rueda_broadcast(&t, &options, &requests[k])
                           : rueda_allreduce(&t, &options, &requests[k]));
        }
        CHECK(pthread_create(&thread, NULL, remove_current_set, NULL) == 0);
        CHECK_OK(rueda_process_set_add((int32_t[]){0, 2}, 2, &set));
        CHECK(pthread_join(thread, NULL) == 0);
        for (int k = 0; k < TENSORS && rank < 2; k++) {
            const rueda_status status = rueda_wait(requests[k], -1);
            CHECK(status == RUEDA_OK || status == RUEDA_ERR_SHUTDOWN);
            rueda_request_free(requests[k]);
        }
        CHECK_OK(rueda_process_set_remove(set));
    }
    CHECK_OK(rueda_shutdown());
}

static void a_set_may_take_the_place_of_a_busy_one(void **state)
{
    (void)state;
    run_ranks(3, replace_a_busy_set, NULL);
}

/* Every pair becomes a set, whose members become control neighbours: what one says at once must be
 * heard, without a heartbeat that would shake it loose. */
static void pair_up(int rank, int size, const void *argument)
{
    (void)argument;
    setenv("RUEDA_HEARTBEAT", "0", 1);
    CHECK_OK(rueda_init(NULL));
    for (int32_t a = 0; a < size; a++) {
        for (int32_t b = a + 1; b < size; b++) {
            int32_t set;
            doing("pair %d %d", (int)a, (int)b);
            CHECK_OK(rueda_process_set_add((int32_t[]){a, b}, 2, &set));
            if (rank == a || rank == b)
                CHECK_OK(rueda_barrier(set, NULL));
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void new_neighbours_hear_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        run_ranks(5, pair_up, NULL);
}

/* What rank 1 contributes to a set just before it hears of the removal must not be lost on rank 0, though
 * the barrier of the removal may be there first. Rank 2 holds a broadcast up, until the others have asked
 * for the removal; rank 1 sleeps in it, and then goes on to contribute to the set; rank 0 sleeps inside the
 * barrier until both have come. */
static void remove_while_one_contributes(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    static const char *const naps[] = {"delay:rank=0:operation=10:step=4:ms=600",
                                       "delay:rank=1:operation=9:step=3:ms=300",
                                       "delay:rank=2:operation=9:step=0:ms=150"};
    const struct timespec until_rank_1_sleeps = {0, 250000000};
    enum { MANY = 1 << 20 }; /* so many that rounds go on while they are on their way */
    static float late[MANY], last[8];
    const int64_t shape[] = {8}, late_shape[] = {MANY};
    const rueda_tensor late_tensor = RUEDA_TENSOR("late", late, RUEDA_F32, 1, late_shape);
    const rueda_tensor last_tensor = RUEDA_TENSOR("last", last, RUEDA_F32, 1, shape);
    rueda_options from_2 = RUEDA_OPTIONS(RUEDA_SUM), in_set = RUEDA_OPTIONS(RUEDA_SUM);
    rueda_request *late_request = NULL, *last_request = NULL;
    pthread_t thread;
    int32_t set;
    setenv("RUEDA_FAULT", naps[rank], 1);
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_process_set_add((int32_t[]){0, 1}, 2, &set));
    for (int i = 0; i < 8; i++) /* all connections are there, so that steps need no second look */
        CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    from_2.root = 2;
    in_set.process_set = current_set = set;
    CHECK_OK(rueda_broadcast(&late_tensor, &from_2, &late_request));
    if (rank == 0)
        CHECK_OK(rueda_allreduce(&last_tensor, &in_set, &last_request));
    if (rank == 2)
        nanosleep(&until_rank_1_sleeps, NULL);
    CHECK(pthread_create(&thread, NULL, remove_current_set, NULL) == 0);
    if (rank == 1) {
        nanosleep(&until_rank_1_sleeps, NULL);
        const rueda_status status = rueda_allreduce(&last_tensor, &in_set, &last_request);
        CHECK(status == RUEDA_OK || status == RUEDA_ERR_ARGUMENT); /* too late on a busy machine */
    }
    doing("removal of the set");
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_OK(rueda_wait(late_request, -1));
    rueda_request_free(late_request);
    const rueda_status status = last_request == NULL ? RUEDA_OK : rueda_wait(last_request, -1);
    CHECK(status == RUEDA_OK || status == RUEDA_ERR_SHUTDOWN);
    rueda_request_free(last_request);
    CHECK_OK(rueda_shutdown());
}

static void a_contribution_may_come_after_the_barrier_of_the_removal(void **state)
{
    (void)state;
    if (harness_has_mpirun())
        return; /* the removal's barrier must be messages over tcp, with steps as above */
    run_job(&(job){.ranks = 3,
                   .body = remove_while_one_contributes,
                   .environment = (const char *const[]){"RUEDA_TRANSPORT=tcp", NULL}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_given_at_init_work),
        cmocka_unit_test(overlapping_sets_work_at_the_same_time),
        cmocka_unit_test(sets_come_and_go_while_running),
        cmocka_unit_test(misuse_of_sets_is_an_error_and_harms_nothing),
        cmocka_unit_test(disagreement_about_sets_is_an_error_for_all),
        cmocka_unit_test(removal_ends_pending_requests),
        cmocka_unit_test(a_set_may_go_while_a_thread_submits),
        cmocka_unit_test(a_set_may_take_the_place_of_a_busy_one),
        cmocka_unit_test(a_contribution_may_come_after_the_barrier_of_the_removal),
        cmocka_unit_test(new_neighbours_hear_each_other),
    };
    return cmocka_run_group_tests_name("sets", tests, NULL, NULL);
}
