/* abort.c: the record of an abort, or of the end of a view, is whole when the header names its writer, and does not
 * change any more, whoever else aborts at the same time; and a rank that has left tells when. Each record has one
 * thread that writes it: two of them stand for any number.
 *
 * models src/control/control.c claim_abort 970404813
 * models src/control/control.c control_abort 1505755811
 * models src/control/control.c control_end_view 1230299145
 * models src/control/control.c control_aborted 1206923520
 * models src/control/control.h control_is_aborted 44024578
 * models src/control/control.c control_leave 2656982542
 * models src/control/control.c control_departure 2559485092
 */
#include "litmus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RECORD1, RECORD2, ABORTED_BY, DEPARTURE, STATE, DEPARTURES };

#define PLACES                                                                                     \
    MEMORY("record 1"), MEMORY("record 2"), WORD("aborted by"), MEMORY("departure"),               \
        WORD("state"), WORD("departures")

/* Ends at label l. */
#define ABORT(rank, record, text, l)                                                               \
    LOAD(ACQUIRE, R0, ABORTED_BY, "if (control_is_aborted(c))"),                                   \
        IF(R0, NE, 0, l, "return", .name = "aborted"),                                             \
        WRITE(record, text, "a->status, a->rank, a->text", .name = "record"), SET(R0, 0),          \
        COMPARE_EXCHANGE(                                                                          \
            SEQ_CST, R0, ABORTED_BY, rank,                                                         \
            "atomic_compare_exchange_strong(&c->segment->header->aborted_by, &nobody, …)",         \
            .name = "publish"),                                                                    \
        LABEL(l)

static const litmus_step first[] = {ABORT(1, RECORD1, 7, 1), ABORT(1, RECORD1, 8, 2), END};
static const litmus_step second[] = {ABORT(2, RECORD2, 9, 1), END};
static const litmus_step reader[] = {
    AWAIT(SEQ_CST, R0, ABORTED_BY, NE, 0, "by = atomic_load(&c->segment->header->aborted_by)",
          .name = "by"),
    IF(R0, EQ, 2, 1, "by - 1"),
    READ(R1, RECORD1, "a->rank, a->status, a->text"),
    MUST(R1, EQ, 7, "what the first said"),
    GOTO(2),
    LABEL(1),
    READ(R1, RECORD2, "a->rank, a->status, a->text"),
    MUST(R1, EQ, 9, "what the second said"),
    LABEL(2),
    END,
};

static const litmus_program aborts = {
    .places = {PLACES}, .threads = {{"first", first}, {"second", second}, {"reader", reader}}};

static void the_record_that_counts_is_whole(void **unused)
{
    (void)unused;
    litmus_holds("abort: two at a time", &aborts);
    litmus_fails("abort: published relaxed", &aborts,
                 (litmus_change){.order_of = "publish", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("abort: seen relaxed", &aborts,
                 (litmus_change){.order_of = "by", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("abort: the record after its publication", &aborts,
                 (litmus_change){.move = "record", .behind = "publish"}, LITMUS_RACE);
    litmus_fails("abort: a record changed after its publication", &aborts,
                 (litmus_change){.leave_out = "aborted"}, LITMUS_RACE);
}

static const litmus_step leaver[] = {
    ADD(SEQ_CST, R0, DEPARTURES, 1, "atomic_fetch_add(&c->segment->header->departures, 1)"),
    WRITE(DEPARTURE, 1, "me->departure = … + 1", .name = "departure"),
    STORE(SEQ_CST, STATE, 1, "atomic_store(&me->state, SEGMENT_LEFT)", .name = "left"),
    END,
};
static const litmus_step looker[] = {
    LOAD(SEQ_CST, R0, STATE, "atomic_load(&r->state) == SEGMENT_LEFT", .name = "state"),
    IF(R0, EQ, 0, 1, "? r->departure : 0"),
    READ(R1, DEPARTURE, "r->departure"),
    MUST(R1, EQ, 1, "when it left"),
    LABEL(1),
    END,
};

static const litmus_program leaves = {.places = {PLACES},
                                      .threads = {{"leaver", leaver}, {"looker", looker}}};

static void who_has_left_tells_when(void **unused)
{
    (void)unused;
    litmus_holds("leave", &leaves);
    litmus_fails("leave: the state before the number", &leaves,
                 (litmus_change){.move = "departure", .behind = "left"}, LITMUS_RACE);
    litmus_fails("leave: relaxed", &leaves, (litmus_change){.order_of = "left", .order = RELAXED},
                 LITMUS_RACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_record_that_counts_is_whole),
                                       cmocka_unit_test(who_has_left_tells_when)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
