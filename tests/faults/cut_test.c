/* cut_test.c: connections that break between ranks that both live: all of them end with the same
 * sentence, which names the higher of the two.
 * ctest: waits timeout=120 */
#include "survivors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define RANKS_MOST 6
#define SKIPPED 77

static void live(int rank, int size, const void *argument)
{
    (void)size;
    saying *pending = (saying *)argument, *later = pending + RANKS_MOST;
    static float data[60000];
    const int64_t count = 60000;
    const rueda_tensor t = RUEDA_TENSOR("large", data, RUEDA_F32, 1, &count);
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run_one("first"));
    rueda_status status;
    for (int i = 0; (status = rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL)) == RUEDA_OK;
         i++)
        doing("operation %d", i);
    say(&pending[rank], status);
    doing("submit something later");
    say(&later[rank], run_one("later"));
    doing("shut down");
    CHECK_OK(rueda_shutdown());
}

/* Rank `from` cuts its connections to rank `to`. */
static void cut(const char *what, int ranks, int from, int to, int step)
{
    saying *sayings = shared_take(2 * RANKS_MOST * sizeof *sayings);
    char fault[96], named[32];
    snprintf(fault, sizeof fault, "RUEDA_FAULT=%s:rank=%d:operation=3:step=%d:peer=%d", what, from,
             step, to);
    snprintf(named, sizeof named, "rank %d is lost", from > to ? from : to);
    const char *const environment[] = {fault, "RUEDA_ALGORITHM=ring", NULL};
    const job j = {.ranks = ranks,
                   .body = live,
                   .argument = sayings,
                   .environment = environment,
                   .seconds = 20};
    const uint64_t start = clock_ns();
    run_fatal_job(&j, NULL);
    print_message("%s, %d ranks: %.2f s\n", fault, ranks, 1e-9 * (double)(clock_ns() - start));
    assert_true(all_say(sayings, ranks, 0, RUEDA_ERR_PEER, named));
    assert_true(all_say(sayings + RANKS_MOST, ranks, 0, RUEDA_ERR_PEER, named));
    shared_give(sayings, 2 * RANKS_MOST * sizeof *sayings);
}

/* The first rank of the last host, or simply the last one. */
static int far_rank(int ranks)
{
    return getenv("TEST_RANKS_ON_HOST") == NULL ? ranks - 1 : (ranks - 1) / 2 * 2;
}

static void cut_each_way(const char *what)
{
    for (int ranks = uses_network() && getenv("TEST_RANKS_ON_HOST") != NULL ? 3 : 2;
         ranks <= RANKS_MOST; ranks += 2) {
        const int far = far_rank(ranks);
        for (int step = 0; step < 6; step += 5) {
            cut(what, ranks, 0, far, step);
            cut(what, ranks, far, 0, step);
        }
    }
}

static void all_connections_of_two_ranks_break(void **state)
{
    (void)state;
    cut_each_way("cut");
}

static void the_control_connection_of_two_ranks_breaks(void **state)
{
    (void)state;
    cut_each_way("cut-tree");
}

/* 60,000 floats go around a ring: neighbours have connections. */
static void a_data_connection_of_two_ranks_breaks(void **state)
{
    (void)state;
    if (getenv("TEST_RANKS_ON_HOST") == NULL) {
        cut("cut-data", 2, 0, 1, 5);
        cut("cut-data", 2, 1, 0, 5);
        cut("cut-data", 4, 1, 2, 5);
        cut("cut-data", 4, 2, 1, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_connections_of_two_ranks_break),
        cmocka_unit_test(the_control_connection_of_two_ranks_breaks),
        cmocka_unit_test(a_data_connection_of_two_ranks_breaks),
    };
    if (!uses_network()) {
        print_message("SKIPPED: ranks that share memory have no connections to cut\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests_name("cut", tests, NULL, look_for_rest);
}
