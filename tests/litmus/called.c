/* called.c: mail of added process sets. Whoever submits puts the set into a list of called sets, behind the mail;
 * the driver takes the whole list. A set that is called already is not put there again: the driver looks for mail
 * after it has taken the call back. The mail itself is a list under the queue's lock, and a count that the driver
 * looks at without it.
 *
 * models src/engine/busy.c busy_call 2287407688
 * models src/engine/busy.c busy_take_calls 3479646865
 * models src/queue/queue.c queue_submit 127968397
 * models src/queue/queue.c queue_take 704827443
 * models src/queue/queue.h queue_has_mail 756586329
 */
#include "litmus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum {
    NEXT1,
    NEXT2,
    INBOX1,
    INBOX2,
    LOCK1,
    LOCK2,
    SUBMITTED1,
    SUBMITTED2,
    CALLED1, /* s->called */
    CALLED2,
    CALLED /* e->called: 0, or the number of a set */
};

#define PLACES                                                                                     \
    MEMORY("next1"), MEMORY("next2"), MEMORY("inbox1"), MEMORY("inbox2"), LOCKED("lock1"),         \
        LOCKED("lock2"), WORD("submitted1"), WORD("submitted2"), WORD("called1"), WORD("called2"), \
        WORD("called")

#define QUEUE_SUBMIT(inbox, lock, submitted)                                                       \
    LOCK(lock, "world_lock_take(&q->lock)"), READ(R0, inbox, "append"), COUNT(R0, 1),              \
        WRITE(inbox, R0, "append", .by_register = true),                                           \
        LOAD(RELAXED, R0, submitted,                                                               \
             "atomic_load_explicit(&q->submitted, memory_order_relaxed) + count"),                 \
        COUNT(R0, 1),                                                                              \
        STORE(SEQ_CST, submitted, R0, "queue_submit: atomic_store(&q->submitted, …)",              \
              .by_register = true, .name = "submitted"),                                           \
        UNLOCK(lock, "world_lock_release(&q->lock)")

/* Takes the labels 1 to 3. */
#define BUSY_CALL(set, called, next)                                                               \
    EXCHANGE(SEQ_CST, R0, called, 1, "if (atomic_exchange(&s->called, true)) return",              \
             .name = "call"),                                                                      \
        IF(R0, NE, 0, 3, ""),                                                                      \
        LOAD(RELAXED, R1, CALLED, "atomic_load_explicit(&e->called, memory_order_relaxed)"),       \
        LABEL(1), WRITE(next, R1, "s->next_called = …", .by_register = true, .name = "next"),      \
        COPY(R2, R1),                                                                              \
        COMPARE_EXCHANGE(SEQ_CST, R2, CALLED, set,                                                 \
                         "atomic_compare_exchange_weak(&e->called, &s->next_called, s)",           \
                         .name = "put"),                                                           \
        IF(R2, EQ, R1, 3, "", .by_register = true), COPY(R1, R2), GOTO(1), LABEL(3)

/* One set of the list that was taken: its mail, if there is any, is counted in R5. The driver knows what it has
 * taken before only by the count in its hands, so the set's own count is in `taken`. Takes the label l. */
#define TAKE_CALL(called, next, inbox, lock, submitted, taken, l)                                  \
    READ(R1, next, "next = s->next_called", .name = "next of"),                                    \
        EXCHANGE(SEQ_CST, R2, called, 0, "atomic_exchange(&s->called, false)",                     \
                 .name = "take back"),                                                             \
        LOAD(ACQUIRE, R2, submitted, "queue_has_mail", .name = "has mail"),                        \
        IF(R2, EQ, taken, l, "== q->taken", .by_register = true),                                  \
        LOCK(lock, "queue_take: world_lock_take(&q->lock)"), READ(R2, inbox, "first = q->inbox"),  \
        WRITE(inbox, 0, "q->inbox = NULL"),                                                        \
        LOAD(RELAXED, taken, submitted,                                                            \
             "q->taken = atomic_load_explicit(&q->submitted, memory_order_relaxed)"),              \
        UNLOCK(lock, "world_lock_release(&q->lock)"), COUNT_BY(R5, R2), LABEL(l)

#define COUNT_BY(r, from)                                                                          \
    {                                                                                              \
        .kind = STEP_COUNT, .reg = (r), .value = (from), .by_register = true                       \
    }

/* Until two have come. R3 and R4: q->taken of the two sets. The first set is busy from before, so a pass looks for
 * its mail without a call: a set may be called whose mail has been taken. */
static const litmus_step driver[] = {
    LOAD(ACQUIRE, R2, SUBMITTED1, "run_set: queue_has_mail"),
    IF(R2, EQ, 0, 1, "== q->taken"),
    LOCK(LOCK1, "queue_take: world_lock_take(&q->lock)"),
    READ(R5, INBOX1, "first = q->inbox"),
    WRITE(INBOX1, 0, "q->inbox = NULL"),
    LOAD(RELAXED, R3, SUBMITTED1, "q->taken = atomic_load_explicit(&q->submitted, …)"),
    UNLOCK(LOCK1, "world_lock_release(&q->lock)"),
    IF(R5, EQ, 2, 7, "both have come"),
    LABEL(1),
    AWAIT(ACQUIRE, R0, CALLED, NE, 0, "engine_step: e->called != NULL"),
    EXCHANGE(SEQ_CST, R0, CALLED, 0, "s = atomic_exchange(&e->called, NULL)", .name = "take list"),
    LABEL(2),
    IF(R0, EQ, 0, 4, "s != NULL"),
    IF(R0, EQ, 2, 3, "which"),
    TAKE_CALL(CALLED1, NEXT1, INBOX1, LOCK1, SUBMITTED1, R3, 5),
    COPY(R0, R1),
    GOTO(2),
    LABEL(3),
    TAKE_CALL(CALLED2, NEXT2, INBOX2, LOCK2, SUBMITTED2, R4, 6),
    COPY(R0, R1),
    GOTO(2),
    LABEL(4),
    IF(R5, EQ, 2, 7, "both have come"),
    GOTO(1),
    LABEL(7),
    END,
};

static const litmus_step submit_to_first[] = {QUEUE_SUBMIT(INBOX1, LOCK1, SUBMITTED1),
                                              BUSY_CALL(1, CALLED1, NEXT1), END};
static const litmus_step submit_to_second[] = {QUEUE_SUBMIT(INBOX2, LOCK2, SUBMITTED2),
                                               BUSY_CALL(2, CALLED2, NEXT2), END};

static const litmus_program one_set = {
    .places = {PLACES},
    .threads = {{"driver", driver}, {"first", submit_to_first}, {"second", submit_to_first}}};
static const litmus_program two_sets = {
    .places = {PLACES},
    .threads = {{"driver", driver}, {"first", submit_to_first}, {"second", submit_to_second}}};

static void mail_of_two_callers_arrives(void **unused)
{
    (void)unused;
    litmus_holds("called: two callers, one set", &one_set);
    litmus_fails("the call taken back without acquire", &one_set,
                 (litmus_change){.order_of = "take back", .order = RELEASE}, LITMUS_FOR_EVER);
    litmus_fails("the call taken back without release", &one_set,
                 (litmus_change){.order_of = "take back", .order = ACQUIRE}, LITMUS_RACE);
    litmus_fails("mail looked for before the call is taken back", &one_set,
                 (litmus_change){.move = "take back", .behind = "has mail"}, LITMUS_FOR_EVER);
    litmus_fails("mail counted after the call", &one_set,
                 (litmus_change){.move = "submitted", .behind = "call"}, LITMUS_FOR_EVER);
    litmus_fails("next read after the call is taken back", &one_set,
                 (litmus_change){.move = "next of", .behind = "take back"}, LITMUS_RACE);
}

static void two_sets_are_in_the_list(void **unused)
{
    (void)unused;
    litmus_holds("called: two sets", &two_sets);
    litmus_fails("put there relaxed", &two_sets,
                 (litmus_change){.order_of = "put", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("taken relaxed", &two_sets,
                 (litmus_change){.order_of = "take list", .order = RELAXED}, LITMUS_RACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mail_of_two_callers_arrives),
                                       cmocka_unit_test(two_sets_are_in_the_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
