/* blame_test.c: of ends that are seen in any order, the reason is found. The source is included because
 * the library for tests holds no commands. */
#include "cli/launch/blame.c" // NOLINT

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NOBODY (-1)
#define RUNS                                                                                       \
    {                                                                                              \
        .named = NOBODY                                                                            \
    }
#define EXITED(code, when, whom)                                                                   \
    {                                                                                              \
        .ended = true, .end = {.exit_code = (code)}, .turn = (when), .named = (whom)               \
    }
#define KILLED_BY(number, when, whom)                                                              \
    {                                                                                              \
        .ended = true, .end = {.exit_code = EXIT_SIGNAL + (number), .signal = (number)},           \
        .turn = (when), .named = (whom)                                                            \
    }

static void assert_blame(const blame_fate *fates, int count, blame expected)
{
    const blame found = blame_find(fates, count);
    assert_int_equal(found.failed, expected.failed);
    assert_int_equal(found.culprit, expected.culprit);
    assert_int_equal(found.certain, expected.certain);
}
#define ASSERT_BLAME(fates, ...)                                                                   \
    assert_blame(fates, (int)(sizeof(fates) / sizeof(fates)[0]), (blame){__VA_ARGS__})

static void nobody_is_blamed_for_nothing(void **state)
{
    (void)state;
    const blame_fate fates[] = {RUNS, EXITED(0, 0, NOBODY)};
    ASSERT_BLAME(fates, NOBODY, NOBODY, false);
}

static void the_first_failure_is_the_reason_unless_more_is_known(void **state)
{
    (void)state;
    const blame_fate some[] = {EXITED(4, 1, NOBODY), EXITED(3, 0, NOBODY), RUNS};
    ASSERT_BLAME(some, 1, 1, false);
    const blame_fate all[] = {EXITED(4, 1, NOBODY), EXITED(3, 0, NOBODY), EXITED(0, 2, NOBODY)};
    ASSERT_BLAME(all, 1, 1, true);
}

static void a_killed_rank_comes_before_those_that_exit(void **state)
{
    (void)state;
    const blame_fate fates[] = {EXITED(1, 0, NOBODY), KILLED_BY(9, 1, NOBODY), RUNS};
    ASSERT_BLAME(fates, 1, 1, false);
}

static void a_survivor_that_ends_first_is_not_the_reason(void **state)
{
    (void)state;
    const blame_fate before[] = {EXITED(4, 0, 2), RUNS, RUNS};
    ASSERT_BLAME(before, 0, 2, false);
    const blame_fate after[] = {EXITED(4, 0, 2), RUNS, KILLED_BY(9, 1, NOBODY)};
    ASSERT_BLAME(after, 2, 2, true);
}

static void survivors_that_abort_are_not_the_reason(void **state)
{
    (void)state;
    const blame_fate fates[] = {KILLED_BY(6, 0, 1), EXITED(3, 1, NOBODY), RUNS};
    ASSERT_BLAME(fates, 1, 1, true);
}

static void of_two_victims_the_named_one_is_the_reason(void **state)
{
    (void)state;
    const blame_fate fates[] = {EXITED(4, 2, 2), KILLED_BY(9, 0, NOBODY), KILLED_BY(9, 1, NOBODY),
                                RUNS};
    ASSERT_BLAME(fates, 2, 2, true);
}

static void names_are_followed(void **state)
{
    (void)state;
    const blame_fate fates[] = {EXITED(1, 0, 1), EXITED(1, 1, 2), KILLED_BY(11, 2, NOBODY)};
    ASSERT_BLAME(fates, 2, 2, true);
    const blame_fate circle[] = {EXITED(1, 1, 1), EXITED(1, 0, 0), RUNS};
    ASSERT_BLAME(circle, 1, 1, false);
}

static void a_rank_that_left_with_0_is_named(void **state)
{
    (void)state;
    const blame_fate fates[] = {EXITED(4, 1, 1), EXITED(0, 0, NOBODY)};
    ASSERT_BLAME(fates, 0, 1, true);
}

static void a_lost_rank_is_the_reason_only_if_it_is_named(void **state)
{
    (void)state;
    const blame_fate lost = {
        .ended = true, .end = {.exit_code = 137, .signal = 9}, .named = NOBODY, .lost = true};
    const blame_fate alone[] = {lost, RUNS, RUNS};
    ASSERT_BLAME(alone, NOBODY, NOBODY, false);
    const blame_fate other[] = {lost, EXITED(3, 1, NOBODY), RUNS};
    ASSERT_BLAME(other, 1, 1, false);
    const blame_fate named[] = {lost, EXITED(3, 1, 0), RUNS};
    ASSERT_BLAME(named, 0, 0, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_blamed_for_nothing),
        cmocka_unit_test(the_first_failure_is_the_reason_unless_more_is_known),
        cmocka_unit_test(a_killed_rank_comes_before_those_that_exit),
        cmocka_unit_test(a_survivor_that_ends_first_is_not_the_reason),
        cmocka_unit_test(survivors_that_abort_are_not_the_reason),
        cmocka_unit_test(of_two_victims_the_named_one_is_the_reason),
        cmocka_unit_test(names_are_followed),
        cmocka_unit_test(a_rank_that_left_with_0_is_named),
        cmocka_unit_test(a_lost_rank_is_the_reason_only_if_it_is_named),
    };
    return cmocka_run_group_tests_name("blame", tests, NULL, NULL);
}
