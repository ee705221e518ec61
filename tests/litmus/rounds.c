/* rounds.c: contributions to rounds of negotiation, in shared memory. A rank writes its part, then the number of
 * the round; the others read the part after they saw the number. There are two parts, used in turn: who writes the
 * part of the round after next has seen all contribute to the next one, so all have read this one.
 *
 * models src/control/control.c control_contribute 862502894
 * models src/control/control.c control_contributed 2414462937
 * models src/control/control.c control_complete 3294281475
 * models src/negotiate/negotiate.c contribute 1847142386
 * models src/negotiate/negotiate.c finish_round 597115261
 * models src/negotiate/negotiate.c read_contributions 3990980065
 * models src/negotiate/readiness.c readiness_read 2876991350
 */
#include "litmus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { PART_A0, PART_A1, PART_B0, PART_B1, ROUND_A0, ROUND_A1, ROUND_B0, ROUND_B1 };

#define PLACES                                                                                     \
    MEMORY("part a0"), MEMORY("part a1"), MEMORY("part b0"), MEMORY("part b1"), WORD("round a0"),  \
        WORD("round a1"), WORD("round b0"), WORD("round b1")

#define ROUND(number, my_part, my_round, other_part, other_round)                                  \
    WRITE(my_part, number, "c->ready, c->digest, …", .name = "part"),                              \
        STORE(RELEASE, my_round, number,                                                           \
              "atomic_store_explicit(&c->round, round, memory_order_release)", .name = "round"),   \
        AWAIT(ACQUIRE, R0, other_round, EQ, number,                                                \
              "atomic_load_explicit(&part_of(…)->round, memory_order_acquire) == round",           \
              .name = "contributed"),                                                              \
        READ(R1, other_part, "read_contributions"), MUST(R1, EQ, number, "what was said for it"),  \
        READ(R1, my_part, "read_contributions, our own"), MUST(R1, EQ, number, "what we said")

static const litmus_step a[] = {
    ROUND(1, PART_A1, ROUND_A1, PART_B1, ROUND_B1),
    ROUND(2, PART_A0, ROUND_A0, PART_B0, ROUND_B0),
    ROUND(3, PART_A1, ROUND_A1, PART_B1, ROUND_B1),
    ROUND(4, PART_A0, ROUND_A0, PART_B0, ROUND_B0),
    END,
};
static const litmus_step b[] = {
    ROUND(1, PART_B1, ROUND_B1, PART_A1, ROUND_A1),
    ROUND(2, PART_B0, ROUND_B0, PART_A0, ROUND_A0),
    ROUND(3, PART_B1, ROUND_B1, PART_A1, ROUND_A1),
    ROUND(4, PART_B0, ROUND_B0, PART_A0, ROUND_A0),
    END,
};
static const litmus_program in_turn = {.places = {PLACES}, .threads = {{"a", a}, {"b", b}}};

static const litmus_step a_one_part[] = {
    ROUND(1, PART_A1, ROUND_A1, PART_B1, ROUND_B1),
    ROUND(2, PART_A1, ROUND_A1, PART_B1, ROUND_B1),
    END,
};
static const litmus_step b_one_part[] = {
    ROUND(1, PART_B1, ROUND_B1, PART_A1, ROUND_A1),
    ROUND(2, PART_B1, ROUND_B1, PART_A1, ROUND_A1),
    END,
};
static const litmus_program one_part = {.places = {PLACES},
                                        .threads = {{"a", a_one_part}, {"b", b_one_part}}};

static void a_part_is_read_as_it_was_written(void **unused)
{
    (void)unused;
    litmus_holds("rounds: two parts in turn", &in_turn);
    litmus_fails("the number relaxed", &in_turn,
                 (litmus_change){.order_of = "round", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("control_contributed relaxed", &in_turn,
                 (litmus_change){.order_of = "contributed", .order = RELAXED}, LITMUS_RACE);
    litmus_fails("the number before the part", &in_turn,
                 (litmus_change){.move = "part", .behind = "round"}, LITMUS_RACE);
    litmus_fails("one part for all rounds", &one_part, LITMUS_UNCHANGED, LITMUS_RACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_part_is_read_as_it_was_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
