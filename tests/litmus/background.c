/* background.c: work that is handed over without waiting gets done, whatever the background thread is about.
 *
 * The caller counts the work, hands it over, then looks who drives and whether the background thread is awake; that one
 * says that it will rest, then looks whether there is work. All of these are seq_cst, so one sees the other.
 *
 * What C11 does not promise: that the mail itself, a release store, is seen by a driver that falls asleep although
 * the caller saw it awake; only a seq_cst store is ordered before the seq_cst loads that follow. On x86 a
 * locked addition stands between them, on ARMv8 STLR and LDAR stay in order, so no machine of today shows it.
 *
 * models src/engine/background.c is_needed 4143190603
 * models src/engine/background.c rest 2605423502
 * models src/engine/background.c background_main 2667137823
 * models src/engine/background.c background_call 2564423326
 * models src/control/control.c control_call 2831182239
 * models src/engine/engine.c engine_call_driver 1884672656
 * models src/engine/engine.c engine_submit 3653422294
 * models src/engine/sendrecv.c engine_submit_call 1066250549
 * models src/queue/queue.c queue_submit 127968397
 * models src/queue/queue.h queue_has_mail 756586329
 * models src/p2p/p2p.c p2p_submit 2317480079
 * models src/p2p/p2p.c p2p_has_mail 1225677290
 * models src/engine/drive.c background_done 603695237
 * models src/engine/drive.c has_mail 2040256751
 */
#include "engine_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RELEASED_MAIL                                                                              \
    {                                                                                              \
        .order_of = "submit.store", .order = RELEASE                                               \
    }

static const litmus_step background[] = {BACKGROUND_MAIN, END};
static const litmus_step background_drives[] = {GOTO(10), BACKGROUND_MAIN_LONG, END};
static const litmus_step background_drives_and_naps[] = {GOTO(10), BACKGROUND_MAIN, END};
static const litmus_step submit[] = {SUBMIT(MAIL2), CALL_DRIVER(false, 1), END};
static const litmus_step submit_urgent[] = {SUBMIT(MAIL2), CALL_DRIVER(true, 1), END};

static const char *all_is_done(const litmus_end *e)
{
    return e->values[OUTSTANDING] > 0 ? LITMUS_FOR_EVER ": work is left and nobody does it" : NULL;
}

static const char *all_but_the_first_is_done(const litmus_end *e)
{
    return e->values[OUTSTANDING] > 1 ? LITMUS_FOR_EVER ": work is left and nobody does it" : NULL;
}

static const litmus_program handed_over = {
    .returns = 1,
    .places = {ENGINE_PLACES(1)},
    .threads = {{"caller", submit}, {"background", background}},
    .judge = all_is_done};
static const litmus_program urgent = {
    .returns = 1,
    .places = {ENGINE_PLACES(1)},
    .threads = {{"caller", submit_urgent}, {"background", background}},
    .judge = all_is_done};
/* the background thread drives, and waits for a peer that does not come */
static const litmus_program to_a_driver = {
    .places = {ENGINE_PLACES_FROM(0, IN_FLIGHT, 1, 0, 1)},
    .threads = {{"caller", submit}, {"background", background_drives}},
    .judge = all_but_the_first_is_done};

static const litmus_program to_a_driver_that_naps = {
    .places = {ENGINE_PLACES_FROM(0, IN_FLIGHT, 1, 0, 1)},
    .threads = {{"caller", submit}, {"background", background_drives_and_naps}},
    .judge = all_but_the_first_is_done};

static void work_is_done(void **unused)
{
    (void)unused;
    litmus_holds("background: handed over", &handed_over);
    litmus_holds("background: urgent", &urgent);
    litmus_holds("background: it drives already", &to_a_driver);
    litmus_holds("background: it drives, and naps", &to_a_driver_that_naps);
}

/* C11 does not order a release store before the looks that follow it; x86 and ARMv8 do. */
static void a_release_of_the_mail_is_not_enough(void **unused)
{
    (void)unused;
    litmus_fails("a release: handed over", &handed_over, (litmus_change)RELEASED_MAIL,
                 LITMUS_FOR_EVER);
    litmus_fails("a release: to a driver that naps", &to_a_driver_that_naps,
                 (litmus_change)RELEASED_MAIL, LITMUS_FOR_EVER);
    litmus_fails("a release: urgent", &urgent, (litmus_change)RELEASED_MAIL, LITMUS_FOR_EVER);
}

static void what_is_needed(void **unused)
{
    (void)unused;
    const struct {
        const char *name;
        const litmus_program *program;
        litmus_change change;
    } cases[] = {
        {"the state after the last look",
         &handed_over,
         {.move = "rest.asleep", .behind = "rest.looked"}},
        {"work seen after the last look",
         &handed_over,
         {.move = "rest.seen", .behind = "rest.looked"}},
        {"a call without a wake", &handed_over, {.leave_out = "call.wake"}},
        {"a call that counts nothing", &handed_over, {.leave_out = "call.add"}},
        {"the wake before the count", &handed_over, {.move = "call.add", .behind = "call.wake"}},
        {"no fence where a driver is rung", &to_a_driver, {.leave_out = "notify.fence"}},
        {"no fence where a driver announces itself", &to_a_driver, {.leave_out = "announce.fence"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        litmus_fails(cases[i].name, cases[i].program, cases[i].change, LITMUS_FOR_EVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_done),
        cmocka_unit_test(a_release_of_the_mail_is_not_enough),
        cmocka_unit_test(what_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
