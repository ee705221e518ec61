/* strangers_test.c: strangers of every kind at all ports of a running job: none is let in or told
 * anything, and the job goes on as if they were not there.
 * ctest: waits timeout=120 */
#include "strangers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 3 /* of the job; the next one is the strangers' */
#define SKIPPED 77
#define VISITS 1500
#define COUNT 20000

enum { PORTS, READY = RANKS, DONE };

static const char KEY[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static void come_uninvited(void)
{
    int ports[RANKS];
    static strangers all;
    await_counter(READY, RANKS);
    for (int r = 0; r < RANKS; r++)
        ports[r] = atomic_load(job_counter(PORTS + r));
    strangers_begin(&all, ports, RANKS, KEY, getenv("RUEDA_JOB"), 5);
    for (int i = 0; i < VISITS; i++) {
        doing("visit %d", i);
        strangers_step(&all);
        if (i % 4 == 0)
            sleep_ms(2); /* for the ranks to open */
    }
    strangers_end(&all);
    CHECK(all.refused == 0); /* all reached the door */
    atomic_store(job_counter(DONE), 1);
}

/* Rank 0 says in the first element when it is over. */
static void work(int rank)
{
    static float data[COUNT];
    const int64_t count = COUNT;
    const rueda_tensor t = RUEDA_TENSOR("work", data, RUEDA_F32, 1, &count);
    bool over = false;
    for (int i = 0; !over; i++) {
        doing("operation %d", i);
        for (int k = 0; k < COUNT; k++)
            data[k] = (float)(k % 100 + rank);
        data[0] = rank == 0 && atomic_load(job_counter(DONE)) != 0 ? 1 : 0;
        CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL));
        over = data[0] != 0;
        for (int k = 1; k < COUNT; k++)
            CHECK(data[k] == (float)(k % 100 * RANKS + RANKS * (RANKS - 1) / 2));
    }
}

static void live(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    if (rank == RANKS) {
        come_uninvited();
        return;
    }
    setenv("RUEDA_SIZE", "3", 1);
    setenv("RUEDA_LOCAL_SIZE", "3", 1);
    setenv("RUEDA_KEY", KEY, 1);
    setenv("RUEDA_LOG_LEVEL", "error", 1);
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    atomic_store(job_counter(PORTS + rank), own_port());
    atomic_fetch_add(job_counter(READY), 1);
    work(rank);
    /* connections of honest ranks are still made */
    static const int32_t pair[] = {0, 2};
    int32_t set;
    CHECK_OK(rueda_process_set_add(pair, 2, &set));
    if (rank != 1) {
        rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
        float value[] = {1, 2};
        const int64_t count = 2;
        const rueda_tensor t = RUEDA_TENSOR("pair", value, RUEDA_F32, 1, &count);
        options.process_set = set;
        CHECK_OK(rueda_allreduce(&t, &options, NULL));
        CHECK(value[0] == 2 && value[1] == 4);
    }
    CHECK_OK(rueda_shutdown());
}

static void none_is_let_in_and_the_job_goes_on(void **state)
{
    (void)state;
    run_job(&(job){.ranks = RANKS + 1, .body = live});
}

static void none_is_let_in_where_data_is_encrypted(void **state)
{
    (void)state;
    static const char *const environment[] = {"RUEDA_ENCRYPT=1", NULL};
    run_job(&(job){.ranks = RANKS + 1, .body = live, .environment = environment});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_is_let_in_and_the_job_goes_on),
        cmocka_unit_test(none_is_let_in_where_data_is_encrypted),
    };
    if (!uses_network()) {
        print_message("SKIPPED: ranks that share memory have no ports\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests_name("strangers", tests, NULL, look_for_rest);
}
