/* bell.c: whoever changes shared memory rings for those that sleep, and nobody falls asleep over a change.
 *
 * The notifier stores, then looks whether somebody sleeps; the sleeper says that it will sleep, then looks at the
 * memory. Between store and look each has a seq_cst fence, or both could miss the other (store buffering).
 * `rings` closes the gap between the last look and the sleep: the kernel does not let the sleeper in when the
 * word has changed since it was seen.
 *
 * models src/control/control.c control_notify 1958063244
 * models src/control/control.c control_notify_rank 1163587399
 * models src/control/control.c ring_if_asleep 2899003224
 * models src/control/control.c control_sleep_announce 2634324460
 * models src/control/control.c control_sleep 3037757644
 * models src/control/control.c control_sleep_end 3557967398
 * models src/engine/drive.c sleep_once 2669394118
 * models src/engine/drive.c drive 633871479
 */
#include "bell_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { DATA, FLAG, RINGS, SLEEPING, FLAG2, RINGS2, SLEEPING2 };

#define BELL MEMORY("data"), WORD("flag"), WORD("rings"), WORD("sleeping")
#define SECOND_BELL WORD("flag2"), WORD("rings2"), WORD("sleeping2")

/* exec's set_flag, which is the same in shape as control_contribute: a release store, then the bell */
#define TELL(word, v, rings, sleeping, l)                                                          \
    STORE(RELEASE, word, v, "atomic_store_explicit(&flag->value, value, memory_order_release)"),   \
        NOTIFY_RANK(rings, sleeping, R3, l)

/* ---- One sleeps, another changes two things ---------------------------------------------------- */

static const litmus_step wait_for_two[] = {
    SLEEP_UNTIL(FLAG, 1, RINGS, SLEEPING, 1),
    SLEEP_UNTIL(FLAG, 2, RINGS, SLEEPING, 4),
    READ(R2, DATA, "what the flag stands for"),
    MUST(R2, EQ, 7, "the data is there"),
    END,
};

static const litmus_step tell_two[] = {
    TELL(FLAG, 1, RINGS, SLEEPING, 1),
    WRITE(DATA, 7, "what the flag stands for"),
    TELL(FLAG, 2, RINGS, SLEEPING, 2),
    END,
};

static const litmus_program one_notifier = {
    .returns = 1, .places = {BELL}, .threads = {{"sleeper", wait_for_two}, {"notifier", tell_two}}};

static void a_change_wakes_the_sleeper(void **unused)
{
    (void)unused;
    litmus_holds("bell: two changes", &one_notifier);
}

/* ---- Two ranks change something ---------------------------------------------------------------- */

static const litmus_step wait_for_both[] = {
    SLEEP_UNTIL(FLAG, 1, RINGS, SLEEPING, 1),
    SLEEP_UNTIL(FLAG2, 1, RINGS, SLEEPING, 4),
    END,
};
static const litmus_step tell_first[] = {TELL(FLAG, 1, RINGS, SLEEPING, 1), END};
static const litmus_step tell_second[] = {TELL(FLAG2, 1, RINGS, SLEEPING, 1), END};

static const litmus_program two_notifiers = {
    .returns = 1,
    .places = {BELL, SECOND_BELL},
    .threads = {{"sleeper", wait_for_both}, {"first", tell_first}, {"second", tell_second}}};

static void two_notifiers_do_not_hide_each_other(void **unused)
{
    (void)unused;
    litmus_holds("bell: two notifiers", &two_notifiers);
}

/* ---- Two ranks wait for each other --------------------------------------------------------------- */

static const litmus_step left_rank[] = {
    TELL(FLAG, 1, RINGS2, SLEEPING2, 10),
    SLEEP_UNTIL(FLAG2, 1, RINGS, SLEEPING, 1),
    TELL(FLAG, 2, RINGS2, SLEEPING2, 11),
    SLEEP_UNTIL(FLAG2, 2, RINGS, SLEEPING, 4),
    END,
};
static const litmus_step right_rank[] = {
    TELL(FLAG2, 1, RINGS, SLEEPING, 10),
    SLEEP_UNTIL(FLAG, 1, RINGS2, SLEEPING2, 1),
    TELL(FLAG2, 2, RINGS, SLEEPING, 11),
    SLEEP_UNTIL(FLAG, 2, RINGS2, SLEEPING2, 4),
    END,
};

static const litmus_program both_sleep = {.returns = 1,
                                          .places = {BELL, SECOND_BELL},
                                          .threads = {{"left", left_rank}, {"right", right_rank}}};

static void two_ranks_wait_for_each_other(void **unused)
{
    (void)unused;
    litmus_holds("bell: two ranks in turn", &both_sleep);
}

/* ---- With a network the sleeper is in poll, and the bell is an eventfd --------------------------- */

enum { EVENT = RINGS2 };

/* write and poll of the kernel, which has its own order for them */
#define RING_IN_POLL(r, l)                                                                         \
    NOTIFY_FENCE,                                                                                  \
        LOAD(RELAXED, r, SLEEPING, "atomic_load_explicit(&bell->sleeping, memory_order_relaxed)"), \
        IF(r, EQ, BELL_AWAKE, l, "if (sleeping == BELL_AWAKE) return"),                            \
        ADD(SEQ_CST, r, RINGS, 1, "atomic_fetch_add(&bell->rings, 1)"),                            \
        ADD(ACQ_REL, r, EVENT, 1, "write(m->meeting.bells[rank], &once, sizeof once)",             \
            .name = "ring.event"),                                                                 \
        LABEL(l)
#define POLL_UNTIL(least, l)                                                                       \
    LABEL(l), LOAD(ACQUIRE, R0, FLAG, "engine_step(e)"), IF(R0, GE, least, (l) + 2, "has come"),   \
        SLEEP_ANNOUNCE(RINGS, SLEEPING, R1),                                                       \
        LOAD(ACQUIRE, R0, FLAG, "awake = engine_step(e) || …", .name = "last look"),               \
        IF(R0, GE, least, (l) + 1, "if (!awake)"), AWAIT(RELAXED, R2, EVENT, GE, 1, "poll"),       \
        EXCHANGE(ACQ_REL, R2, EVENT, 0, "read"), LABEL((l) + 1), SLEEP_END(SLEEPING), GOTO(l),     \
        LABEL((l) + 2)

static const litmus_step poll_for_two[] = {POLL_UNTIL(1, 1), POLL_UNTIL(2, 4), END};
static const litmus_step ring_twice[] = {
    STORE(RELEASE, FLAG, 1, "flag = 1"),
    RING_IN_POLL(R3, 1),
    STORE(RELEASE, FLAG, 2, "flag = 2"),
    RING_IN_POLL(R3, 2),
    END,
};

static const litmus_program in_poll = {
    .places = {BELL, WORD("flag2"), WORD("event")},
    .threads = {{"sleeper", poll_for_two}, {"notifier", ring_twice}}};

static void a_change_wakes_a_sleeper_in_poll(void **unused)
{
    (void)unused;
    litmus_holds("bell: in poll", &in_poll);
    litmus_fails("in poll: no fence in control_notify", &in_poll,
                 (litmus_change){.leave_out = "notify.fence"}, LITMUS_FOR_EVER);
    litmus_fails("in poll: no fence in control_sleep_announce", &in_poll,
                 (litmus_change){.leave_out = "announce.fence"}, LITMUS_FOR_EVER);
}

/* ---- What would be missed ------------------------------------------------------------------------ */

static void what_is_needed(void **unused)
{
    (void)unused;
    const struct {
        const char *name;
        litmus_change change;
    } cases[] = {
        {"no fence in control_notify", {.leave_out = "notify.fence"}},
        {"no fence in control_sleep_announce", {.leave_out = "announce.fence"}},
        {"weaker fence in control_notify", {.order_of = "notify.fence", .order = ACQ_REL}},
        {"weaker fence in control_sleep_announce",
         {.order_of = "announce.fence", .order = ACQ_REL}},
        {"no look after the announcement", {.leave_out = "last look"}},
        {"announced after the last look", {.move = "announce.sleeping", .behind = "last look"}},
        {"fence after the last look", {.move = "announce.fence", .behind = "last look"}},
        {"rings seen after the last look", {.move = "announce.seen", .behind = "last look"}},
        {"a wake without a ring", {.leave_out = "ring.add"}},
        {"a ring without a wake", {.leave_out = "ring.wake"}},
        {"the wake before the ring", {.move = "ring.add", .behind = "ring.wake"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        litmus_fails(cases[i].name, &one_notifier, cases[i].change, LITMUS_FOR_EVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_wakes_the_sleeper),
        cmocka_unit_test(two_notifiers_do_not_hide_each_other),
        cmocka_unit_test(two_ranks_wait_for_each_other),
        cmocka_unit_test(a_change_wakes_a_sleeper_in_poll),
        cmocka_unit_test(what_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
