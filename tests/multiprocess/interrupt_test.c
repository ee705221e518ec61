/* interrupt_test.c: a caller that gives up while it waits in rueda_init, or for a process set.
 * ctest: threads timeout=240 */
#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { ENOUGH = 3 }; /* questions after which a caller gives up */
enum { CALLING, ENDED };

static int gives_up_soon(void *asked)
{
    return ++*(int *)asked >= ENOUGH;
}

static rueda_init_options gives_up_options(int *asked)
{
    return (rueda_init_options){.struct_size = sizeof(rueda_init_options),
                                .interrupted = gives_up_soon,
                                .interrupted_argument = asked};
}

static void wait_until(int counter, int value)
{
    while (atomic_load(job_counter(counter)) < value)
        usleep(1000);
}

/* ---- rueda_init -------------------------------------------------------------------------------- */

/* One rank gives up. The last comes only when the others have ended, so that all wait for it. */
static void interrupt_init(int rank, int size, const void *argument)
{
    const int quitter = *(const int *)argument;
    int asked = 0;
    const rueda_init_options options = gives_up_options(&asked);
    doing("rank %d of %d in rueda_init, which rank %d leaves", rank, size, quitter);
    if (rank == size - 1) {
        wait_until(ENDED, size - 1);
        return;
    }
    if (rank == quitter) {
        wait_until(CALLING, size - 2);
        CHECK_STATUS(rueda_init(&options), RUEDA_ERR_INTERRUPTED);
        CHECK_EQUAL(asked, ENOUGH);
    } else {
        atomic_fetch_add(job_counter(CALLING), 1);
        CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_PEER);
    }
    CHECK(!rueda_is_initialized());
    char who[64];
    snprintf(who, sizeof who, "rank %d was interrupted in rueda_init", quitter);
    CHECK_SAYS(who);
    atomic_fetch_add(job_counter(ENDED), 1);
}

static void each_rank_gives_up(const char *const *environment)
{
    for (int quitter = 0; quitter < 2; quitter++)
        run_job(&(job){
            .ranks = 3, .body = interrupt_init, .argument = &quitter, .environment = environment});
}

static void init_can_be_left_on_one_host(void **state)
{
    (void)state;
    each_rank_gives_up(NULL);
}

static void init_can_be_left_over_tcp(void **state)
{
    (void)state;
    static const char *const tcp[] = {"RUEDA_TRANSPORT=tcp", NULL};
    each_rank_gives_up(tcp);
}

/* Nobody writes the file. */
static void leave_while_there_is_no_file(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    int asked = 0;
    const rueda_init_options options = gives_up_options(&asked);
    if (rank == 0)
        return;
    setenv("RUEDA_MEET", "file:/nowhere/interrupt_test", 1);
    setenv("RUEDA_TRANSPORT", "tcp", 1);
    CHECK_STATUS(rueda_init(&options), RUEDA_ERR_INTERRUPTED);
    CHECK_SAYS("rank 1 was interrupted");
}

static void init_can_be_left_before_there_is_a_file(void **state)
{
    (void)state;
    run_ranks(2, leave_while_there_is_no_file, NULL);
}

static void is_never_asked_too_much(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    int asked = INT32_MIN;
    const rueda_init_options options = gives_up_options(&asked);
    CHECK_OK(rueda_init(&options));
    CHECK_OK(rueda_shutdown());
}

static void who_does_not_give_up_is_not_disturbed(void **state)
{
    (void)state;
    run_ranks(3, is_never_asked_too_much, NULL);
}

/* ---- Process sets ------------------------------------------------------------------------------ */

/* Rank 0 gives up; when the others have come the set is there, for it as well. */
static void interrupt_a_set(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    const int32_t first[] = {0};
    int asked = INT32_MIN;
    int32_t set = -1;
    const rueda_init_options options = gives_up_options(&asked);
    CHECK_OK(rueda_init(rank == 0 ? &options : NULL));
    if (rank == 0) {
        asked = 0;
        CHECK_STATUS(rueda_process_set_add(first, 1, &set), RUEDA_ERR_INTERRUPTED);
        CHECK_SAYS("rueda_process_set_add: rank 0 was interrupted");
        atomic_fetch_add(job_counter(ENDED), 1);
    } else {
        wait_until(ENDED, 1);
        CHECK_OK(rueda_process_set_add(first, 1, &set));
    }
    CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    CHECK_EQUAL(rueda_process_set_size(1), 1);
    if (rank == 0)
        CHECK_OK(rueda_barrier(1, NULL));
    CHECK_OK(rueda_shutdown());
}

static void a_set_can_be_left_to_the_others(void **state)
{
    (void)state;
    run_ranks(2, interrupt_a_set, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_can_be_left_on_one_host),
        cmocka_unit_test(init_can_be_left_over_tcp),
        cmocka_unit_test(init_can_be_left_before_there_is_a_file),
        cmocka_unit_test(who_does_not_give_up_is_not_disturbed),
        cmocka_unit_test(a_set_can_be_left_to_the_others),
    };
    return cmocka_run_group_tests_name("interrupt", tests, NULL, NULL);
}
