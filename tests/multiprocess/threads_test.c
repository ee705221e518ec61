/* threads_test.c: several threads of a rank submit, poll, wait and free at the same time.
 * ctest: not_asan threads timeout=300 */
#include "tensors.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define THREADS 4
#define TURNS 80

typedef struct worker {
    pthread_t thread;
    int number;
    void (*body)(int number, dice *own);
} worker;

static void *worker_main(void *argument)
{
    const worker *w = argument;
    dice own = {(unsigned long long)(rueda_rank() * 100 + w->number)};
    w->body(w->number, &own);
    return NULL;
}

static void run_threads(void (*body)(int number, dice *own))
{
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.number = i, .body = body};
        CHECK_EQUAL(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_join(workers[i].thread, NULL), 0);
}

/* Thread n of all ranks submits the same names. */
static task task_of(int thread, int turn, int which)
{
    task t = {.kind = (task_kind)(which % TASK_BARRIER),
              .recipe = RECIPE(RUEDA_F32, RUEDA_SUM, (uint64_t)(thread * 1000 + which)),
              .count = which % 4 == 0 ? 1 : 100 * (size_t)which + 1,
              .in_place = turn % 2,
              .memory = which % MEMORY_KIND_COUNT};
    if (task_counts_rows(t.kind))
        t.count = (size_t)which % ROWS_MANY;
    snprintf(t.name, sizeof t.name, "thread%d.%d", thread, which);
    return t;
}

static void call_and_wait(int number, dice *own)
{
    (void)own;
    for (int turn = 0; turn < TURNS; turn++) {
        task t = task_of(number, turn, turn % 10);
        task_run(&t);
    }
}

#define TOGETHER 10
static void submit_many(int number, dice *own)
{
    for (int turn = 0; turn < TURNS / 4; turn++) {
        task tasks[TOGETHER];
        size_t order[TOGETHER];
        shuffle(own, order, TOGETHER);
        for (size_t i = 0; i < TOGETHER; i++) {
            tasks[i] = task_of(number, turn, (int)order[i]);
            task_submit(&tasks[i]);
        }
        for (size_t i = 0; i < TOGETHER; i++) {
            if (i % 3 == 0) /* with a limit first: PENDING changes nothing */
                CHECK(rueda_wait(tasks[i].request, 0) <= RUEDA_PENDING);
            task_finish(&tasks[i]);
        }
    }
}

static void call_or_submit(int number, dice *own)
{
    if (number % 2 == 0)
        call_and_wait(number, own);
    else
        submit_many(number, own);
}

/* Nobody waits: the background thread alone moves things on. */
static void only_poll(int number, dice *own)
{
    (void)own;
    for (int turn = 0; turn < TURNS / 2; turn++) {
        task t = task_of(number, turn, turn % 10);
        task_submit(&t);
        while (!rueda_poll(t.request))
            sched_yield();
        task_finish(&t);
    }
}

/* Requests are given back while they are pending; the memory stays until all is over. */
static void forget_requests(int number, dice *own)
{
    (void)own;
    static float data[THREADS][TURNS][50];
    const int64_t shape[] = {50};
    rueda_request *last = NULL;
    for (int turn = 0; turn < TURNS; turn++) {
        char name[64];
        snprintf(name, sizeof name, "forgotten.%d.%d", number, turn);
        const rueda_tensor t = RUEDA_TENSOR(name, data[number][turn], RUEDA_F32, 1, shape);
        rueda_request *request;
        CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request));
        if (turn + 1 < TURNS)
            rueda_request_free(request);
        else
            last = request;
    }
    CHECK_OK(rueda_wait(last, -1));
    rueda_request_free(last);
}

static void in_threads(int rank, int size, const void *argument)
{
    (void)rank, (void)size;
    CHECK_OK(rueda_init(NULL));
    run_threads(*(void (*const *)(int, dice *))argument);
    CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    CHECK_OK(rueda_shutdown());
}

static void run_in_threads(void (*body)(int number, dice *own))
{
    for (int ranks = 1; ranks <= 3; ranks++)
        run_ranks(ranks, in_threads, &body);
}

static void threads_may_call_and_wait(void **state)
{
    (void)state;
    run_in_threads(call_and_wait);
}

static void threads_may_submit_many(void **state)
{
    (void)state;
    run_in_threads(submit_many);
}

static void waiting_and_submitting_threads_mix(void **state)
{
    (void)state;
    run_in_threads(call_or_submit);
}

static void polling_needs_no_waiter(void **state)
{
    (void)state;
    run_in_threads(only_poll);
}

static void pending_requests_may_be_freed(void **state)
{
    (void)state;
    run_in_threads(forget_requests);
}

/* One request, several waiters; and a limit that passes before the other rank comes. */
static rueda_request *common;
static void wait_for_common(int number, dice *own)
{
    (void)own;
    CHECK_STATUS(rueda_wait(common, 5 + number), RUEDA_PENDING);
    if (atomic_fetch_add(job_counter(0), 1) + 1 == THREADS)
        meet(); /* nobody's limit runs any more: the other rank may come */
    CHECK_OK(rueda_wait(common, -1));
}

static void share_a_request(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    task t = {.recipe = RECIPE(RUEDA_F32, RUEDA_SUM, 1), .count = 5000, .name = "common"};
    CHECK_OK(rueda_init(NULL));
    if (rank == 0) {
        task_submit(&t);
        common = t.request;
        run_threads(wait_for_common);
    } else {
        meet();
        task_submit(&t);
    }
    task_finish(&t);
    CHECK_OK(rueda_shutdown());
}

static void several_threads_may_wait_for_one_request(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        run_ranks(2, share_a_request, NULL);
}

/* Everything that only looks, while others work. */
static void look_around(int number, dice *own)
{
    if (number > 0) {
        call_or_submit(number, own);
        return;
    }
    for (int turn = 0; turn < 20 * TURNS; turn++) {
        rueda_stats stats = {.struct_size = sizeof stats};
        int32_t ranks[HARNESS_MAX_RANKS];
        double value;
        CHECK_OK(rueda_get_stats(&stats));
        CHECK(rueda_process_set_ranks(RUEDA_GLOBAL_SET, ranks, HARNESS_MAX_RANKS) == rueda_size());
        CHECK_STATUS(rueda_orthogonality(NULL, &value), RUEDA_ERR_ARGUMENT);
        void *memory = rueda_alloc(1000);
        CHECK(memory != NULL);
        rueda_free(memory);
    }
}

static void looking_disturbs_nobody(void **state)
{
    (void)state;
    run_in_threads(look_around);
}

/* Sets come and go in one thread while the others use the global one. */
static void change_sets(int number, dice *own)
{
    if (number > 0) {
        call_or_submit(number, own);
        return;
    }
    for (int turn = 0; turn < TURNS / 2; turn++) {
        int32_t set;
        CHECK_OK(rueda_process_set_add((int32_t[]){0}, 1, &set));
        if (rueda_process_set_rank(set) >= 0)
            CHECK_OK(rueda_barrier(set, NULL));
        CHECK_OK(rueda_process_set_remove(set));
    }
}

static void change_sets_in_threads(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    run_threads(change_sets);
    CHECK_OK(rueda_shutdown());
}

static void sets_change_while_threads_work(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++)
        run_ranks(ranks, change_sets_in_threads, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_may_call_and_wait),
        cmocka_unit_test(threads_may_submit_many),
        cmocka_unit_test(waiting_and_submitting_threads_mix),
        cmocka_unit_test(polling_needs_no_waiter),
        cmocka_unit_test(pending_requests_may_be_freed),
        cmocka_unit_test(several_threads_may_wait_for_one_request),
        cmocka_unit_test(looking_disturbs_nobody),
        cmocka_unit_test(sets_change_while_threads_work),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
