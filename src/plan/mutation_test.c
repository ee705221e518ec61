/* mutation_test.c: the verifier objects to wrong plans.
 *
 * Proved plans are damaged, one step at a time. The oracle runs each mutant on numbers under random
 * timing: whatever goes wrong there, the verifier must have objected to. Objections are also counted
 * by check, since each kind of damage is meant for one of them. Mutants that are accepted are shown
 * to be no damage: a step done twice that changes nothing the second time, two steps that have
 * nothing to do with each other in another order, an AWAIT that messages imply.
 * ctest: timeout=900 */
#include "plan/mutations.h"
#include "plan/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TIMINGS 24 /* tried per mutant and piece count */

/* ---- What is damaged ------------------------------------------------------------------------- */

static const uint16_t TWO_AND_ONE[] = {0, 0, 1}, TWO_AND_TWO[] = {0, 0, 1, 1}, ALONE[] = {0, 1, 2};

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
    {PLAN_ALLGATHER, PLAN_ALGORITHM_BRUCK, {.ranks = 3}},
    {PLAN_ALLTOALL, PLAN_ALGORITHM_BRUCK, {.ranks = 4}},
    {PLAN_ALLTOALL, PLAN_ALGORITHM_PAIRWISE, {.ranks = 3}},
    {PLAN_BARRIER, PLAN_ALGORITHM_DOUBLING, {.ranks = 3}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_NATIVE, {.ranks = 3}},
    {PLAN_ALLREDUCE, PLAN_ALGORITHM_NATIVE, {.ranks = 2, .packed = true, .prescaled = true}},
    {PLAN_BROADCAST, PLAN_ALGORITHM_NATIVE, {.ranks = 3, .root = 1}},
};

/* ---- The oracle's opinion -------------------------------------------------------------------- */

static oracle runner, healthy;

static number expected(const plan *p, unsigned r, uint32_t c, uint32_t piece)
{
    uint64_t sum = 0;
    switch (p->collective) {
    case PLAN_ALLGATHER:
        return oracle_input(c, 0, piece);
    case PLAN_ALLTOALL:
        return oracle_input(c, r, piece);
    case PLAN_BROADCAST:
        return oracle_input(p->layout.root, c, piece);
    default:
        for (unsigned q = 0; q < p->layout.ranks; q++)
            sum += oracle_input(q, p->collective == PLAN_REDUCESCATTER ? r : c, piece).sum;
        return (number){sum * (p->layout.prescaled ? 3 : 1) * 5, 0};
    }
}

/* Adasum: what the healthy plans give. Reductions: the sum, and the same order everywhere. */
static bool is_right(const plan *p, unsigned r, uint32_t c, uint32_t piece)
{
    number found = runner.ranks[r].result[c][piece], wanted = expected(p, r, c, piece);
    if (p->layout.adasum)
        return found.mix == healthy.ranks[r].result[c][piece].mix;
    if (p->collective == PLAN_ALLREDUCE)
        return found.sum == wanted.sum && found.mix == runner.ranks[0].result[c][piece].mix;
    return found.sum == wanted.sum;
}

static bool all_right(const team *t, uint32_t pieces)
{
    const plan *p = t->plans[0];
    uint32_t chunks = p->collective == PLAN_REDUCESCATTER ? 1 : p->chunks;
    for (unsigned r = 0; r < t->ranks; r++)
        for (uint32_t c = 0; c < chunks; c++)
            for (uint32_t piece = 0; piece < pieces; piece++)
                if (!is_right(p, r, c, piece))
                    return false;
    return true;
}

/* Of allreduce and broadcast, the output may be the input. */
static bool may_be_in_place(const plan *p)
{
    return p->collective == PLAN_ALLREDUCE || p->collective == PLAN_BROADCAST;
}

/* Whether some timing makes the plans deadlock or give a wrong result. */
static bool goes_wrong(const team *t, const team *original)
{
    static const uint32_t PIECES[] = {1, ORACLE_PIECES};
    bool in_place = may_be_in_place(t->plans[0]);
    for (unsigned i = 0; i < 2; i++) {
        oracle_run(&healthy, original, PIECES[i], false, 1);
        for (unsigned n = 0; n < TIMINGS; n++)
            if (!oracle_run(&runner, t, PIECES[i], in_place && n % 2, n * 7919 + 17) ||
                !all_right(t, PIECES[i]))
                return true;
    }
    return false;
}

/* ---- Mutants that are as good as the original ------------------------------------------------ */

static bool same_memory(const plan *p, const plan_operand *x, const plan_operand *y)
{
    bool callers = may_be_in_place(p) && (x->buffer == PLAN_IN || x->buffer == PLAN_OUT) &&
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
    if (s->kind == PLAN_AWAIT || s->kind == PLAN_FENCE || s->kind == PLAN_WEIGH)
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
    case FLAG_START:
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
static unsigned deletions[PLAN_KIND_COUNT][PLAN_CHECK_MEMORY + 1];
static unsigned objections, confirmed; /* of data, race, deadlock; and those the oracle shares */

static void complain(const team *original, unsigned r, uint32_t i, enum mutation m,
                     const char *what)
{
    print_error("%s: %s of step %u on rank %u\n", what, MUTATIONS[m], i, r);
    plan_print(original->plans[r], stderr);
    fail();
}

static void judge(const team *t, const team *original, unsigned r, uint32_t i, enum mutation m)
{
    plan_check check = plan_verify(t->plans).failed;
    bool accepted = check == PLAN_CHECK_OK;
    verdicts[m][check]++;
    if (m == DELETE)
        deletions[original->plans[r]->steps[i].kind][check]++;
    if (check == PLAN_CHECK_BOUNDS || check == PLAN_CHECK_MATCHING)
        return;
    bool wrong = goes_wrong(t, original);
    objections += !accepted;
    confirmed += !accepted && wrong;
    if (accepted && wrong)
        complain(original, r, i, m, "accepted, but wrong");
    if (accepted && !may_be_accepted(original->plans[r], i, m))
        complain(original, r, i, m, "accepted without an explanation");
}

static void try_mutant(const team *original, unsigned r, uint32_t f, uint32_t i, enum mutation m)
{
    team t = *original;
    t.plans[r] = clone(original->plans[r]);
    if (mutate(t.plans[r], f, i, m))
        judge(&t, original, r, i, m);
    free_clone(t.plans[r]);
}

static void try_subject(const struct subject *subject)
{
    team original;
    assert_true(team_build(&original, subject->collective, subject->algorithm, subject->layout));
    assert_int_equal(plan_verify(original.plans).failed, PLAN_CHECK_OK);
    assert_false(goes_wrong(&original, &original));
    for (unsigned r = 0; r < original.ranks; r++)
        for (uint32_t f = 0; f < original.plans[r]->phase_count; f++) {
            const plan_phase *phase = &original.plans[r]->phases[f];
            for (uint32_t i = phase->first; i < phase->first + phase->count; i++)
                for (int m = 0; m < MUTATION_COUNT; m++)
                    try_mutant(&original, r, f, i, (enum mutation)m);
        }
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
        try_subject(&SUBJECTS[i]);
    print_table();
    print_message("the oracle found a wrong run for %u of %u objections (data, race, deadlock)\n",
                  confirmed, objections);
    assert_true(confirmed * 10 >= objections * 9);
}

/* All objections to the deletion of this kind of step are of these checks. */
static void assert_deletions(plan_kind kind, plan_check check, plan_check other)
{
    unsigned seen = 0;
    for (int c = PLAN_CHECK_BOUNDS; c <= PLAN_CHECK_MEMORY; c++) {
        seen += deletions[kind][c];
        if (c != (int)check && c != (int)other)
            assert_int_equal(deletions[kind][c], 0);
    }
    assert_true(seen > 0 && deletions[kind][check] > 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_mutants_are_caught),
        cmocka_unit_test(each_check_catches_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
