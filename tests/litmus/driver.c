/* driver.c: one drives at a time, nobody who waits is forgotten, and when the driver leaves while work is left
 * somebody else goes on.
 *
 * What C11 does not promise: that a waiter that is about to sleep sees the end of its request (a release store)
 * although the driver saw no sleepers. As in background.c the store would have to be seq_cst, and no machine of
 * today shows it.
 *
 * models src/engine/drive.c become_driver 3799559800
 * models src/engine/drive.c drive_try 3631320011
 * models src/engine/drive.c drive_leave 1394768928
 * models src/engine/drive.c follow 1673560986
 * models src/engine/drive.c engine_wait 2723799106
 * models src/engine/progress.c engine_tell_waiters 504059395
 * models src/engine/operation.c operation_finish 4042472445
 * models src/queue/request.c request_end 3650841986
 * models src/queue/request.h request_ended 3826918929
 */
#include "engine_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const litmus_step background[] = {BACKGROUND_MAIN, END};
static const litmus_step background_long[] = {BACKGROUND_MAIN_LONG, END};
static const litmus_step background_drives[] = {GOTO(10), BACKGROUND_MAIN_LONG, END};
static const litmus_step wait_first[] = {SUBMIT(MAIL1), ENGINE_WAIT(ENDED1, 1), END};
static const litmus_step wait_second[] = {SUBMIT(MAIL2), ENGINE_WAIT(ENDED2, 1), END};
static const litmus_step submit[] = {SUBMIT(MAIL2), CALL_DRIVER(false, 1), END};
/* engine_after_fork, tidy and answer; and the end of engine_wait */
static const litmus_step leave[] = {DRIVE_LEAVE(1), END};
static const litmus_step leave_wait[] = {DRIVE_LEAVE(1), WAIT_END(5), END};

static const char *forgotten(const litmus_end *e, int left, int caller)
{
    if (e->values[OUTSTANDING] > left)
        return LITMUS_FOR_EVER ": work is left and nobody does it";
    return e->ended[caller] ? NULL : LITMUS_FOR_EVER ": a caller waits";
}

static const char *first_ends(const litmus_end *e)
{
    return forgotten(e, 0, 0);
}

static const char *both_end(const litmus_end *e)
{
    return e->ended[1] ? forgotten(e, 0, 0) : LITMUS_FOR_EVER ": a caller waits";
}

static const char *waiter_ends_beside_the_other(const litmus_end *e)
{
    return forgotten(e, 1, 0);
}

static const char *second_ends_beside_the_first(const litmus_end *e)
{
    return forgotten(e, 1, 1);
}

/* without sleeps that end for no reason, which hold as well and take four seconds each */
static const litmus_program alone = {
    .places = {ENGINE_PLACES(1)},
    .threads = {{"waiter", wait_second}, {"background", background}},
    .judge = first_ends};
/* the background thread drives, for a request whose peer does not come, and makes room */
static const litmus_program makes_room = {
    .places = {ENGINE_PLACES_FROM(0, IN_FLIGHT, 1, 0, 1)},
    .threads = {{"waiter", wait_second}, {"background", background_drives}},
    .judge = waiter_ends_beside_the_other};
static const litmus_program two_waiters = {
    .returns = 1,
    .places = {ENGINE_PLACES(1)},
    .threads = {{"first", wait_first}, {"second", wait_second}},
    .judge = both_end};
/* the peer of the first does not come */
static const litmus_program beside_a_driver = {
    .returns = 1,
    .places = {ENGINE_PLACES(0)},
    .threads = {{"first", wait_first}, {"second", wait_second}},
    .judge = second_ends_beside_the_first};
static const litmus_program leaving = {
    .returns = 1,
    .places = {ENGINE_PLACES_FROM(1, NOT_TAKEN, 0, 0, 1)},
    .threads = {{"driver", leave}, {"caller", submit}, {"background", background_long}},
    .judge = both_end};
static const litmus_program leaving_a_wait = {
    .returns = 1,
    .places = {ENGINE_PLACES_FROM(1, NOT_TAKEN, 0, 1, 1)},
    .threads = {{"driver", leave_wait}, {"caller", submit}, {"background", background_long}},
    .judge = both_end};

static const litmus_change mail = {.order_of = "submit.store", .order = RELEASE};
static const litmus_change end = {.order_of = "end.store", .order = RELEASE};

static void nobody_is_forgotten(void **unused)
{
    (void)unused;
    litmus_holds("driver: a waiter and the background thread", &alone);
    litmus_holds("driver: the background thread makes room", &makes_room);
    litmus_holds("driver: two waiters", &two_waiters);
    litmus_holds("driver: a waiter beside a driver", &beside_a_driver);
    litmus_holds("driver: leaving with work left", &leaving);
    litmus_holds("driver: leaving a wait with work left", &leaving_a_wait);
}

/* C11 does not order a release store before the looks that follow it; x86 and ARMv8 do. */
static void a_release_is_not_enough(void **unused)
{
    (void)unused;
    litmus_fails("a release: a waiter beside a driver", &beside_a_driver, end, LITMUS_FOR_EVER);
    litmus_fails("a release: leaving with work left", &leaving, mail, LITMUS_FOR_EVER);
    litmus_fails("a release: leaving a wait", &leaving_a_wait, mail, LITMUS_FOR_EVER);
}

static litmus_change with(litmus_change order, const char *left_out, const char *moved,
                          const char *behind)
{
    order.leave_out = left_out;
    order.move = moved;
    order.behind = behind;
    return order;
}

static void what_is_needed(void **unused)
{
    (void)unused;
    const struct {
        const char *name;
        const litmus_program *program;
        litmus_change change;
        const char *failure;
    } cases[] = {
        {"no look for work when the driver leaves", &leaving,
         with((litmus_change){0}, "leave.look", NULL, NULL), LITMUS_FOR_EVER},
        {"the look for work before the driver leaves", &leaving,
         with((litmus_change){0}, NULL, "leave.store", "leave.look"), LITMUS_FOR_EVER},
        {"no look for work after a wait", &leaving_a_wait,
         with((litmus_change){0}, "wait.look", NULL, NULL), LITMUS_FOR_EVER},
        {"the state after the last look", &leaving_a_wait,
         with((litmus_change){0}, NULL, "rest.asleep", "rest.looked"), LITMUS_FOR_EVER},
        {"waiters not told that nobody drives", &two_waiters,
         with((litmus_change){0}, "leave.tell", NULL, NULL), LITMUS_FOR_EVER},
        {"waiters told before nobody drives", &two_waiters,
         with((litmus_change){0}, NULL, "leave.store", "leave.tell"), LITMUS_FOR_EVER},
        {"a waiter that does not count itself before it looks", &beside_a_driver,
         with((litmus_change){0}, NULL, "follow.count", "follow.driving"), LITMUS_FOR_EVER},
        {"events seen after the look", &beside_a_driver,
         with((litmus_change){0}, NULL, "follow.seen", "follow.driving"), LITMUS_FOR_EVER},
        {"a waiter that does not look at its request", &beside_a_driver,
         with((litmus_change){0}, "follow.ended", NULL, NULL), LITMUS_FOR_EVER},
        {"a waiter that does not look who drives", &two_waiters,
         with((litmus_change){0}, "follow.driving", NULL, NULL), LITMUS_FOR_EVER},
        {"no bell for the driver", &makes_room,
         with((litmus_change){0}, "notify.fence", NULL, NULL), LITMUS_FOR_EVER},
        {"two drivers", &two_waiters, with((litmus_change){0}, "driver.become", NULL, NULL),
         LITMUS_RACE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        litmus_fails(cases[i].name, cases[i].program, cases[i].change, cases[i].failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_forgotten),
        cmocka_unit_test(a_release_is_not_enough),
        cmocka_unit_test(what_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
