/* verify_test.c: plans made wrong by hand, for each check; and right ones that look odd. */
#include "plan/testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static team t;

static void build(plan_collective collective, plan_algorithm algorithm, plan_layout layout)
{
    assert_true(team_build(&t, collective, algorithm, layout));
    assert_int_equal(plan_verify(t.plans).failed, PLAN_CHECK_OK);
}

/* The n-th step of a kind on a rank. */
static plan_step *step_of(unsigned rank, plan_kind kind, unsigned n)
{
    plan *p = t.plans[rank];
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == kind && n-- == 0)
            return &p->steps[i];
    fail_msg("rank %u has no such step", rank);
    return NULL;
}

static unsigned count_of(unsigned rank, plan_kind kind)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < t.plans[rank]->step_count; i++)
        count += t.plans[rank]->steps[i].kind == kind;
    return count;
}

static void swap_steps(plan_step *x, plan_step *y)
{
    plan_step kept = *x;
    *x = *y;
    *y = kept;
}

/* Turns a step into one that does nothing: a FENCE without transfers. */
static void blank(plan_step *s)
{
    *s = (plan_step){.kind = PLAN_FENCE};
}

static plan_verdict expect(plan_check check)
{
    for (unsigned r = 0; r < t.ranks; r++)
        plan_derive(t.plans[r]);
    plan_verdict verdict = plan_verify(t.plans);
    if (verdict.failed != check)
        print_verdict(&t, &verdict);
    assert_int_equal(verdict.failed, check);
    assert_true(check == PLAN_CHECK_OK || verdict.text[0] != '\0');
    team_free(&t);
    return verdict;
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

#define DIRECT_OF(ranks_)                                                                          \
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = ranks_})

static void bounds_of_operands(void **state)
{
    (void)state;
    DIRECT_OF(3);
    step_of(0, PLAN_COPY, 0)->a.index = 3;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(1, PLAN_COPY, 0)->dst.index = 3;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(2, PLAN_REDUCE, 0)->a.rank = 3;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(2, PLAN_REDUCE, 0)->b.buffer = PLAN_NONE;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(0, PLAN_REDUCE, 0)->dst.buffer = PLAN_IN;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(0, PLAN_REDUCE, 0)->b.buffer = PLAN_OUT; /* a peer's, and the plan is not mapped */
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(0, PLAN_COPY, 0)->dst.rank = 1; /* a peer's slot */
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(0, PLAN_COPY, 0)->a.buffer = PLAN_SUMS;
    expect(PLAN_CHECK_BOUNDS);
}

static void bounds_of_steps(void **state)
{
    (void)state;
    DIRECT_OF(3);
    step_of(0, PLAN_COPY, 0)->stage = 3;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(0, PLAN_COPY, 0)->flags = PLAN_SUMS_ODD;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(0, PLAN_COPY, 0)->kind = PLAN_KIND_COUNT;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(0, PLAN_AWAIT, 0)->lag = 0;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    step_of(0, PLAN_AWAIT, 0)->peer = 0; /* itself */
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    blank(step_of(1, PLAN_PUBLISH, 0));
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 3});
    step_of(1, PLAN_SEND, 0)->peer = 1;
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, (plan_layout){.ranks = 4});
    step_of(3, PLAN_WEIGH, 0)->ranks = 1;
    expect(PLAN_CHECK_BOUNDS);
}

static void bounds_of_the_outline(void **state)
{
    (void)state;
    DIRECT_OF(3);
    t.plans[1]->phases[0].cells++;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    t.plans[1]->layout.rank = 2;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    for (unsigned r = 0; r < 3; r++)
        t.plans[r]->phases[0].depth = PLAN_STAGES + 1;
    expect(PLAN_CHECK_BOUNDS);
    DIRECT_OF(3);
    t.plans[2]->phases[0].count--;
    expect(PLAN_CHECK_BOUNDS);
}

/* Memory of another host is out of reach. */
static void bounds_of_hosts(void **state)
{
    (void)state;
    static const uint16_t HOSTS[] = {0, 0, 1, 1};
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_HIERARCHICAL, (plan_layout){.ranks = 4, .host_of = HOSTS});
    step_of(0, PLAN_AWAIT, 0)->peer = 2;
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_HIERARCHICAL, (plan_layout){.ranks = 4, .host_of = HOSTS});
    step_of(0, PLAN_REDUCE, 0)->b.rank = 2;
    expect(PLAN_CHECK_BOUNDS);
}

/* Transports spread the root's result, not what it may have elsewhere, and take one stretch of memory. */
static void bounds_of_whole_collectives(void **state)
{
    (void)state;
    build(PLAN_BROADCAST, PLAN_ALGORITHM_NATIVE, (plan_layout){.ranks = 3, .root = 1});
    step_of(1, PLAN_COLL, 0)->dst.buffer = PLAN_WORK;
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_BROADCAST, PLAN_ALGORITHM_NATIVE, (plan_layout){.ranks = 3, .root = 1});
    step_of(0, PLAN_COLL, 0)->a = step_of(0, PLAN_COLL, 0)->dst; /* not the root */
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_NATIVE, (plan_layout){.ranks = 3, .packed = true});
    step_of(0, PLAN_COLL, 0)->dst.buffer = PLAN_OUT; /* tensors that do not lie side by side */
    expect(PLAN_CHECK_BOUNDS);
}

/* Of reduce and gather only the root has an OUT, of scatter only the root IN and WORK: of the others it may be
 * no memory at all. */
static void bounds_of_what_only_the_root_has(void **state)
{
    (void)state;
    const plan_layout layout = {.ranks = 3, .root = 1},
                      mapped = {.ranks = 3, .root = 1, .mapped = true};
    build(PLAN_REDUCE_TO_ROOT, PLAN_ALGORITHM_RING, layout);
    step_of(0, PLAN_RECV_REDUCE, 0)->dst.buffer = PLAN_OUT;
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_GATHER, PLAN_ALGORITHM_DIRECT, layout);
    step_of(2, PLAN_COPY, 0)->dst = (plan_operand){.buffer = PLAN_OUT, .rank = 2, .index = 2};
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_GATHER, PLAN_ALGORITHM_DIRECT, mapped);
    step_of(0, PLAN_ADDRESSES, 0)->dst = (plan_operand){.buffer = PLAN_OUT};
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_SCATTER, PLAN_ALGORITHM_DIRECT, mapped);
    step_of(0, PLAN_COPY, 0)->a.rank = 0;
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_SCATTER, PLAN_ALGORITHM_DIRECT, mapped);
    step_of(0, PLAN_COPY, 0)->a.rank = 2;
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_SCATTER, PLAN_ALGORITHM_PAIRWISE, layout);
    step_of(2, PLAN_RECV, 0)->dst = (plan_operand){.buffer = PLAN_WORK, .rank = 2, .index = 2};
    expect(PLAN_CHECK_BOUNDS);
}

/* ---- Matching -------------------------------------------------------------------------------- */

static void messages_that_do_not_match(void **state)
{
    (void)state;
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 3});
    blank(step_of(1, PLAN_RECV, 0));
    expect(PLAN_CHECK_MATCHING);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 3});
    step_of(1, PLAN_SEND, 0)->a.index = 0; /* another chunk */
    expect(PLAN_CHECK_MATCHING);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 3});
    step_of(1, PLAN_SEND, 0)->peer = 0;
    expect(PLAN_CHECK_MATCHING);
    /* Two messages of one rank to another, in another order than they are received in. */
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_HALVING, (plan_layout){.ranks = 4});
    swap_steps(step_of(0, PLAN_SEND, 0), step_of(0, PLAN_SEND, 1));
    expect(PLAN_CHECK_MATCHING);
}

/* What another rank should get may be of another length: one rank's plan would need equal parts, and the
 * others' would not know. */
static void parts_of_other_lengths(void **state)
{
    (void)state;
    build(PLAN_ALLTOALL, PLAN_ALGORITHM_PAIRWISE, (plan_layout){.ranks = 3});
    step_of(0, PLAN_SEND, 0)->a.index = 2;
    expect(PLAN_CHECK_BOUNDS);
    build(PLAN_ALLTOALL, PLAN_ALGORITHM_PAIRWISE, (plan_layout){.ranks = 3});
    for (unsigned r = 0; r < 3; r++)
        step_of(r, PLAN_SEND, 0)->a.index = r; /* equal parts then, but not the right ones */
    expect(PLAN_CHECK_DATA);
    build(PLAN_ALLTOALL, PLAN_ALGORITHM_BRUCK, (plan_layout){.ranks = 4});
    assert_true(t.plans[0]->needs_equal_parts);
    t.plans[0]->needs_equal_parts = false;
    assert_int_equal(plan_verify(t.plans).failed, PLAN_CHECK_BOUNDS); /* all must say so */
    for (unsigned r = 1; r < 4; r++)
        t.plans[r]->needs_equal_parts = false;
    assert_int_equal(plan_verify(t.plans).failed, PLAN_CHECK_BOUNDS); /* and their steps, too */
    team_free(&t);
}

/* ---- Deadlock -------------------------------------------------------------------------------- */

/* Everybody sends and waits before receiving: that ends only if messages are buffered. */
static void fence_before_receiving(plan_algorithm algorithm, plan_collective collective,
                                   plan_kind receive)
{
    build(collective, algorithm, (plan_layout){.ranks = 4});
    for (unsigned r = 0; r < t.ranks; r++)
        swap_steps(step_of(r, receive, count_of(r, receive) - 1), step_of(r, PLAN_FENCE, 0));
}

static void rendezvous_deadlocks(void **state)
{
    (void)state;
    fence_before_receiving(PLAN_ALGORITHM_RING, PLAN_ALLGATHER, PLAN_RECV);
    expect(PLAN_CHECK_DEADLOCK);
    fence_before_receiving(PLAN_ALGORITHM_DOUBLING, PLAN_BARRIER, PLAN_RECV);
    for (unsigned r = 0; r < t.ranks; r++) /* the last receive belongs to the last phase */
        swap_steps(step_of(r, PLAN_RECV, 0), step_of(r, PLAN_FENCE, 0));
    expect(PLAN_CHECK_DEADLOCK);
    fence_before_receiving(PLAN_ALGORITHM_DOUBLING, PLAN_ALLREDUCE, PLAN_RECV_REDUCE);
    expect(PLAN_CHECK_DEADLOCK);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static void wrong_reductions(void **state)
{
    (void)state;
    DIRECT_OF(3);
    step_of(1, PLAN_REDUCE, 1)->b = step_of(1, PLAN_REDUCE, 0)->a; /* rank 0 twice, 2 never */
    expect(PLAN_CHECK_DATA);
    DIRECT_OF(3);
    step_of(1, PLAN_COPY, 2)->flags = 0; /* not scaled */
    expect(PLAN_CHECK_DATA);
    DIRECT_OF(3);
    step_of(1, PLAN_COPY, 3)->flags = PLAN_POSTSCALE; /* scaled twice, for the others */
    expect(PLAN_CHECK_DATA);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3, .prescaled = true});
    step_of(2, PLAN_COPY, 0)->flags = 0;
    expect(PLAN_CHECK_DATA);
    /* (x2 ∘ x1) ∘ x0 on one rank, (x0 ∘ x1) ∘ x2 on the others: not the same bits. */
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3, .small = true});
    swap_steps(step_of(1, PLAN_AWAIT, 0), step_of(1, PLAN_AWAIT, 1));
    step_of(1, PLAN_REDUCE, 0)->a.rank = 2;
    step_of(1, PLAN_REDUCE, 1)->b.rank = 0;
    plan_verdict verdict = expect(PLAN_CHECK_DATA);
    assert_non_null(strstr(verdict.text, "another order"));
}

static void data_in_wrong_places(void **state)
{
    (void)state;
    build(PLAN_BROADCAST, PLAN_ALGORITHM_TREE, (plan_layout){.ranks = 4, .root = 1});
    for (unsigned r = 0; r < 4; r++)
        t.plans[r]->layout.root = 2;
    expect(PLAN_CHECK_DATA);
    build(PLAN_ALLTOALL, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3, .mapped = true});
    for (unsigned r = 0; r < 3; r++)
        step_of(r, PLAN_COPY, 1)->a.index = (r + 2) % 3;
    expect(PLAN_CHECK_DATA);
    build(PLAN_ALLGATHER, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3});
    step_of(0, PLAN_COPY, 2)->dst.index = 2; /* another rank's rows, maybe of another length */
    expect(PLAN_CHECK_DATA);
    build(PLAN_BARRIER, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3});
    blank(step_of(0, PLAN_AWAIT, 1));
    expect(PLAN_CHECK_DATA);
    build(PLAN_GATHER, PLAN_ALGORITHM_PAIRWISE, (plan_layout){.ranks = 3});
    blank(step_of(0, PLAN_COPY, 0)); /* the root forgets its own rows */
    expect(PLAN_CHECK_DATA);
    build(PLAN_SCATTER, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3, .mapped = true});
    step_of(1, PLAN_COPY, 0)->a.index = 2; /* another rank's rows */
    expect(PLAN_CHECK_DATA);
    build(PLAN_REDUCE_TO_ROOT, PLAN_ALGORITHM_TREE, (plan_layout){.ranks = 3});
    step_of(0, PLAN_COPY, 0)->flags = 0; /* the root does not scale */
    expect(PLAN_CHECK_DATA);
}

static void wrong_projections(void **state)
{
    (void)state;
    const plan_layout four = {.ranks = 4};
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, four);
    plan_step *dot = step_of(0, PLAN_DOT, 0);
    plan_operand lower = dot->a;
    dot->a = dot->b, dot->b = lower; /* the lower block must come first */
    expect(PLAN_CHECK_DATA);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, four);
    plan_step *combine = step_of(2, PLAN_COMBINE, 0);
    lower = combine->a;
    combine->a = combine->b, combine->b = lower;
    expect(PLAN_CHECK_DATA);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, four);
    step_of(3, PLAN_START_SUMS, 0)->dst.index = 1; /* sums of an earlier operation */
    expect(PLAN_CHECK_DATA);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, four);
    blank(step_of(1, PLAN_WEIGH, 1)); /* coefficients of the level before */
    expect(PLAN_CHECK_DATA);
}

static void expect_wrong_counts(void)
{
    plan_verdict verdict = expect(PLAN_CHECK_DATA);
    assert_non_null(strstr(verdict.text, "counts are not of all leaves"));
}

/* The products are right, and who is told to carry the number of leaves is not. */
static void wrong_counts_of_leaves(void **state)
{
    (void)state;
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, (plan_layout){.ranks = 4});
    step_of(1, PLAN_WEIGH, 1)->b.rank = 3; /* two leaves taken for one */
    expect_wrong_counts();
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, (plan_layout){.ranks = 3});
    step_of(2, PLAN_WEIGH, 0)->b.rank = 1; /* the same in the lower block */
    expect_wrong_counts();
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, (plan_layout){.ranks = 6});
    step_of(0, PLAN_WEIGH, 2)->b.rank = 2; /* the lower block's counted twice, the upper's missed */
    expect_wrong_counts();
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, (plan_layout){.ranks = 6, .mapped = true});
    step_of(5, PLAN_WEIGH, 1)->b.rank = 5; /* one leaf of the block that passed a level is missed */
    expect_wrong_counts();
}

/* ---- Races ----------------------------------------------------------------------------------- */

static void slots_overwritten_too_soon(void **state)
{
    (void)state;
    build(PLAN_BROADCAST, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3});
    step_of(0, PLAN_AWAIT, 0)->lag++;
    plan_verdict verdict = expect(PLAN_CHECK_RACE);
    assert_int_equal(verdict.pieces, PLAN_SLOTS + 1); /* the first count with a slot used twice */
    build(PLAN_BROADCAST, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3});
    blank(step_of(2, PLAN_AWAIT, 0)); /* reads before the root has written */
    verdict = expect(PLAN_CHECK_RACE);
    assert_int_equal(verdict.pieces, 1);
}

static void callers_memory_given_back_too_soon(void **state)
{
    (void)state;
    const plan_layout mapped = {.ranks = 3, .mapped = true};
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, mapped);
    blank(step_of(0, PLAN_AWAIT, count_of(0, PLAN_AWAIT) - 1)); /* of the closing phase */
    expect(PLAN_CHECK_RACE);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, mapped);
    blank(step_of(0, PLAN_AWAIT, 0)); /* of the opening: the peer's caller may not be there */
    expect(PLAN_CHECK_RACE);
}

static void chunks_touched_in_transfer(void **state)
{
    (void)state;
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_DOUBLING, (plan_layout){.ranks = 4});
    step_of(0, PLAN_RECV_REDUCE, 1)->dst =
        step_of(0, PLAN_SEND, 1)->a; /* received over what is sent */
    expect(PLAN_CHECK_RACE);
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 3});
    blank(step_of(0, PLAN_SEND, 0)); /* keep the numbers: one message less on both sides */
    blank(step_of(1, PLAN_RECV_REDUCE, 0));
    expect(PLAN_CHECK_DATA);
    build(PLAN_ALLGATHER, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 3});
    plan *p = t.plans[0];
    p->steps[p->step_count - 2] = p->steps[0]; /* no FENCE any more */
    expect(PLAN_CHECK_RACE);
}

/* Level k + 1 would add to sums that others still read for level k, were it not for the parity. */
static void sums_used_again_too_soon(void **state)
{
    (void)state;
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM, (plan_layout){.ranks = 4});
    for (unsigned r = 0; r < 4; r++) {
        for (unsigned n = 0; n < count_of(r, PLAN_DOT); n++)
            step_of(r, PLAN_DOT, n)->flags &= (uint8_t)~PLAN_SUMS_ODD;
        for (unsigned n = 0; n < count_of(r, PLAN_WEIGH); n++)
            step_of(r, PLAN_WEIGH, n)->a.index = step_of(r, PLAN_WEIGH, n)->b.index = 0;
    }
    expect(PLAN_CHECK_RACE);
}

/* ---- Right, although it may not look so ------------------------------------------------------ */

static void odd_but_right_plans_are_accepted(void **state)
{
    (void)state;
    /* Reductions commute. */
    build(PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 3});
    step_of(0, PLAN_RECV_REDUCE, 0)->flags = 0;
    expect(PLAN_CHECK_OK);
    /* Waiting longer than needed. */
    build(PLAN_BROADCAST, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3});
    step_of(0, PLAN_AWAIT, 0)->lag = 1;
    expect(PLAN_CHECK_OK);
    /* Steps of different pieces in another order. */
    DIRECT_OF(2);
    plan *p = t.plans[0];
    swap_steps(&p->steps[5], &p->steps[6]);
    expect(PLAN_CHECK_OK);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void expect_finishing(plan_collective collective, plan_algorithm algorithm,
                             plan_layout layout, bool self_finishing)
{
    build(collective, algorithm, layout);
    assert_int_equal(plan_verify(t.plans).self_finishing, self_finishing);
    team_free(&t);
}

/* By memory, whoever has ended has seen that everything the others wait for is there. By messages, a rank
 * may have ended that the last ones were not for. */
static void who_finishes_alone_is_known(void **state)
{
    (void)state;
    const plan_layout three = {.ranks = 3}, mapped = {.ranks = 3, .mapped = true};
    expect_finishing(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, three, true);
    expect_finishing(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, mapped, true);
    expect_finishing(PLAN_BROADCAST, PLAN_ALGORITHM_DIRECT, three, true);
    expect_finishing(PLAN_BARRIER, PLAN_ALGORITHM_DIRECT, three, true);
    expect_finishing(PLAN_BROADCAST, PLAN_ALGORITHM_TREE, three, false);
    expect_finishing(PLAN_GATHER, PLAN_ALGORITHM_DIRECT, mapped, true);
    expect_finishing(PLAN_SCATTER, PLAN_ALGORITHM_DIRECT, mapped,
                     false); /* the root waits for all */
    expect_finishing(PLAN_GATHER, PLAN_ALGORITHM_PAIRWISE, three, false);
    expect_finishing(PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, three, false);
    expect_finishing(PLAN_ALLREDUCE, PLAN_ALGORITHM_NATIVE, three, false);
}

static void one_piece_count_at_a_time(void **state)
{
    (void)state;
    build(PLAN_BROADCAST, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 3});
    step_of(0, PLAN_AWAIT, 0)->lag++;
    assert_int_equal(plan_verify_pieces(t.plans, PLAN_SLOTS).failed, PLAN_CHECK_OK);
    assert_int_equal(plan_verify_pieces(t.plans, PLAN_SLOTS + 1).failed, PLAN_CHECK_RACE);
    team_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_of_operands),
        cmocka_unit_test(bounds_of_steps),
        cmocka_unit_test(bounds_of_the_outline),
        cmocka_unit_test(bounds_of_hosts),
        cmocka_unit_test(bounds_of_whole_collectives),
        cmocka_unit_test(bounds_of_what_only_the_root_has),
        cmocka_unit_test(messages_that_do_not_match),
        cmocka_unit_test(parts_of_other_lengths),
        cmocka_unit_test(rendezvous_deadlocks),
        cmocka_unit_test(wrong_reductions),
        cmocka_unit_test(data_in_wrong_places),
        cmocka_unit_test(wrong_projections),
        cmocka_unit_test(wrong_counts_of_leaves),
        cmocka_unit_test(slots_overwritten_too_soon),
        cmocka_unit_test(callers_memory_given_back_too_soon),
        cmocka_unit_test(chunks_touched_in_transfer),
        cmocka_unit_test(sums_used_again_too_soon),
        cmocka_unit_test(odd_but_right_plans_are_accepted),
        cmocka_unit_test(who_finishes_alone_is_known),
        cmocka_unit_test(one_piece_count_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
