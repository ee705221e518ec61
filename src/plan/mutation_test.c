/* mutation_test.c: the verifier objects to wrong plans.
 *
 * Proved plans are damaged, one step at a time. The oracle runs each mutant on numbers under random
 * timing: whatever goes wrong there, the verifier must have objected to. Objections are also counted
 * by check, since each kind of damage is meant for one of them. Mutants that are accepted are shown
 * to be no damage: a step done twice that changes nothing the second time, two steps that have
 * nothing to do with each other in another order, an AWAIT that messages imply.
 * ctest: timeout=900 */
#include "plan/mutations.h"
#include "plan/oracle_right.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TIMINGS 24 /* tried per mutant and piece count */

/* ---- What is damaged ------------------------------------------------------------------------- */

static const uint16_t TWO_AND_ONE[] = {0, 0, 1}, TWO_AND_TWO[] = {0, 0, 1, 1}, ALONE[] = {0, 1, 2};
static const uint16_t SIX_ALONE[] = {0, 1, 2, 3, 4, 5}, THREE_TWICE[] = {0, 0, 1, 1, 2, 2};

static const struct subject {
    plan_collective collective;
    plan_algorithm algorithm;
    plan_layout layout;
} SUBJECTS[] = {
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, {.ranks = 3}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, {.ranks = 2, .prescaled = true}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .mapped = true}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .small = true}},
    {PLAN_ALLGATHER, PLAN_ALGORITHM_DIRECT, {.ranks = 3}},
    {PLAN_ALLGATHER, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .mapped = true}},
    {PLAN_BROADCAST, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .root = 1}},
    {PLAN_ALLTOALL, PLAN_ALGORITHM_DIRECT, {.ranks = 3}},
    {PLAN_REDUCESCATTER, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .prescaled = true}},
    {PLAN_REDUCE_TO_ROOT, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .root = 1}},
    {PLAN_REDUCE_TO_ROOT, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .root = 2, .mapped = true}},
    {PLAN_REDUCE_TO_ROOT, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .small = true, .prescaled = true}},
    {PLAN_GATHER, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .root = 1}},
    {PLAN_GATHER, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .mapped = true}},
    {PLAN_SCATTER, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .root = 1}},
    {PLAN_SCATTER, PLAN_ALGORITHM_DIRECT, {.ranks = 3, .mapped = true}},
    {PLAN_BARRIER, PLAN_ALGORITHM_DIRECT, {.ranks = 3}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, {.ranks = 2}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, {.ranks = 4}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, {.ranks = 3, .prescaled = true}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, {.ranks = 4, .mapped = true}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, {.ranks = 3, .host_of = ALONE}},
    {PLAN_ALLREDUCE,
     PLAN_ALGORITHM_HIERARCHICAL,
     {.ranks = 4, .host_of = TWO_AND_TWO, .adasum = true}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_HIERARCHICAL, {.ranks = 3, .host_of = TWO_AND_ONE}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, {.ranks = 3}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_DOUBLING, {.ranks = 3}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_HALVING, {.ranks = 4}},
    {PLAN_ALLGATHER, PLAN_ALGORITHM_RING, {.ranks = 3}},
    {PLAN_REDUCESCATTER, PLAN_ALGORITHM_RING, {.ranks = 3}},
    {PLAN_BROADCAST, PLAN_ALGORITHM_RING, {.ranks = 4, .root = 2}},
    {PLAN_BROADCAST, PLAN_ALGORITHM_TREE, {.ranks = 4}},
    {PLAN_REDUCE_TO_ROOT, PLAN_ALGORITHM_RING, {.ranks = 4, .root = 2}},
    {PLAN_REDUCE_TO_ROOT, PLAN_ALGORITHM_TREE, {.ranks = 4, .root = 2, .prescaled = true}},
    {PLAN_GATHER, PLAN_ALGORITHM_PAIRWISE, {.ranks = 3, .root = 1}},
    {PLAN_SCATTER, PLAN_ALGORITHM_PAIRWISE, {.ranks = 3, .root = 1}},
    {PLAN_ALLGATHER, PLAN_ALGORITHM_BRUCK, {.ranks = 3}},
    {PLAN_ALLTOALL, PLAN_ALGORITHM_BRUCK, {.ranks = 4}},
    {PLAN_ALLTOALL, PLAN_ALGORITHM_PAIRWISE, {.ranks = 3}},
    {PLAN_BARRIER, PLAN_ALGORITHM_DOUBLING, {.ranks = 3}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_NATIVE, {.ranks = 3}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_NATIVE, {.ranks = 2, .packed = true, .prescaled = true}},
    {PLAN_BROADCAST, PLAN_ALGORITHM_NATIVE, {.ranks = 3, .root = 1}},
};

/* Of six ranks two pass a level, and carry the count of their leaves over it. Only WEIGH is damaged: all
 * else is as on fewer ranks. */
static const struct subject COUNTED[] = {
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, {.ranks = 6}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, {.ranks = 6, .mapped = true}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, {.ranks = 6, .host_of = SIX_ALONE}},
    {PLAN_ALLREDUCE,
     PLAN_ALGORITHM_HIERARCHICAL,
     {.ranks = 6, .host_of = THREE_TWICE, .adasum = true}},
};

/* ---- The oracle's opinion -------------------------------------------------------------------- */

static oracle runner, healthy;

/* Whether some timing makes the plans deadlock or give a wrong result. */
static bool goes_wrong(const team *t, const team *original)
{
    static const uint32_t PIECES[] = {1, ORACLE_PIECES};
    bool in_place = oracle_may_be_in_place(t->plans[0]);
    for (unsigned i = 0; i < 2; i++) {
        oracle_run(&healthy, original, PIECES[i], false, 1);
        for (unsigned n = 0; n < TIMINGS; n++)
            if (!oracle_run(&runner, t, PIECES[i], in_place && n % 2, n * 7919 + 17) ||
                !oracle_all_right(&runner, &healthy))
                return true;
    }
    return false;
}

/* ---- Mutants that are as good as the original ------------------------------------------------ */

static bool same_memory(const plan *p, const plan_operand *x, const plan_operand *y)
{
    bool callers = oracle_may_be_in_place(p) && (x->buffer == PLAN_IN || x->buffer == PLAN_OUT) &&
                   (y->buffer == PLAN_IN || y->buffer == PLAN_OUT);
    return x->buffer != PLAN_NONE && (x->buffer == y->buffer || callers) && x->rank == y->rank &&
           x->index == y->index;
}

static bool touches(const plan *p, const plan_step *s, const plan_operand *memory)
{
    return same_memory(p, &s->dst, memory) || same_memory(p, &s->a, memory) ||
           same_memory(p, &s->b, memory);
}

static bool is_idempotent(const plan_step *s)
{
    if (s->kind == PLAN_AWAIT || s->kind == PLAN_FENCE || s->kind == PLAN_WEIGH ||
        s->kind == PLAN_START_SUMS)
        return true;
    if (s->kind == PLAN_COPY && !(s->flags & (PLAN_PRESCALE | PLAN_POSTSCALE)))
        return true;
    return (s->kind == PLAN_COPY || s->kind == PLAN_REDUCE || s->kind == PLAN_COMBINE) &&
           (s->dst.buffer != s->a.buffer || s->dst.rank != s->a.rank) &&
           (s->dst.buffer != s->b.buffer || s->dst.rank != s->b.rank);
}

static bool is_data(const plan_step *s)
{
    return s->kind == PLAN_COPY || s->kind == PLAN_REDUCE || s->kind == PLAN_DOT ||
           s->kind == PLAN_COMBINE;
}

static bool are_independent(const plan *p, const plan_step *x, const plan_step *y)
{
    return x->stage != y->stage || (!touches(p, y, &x->dst) && !touches(p, x, &y->dst));
}

/* What the verifier may accept, apart from the oracle's opinion. */
static bool may_be_accepted(const plan *p, uint32_t i, enum mutation m)
{
    const plan_step *s = &p->steps[i];
    switch (m) {
    case DELETE: /* only where a message implies it */
        return s->kind == PLAN_AWAIT && p->uses_messages;
    case DUPLICATE:
        return is_idempotent(s);
    case SWAP:
        return !is_data(s) || !is_data(s + 1) || are_independent(p, s, s + 1);
    case FLAG_PRE:
    case FLAG_POST:
    case FLAG_ODD:
    case PEER:
    case DST_INDEX:
    case A_INDEX:
    case B_INDEX:
        return false;
    default:
        return true;
    }
}

/* ---- The trial ------------------------------------------------------------------------------- */

static unsigned verdicts[MUTATION_COUNT][PLAN_CHECK_MEMORY + 1];
static unsigned damages[MUTATION_COUNT][PLAN_KIND_COUNT][PLAN_CHECK_MEMORY + 1];
static unsigned refusals, confirmed; /* of data, race, deadlock; and those the oracle shares */
static unsigned miscounted, miscounted_confirmed; /* of Adasum's leaves alone */

static void complain(const team *original, unsigned r, uint32_t i, enum mutation m,
                     const char *what)
{
    print_error("%s: %s of step %u on rank %u\n", what, MUTATIONS[m], i, r);
    plan_print(original->plans[r], stderr);
    fail();
}

static void judge(const team *t, const team *original, unsigned r, uint32_t i, enum mutation m)
{
    const plan_verdict verdict = plan_verify(t->plans);
    const plan_check check = verdict.failed;
    const bool of_counts = strstr(verdict.text, "counts are not of all leaves") != NULL;
    bool accepted = check == PLAN_CHECK_OK;
    verdicts[m][check]++;
    damages[m][original->plans[r]->steps[i].kind][check]++;
    if (check == PLAN_CHECK_BOUNDS || check == PLAN_CHECK_MATCHING)
        return;
    bool wrong = goes_wrong(t, original);
    refusals += !accepted;
    confirmed += !accepted && wrong;
    miscounted += of_counts;
    miscounted_confirmed += of_counts && wrong;
    if (accepted && wrong)
        complain(original, r, i, m, "accepted, but wrong");
    if (accepted && !may_be_accepted(original->plans[r], i, m))
        complain(original, r, i, m, "accepted without an explanation");
}

static void try_mutant(const team *original, unsigned r, uint32_t i, enum mutation m)
{
    team t = *original;
    t.plans[r] = copy_plan(original->plans[r]);
    if (mutate(t.plans[r], i, m)) {
        plan_derive(t.plans[r]);
        judge(&t, original, r, i, m);
    }
    free_clone(t.plans[r]);
}

static void try_steps(const team *original, unsigned r, bool weights_only)
{
    const plan *p = original->plans[r];
    for (uint32_t i = 0; i < p->step_count; i++)
        for (int m = 0; m < MUTATION_COUNT; m++)
            if (!weights_only || p->steps[i].kind == PLAN_WEIGH)
                try_mutant(original, r, i, (enum mutation)m);
}

static void try_subject(const struct subject *subject, bool weights_only)
{
    team original;
    assert_true(team_build(&original, subject->collective, subject->algorithm, subject->layout));
    assert_int_equal(plan_verify(original.plans).failed, PLAN_CHECK_OK);
    assert_false(goes_wrong(&original, &original));
    for (unsigned r = 0; r < original.ranks; r++)
        try_steps(&original, r, weights_only);
    team_free(&original);
}

static void print_table(void)
{
    print_message("%-11s", "");
    for (int check = 0; check <= PLAN_CHECK_MEMORY; check++)
        print_message("%10s", check ? plan_check_name((plan_check)check) : "accepted");
    print_message("\n");
    for (int m = 0; m < MUTATION_COUNT; m++) {
        print_message("%-11s", MUTATIONS[m]);
        for (int check = 0; check <= PLAN_CHECK_MEMORY; check++)
            print_message("%10u", verdicts[m][check]);
        print_message("\n");
    }
}

static void wrong_mutants_are_caught(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof SUBJECTS / sizeof *SUBJECTS; i++)
        try_subject(&SUBJECTS[i], false);
    for (size_t i = 0; i < sizeof COUNTED / sizeof *COUNTED; i++)
        try_subject(&COUNTED[i], true);
    print_table();
    print_message("the oracle found a wrong run for %u of %u refusals (data, race, deadlock)\n",
                  confirmed, refusals);
    assert_true(confirmed * 10 >= refusals * 9);
}

/* A count taken from another block, missed or doubled is objected to, and does give other results. */
static void wrong_counts_are_caught(void **state)
{
    (void)state;
    print_message("%u refusals to counts of leaves\n", miscounted);
    assert_true(miscounted > 0);
    assert_int_equal(miscounted_confirmed, miscounted);
}

/* All refusals to this damage of this kind of step are of these checks. */
static void assert_damage(enum mutation m, plan_kind kind, plan_check check, plan_check other)
{
    for (int c = PLAN_CHECK_BOUNDS; c <= PLAN_CHECK_MEMORY; c++)
        if (c != (int)check && c != (int)other && damages[m][kind][c] > 0)
            fail_msg("%s of kind %d: caught by %s", MUTATIONS[m], kind,
                     plan_check_name((plan_check)c));
    if (damages[m][kind][check] == 0)
        fail_msg("%s of kind %d is never caught by %s", MUTATIONS[m], kind, plan_check_name(check));
}

static void assert_deletions(plan_kind kind, plan_check check, plan_check other)
{
    assert_damage(DELETE, kind, check, other);
}

/* Each kind of damage is caught by the check that is meant for it. */
static void each_check_catches_its_own(void **state)
{
    (void)state;
    assert_deletions(PLAN_PUBLISH, PLAN_CHECK_BOUNDS, PLAN_CHECK_BOUNDS);
    assert_deletions(PLAN_SEND, PLAN_CHECK_MATCHING, PLAN_CHECK_MATCHING);
    assert_deletions(PLAN_RECV, PLAN_CHECK_MATCHING, PLAN_CHECK_MATCHING);
    assert_deletions(PLAN_RECV_REDUCE, PLAN_CHECK_MATCHING, PLAN_CHECK_MATCHING);
    assert_deletions(PLAN_COPY, PLAN_CHECK_DATA, PLAN_CHECK_DATA);
    assert_deletions(PLAN_REDUCE, PLAN_CHECK_DATA, PLAN_CHECK_DATA);
    assert_deletions(PLAN_DOT, PLAN_CHECK_DATA, PLAN_CHECK_DATA);
    assert_deletions(PLAN_WEIGH, PLAN_CHECK_DATA, PLAN_CHECK_DATA);
    assert_deletions(PLAN_COMBINE, PLAN_CHECK_DATA, PLAN_CHECK_DATA);
    assert_deletions(PLAN_FENCE, PLAN_CHECK_RACE, PLAN_CHECK_RACE);
    assert_deletions(PLAN_AWAIT, PLAN_CHECK_RACE, PLAN_CHECK_DATA); /* data: of a barrier */
}

/* What happens at the two ends of a plan, and when sums start, is part of the proof: whoever leaves it out,
 * moves it or does it twice is caught. Twice is no damage where nothing has happened in between. */
static void the_ends_are_checked(void **state)
{
    (void)state;
    assert_deletions(PLAN_ENTER, PLAN_CHECK_RACE, PLAN_CHECK_RACE);
    assert_damage(SWAP, PLAN_ENTER, PLAN_CHECK_BOUNDS, PLAN_CHECK_BOUNDS);
    assert_damage(DUPLICATE, PLAN_ENTER, PLAN_CHECK_BOUNDS, PLAN_CHECK_BOUNDS);
    assert_deletions(PLAN_ADDRESSES, PLAN_CHECK_DATA, PLAN_CHECK_DATA);
    assert_damage(SWAP, PLAN_ADDRESSES, PLAN_CHECK_BOUNDS, PLAN_CHECK_BOUNDS);
    assert_damage(DUPLICATE, PLAN_ADDRESSES, PLAN_CHECK_BOUNDS, PLAN_CHECK_BOUNDS);
    assert_damage(A_BUFFER, PLAN_ADDRESSES, PLAN_CHECK_BOUNDS, PLAN_CHECK_BOUNDS);
    assert_deletions(PLAN_START_SUMS, PLAN_CHECK_DATA, PLAN_CHECK_DATA);
    assert_damage(SWAP, PLAN_START_SUMS, PLAN_CHECK_BOUNDS, PLAN_CHECK_DATA);
    assert_damage(DST_INDEX, PLAN_START_SUMS, PLAN_CHECK_DATA, PLAN_CHECK_RACE);
    assert_damage(SWAP, PLAN_WEIGH, PLAN_CHECK_DATA, PLAN_CHECK_BOUNDS); /* with START_SUMS */
    assert_deletions(PLAN_LEAVE, PLAN_CHECK_BOUNDS, PLAN_CHECK_BOUNDS);
    assert_damage(DUPLICATE, PLAN_LEAVE, PLAN_CHECK_BOUNDS, PLAN_CHECK_BOUNDS);
}

static bool all_finish_alone(const team *t)
{
    for (unsigned n = 0; n < TIMINGS; n++)
        if (!oracle_finishes_alone(&runner, t, 1 + n % ORACLE_PIECES, n * 104729 + 5))
            return false;
    return true;
}

/* Where the verdict is "self-finishing", each of the others ends by itself once one rank has ended. */
static void self_finishing_plans_finish(void **state)
{
    (void)state;
    unsigned finishing = 0, others = 0, stuck = 0;
    for (size_t i = 0; i < sizeof SUBJECTS / sizeof *SUBJECTS; i++) {
        team t;
        assert_true(
            team_build(&t, SUBJECTS[i].collective, SUBJECTS[i].algorithm, SUBJECTS[i].layout));
        const bool verdict = plan_verify(t.plans).self_finishing, alone = all_finish_alone(&t);
        if (verdict && !alone)
            plan_print(t.plans[0], stderr);
        assert_true(alone || !verdict);
        finishing += verdict;
        others += !verdict;
        stuck += !alone;
        team_free(&t);
    }
    print_message("%u plans are self-finishing; of %u others the oracle saw %u get stuck\n",
                  finishing, others, stuck);
    assert_true(finishing > 0 && stuck * 2 >= others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_mutants_are_caught),    cmocka_unit_test(wrong_counts_are_caught),
        cmocka_unit_test(each_check_catches_its_own),  cmocka_unit_test(the_ends_are_checked),
        cmocka_unit_test(self_finishing_plans_finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
