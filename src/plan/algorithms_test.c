/* algorithms_test.c: every algorithm, for every collective and many layouts, is proved.
 * ctest: timeout=900 */
#include "plan/algorithms/algorithms.h"
#include "plan/testing.h"
#include "plan/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST_RANKS 13 /* sanitizers take ten times as long, and more ranks take no other way */
#else
#define MOST_RANKS 33
#endif
#define MOST_TRAFFIC 1.3        /* times the least bytes */
#define MOST_TRAFFIC_MAPPED 1.8 /* of Adasum in the callers' memory */

/* ---- Proofs ---------------------------------------------------------------------------------- */

static unsigned proved;

/* Builds and proves; an algorithm may refuse, a wrong plan ends the test. */
static bool prove(plan_collective collective, plan_algorithm algorithm, plan_layout layout)
{
    team t;
    if (!team_build(&t, collective, algorithm, layout))
        return false;
    plan_verdict verdict = plan_verify(t.plans);
    if (verdict.failed != PLAN_CHECK_OK)
        print_verdict(&t, &verdict);
    assert_int_equal(verdict.failed, PLAN_CHECK_OK);
    team_free(&t);
    proved++;
    return true;
}

/* Layouts over hosts take long; beyond 12 ranks a few numbers of ranks have to do. */
static bool worth_spreading(unsigned ranks)
{
    return ranks <= 12 || ranks == 16 || ranks == 17 || ranks == 24 || ranks == MOST_RANKS;
}

static void prove_on_hosts(plan_algorithm algorithm, plan_layout layout)
{
    uint16_t host_of[MOST_RANKS];
    for (int how = OWN_HOSTS; how < HOST_LAYOUTS; how++) {
        layout.host_of = spread_over_hosts(host_of, layout.ranks, how);
        bool built = prove(PLAN_ALLREDUCE, algorithm, layout);
        if (algorithm == PLAN_ALGORITHM_ADASUM || !layout.adasum)
            assert_true(built);
    }
}

static void prove_allreduce(plan_algorithm algorithm, unsigned ranks)
{
    const unsigned service = plan_find_row(algorithm, PLAN_ALLREDUCE)->service;
    bool memory = service & (PLAN_ONE_HOST | PLAN_PROJECTS);
    for (unsigned v = 0; v < 16; v++) {
        plan_layout layout = {.ranks = (uint16_t)ranks,
                              .prescaled = v & 1,
                              .mapped = v & 2,
                              .small = v & 4,
                              .adasum = v & 8};
        if ((layout.adasum && !(service & PLAN_PROJECTS)) || (layout.mapped && !memory) ||
            (layout.small && algorithm != PLAN_ALGORITHM_DIRECT) ||
            (layout.small && layout.adasum) ||
            (algorithm == PLAN_ALGORITHM_ADASUM && !layout.adasum))
            continue;
        assert_true(prove(PLAN_ALLREDUCE, algorithm, layout));
        layout.packed = algorithm == PLAN_ALGORITHM_NATIVE;
        if (layout.packed)
            assert_true(prove(PLAN_ALLREDUCE, algorithm, layout));
        if (memory && !layout.mapped && !(service & PLAN_ONE_HOST) && worth_spreading(ranks))
            prove_on_hosts(algorithm, layout);
    }
}

static bool has_root(plan_collective collective)
{
    return collective == PLAN_BROADCAST || collective == PLAN_REDUCE_TO_ROOT ||
           collective == PLAN_GATHER || collective == PLAN_SCATTER;
}

static void prove_rooted(plan_collective collective, plan_algorithm algorithm, unsigned ranks)
{
    const bool reduces = collective == PLAN_REDUCE_TO_ROOT;
    for (unsigned root = 0; root < ranks; root++) {
        if (ranks > 9 && root != 0 && root != ranks / 2 && root != ranks - 1)
            continue;
        if (reduces && ranks > 9 && root != ranks / 2)
            continue; /* each takes long */
        for (unsigned v = 0; v < (reduces ? 8 : 2); v++) {
            plan_layout layout = {.ranks = (uint16_t)ranks,
                                  .root = (uint16_t)root,
                                  .mapped = v & 1,
                                  .prescaled = v & 2,
                                  .small = v & 4};
            if (!layout.small || algorithm == PLAN_ALGORITHM_DIRECT)
                assert_true(prove(collective, algorithm, layout));
        }
    }
}

static void prove_other(plan_collective collective, plan_algorithm algorithm, unsigned ranks)
{
    for (unsigned v = 0; v < 4; v++) {
        plan_layout layout = {.ranks = (uint16_t)ranks, .prescaled = v & 1, .mapped = v & 2};
        assert_true(prove(collective, algorithm, layout));
    }
}

static void prove_algorithm(plan_algorithm algorithm)
{
    for (unsigned ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (int c = 0; c < PLAN_COLLECTIVE_COUNT; c++) {
            plan_collective collective = (plan_collective)c;
            if (plan_find_row(algorithm, collective) == NULL)
                continue;
            if (collective == PLAN_ALLREDUCE)
                prove_allreduce(algorithm, ranks);
            else if (has_root(collective))
                prove_rooted(collective, algorithm, ranks);
            else
                prove_other(collective, algorithm, ranks);
        }
}

#define TEST_OF(name)                                                                              \
    static void name##_is_proved(void **state)                                                     \
    {                                                                                              \
        (void)state;                                                                               \
        proved = 0;                                                                                \
        prove_algorithm(PLAN_ALGORITHM_##name);                                                    \
        print_message("%u teams of plans proved\n", proved);                                       \
    }
TEST_OF(DIRECT)
TEST_OF(RING)
TEST_OF(DOUBLING)
TEST_OF(HALVING)
TEST_OF(TREE)
TEST_OF(BRUCK)
TEST_OF(PAIRWISE)
TEST_OF(ADASUM)
TEST_OF(HIERARCHICAL)
TEST_OF(NATIVE)

/* ---- Properties ------------------------------------------------------------------------------ */

static double traffic_ratio(const team *t)
{
    uint64_t most, least;
    plan_traffic(t->plans, 1000000000, &most, &least);
    return least ? (double)most / (double)least : 1;
}

/* Large forms move little more than they must; what is for latency says so in its table row. */
static void large_forms_move_little(void **state)
{
    (void)state;
    for (int a = 1; a < PLAN_ALGORITHM_COUNT; a++)
        for (int c = 0; c < PLAN_COLLECTIVE_COUNT; c++) {
            double worst = 0;
            const plan_row *row = plan_find_row((plan_algorithm)a, (plan_collective)c);
            if (row == NULL)
                continue;
            for (unsigned ranks = 2; ranks <= MOST_RANKS; ranks++) {
                team t;
                plan_layout layout = {.ranks = (uint16_t)ranks};
                assert_true(team_build(&t, (plan_collective)c, (plan_algorithm)a, layout));
                double ratio = traffic_ratio(&t);
                worst = ratio > worst ? ratio : worst;
                team_free(&t);
            }
            print_message("%-13s by %-12s moves at most %.3f times the least%s\n",
                          plan_collective_name((plan_collective)c),
                          plan_algorithm_name((plan_algorithm)a), worst,
                          row->service & PLAN_FOR_LATENCY ? " (for latency)" : "");
            if (!(row->service & PLAN_FOR_LATENCY))
                assert_true(worst <= MOST_TRAFFIC);
        }
}

/* Over hosts of any size, and Adasum in the callers' memory, which reads its partner's part twice
 * (once for the dot products, once to combine) instead of keeping a copy. */
static void other_forms_move_little(void **state)
{
    (void)state;
    uint16_t host_of[MOST_RANKS];
    for (unsigned ranks = 2; ranks <= MOST_RANKS; ranks++)
        for (int how = ONE_HOST; how < HOST_LAYOUTS; how++)
            for (int adasum = 0; adasum < 2; adasum++) {
                team t;
                plan_layout layout = {.ranks = (uint16_t)ranks, .adasum = adasum};
                layout.mapped = how == ONE_HOST;
                layout.host_of = spread_over_hosts(host_of, ranks, how);
                plan_algorithm a = adasum ? PLAN_ALGORITHM_ADASUM : PLAN_ALGORITHM_HIERARCHICAL;
                assert_true(team_build(&t, PLAN_ALLREDUCE, a, layout));
                assert_true(traffic_ratio(&t) <=
                            (adasum && layout.mapped ? MOST_TRAFFIC_MAPPED : MOST_TRAFFIC));
                team_free(&t);
            }
}

static void check_order(plan_collective collective, plan_algorithm algorithm)
{
    const plan_row *row = plan_find_row(algorithm, collective);
    if (row == NULL || !(row->service & PLAN_ONE_ORDER))
        return;
    for (unsigned ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (int small = 0; small < 2; small++) {
            team t;
            plan_layout layout = {.ranks = (uint16_t)ranks, .small = small};
            layout.root = (uint16_t)(ranks / 2);
            assert_true(team_build(&t, collective, algorithm, layout));
            assert_true(has_one_order(&t));
            team_free(&t);
        }
}

/* PLAN_ONE_ORDER is true of those that claim it. */
static void orders_are_as_claimed(void **state)
{
    (void)state;
    for (int a = 1; a < PLAN_ALGORITHM_COUNT; a++) {
        check_order(PLAN_ALLREDUCE, (plan_algorithm)a);
        check_order(PLAN_REDUCE_TO_ROOT, (plan_algorithm)a);
    }
}

/* The ring's order depends on the chunk: the check can tell. */
static void ring_has_many_orders(void **state)
{
    (void)state;
    team t;
    assert_true(team_build(&t, PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 4}));
    assert_false(has_one_order(&t));
    team_free(&t);
}

/* The most common plan of all is as short as it can be. */
static void two_ranks_take_ten_steps(void **state)
{
    (void)state;
    static const uint8_t KINDS[] = {PLAN_ENTER, PLAN_COPY,  PLAN_AWAIT, PLAN_REDUCE,  PLAN_COPY,
                                    PLAN_COPY,  PLAN_AWAIT, PLAN_COPY,  PLAN_PUBLISH, PLAN_LEAVE};
    team t;
    assert_true(team_build(&t, PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 2}));
    for (unsigned r = 0; r < 2; r++) {
        assert_int_equal(t.plans[r]->step_count, sizeof KINDS);
        for (unsigned i = 0; i < sizeof KINDS; i++)
            assert_int_equal(t.plans[r]->steps[i].kind, KINDS[i]);
    }
    team_free(&t);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refuse(plan_collective collective, plan_algorithm algorithm, plan_layout layout)
{
    const char *why = NULL;
    assert_null(plan_build(collective, algorithm, &layout, &why));
    assert_non_null(why);
}

static void what_cannot_be_served_is_refused(void **state)
{
    (void)state;
    static const uint16_t SPLIT[] = {0, 1, 0}, UNEVEN[] = {0, 0, 0, 1, 1};
    refuse(PLAN_ALLREDUCE, PLAN_ALGORITHM_AUTO, (plan_layout){.ranks = 2});
    refuse(PLAN_BARRIER, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 2});
    refuse(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 0});
    refuse(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = PLAN_MAX_RANKS + 1});
    refuse(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 2, .rank = 2});
    refuse(PLAN_BROADCAST, PLAN_ALGORITHM_TREE, (plan_layout){.ranks = 2, .root = 2});
    refuse(PLAN_REDUCE_TO_ROOT, PLAN_ALGORITHM_TREE, (plan_layout){.ranks = 2, .root = 2});
    refuse(PLAN_REDUCE_TO_ROOT, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 2, .adasum = true});
    refuse(PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 2, .adasum = true});
    refuse(PLAN_ALLREDUCE, PLAN_ALGORITHM_HIERARCHICAL,
           (plan_layout){.ranks = 3, .host_of = SPLIT, .adasum = true});
    refuse(PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 5, .host_of = UNEVEN});
    refuse(PLAN_ALLREDUCE, PLAN_ALGORITHM_HIERARCHICAL,
           (plan_layout){.ranks = 5, .host_of = UNEVEN, .adasum = true});
}

/* More ranks than a phase can have stages for: the ring runs in one stage, with FENCEs. */
static void long_rings_are_proved(void **state)
{
    (void)state;
    enum { RANKS = 131 };
    plan *plans[RANKS];
    const char *why;
    for (unsigned r = 0; r < RANKS; r++) {
        plan_layout layout = {.ranks = RANKS, .rank = (uint16_t)r};
        plans[r] = plan_build(PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, &layout, &why);
        assert_non_null(plans[r]);
    }
    assert_int_equal(plans[0]->phases[0].depth, 1);
    assert_int_equal(plan_verify_pieces(plans, 2).failed, PLAN_CHECK_OK);
    for (unsigned r = 0; r < RANKS; r++)
        plan_free(plans[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(DIRECT_is_proved),
        cmocka_unit_test(RING_is_proved),
        cmocka_unit_test(DOUBLING_is_proved),
        cmocka_unit_test(HALVING_is_proved),
        cmocka_unit_test(TREE_is_proved),
        cmocka_unit_test(BRUCK_is_proved),
        cmocka_unit_test(PAIRWISE_is_proved),
        cmocka_unit_test(ADASUM_is_proved),
        cmocka_unit_test(HIERARCHICAL_is_proved),
        cmocka_unit_test(NATIVE_is_proved),
        cmocka_unit_test(large_forms_move_little),
        cmocka_unit_test(other_forms_move_little),
        cmocka_unit_test(orders_are_as_claimed),
        cmocka_unit_test(ring_has_many_orders),
        cmocka_unit_test(two_ranks_take_ten_steps),
        cmocka_unit_test(what_cannot_be_served_is_refused),
        cmocka_unit_test(long_rings_are_proved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
