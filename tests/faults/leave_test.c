/* leave_test.c: ranks that leave early, and what the others can do afterwards; nothing stays behind.
 * ctest: not_asan waits timeout=120 */
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

#define RANKS_MOST 4
#define LARGE 4000000

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void run_and_look(const job *j)
{
    run_job(j);
    assert_true(nothing_is_left());
}

/* ---- Early ends ------------------------------------------------------------------------------ */

typedef enum manner { EXIT, EXIT_AT_ONCE, EXIT_AT_WORK, ABORT_AT_WORK, MANNER_COUNT } manner;

typedef struct scene {
    manner manner;
    saying *sayings;
} scene;

static void *work(void *unused)
{
    (void)unused;
    float *data = calloc(LARGE, sizeof *data);
    const int64_t count = LARGE;
    const rueda_tensor t = RUEDA_TENSOR("large", data, RUEDA_F32, 1, &count);
    for (;;)
        rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL);
    return NULL;
}

/* Without rueda_shutdown. */
static void leave(manner m)
{
    pthread_t worker;
    if (m == EXIT)
        exit(EXIT_SUCCESS);
    if (m == EXIT_AT_ONCE)
        _exit(EXIT_SUCCESS);
    CHECK_EQUAL(pthread_create(&worker, NULL, work, NULL), 0);
    sleep_ms(50);
    if (m == EXIT_AT_WORK)
        exit(EXIT_SUCCESS);
    raise(SIGKILL);
}

static void live(int rank, int size, const void *argument)
{
    (void)size;
    const scene *s = argument;
    float *data = calloc(LARGE, sizeof *data);
    const int64_t count = LARGE;
    const rueda_tensor t = RUEDA_TENSOR("large", data, RUEDA_F32, 1, &count);
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    meet(); /* nobody goes while another is still in the first */
    if (rank == 1)
        leave(s->manner);
    rueda_status status;
    while ((status = rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL)) == RUEDA_OK)
        ;
    say(&s->sayings[rank], status);
    say(&s->sayings[RANKS_MOST + rank], run_one("later"));
    CHECK_OK(rueda_shutdown());
    free(data);
}

static void a_rank_that_goes_without_a_word_is_named(void **state)
{
    (void)state;
    for (int m = 0; m < MANNER_COUNT; m++) {
        for (int ranks = 2; ranks <= RANKS_MOST; ranks += 2) {
            const size_t bytes = 2 * RANKS_MOST * sizeof(saying);
            const scene s = {(manner)m, shared_take(bytes)};
            run_and_look(&(job){.ranks = ranks,
                                .body = live,
                                .argument = &s,
                                .killed = m == ABORT_AT_WORK ? 1u << 1 : 0});
            assert_true(all_say(s.sayings, ranks, 2, RUEDA_ERR_PEER, "rank 1 is lost"));
            assert_true(
                all_say(s.sayings + RANKS_MOST, ranks, 2, RUEDA_ERR_PEER, "rank 1 is lost"));
            shared_give(s.sayings, bytes);
        }
    }
}

/* ---- Afterwards ------------------------------------------------------------------------------ */

static void set_place(int rank, int size, const char *job)
{
    set_number("RUEDA_RANK", rank);
    set_number("RUEDA_SIZE", size);
    set_number("RUEDA_LOCAL_RANK", rank);
    set_number("RUEDA_LOCAL_SIZE", size);
    if (job != NULL)
        setenv("RUEDA_JOB", job, 1);
}

/* One rank after the other dies; the rest goes on as a smaller job, under the same name or another. */
static void shrink(int rank, int size, const void *argument)
{
    const char *renamed = argument;
    char name[80], first[64];
    snprintf(first, sizeof first, "%s", getenv("RUEDA_JOB"));
    for (int left = size; left > 0; left--) {
        doing("one of %d", left);
        CHECK_OK(rueda_init(NULL));
        CHECK_EQUAL(rueda_size(), left);
        CHECK_EQUAL(rueda_rank(), rank);
        for (int i = 0; i < 3; i++) {
            task t = {.recipe = RECIPE(RUEDA_F32, RUEDA_SUM, 7), .count = 5000};
            snprintf(t.name, sizeof t.name, "%d of %d", i, left);
            task_run(&t);
        }
        if (left == 1)
            break;
        /* the lowest dies, when all are done: its place is the most important one */
        atomic_fetch_add(job_counter(left), 1);
        if (rank == 0) {
            await_counter(left, left);
            raise(SIGKILL);
        }
        CHECK_STATUS(run_one("without rank 0"), RUEDA_ERR_PEER);
        CHECK_SAYS("rank 0 is lost");
        CHECK_OK(rueda_shutdown());
        rank--;
        snprintf(name, sizeof name, "%s-%d", first, left);
        set_place(rank, left - 1, renamed == NULL ? NULL : name);
    }
    CHECK_OK(rueda_shutdown());
}

static void survivors_go_on_as_a_smaller_job(void **state)
{
    (void)state;
    run_and_look(&(job){.ranks = 4, .body = shrink, .killed = 7});
    run_and_look(&(job){.ranks = 4, .body = shrink, .argument = "renamed", .killed = 7});
}

/* Who leaves in good order is not lost. */
static void leave_in_order(int rank, int size, const void *argument)
{
    (void)argument;
    double value = 1;
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    rueda_request *pending = rank == 1 ? NULL : submit_one("never on rank 1", &value);
    meet();
    if (rank != 1) {
        CHECK_STATUS(rueda_wait(pending, -1), RUEDA_ERR_SHUTDOWN);
        CHECK_SAYS("rank 1 has shut down");
        CHECK_STATUS(run_one("later"), RUEDA_ERR_SHUTDOWN);
        rueda_request_free(pending);
    }
    CHECK_OK(rueda_shutdown());
    CHECK_OK(rueda_init(NULL));
    CHECK_EQUAL(rueda_size(), size);
    CHECK_OK(run_one("again"));
    CHECK_OK(rueda_shutdown());
}

static void a_rank_that_leaves_in_order_is_not_lost(void **state)
{
    (void)state;
    run_and_look(&(job){.ranks = 2, .body = leave_in_order});
    run_and_look(&(job){.ranks = 4, .body = leave_in_order});
}

/* The last rank leaves, rank 0 because of it, as it waits in a set of both; rank 1 then waits for both, and the
 * first that went is the reason. */
static void leave_in_turn(int rank, int size, const void *argument)
{
    (void)argument;
    const int32_t ends[] = {0, size - 1};
    const int64_t shape[] = {1};
    double value = 1;
    char reason[64];
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    const rueda_tensor t = RUEDA_TENSOR("without the last", &value, RUEDA_F64, 1, shape);
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(rueda_process_set_add(ends, 2, &options.process_set));
    if (rank == 1)
        options.process_set = RUEDA_GLOBAL_SET;
    if (rank < size - 1) {
        await_counter(0, rank + 1);
        CHECK_STATUS(rueda_allreduce(&t, &options, NULL), RUEDA_ERR_SHUTDOWN);
        snprintf(reason, sizeof reason, "rank %d has shut down", size - 1);
        CHECK_SAYS(reason);
    }
    CHECK_OK(rueda_shutdown());
    atomic_fetch_add(job_counter(0), 1);
}

static void of_several_that_left_the_first_is_named(void **state)
{
    (void)state;
    run_and_look(&(job){.ranks = 3, .body = leave_in_turn});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_goes_without_a_word_is_named),
        cmocka_unit_test(survivors_go_on_as_a_smaller_job),
        cmocka_unit_test(a_rank_that_leaves_in_order_is_not_lost),
        cmocka_unit_test(of_several_that_left_the_first_is_named),
    };
    return cmocka_run_group_tests_name("leave", tests, NULL, look_for_rest);
}
