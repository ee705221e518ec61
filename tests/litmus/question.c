/* question.c: a question outside of rounds (which tensors do you hold?) is answered, by whoever drives or by the
 * background thread, which the asker wakes.
 *
 * Two things are found here that the source knows or bounds by a time:
 * - A question that its asker changes while it is read is a data race. It is harmless: what is read then is checked
 *   against the limits, and answered under a number that nobody looks for.
 * - A driver that leaves between two of its looks (25 ms) leaves a question behind, if the background thread looked
 *   while it drove: that one looks again when its rest is over, after 50 µs and after a second.
 *
 * models src/control/question.c control_ask 1997361551
 * models src/control/question.c control_answered 3110699643
 * models src/control/question.c unanswered 1345284405
 * models src/control/question.c control_is_asked 2555430646
 * models src/control/question.c control_answer 986603131
 * models src/engine/background.c should_answer 2701762303
 * models src/engine/background.c answer 1537703487
 */
#include "bell_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { NAMES, HELD, NUMBER, ANSWERED, DRIVING, WORK };

#define PLACES(driving)                                                                            \
    MEMORY("names"), MEMORY("held"), WORD("number"), WORD("answered"),                             \
        {.name = "driving", .initial = (driving)}, WORD("work")

/* The asker's own members of the bell are left out: only its background threads sleep here. */
#define ASK(n)                                                                                     \
    WRITE(NAMES, n, "question->names, q->set, q->epoch", .name = "names"),                         \
        STORE(RELEASE, NUMBER, n,                                                                  \
              "atomic_store_explicit(&q->number, next_number(q), memory_order_release)",           \
              .name = "ask"),                                                                      \
        NOTIFY_FENCE, ADD(SEQ_CST, R0, WORK, 1, "control_call: atomic_fetch_add(work, 1)"),        \
        WAKE(WORK, "world_wake(work, true)")
#define HEAR(n)                                                                                    \
    AWAIT(ACQUIRE, R0, ANSWERED, EQ, n,                                                            \
          "atomic_load_explicit(&a->number, memory_order_acquire) == number", .name = "hear"),     \
        READ(R1, HELD, "a->held"), MUST(R1, EQ, n, "the answer to this question")

/* control_answer of one question; R2: the number that was answered last. Goes on at label l. */
#define ANSWER(l)                                                                                  \
    LOAD(ACQUIRE, R0, NUMBER, "unanswered: question.number", .name = "asked"),                     \
        IF(R0, EQ, R2, l, "own->number == number", .by_register = true),                           \
        READ(R1, NAMES, "give_answer: q->names"), COPY(R2, R0),                                    \
        WRITE(HELD, R2, "held[i / 64] |= …", .by_register = true),                                 \
        STORE(RELEASE, ANSWERED, R2,                                                               \
              "atomic_store_explicit(&own->number, number, memory_order_release)",                 \
              .by_register = true, .name = "answer"),                                              \
        LABEL(l)

/* The background thread: answer, then rest, which looks once more. */
#define BACKGROUND                                                                                 \
    LABEL(1), LOAD(SEQ_CST, R0, DRIVING, "should_answer: driving == 0 &&"), IF(R0, NE, 0, 2, ""),  \
        ANSWER(2), LOAD(SEQ_CST, R3, WORK, "seen = atomic_load(work_of(e))", .name = "seen"),      \
        LOAD(SEQ_CST, R0, DRIVING, "should_answer: driving == 0 &&"), IF(R0, NE, 0, 3, ""),        \
        LOAD(ACQUIRE, R0, NUMBER, "control_is_asked", .name = "looked"),                           \
        IF(R0, NE, R2, 1, "", .by_register = true), LABEL(3),                                      \
        SLEEP(R3, WORK, "world_sleep_on(work_of(e), seen, …)"), GOTO(1)

static const litmus_step ask_once[] = {ASK(1), HEAR(1), END};
static const litmus_step ask_two[] = {ASK(1), HEAR(1), ASK(2), HEAR(2), END};
static const litmus_step ask_again[] = {ASK(1), ASK(2), END}; /* nobody has answered in time */
static const litmus_step background[] = {BACKGROUND, END};
static const litmus_step leave[] = {
    STORE(SEQ_CST, DRIVING, 0, "drive_leave: atomic_store(&e->driving, 0)"),
    END,
};
/* What drive_leave could do. */
static const litmus_step leave_and_look[] = {
    STORE(SEQ_CST, DRIVING, 0, "drive_leave: atomic_store(&e->driving, 0)"),
    FENCE(SEQ_CST, "engine_tell_waiters, and a fence"),
    LOAD(ACQUIRE, R0, NUMBER, "control_is_asked"),
    IF(R0, EQ, 0, 1, ""),
    ADD(SEQ_CST, R0, WORK, 1, "background_call: atomic_fetch_add(work, 1)"),
    WAKE(WORK, "world_wake(work, true)"),
    LABEL(1),
    END,
};

static const char *unanswered(const litmus_end *e)
{
    return e->ended[0] ? NULL : LITMUS_FOR_EVER ": a question is not answered";
}

static const litmus_program idle = {.returns = 1,
                                    .places = {PLACES(0)},
                                    .threads = {{"asker", ask_two}, {"background", background}},
                                    .judge = unanswered};
static const litmus_program changed = {
    .places = {PLACES(0)},
    .threads = {{"asker", ask_again}, {"background", background}},
    .judge = unanswered};
static const litmus_program left = {
    .places = {PLACES(1)},
    .threads = {{"asker", ask_once}, {"background", background}, {"driver", leave}},
    .judge = unanswered};
static const litmus_program left_and_looked = {
    .places = {PLACES(1)},
    .threads = {{"asker", ask_once}, {"background", background}, {"driver", leave_and_look}},
    .judge = unanswered};

static void an_idle_rank_answers(void **unused)
{
    (void)unused;
    litmus_holds("question: two, one after the other", &idle);
    litmus_fails("question: the number relaxed", &idle,
                 (litmus_change){.order_of = "ask", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("question: asked relaxed", &idle,
                 (litmus_change){.order_of = "asked", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("question: answered relaxed", &idle,
                 (litmus_change){.order_of = "answer", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("question: heard relaxed", &idle,
                 (litmus_change){.order_of = "hear", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("question: work seen after the look", &idle,
                 (litmus_change){.move = "seen", .behind = "looked"}, LITMUS_FOR_EVER);
}

static void what_the_source_bounds_otherwise(void **unused)
{
    (void)unused;
    litmus_fails("as it is: changed while it is read", &changed, LITMUS_UNCHANGED, LITMUS_RACE);
    litmus_fails("as it is: the driver leaves", &left, LITMUS_UNCHANGED, LITMUS_FOR_EVER);
    litmus_holds("question: a driver that looks when it leaves", &left_and_looked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_idle_rank_answers),
                                       cmocka_unit_test(what_the_source_bounds_otherwise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
