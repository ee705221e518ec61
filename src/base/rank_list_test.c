/* rank_list_test.c: lists of ranks, short and too long. */
#include "base/rank_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void ranks_follow_each_other(void **state)
{
    (void)state;
    rank_list l = {.used = 0};
    assert_string_equal(l.text, "");
    rank_list_add(&l, 0);
    rank_list_add(&l, 12);
    rank_list_add(&l, UINT32_MAX);
    assert_string_equal(l.text, " 0 12 4294967295");
    assert_int_equal(l.count, 3);
}

/* Every number is whole, and the end says that there are more, once. */
static void a_long_list_says_that_there_are_more(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 100000; first = first * 10 + 1) {
        rank_list l = {.used = 0};
        for (uint32_t r = 0; r < 1000; r++)
            rank_list_add(&l, first + r);
        const char *more = strstr(l.text, " …");
        assert_int_equal(l.count, 1000);
        assert_non_null(more);
        assert_string_equal(more, " …");
        assert_true(strlen(l.text) < sizeof l.text);
        assert_int_equal(strlen(l.text), l.used);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_follow_each_other),
        cmocka_unit_test(a_long_list_says_that_there_are_more),
    };
    return cmocka_run_group_tests_name("rank_list", tests, NULL, NULL);
}
