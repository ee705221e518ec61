/* stop_test.c: ranks that are stopped (SIGSTOP): named by all others after RUEDA_HEARTBEAT seconds, and
 * told when they go on; a short stop harms nobody.
 * ctest: not_asan waits timeout=180 */
#include "survivors.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS_MOST 6
#define SHORT_MS 400
#define COUNT 50000

enum { STOPPED_PROCESS, GIVEN_UP };

typedef struct scene {
    int stopped;
    saying *sayings; /* first of the operation, then of a later one */
} scene;

static rueda_status run_large(int size, bool *right)
{
    static float data[COUNT];
    const int64_t count = COUNT;
    const rueda_tensor t = RUEDA_TENSOR("large", data, RUEDA_F32, 1, &count);
    for (int i = 0; i < COUNT; i++)
        data[i] = 1;
    const rueda_status status = rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL);
    *right = true;
    for (int i = 0; i < COUNT; i++)
        *right = *right && data[i] == (float)size;
    return status;
}

/* The last of the others to give up lets the stopped one go on; it must find an end, too. */
static void live(int rank, int size, const void *argument)
{
    const scene *s = argument;
    bool right;
    if (rank == s->stopped)
        atomic_store(job_counter(STOPPED_PROCESS), (int)getpid());
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    doing("wait for a rank that is stopped");
    say(&s->sayings[rank], run_large(size, &right));
    say(&s->sayings[RANKS_MOST + rank], run_one("later"));
    if (rank != s->stopped && atomic_fetch_add(job_counter(GIVEN_UP), 1) == size - 2)
        kill(atomic_load(job_counter(STOPPED_PROCESS)), SIGCONT);
    doing("shut down");
    CHECK_OK(rueda_shutdown());
}

static void stop_for_long(int ranks, int stopped, int step)
{
    const size_t bytes = 2 * RANKS_MOST * sizeof(saying);
    const scene s = {stopped, shared_take(bytes)};
    char fault[64], named[96];
    snprintf(fault, sizeof fault, "RUEDA_FAULT=stop:rank=%d:operation=1:step=%d", stopped, step);
    snprintf(named, sizeof named,
             "rank %d is lost: it has not answered for RUEDA_HEARTBEAT seconds", stopped);
    const char *const environment[] = {"RUEDA_HEARTBEAT=1", fault, NULL};
    run_job(&(job){
        .ranks = ranks, .body = live, .argument = &s, .environment = environment, .seconds = 20});
    assert_true(all_say(s.sayings, ranks, 0, RUEDA_ERR_PEER, named));
    assert_true(all_say(s.sayings + RANKS_MOST, ranks, 0, RUEDA_ERR_PEER, named));
    shared_give(s.sayings, bytes);
}

static void a_stopped_rank_is_named_by_all_and_told_later(void **state)
{
    (void)state;
    stop_for_long(2, 0, 1);
    stop_for_long(2, 1, 2);
    stop_for_long(3, 0, 3);
    stop_for_long(3, 2, 0);
    stop_for_long(5, 1, 1);
}

/* The others leave before the stopped one goes on: what it finds is an end all the same. */
static void leave_behind(int rank, int size, const void *argument)
{
    const scene *s = argument;
    bool right;
    if (rank == s->stopped)
        atomic_store(job_counter(STOPPED_PROCESS), (int)getpid());
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    CHECK_STATUS(run_large(size, &right), RUEDA_ERR_PEER);
    CHECK_SAYS("has not answered");
    CHECK_OK(rueda_shutdown());
    if (rank != s->stopped && atomic_fetch_add(job_counter(GIVEN_UP), 1) == size - 2)
        kill(atomic_load(job_counter(STOPPED_PROCESS)), SIGCONT);
}

static void a_rank_that_was_left_behind_ends_too(void **state)
{
    (void)state;
    static const char *const environment[] = {"RUEDA_HEARTBEAT=1",
                                              "RUEDA_FAULT=stop:rank=1:operation=1:step=1", NULL};
    for (int ranks = 2; ranks <= 3; ranks++)
        run_job(&(job){.ranks = ranks,
                       .body = leave_behind,
                       .argument = &(scene){.stopped = 1},
                       .environment = environment,
                       .seconds = 20});
}

/* ---- Short stops ----------------------------------------------------------------------------- */

static void *wake_later(void *process)
{
    await_stop(*(const int *)process);
    sleep_ms(SHORT_MS);
    kill(*(const int *)process, SIGCONT);
    return NULL;
}

/* Rank 0 sees to it that a rank goes on in time. */
static void rest_a_little(int rank, int size, const void *argument)
{
    (void)argument;
    bool right;
    if (rank == 1)
        atomic_store(job_counter(STOPPED_PROCESS), (int)getpid());
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    int process = atomic_load(job_counter(STOPPED_PROCESS));
    pthread_t waker;
    if (rank == 0)
        CHECK_EQUAL(pthread_create(&waker, NULL, wake_later, &process), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(run_large(size, &right));
        CHECK(right);
    }
    if (rank == 0)
        CHECK_EQUAL(pthread_join(waker, NULL), 0);
    CHECK_OK(run_one("last"));
    CHECK_OK(rueda_shutdown());
}

static void a_short_stop_harms_nobody(void **state)
{
    (void)state;
    for (int step = 0; step < 8; step += 3) {
        char fault[64];
        snprintf(fault, sizeof fault, "RUEDA_FAULT=stop:rank=1:operation=1:step=%d", step);
        const char *const environment[] = {"RUEDA_HEARTBEAT=2", fault, NULL};
        run_job(&(job){.ranks = 2 + step % 2, .body = rest_a_little, .environment = environment});
    }
}

/* All are stopped and go on together, as when a machine sleeps: nobody is accused. */
static void sleep_together(int rank, int size, const void *argument)
{
    (void)argument;
    bool right;
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < 3; i++) {
        atomic_store(job_counter(rank), (int)getpid());
        meet();
        const pid_t waker = rank == 0 ? fork() : -1;
        if (waker == 0) {
            for (int r = 0; r < size; r++)
                kill(atomic_load(job_counter(r)), SIGSTOP);
            sleep_ms(2500);
            for (int r = 0; r < size; r++)
                kill(atomic_load(job_counter(r)), SIGCONT);
            _exit(0);
        }
        CHECK_OK(run_large(size, &right));
        CHECK(right);
    }
    CHECK_OK(rueda_shutdown());
}

static void nobody_is_accused_when_all_have_slept(void **state)
{
    (void)state;
    static const char *const environment[] = {"RUEDA_HEARTBEAT=1", NULL};
    run_job(&(job){.ranks = 3, .body = sleep_together, .environment = environment});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_rank_is_named_by_all_and_told_later),
        cmocka_unit_test(a_rank_that_was_left_behind_ends_too),
        cmocka_unit_test(a_short_stop_harms_nobody),
        cmocka_unit_test(nobody_is_accused_when_all_have_slept),
    };
    return cmocka_run_group_tests_name("stop", tests, NULL, look_for_rest);
}
