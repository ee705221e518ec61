/* flag.c: what a rank has written before it set its flag, others read after they saw the flag; and it writes there
 * again only after they have said that they have read.
 *
 * A plan's PUBLISH is set_flag, its AWAIT is peer_reached. Here a step waits by looking again and again; how a
 * rank sleeps meanwhile is in bell.c.
 *
 * models src/exec/exec.c set_flag 3840509491
 * models src/exec/exec.c peer_reached 418834572
 * models src/exec/exec.c enter 1611944899
 * models src/exec/exec.c publish 136980256
 * models src/exec/exec.c leave 3393274198
 */
#include "litmus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SLOT_A, SLOT_B, FLAG_A, FLAG_B, FLAG_C };

#define PLACES WORD("flag a"), WORD("flag b"), WORD("flag c")

#define SET_FLAG(flag, v)                                                                          \
    STORE(RELEASE, flag, v, "atomic_store_explicit(&flag->value, value, memory_order_release)",    \
          .name = "set_flag")
#define REACHED(flag, v)                                                                           \
    AWAIT(ACQUIRE, R0, flag, GE, v, "atomic_load_explicit(&flag->value, memory_order_acquire)",    \
          .name = "peer_reached")
#define REUSE(flag, v)                                                                             \
    AWAIT(ACQUIRE, R0, flag, GE, v, "atomic_load_explicit(&flag->value, memory_order_acquire)",    \
          .name = "reuse")

/* ---- A slot that is used twice -------------------------------------------------------------------- */

static const litmus_step writer[] = {
    WRITE(SLOT_A, 1, "COPY into the slot", .name = "copy"), SET_FLAG(FLAG_A, 1), REUSE(FLAG_B, 1),
    WRITE(SLOT_A, 2, "COPY into the slot, once more"),      SET_FLAG(FLAG_A, 2), END,
};
static const litmus_step reader[] = {
    REACHED(FLAG_A, 1),
    READ(R1, SLOT_A, "REDUCE from the slot", .name = "read"),
    SET_FLAG(FLAG_B, 1),
    MUST(R1, EQ, 1, "the first piece", .name = "must"),
    REACHED(FLAG_A, 2),
    READ(R1, SLOT_A, "REDUCE from the slot"),
    MUST(R1, EQ, 2, "the second piece"),
    END,
};

static const litmus_program slot = {.places = {MEMORY("slot a"), MEMORY("slot b"), PLACES},
                                    .threads = {{"writer", writer}, {"reader", reader}}};

static void a_slot_is_read_whole_and_used_again(void **unused)
{
    (void)unused;
    litmus_holds("flag: a slot used twice", &slot);
    litmus_fails("set_flag relaxed", &slot,
                 (litmus_change){.order_of = "set_flag", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("peer_reached relaxed", &slot,
                 (litmus_change){.order_of = "peer_reached", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("peer_reached relaxed where a slot is used again", &slot,
                 (litmus_change){.order_of = "reuse", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("a slot used again too early", &slot, (litmus_change){.leave_out = "reuse"},
                 LITMUS_RACE);
    litmus_fails("the flag before the copy", &slot,
                 (litmus_change){.move = "copy", .behind = "set_flag"}, LITMUS_RACE);
    litmus_fails("the flag before the slot is read", &slot,
                 (litmus_change){.move = "read", .behind = "set_flag"}, LITMUS_RACE);
}

/* ---- What one has seen counts for the next: plans AWAIT a rank that has awaited another ------------- */

static const litmus_step first[] = {WRITE(SLOT_A, 1, "COPY into the slot"), SET_FLAG(FLAG_A, 1),
                                    REUSE(FLAG_C, 1), WRITE(SLOT_A, 2, "the next operation"), END};
static const litmus_step second[] = {REACHED(FLAG_A, 1), READ(R1, SLOT_A, "REDUCE"),
                                     WRITE(SLOT_B, 1, "into a slot of its own"),
                                     SET_FLAG(FLAG_B, 1), END};
static const litmus_step third[] = {REACHED(FLAG_B, 1),
                                    READ(R1, SLOT_A, "REDUCE"),
                                    MUST(R1, EQ, 1, "of a"),
                                    READ(R1, SLOT_B, "REDUCE"),
                                    MUST(R1, EQ, 1, "of b"),
                                    SET_FLAG(FLAG_C, 1),
                                    END};

static const litmus_program chain = {
    .places = {MEMORY("slot a"), MEMORY("slot b"), PLACES},
    .threads = {{"first", first}, {"second", second}, {"third", third}}};

static void what_one_has_seen_counts_for_the_next(void **unused)
{
    (void)unused;
    litmus_holds("flag: through another rank", &chain);
    litmus_fails("through another rank, set_flag relaxed", &chain,
                 (litmus_change){.order_of = "set_flag", .order = RELAXED}, LITMUS_RACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_is_read_whole_and_used_again),
        cmocka_unit_test(what_one_has_seen_counts_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
