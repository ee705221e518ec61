/* engine_steps.h: one rank: callers, the background thread, and who drives; for background.c and driver.c, which
 * have the sums by which sources.sh sees that it is up to date.
 *
 * Two requests, each with mail of its own. What a driver does with it is cut down to what others see: it takes the
 * mail (a note of the driver's own, so a second driver would be a race), the request ends, `outstanding` goes down,
 * and waiters are told. The first request ends only when a word of a peer has come, so a driver can be made to
 * wait. `unseen` is left out: it only says what is urgent, and an addition orders nothing around it.
 */
#ifndef RUEDA_TESTS_LITMUS_ENGINE_STEPS_H
#define RUEDA_TESTS_LITMUS_ENGINE_STEPS_H

#include "bell_steps.h"

enum {
    TAKEN1,
    TAKEN2,
    MAIL1,
    MAIL2,
    ENDED1,
    ENDED2,
    PEER,
    OUTSTANDING,
    WAITERS,
    DRIVING,
    SLEEPERS,
    EVENTS,
    NAPPING,
    RINGS,
    SLEEPING,
    STATE,
    WORK
};

/* `peer`: 1 if the first request ends as soon as it is taken, 0 if it waits; then how things are at the start */
#define ENGINE_PLACES_FROM(peer, taken1, outstanding, waiters, driving)                            \
    {.name = "taken1", .memory = PLAIN_MEMORY, .initial = (taken1)}, MEMORY("taken2"),             \
        WORD("mail1"), WORD("mail2"), WORD("ended1"), WORD("ended2"),                              \
        {.name = "peer", .initial = (peer)}, {.name = "outstanding", .initial = (outstanding)},    \
        {.name = "waiters", .initial = (waiters)}, {.name = "driving", .initial = (driving)},      \
        WORD("sleepers"), WORD("events"), WORD("napping"), WORD("rings"), WORD("sleeping"),        \
        WORD("state"), WORD("work")
#define ENGINE_PLACES(peer) ENGINE_PLACES_FROM(peer, NOT_TAKEN, 0, 0, 0)

enum { NOT_TAKEN, IN_FLIGHT, FINISHED }; /* of a request */
enum { BACKGROUND_AWAKE, BACKGROUND_NAPPING, BACKGROUND_ASLEEP };
enum { REST_NAP, REST_SLEEP };

/* ---- Telling the other threads ------------------------------------------------------------------- */

#define TELL_WAITERS(l)                                                                            \
    LOAD(SEQ_CST, R0, SLEEPERS, "if (atomic_load(&e->sleepers) == 0) return"),                     \
        IF(R0, EQ, 0, l, "none"), ADD(SEQ_CST, R0, EVENTS, 1, "atomic_fetch_add(&e->events, 1)"),  \
        WAKE(EVENTS, "world_wake(&e->events, false)"), LABEL(l)

#define CONTROL_CALL                                                                               \
    ADD(SEQ_CST, R0, WORK, 1, "atomic_fetch_add(work, 1)", .name = "call.add"),                    \
        WAKE(WORK, "world_wake(work, true)", .name = "call.wake")

#define BACKGROUND_CALL(urgent, l)                                                                 \
    LOAD(SEQ_CST, R0, STATE, "state = atomic_load(&e->background_state)"),                         \
        IF(R0, EQ, BACKGROUND_AWAKE, l, "if (state == BACKGROUND_AWAKE"),                          \
        IF(R0, EQ, (urgent) ? -1 : BACKGROUND_NAPPING, l,                                          \
           "|| (state == BACKGROUND_NAPPING && !urgent)) return"),                                 \
        CONTROL_CALL, LABEL(l)

/* ---- A pass: engine_step, operation_finish ------------------------------------------------------- */

#define STEP_FIRST(moved, l)                                                                       \
    READ(R3, TAKEN1, "engine_step: first request"), IF(R3, EQ, FINISHED, (l) + 2, ""),             \
        IF(R3, EQ, IN_FLIGHT, l, ""), LOAD(ACQUIRE, R0, MAIL1, "queue_has_mail"),                  \
        IF(R0, EQ, 0, (l) + 2, ""), WRITE(TAKEN1, IN_FLIGHT, "negotiation_take_mail"),             \
        GOTO(moved), LABEL(l), LOAD(ACQUIRE, R0, PEER, "peer_reached"),                            \
        IF(R0, EQ, 0, (l) + 2, ""), WRITE(TAKEN1, FINISHED, "operation_finish"),                   \
        STORE(SEQ_CST, ENDED1, 1, "request_end: atomic_store(&r->ended, 1)", .name = "end.store"), \
        ADD(SEQ_CST, R0, OUTSTANDING, -1, "atomic_fetch_sub(&e->outstanding, o->count)"),          \
        TELL_WAITERS((l) + 1), GOTO(moved), LABEL((l) + 2)

#define STEP_SECOND(moved, l)                                                                      \
    READ(R3, TAKEN2, "engine_step: second request"), IF(R3, EQ, FINISHED, (l) + 1, ""),            \
        LOAD(ACQUIRE, R0, MAIL2, "queue_has_mail"), IF(R0, EQ, 0, (l) + 1, ""),                    \
        WRITE(TAKEN2, FINISHED, "operation_finish"),                                               \
        STORE(SEQ_CST, ENDED2, 1, "request_end: atomic_store(&r->ended, 1)", .name = "end.store"), \
        ADD(SEQ_CST, R0, OUTSTANDING, -1, "atomic_fetch_sub(&e->outstanding, o->count)"),          \
        TELL_WAITERS(l), GOTO(moved), LABEL((l) + 1)

/* Goes to `moved` if something did. Takes the labels l to l + 4. */
#define STEP(moved, l) STEP_FIRST(moved, l), STEP_SECOND(moved, (l) + 3)

/* ---- Submitting ---------------------------------------------------------------------------------- */

#define SUBMIT(mail)                                                                               \
    ADD(SEQ_CST, R0, OUTSTANDING, 1, "atomic_fetch_add(&e->outstanding, count)"),                  \
        STORE(SEQ_CST, mail, 1, "queue_submit: atomic_store(&q->submitted, …)",                    \
              .name = "submit.store")

/* Takes the labels l to l + 3. */
#define CALL_DRIVER(urgent, l)                                                                     \
    LOAD(SEQ_CST, R0, DRIVING, "if (atomic_load(&e->driving) == 0)"), IF(R0, NE, 0, l, ""),        \
        BACKGROUND_CALL(urgent, (l) + 1), GOTO((l) + 2), LABEL(l),                                 \
        LOAD(SEQ_CST, R0, NAPPING, "if (urgent || atomic_load(&e->napping) == 0)"),                \
        IF(R0, NE, (urgent) ? -1 : 0, (urgent) ? (l) + 3 : (l) + 2, ""), LABEL((l) + 3),           \
        NOTIFY_RANK(RINGS, SLEEPING, R0, (l) + 4), LABEL((l) + 2)

/* ---- Waiting ------------------------------------------------------------------------------------- */

#define TAKE_SEAT(failed)                                                                          \
    LOAD(RELAXED, R0, DRIVING, "atomic_load_explicit(&e->driving, memory_order_relaxed) == 0"),    \
        IF(R0, NE, 0, failed, ""), SET(R0, 0),                                                     \
        COMPARE_EXCHANGE(SEQ_CST, R0, DRIVING, 1,                                                  \
                         "atomic_compare_exchange_strong(&e->driving, &nobody, 1)",                \
                         .name = "driver.become"),                                                 \
        IF(R0, NE, 0, failed, "")

#define LEAVE_SEAT(l)                                                                              \
    STORE(SEQ_CST, DRIVING, 0, "atomic_store(&e->driving, 0)", .name = "leave.store"), SET(R0, 0), \
        LOAD(SEQ_CST, R0, SLEEPERS, "if (atomic_load(&e->sleepers) == 0) return",                  \
             .name = "leave.tell"),                                                                \
        IF(R0, EQ, 0, l, "none"), ADD(SEQ_CST, R0, EVENTS, 1, "atomic_fetch_add(&e->events, 1)"),  \
        WAKE(EVENTS, "world_wake(&e->events, false)"), LABEL(l)

#define DRIVE_LEAVE(l)                                                                             \
    LEAVE_SEAT(l), SET(R0, 0),                                                                     \
        LOAD(SEQ_CST, R0, OUTSTANDING, "if (atomic_load(&e->outstanding) > 0)",                    \
             .name = "leave.look"),                                                                \
        IF(R0, EQ, 0, (l) + 1, ""), BACKGROUND_CALL(true, (l) + 1)

/* drive of a waiter, with sleep_once. Ends at label l + 1. Takes the labels l to l + 12. */
#define DRIVE_UNTIL(ended, l)                                                                      \
    LABEL(l), LOAD(ACQUIRE, R0, ended, "if (request_ended(until)) return"),                        \
        IF(R0, NE, 0, (l) + 1, ""), STEP(l, (l) + 3),                                              \
        STORE(SEQ_CST, NAPPING, 0, "atomic_store(&e->napping, nap)"),                              \
        SLEEP_ANNOUNCE(RINGS, SLEEPING, R1), STEP((l) + 2, (l) + 8), SLEEP_ON_BELL(RINGS, R1),     \
        LABEL((l) + 2), SLEEP_END(SLEEPING), GOTO(l), LABEL((l) + 1)

/* Goes back to `again`. */
#define FOLLOW(ended, again, l)                                                                    \
    ADD(SEQ_CST, R3, SLEEPERS, 1, "atomic_fetch_add(&e->sleepers, 1)", .name = "follow.count"),    \
        LOAD(SEQ_CST, R2, EVENTS, "seen = atomic_load(&e->events)", .name = "follow.seen"),        \
        NOTIFY_RANK(RINGS, SLEEPING, R0, (l) + 1),                                                 \
        LOAD(ACQUIRE, R0, ended, "if (!request_ended(r) &&"),                                      \
        IF(R0, NE, 0, l, "", .name = "follow.ended"),                                              \
        LOAD(SEQ_CST, R0, DRIVING, "atomic_load(&e->driving) != 0)"),                              \
        IF(R0, EQ, 0, l, "", .name = "follow.driving"),                                            \
        SLEEP(R2, EVENTS, "world_sleep_on(&e->events, seen, …)"), LABEL(l),                        \
        ADD(SEQ_CST, R0, SLEEPERS, -1, "atomic_fetch_sub(&e->sleepers, 1)"), GOTO(again)

#define WAIT_END(l)                                                                                \
    ADD(SEQ_CST, R0, WAITERS, -1, "atomic_fetch_sub(&e->waiters, 1)"), SET(R0, 0),                 \
        LOAD(SEQ_CST, R0, OUTSTANDING, "if (atomic_load(&e->outstanding) > 0 &&",                  \
             .name = "wait.look"),                                                                 \
        IF(R0, EQ, 0, l, ""), LOAD(SEQ_CST, R0, DRIVING, "atomic_load(&e->driving) == 0)"),        \
        IF(R0, NE, 0, l, ""), BACKGROUND_CALL(true, l)

/* engine_wait without a deadline. Takes the labels l to l + 24. */
#define ENGINE_WAIT(ended, l)                                                                      \
    LOAD(ACQUIRE, R0, ended, "if (request_ended(r)) return true"), IF(R0, NE, 0, (l) + 2, ""),     \
        ADD(SEQ_CST, R0, WAITERS, 1, "atomic_fetch_add(&e->waiters, 1)"), LABEL(l),                \
        LOAD(ACQUIRE, R0, ended, "while (!request_ended(r))"), IF(R0, NE, 0, (l) + 1, ""),         \
        TAKE_SEAT((l) + 3), DRIVE_UNTIL(ended, (l) + 4), DRIVE_LEAVE((l) + 17), GOTO(l),           \
        LABEL((l) + 3), FOLLOW(ended, l, (l) + 20), LABEL((l) + 1), WAIT_END((l) + 2)

/* ---- The background thread ------------------------------------------------------------------------ */

#define IS_NEEDED(no)                                                                              \
    LOAD(SEQ_CST, R0, OUTSTANDING, "atomic_load(&e->outstanding) > 0 &&"), IF(R0, EQ, 0, no, ""),  \
        LOAD(SEQ_CST, R0, WAITERS, "atomic_load(&e->waiters) == 0 &&"), IF(R0, NE, 0, no, ""),     \
        LOAD(SEQ_CST, R0, DRIVING, "atomic_load(&e->driving) == 0"), IF(R0, NE, 0, no, "")

#define BACKGROUND_DONE(yes)                                                                       \
    LOAD(RELAXED, R0, WAITERS, "background_done: waiters > 0 ||"), IF(R0, NE, 0, yes, ""),         \
        LOAD(RELAXED, R0, OUTSTANDING, "outstanding == 0"), IF(R0, EQ, 0, yes, "")

/* drive with `background`; R5: it has napped. Ends at label l + 1. Takes the labels l to l + 15. */
#define DRIVE_BACKGROUND(l)                                                                        \
    SET(R5, 0), LABEL(l), STEP((l) + 13, (l) + 3), BACKGROUND_DONE((l) + 1),                       \
        IF(R5, NE, 0, (l) + 14, "nap = background && !p->napped"),                                 \
        STORE(SEQ_CST, NAPPING, 1, "atomic_store(&e->napping, nap)"), LABEL((l) + 14),             \
        IF(R5, EQ, 0, (l) + 15, ""), STORE(SEQ_CST, NAPPING, 0, "atomic_store(&e->napping, nap)"), \
        LABEL((l) + 15), SLEEP_ANNOUNCE(RINGS, SLEEPING, R1), STEP((l) + 2, (l) + 8),              \
        BACKGROUND_DONE((l) + 2), IF(R5, EQ, 0, (l) + 2, "a nap is over by itself"),               \
        SLEEP_ON_BELL(RINGS, R1), LABEL((l) + 2), SET(R5, 1), SLEEP_END(SLEEPING), GOTO(l),        \
        LABEL((l) + 13), SET(R5, 0), GOTO(l), LABEL((l) + 1)

/* rest; R4: how. Takes the labels l to l + 5. */
#define REST(l)                                                                                    \
    LOAD(SEQ_CST, R2, WORK, "seen = atomic_load(work_of(e))", .name = "rest.seen"),                \
        IF(R4, NE, REST_NAP, (l) + 4, "*kind == REST_NAP ? BACKGROUND_NAPPING : …"),               \
        STORE(SEQ_CST, STATE, BACKGROUND_NAPPING,                                                  \
              "atomic_store(&e->background_state, BACKGROUND_NAPPING)", .name = "rest.napping"),   \
        GOTO((l) + 5), LABEL((l) + 4),                                                             \
        STORE(SEQ_CST, STATE, BACKGROUND_ASLEEP,                                                   \
              "atomic_store(&e->background_state, BACKGROUND_ASLEEP)", .name = "rest.asleep"),     \
        LABEL((l) + 5), IS_NEEDED(l), GOTO((l) + 1), LABEL(l),                                     \
        IF(R4, EQ, REST_NAP, (l) + 1, "a nap is over by itself", .name = "rest.looked"),           \
        SLEEP(R2, WORK, "world_sleep_on(work_of(e), seen, …)"), LABEL((l) + 1),                    \
        STORE(SEQ_CST, STATE, BACKGROUND_AWAKE,                                                    \
              "atomic_store(&e->background_state, BACKGROUND_AWAKE)"),                             \
        LOAD(SEQ_CST, R0, WORK, "if (atomic_load(work_of(e)) != seen)"), SET(R4, REST_SLEEP),      \
        IF(R0, EQ, R2, (l) + 2, "++*kind", .by_register = true), SET(R4, REST_NAP), LABEL((l) + 2)

#define BACKGROUND_MAIN                                                                            \
    LABEL(1), IS_NEEDED(2), TAKE_SEAT(2), DRIVE_BACKGROUND(10), LEAVE_SEAT(3), SET(R4, REST_NAP),  \
        GOTO(1), LABEL(2), REST(4), GOTO(1)

/* The same without naps, which only make it look more often: for programs of three threads. */
#define DRIVE_BACKGROUND_LONG(l)                                                                   \
    LABEL(l), STEP(l, (l) + 3), BACKGROUND_DONE((l) + 1), SLEEP_ANNOUNCE(RINGS, SLEEPING, R1),     \
        STEP((l) + 2, (l) + 8), BACKGROUND_DONE((l) + 2), SLEEP_ON_BELL(RINGS, R1),                \
        LABEL((l) + 2), SLEEP_END(SLEEPING), GOTO(l), LABEL((l) + 1)

#define REST_LONG(l)                                                                               \
    LOAD(SEQ_CST, R2, WORK, "seen = atomic_load(work_of(e))", .name = "rest.seen"),                \
        STORE(SEQ_CST, STATE, BACKGROUND_ASLEEP,                                                   \
              "atomic_store(&e->background_state, BACKGROUND_ASLEEP)", .name = "rest.asleep"),     \
        IS_NEEDED(l), GOTO((l) + 1), LABEL(l), NAP("looked", .name = "rest.looked"),               \
        SLEEP(R2, WORK, "world_sleep_on(work_of(e), seen, …)"), LABEL((l) + 1),                    \
        STORE(SEQ_CST, STATE, BACKGROUND_AWAKE,                                                    \
              "atomic_store(&e->background_state, BACKGROUND_AWAKE)")

#define BACKGROUND_MAIN_LONG                                                                       \
    LABEL(1), IS_NEEDED(2), TAKE_SEAT(2), DRIVE_BACKGROUND_LONG(10), LEAVE_SEAT(3), GOTO(1),       \
        LABEL(2), REST_LONG(4), GOTO(1)

#endif
