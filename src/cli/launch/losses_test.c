/* losses_test.c: which jobs can be elastic, and after which ends they go on. The sources are included
 * because the library for tests holds no commands. */
#include "cli/launch/blame.c"  // NOLINT
#include "cli/launch/losses.c" // NOLINT

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NOBODY (-1)
#define RUNS                                                                                       \
    {                                                                                              \
        .named = NOBODY                                                                            \
    }
#define EXITED(code, has_joined, whom)                                                             \
    {                                                                                              \
        .ended = true, .end = {.exit_code = (code)}, .joined = (has_joined), .named = (whom)       \
    }

bool hosts_is_here(const char *name)
{
    return strcmp(name, "localhost") == 0;
}

static bool goes_on(const blame_fate fates[4], int min_ranks)
{
    const losses_tally tally = losses_count(fates, 4);
    return losses_survived(&(launch_options){.ranks = 4, .min_ranks = min_ranks}, &tally);
}

static void enough_ranks_go_on(void **state)
{
    (void)state;
    const blame_fate fates[] = {RUNS, EXITED(3, true, NOBODY), EXITED(0, true, NOBODY), RUNS};
    const losses_tally tally = losses_count(fates, 4);
    assert_int_equal(tally.running, 2);
    assert_int_equal(tally.done, 1);
    assert_true(goes_on(fates, 1));
    assert_true(goes_on(fates, 3));
    assert_false(goes_on(fates, 4));
    assert_false(goes_on(fates, 0)); /* it is not elastic */
}

static void ranks_that_failed_with_a_lost_one_are_no_failed_start(void **state)
{
    (void)state;
    const blame_fate fates[] = {RUNS, EXITED(3, true, NOBODY), EXITED(4, true, 1), RUNS};
    assert_true(goes_on(fates, 2));
}

static void a_failed_start_ends_the_job(void **state)
{
    (void)state;
    const blame_fate before[] = {RUNS, EXITED(3, false, NOBODY), RUNS, RUNS};
    assert_true(goes_on(before, 1)); /* it may be a program without the library */
    const blame_fate after[] = {RUNS, EXITED(3, false, NOBODY), EXITED(1, false, 1), RUNS};
    assert_false(goes_on(after, 1));
    const blame_fate left[] = {RUNS, EXITED(0, false, NOBODY), EXITED(1, false, 1), RUNS};
    assert_false(goes_on(left, 1));
}

static void only_one_host_is_elastic(void **state)
{
    (void)state;
    char why[LOSSES_WHY_MAX];
    const launch_host hosts[] = {{"localhost", 2}, {"node1", 2}};
    launch_options options = {.ranks = 2, .min_ranks = 2, .hosts = hosts};
    assert_true(losses_allowed(&options, why));
    options.host_count = 1;
    assert_true(losses_allowed(&options, why));
    options.min_ranks = 3;
    assert_false(losses_allowed(&options, why));
    options.min_ranks = 1;
    options.host_count = 2;
    assert_false(losses_allowed(&options, why));
    options.hosts = &hosts[1];
    options.host_count = 1;
    assert_false(losses_allowed(&options, why));
    options.min_ranks = 0;
    assert_true(losses_allowed(&options, why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enough_ranks_go_on),
        cmocka_unit_test(ranks_that_failed_with_a_lost_one_are_no_failed_start),
        cmocka_unit_test(a_failed_start_ends_the_job),
        cmocka_unit_test(only_one_host_is_elastic),
    };
    return cmocka_run_group_tests_name("losses", tests, NULL, NULL);
}
