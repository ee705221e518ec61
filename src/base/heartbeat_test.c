/* heartbeat_test.c: silence is counted as far as we were awake. */
#include "base/heartbeat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Looks of a rank at another that is silent, `apart` ns each, until it is lost; returns how many. */
static int looks_until_lost(heartbeat *h, uint64_t now, uint64_t apart)
{
    uint64_t silence = 0;
    for (int i = 1; i < 100000; i++) {
        now += apart;
        if (heartbeat_is_lost(h, &silence, heartbeat_look(h, now)))
            return i;
    }
    return -1;
}

static void silence_that_lasts_is_a_loss(void **state)
{
    (void)state;
    heartbeat often = {.limit_ns = 1000}, seldom = {.limit_ns = 1000};
    assert_int_equal(looks_until_lost(&often, 50, 10), 101); /* the first look counts nothing */
    assert_int_equal(looks_until_lost(&seldom, 50, 250), 5);
}

static void who_has_slept_accuses_nobody(void **state)
{
    (void)state;
    heartbeat h = {.limit_ns = 1000};
    uint64_t silence = 0;
    assert_false(heartbeat_is_lost(&h, &silence, heartbeat_look(&h, 10)));
    for (uint64_t woken = 1; woken < HEARTBEAT_SIGNS; woken++)
        assert_false(heartbeat_is_lost(&h, &silence, heartbeat_look(&h, woken * 1000000)));
    assert_int_equal(silence, 750);
}

static void without_a_limit_nobody_is_lost(void **state)
{
    (void)state;
    heartbeat h = {.limit_ns = 0};
    assert_int_equal(looks_until_lost(&h, 50, 1000), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_that_lasts_is_a_loss),
        cmocka_unit_test(who_has_slept_accuses_nobody),
        cmocka_unit_test(without_a_limit_nobody_is_lost),
    };
    return cmocka_run_group_tests_name("heartbeat", tests, NULL, NULL);
}
