/* classics.c: the explorer itself, on programs whose verdict is known: Batty et al., "Mathematizing C++
 * concurrency" (2011) and Lahav et al., "Repairing sequential consistency in C/C++11" (2017, RC11). An outcome that
 * is allowed must be found, and one that is forbidden must not. */
#include "litmus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { X, Y, Z };

#define SEEN "the weak outcome"
#define WORDS .places = {WORD("x"), WORD("y"), WORD("z")}
#define DATA_AND_FLAG .places = {MEMORY("data"), WORD("flag")}

/* ---- Store buffering: both may miss the other's store, unless both have seq_cst --------------- */

static const char *both_zero(const litmus_end *e)
{
    return e->registers[0][R0] == 0 && e->registers[1][R0] == 0 ? SEEN : NULL;
}

#define STORE_THEN_LOAD(name, store_order, load_order, mine, other)                                \
    static const litmus_step name[] = {STORE(store_order, mine, 1, "mine = 1"),                    \
                                       LOAD(load_order, R0, other, "r = other"), END}
STORE_THEN_LOAD(sb_relaxed_x, RELAXED, RELAXED, X, Y);
STORE_THEN_LOAD(sb_relaxed_y, RELAXED, RELAXED, Y, X);
STORE_THEN_LOAD(sb_acq_rel_x, RELEASE, ACQUIRE, X, Y);
STORE_THEN_LOAD(sb_acq_rel_y, RELEASE, ACQUIRE, Y, X);
STORE_THEN_LOAD(sb_sc_x, SEQ_CST, SEQ_CST, X, Y);
STORE_THEN_LOAD(sb_sc_y, SEQ_CST, SEQ_CST, Y, X);
STORE_THEN_LOAD(sb_half_y, RELEASE, SEQ_CST, Y, X);

#define STORE_FENCE_LOAD(steps_, mine, other)                                                      \
    static const litmus_step steps_[] = {STORE(RELAXED, mine, 1, "mine = 1"),                      \
                                         FENCE(SEQ_CST, "fence", .name = "fence"),                 \
                                         LOAD(RELAXED, R0, other, "r = other"), END}
STORE_FENCE_LOAD(sb_fence_x, X, Y);
STORE_FENCE_LOAD(sb_fence_y, Y, X);

static const litmus_step sb_add_y[] = {STORE(RELEASE, Y, 1, "y = 1"), ADD(SEQ_CST, R1, Z, 1, "z++"),
                                       LOAD(SEQ_CST, R0, X, "r = x"), END};
static const litmus_step sb_store_fence_x[] = {
    STORE(SEQ_CST, X, 1, "x = 1"), FENCE(SEQ_CST, "fence"), LOAD(ACQUIRE, R0, Y, "r = y"), END};

#define TWO(first, second, end)                                                                    \
    &(litmus_program)                                                                              \
    {                                                                                              \
        WORDS, .returns = 1, .threads = {{"first", first}, {"second", second}}, .judge = end,      \
               .judges_registers = true                                                            \
    }

static void store_buffering(void **unused)
{
    (void)unused;
    litmus_fails("SB relaxed", TWO(sb_relaxed_x, sb_relaxed_y, both_zero), LITMUS_UNCHANGED, SEEN);
    litmus_fails("SB acquire, release", TWO(sb_acq_rel_x, sb_acq_rel_y, both_zero),
                 LITMUS_UNCHANGED, SEEN);
    litmus_holds("SB seq_cst", TWO(sb_sc_x, sb_sc_y, both_zero));
    litmus_holds("SB fences", TWO(sb_fence_x, sb_fence_y, both_zero));
    litmus_fails("SB one fence", TWO(sb_fence_x, sb_relaxed_y, both_zero), LITMUS_UNCHANGED, SEEN);
    litmus_fails("SB fences weaker", TWO(sb_fence_x, sb_fence_y, both_zero),
                 (litmus_change){.order_of = "fence", .order = ACQ_REL}, SEEN);
    litmus_fails("SB one release store", TWO(sb_sc_x, sb_half_y, both_zero), LITMUS_UNCHANGED,
                 SEEN);
    litmus_holds("SB fence against seq_cst", TWO(sb_fence_x, sb_sc_y, both_zero));
    litmus_fails("SB fence against release, seq_cst add",
                 TWO(sb_store_fence_x, sb_add_y, both_zero), LITMUS_UNCHANGED, SEEN);
}

/* ---- Message passing --------------------------------------------------------------------------- */

static const litmus_step mp_write[] = {WRITE(0, 1, "data = 1"),
                                       FENCE(RELEASE, "fence", .name = "release fence"),
                                       STORE(RELEASE, 1, 1, "flag = 1", .name = "store"), END};
static const litmus_step mp_read[] = {
    AWAIT(ACQUIRE, R0, 1, EQ, 1, "while (flag == 0)", .name = "load"),
    FENCE(ACQUIRE, "fence", .name = "acquire fence"), READ(R1, 0, "r = data"),
    MUST(R1, EQ, 1, "data is 1"), END};

static const char *stale(const litmus_end *e)
{
    return e->registers[1][R0] == 1 && e->registers[1][R1] == 0 ? SEEN : NULL;
}

static const litmus_step mp_atomic_write[] = {STORE(RELAXED, X, 1, "x = 1"),
                                              STORE(RELEASE, Y, 1, "y = 1", .name = "store"), END};
static const litmus_step mp_atomic_read[] = {LOAD(ACQUIRE, R0, Y, "r0 = y"),
                                             LOAD(RELAXED, R1, X, "r1 = x"), END};

static void message_passing(void **unused)
{
    (void)unused;
    const litmus_program p = {DATA_AND_FLAG,
                              .threads = {{"writer", mp_write}, {"reader", mp_read}}};
    const litmus_change both[] = {{.order_of = "store", .order = RELAXED},
                                  {.order_of = "load", .order = RELAXED}};
    litmus_holds("MP", &p);
    litmus_holds_with("MP release by fence", &p, both[0]);
    litmus_holds_with("MP acquire by fence", &p, both[1]);
    const litmus_change without[][2] = {{{.leave_out = "release fence"}, both[0]},
                                        {{.leave_out = "acquire fence"}, both[1]}};
    for (int i = 0; i < 2; i++) {
        litmus_result *r = litmus_explore(&p, without[i], 2);
        assert_true(r->failure != NULL);
        litmus_free(r);
    }
    litmus_holds("MP atomic", TWO(mp_atomic_write, mp_atomic_read, stale));
    litmus_fails("MP atomic relaxed", TWO(mp_atomic_write, mp_atomic_read, stale),
                 (litmus_change){.order_of = "store", .order = RELAXED}, SEEN);
}

/* ---- Load buffering: forbidden in RC11, as values would come out of nothing --------------------- */

static const litmus_step lb_x[] = {LOAD(RELAXED, R0, Y, "r = y"), STORE(RELAXED, X, 1, "x = 1"),
                                   END};
static const litmus_step lb_y[] = {LOAD(RELAXED, R0, X, "r = x"), STORE(RELAXED, Y, 1, "y = 1"),
                                   END};

static const char *both_one(const litmus_end *e)
{
    return e->registers[0][R0] == 1 && e->registers[1][R0] == 1 ? SEEN : NULL;
}

static void load_buffering(void **unused)
{
    (void)unused;
    litmus_holds("LB relaxed", TWO(lb_x, lb_y, both_one));
}

/* ---- Independent reads of independent writes ---------------------------------------------------- */

static const char *disagree(const litmus_end *e)
{
    const bool third = e->registers[2][R0] == 1 && e->registers[2][R1] == 0;
    const bool fourth = e->registers[3][R0] == 1 && e->registers[3][R1] == 0;
    return third && fourth ? SEEN : NULL;
}

static const litmus_step write_x[] = {STORE(RELEASE, X, 1, "x = 1", .name = "access"), END};
static const litmus_step write_y[] = {STORE(RELEASE, Y, 1, "y = 1", .name = "access"), END};
#define READ_BOTH(steps_, first, second)                                                           \
    static const litmus_step steps_[] = {LOAD(ACQUIRE, R0, first, "r0", .name = "access"),         \
                                         FENCE(SEQ_CST, "fence", .name = "fence"),                 \
                                         LOAD(ACQUIRE, R1, second, "r1", .name = "access"), END}
READ_BOTH(read_xy, X, Y);
READ_BOTH(read_yx, Y, X);

/* RWC: one reads what another wrote, and a third has its own store and the fence between */
static const litmus_step write_then_read[] = {STORE(RELEASE, Y, 1, "y = 1"),
                                              FENCE(SEQ_CST, "fence", .name = "fence"),
                                              LOAD(ACQUIRE, R0, X, "r = x"), END};

static const char *third_saw_nothing(const litmus_end *e)
{
    const bool second = e->registers[1][R0] == 1 && e->registers[1][R1] == 0;
    return second && e->registers[2][R0] == 0 ? SEEN : NULL;
}

static void read_write_causality(void **unused)
{
    (void)unused;
    const litmus_program p = {
        WORDS, .threads = {{"first", write_x}, {"second", read_xy}, {"third", write_then_read}},
        .judge = third_saw_nothing, .judges_registers = true};
    litmus_holds("RWC fences", &p);
    litmus_fails("RWC acquire, release", &p, (litmus_change){.leave_out = "fence"}, SEEN);
}

static void independent_reads(void **unused)
{
    (void)unused;
    const litmus_program p = {
        WORDS, .threads = {{"x", write_x}, {"y", write_y}, {"third", read_xy}, {"fourth", read_yx}},
        .judge = disagree, .judges_registers = true};
    litmus_holds("IRIW fences", &p);
    litmus_fails("IRIW acquire, release", &p, (litmus_change){.leave_out = "fence"}, SEEN);
    litmus_holds_with(
        "IRIW seq_cst", &p,
        (litmus_change){.leave_out = "fence", .order_of = "access", .order = SEQ_CST});
}

/* ---- Coherence ------------------------------------------------------------------------------- */

static const litmus_step two_two_x[] = {STORE(RELAXED, X, 1, "x = 1"),
                                        FENCE(RELEASE, "fence", .name = "fence"),
                                        STORE(RELAXED, Y, 2, "y = 2"), END};
static const litmus_step two_two_y[] = {STORE(RELAXED, Y, 1, "y = 1"),
                                        FENCE(RELEASE, "fence", .name = "fence"),
                                        STORE(RELAXED, X, 2, "x = 2"), END};

static const char *first_ones_last(const litmus_end *e)
{
    return e->values[X] == 1 && e->values[Y] == 1 ? SEEN : NULL;
}

/* R: a store that is ordered before another word is read */
static const litmus_step r_first[] = {STORE(RELEASE, X, 1, "x = 1"),
                                      FENCE(SEQ_CST, "fence", .name = "fence"),
                                      STORE(RELEASE, Y, 1, "y = 1"), END};
static const litmus_step r_second[] = {STORE(RELEASE, Y, 2, "y = 2"),
                                       FENCE(SEQ_CST, "fence", .name = "fence"),
                                       LOAD(ACQUIRE, R0, X, "r = x"), END};

static const char *second_last_and_stale(const litmus_end *e)
{
    return e->values[Y] == 2 && e->registers[1][R0] == 0 ? SEEN : NULL;
}

/* S: a store that comes after a load must not be overtaken by what the load has seen */
static const litmus_step s_first[] = {STORE(RELAXED, X, 2, "x = 2"),
                                      STORE(RELEASE, Y, 1, "y = 1", .name = "store"), END};
static const litmus_step s_second[] = {LOAD(ACQUIRE, R0, Y, "r = y"), STORE(RELAXED, X, 1, "x = 1"),
                                       END};

static const char *overtaken(const litmus_end *e)
{
    return e->registers[1][R0] == 1 && e->values[X] == 2 ? SEEN : NULL;
}

static const litmus_step twice[] = {STORE(RELAXED, X, 1, "x = 1"), STORE(RELAXED, X, 2, "x = 2"),
                                    END};
static const litmus_step read_twice[] = {LOAD(RELAXED, R0, X, "r0 = x"),
                                         LOAD(RELAXED, R1, X, "r1 = x"), END};

static const char *backwards(const litmus_end *e)
{
    return e->registers[1][R0] > e->registers[1][R1] ? SEEN : NULL;
}

static const litmus_step add_one[] = {ADD(RELAXED, R0, X, 1, "x++"), END};

static const char *lost_one(const litmus_end *e)
{
    return e->values[X] != 2 ? SEEN : NULL;
}

static void coherence(void **unused)
{
    (void)unused;
    litmus_fails("2+2W release", TWO(two_two_x, two_two_y, first_ones_last), LITMUS_UNCHANGED,
                 SEEN);
    litmus_holds_with("2+2W fences", TWO(two_two_x, two_two_y, first_ones_last),
                      (litmus_change){.order_of = "fence", .order = SEQ_CST});
    litmus_holds("R fences", TWO(r_first, r_second, second_last_and_stale));
    litmus_fails("R acquire, release", TWO(r_first, r_second, second_last_and_stale),
                 (litmus_change){.leave_out = "fence"}, SEEN);
    litmus_holds("S", TWO(s_first, s_second, overtaken));
    litmus_fails("S relaxed", TWO(s_first, s_second, overtaken),
                 (litmus_change){.order_of = "store", .order = RELAXED}, SEEN);
    litmus_holds("CoRR", TWO(twice, read_twice, backwards));
    litmus_holds("two additions", TWO(add_one, add_one, lost_one));
}

/* ---- Release sequences, and what a third thread knows ------------------------------------------- */

static const litmus_step add_between[] = {AWAIT(RELAXED, R0, 1, EQ, 1, "while (flag != 1)"),
                                          ADD(RELAXED, R1, 1, 1, "flag++"), END};
static const litmus_step store_between[] = {AWAIT(RELAXED, R0, 1, EQ, 1, "while (flag != 1)"),
                                            STORE(RELAXED, 1, 2, "flag = 2"), END};
static const litmus_step read_at_two[] = {AWAIT(ACQUIRE, R0, 1, EQ, 2, "while (flag != 2)"),
                                          READ(R1, 0, "r = data"), MUST(R1, EQ, 1, "data is 1"),
                                          END};

static const litmus_step wrc_first[] = {STORE(RELAXED, X, 1, "x = 1"), END};
static const litmus_step wrc_second[] = {AWAIT(RELAXED, R0, X, EQ, 1, "while (x == 0)"),
                                         STORE(RELEASE, Y, 1, "y = 1", .name = "store"), END};
static const litmus_step wrc_third[] = {AWAIT(ACQUIRE, R0, Y, EQ, 1, "while (y == 0)"),
                                        LOAD(RELAXED, R1, X, "r = x"), END};

static const char *third_stale(const litmus_end *e)
{
    return e->registers[2][R1] == 0 ? SEEN : NULL;
}

static void passing_on(void **unused)
{
    (void)unused;
    const litmus_program by_add = {
        DATA_AND_FLAG,
        .threads = {{"writer", mp_write}, {"between", add_between}, {"reader", read_at_two}}};
    const litmus_program by_store = {
        DATA_AND_FLAG,
        .threads = {{"writer", mp_write}, {"between", store_between}, {"reader", read_at_two}}};
    litmus_holds("release sequence through an addition", &by_add);
    litmus_fails("a store of another thread ends it", &by_store, LITMUS_UNCHANGED, LITMUS_RACE);
    const litmus_program wrc = {
        WORDS, .threads = {{"first", wrc_first}, {"second", wrc_second}, {"third", wrc_third}},
        .judge = third_stale, .judges_registers = true};
    litmus_holds("WRC", &wrc);
    litmus_fails("WRC relaxed", &wrc, (litmus_change){.order_of = "store", .order = RELAXED}, SEEN);
}

/* ---- Locks and futexes ------------------------------------------------------------------------ */

static const litmus_step with_lock[] = {LOCK(1, "lock", .name = "lock"),
                                        READ(R0, 0, "r = data"),
                                        COUNT(R0, 1),
                                        WRITE(0, R0, "data = r + 1", .by_register = true),
                                        UNLOCK(1, "unlock", .name = "unlock"),
                                        END};

static const char *not_two(const litmus_end *e)
{
    return e->values[0] != 2 ? SEEN : NULL;
}

static const litmus_step sleeper[] = {
    LABEL(1),
    LOAD(ACQUIRE, R0, X, "seen = x"),
    IF(R0, NE, 0, 2, "if (seen != 0)"),
    SLEEP(R0, X, "sleep_on(x, seen)"),
    GOTO(1),
    LABEL(2),
    END,
};
static const litmus_step waker[] = {STORE(RELEASE, X, 1, "x = 1", .name = "store"),
                                    WAKE(X, "wake(x)", .name = "wake"), END};

static void locks_and_sleep(void **unused)
{
    (void)unused;
    const litmus_program lock = {.places = {MEMORY("data"), LOCKED("lock")},
                                 .threads = {{"first", with_lock}, {"second", with_lock}},
                                 .judge = not_two};
    litmus_holds("lock", &lock);
    litmus_fails("no lock", &lock, (litmus_change){.leave_out = "lock"}, LITMUS_RACE);
    litmus_holds("futex", TWO(sleeper, waker, NULL));
    litmus_fails("futex without a wake", TWO(sleeper, waker, NULL),
                 (litmus_change){.leave_out = "wake"}, LITMUS_FOR_EVER);
    litmus_fails("futex: the wake first", TWO(sleeper, waker, NULL),
                 (litmus_change){.move = "store", .behind = "wake"}, LITMUS_FOR_EVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_buffering),      cmocka_unit_test(message_passing),
        cmocka_unit_test(load_buffering),       cmocka_unit_test(independent_reads),
        cmocka_unit_test(read_write_causality), cmocka_unit_test(coherence),
        cmocka_unit_test(passing_on),           cmocka_unit_test(locks_and_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
