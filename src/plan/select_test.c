/* select_test.c: there is an answer for every choice, it can be built, and it keeps its promises. */
#include "plan/testing.h"
#include "plan/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const uint64_t BYTES[] = {0,     1,     2048,   2049,    4096,    8192,      8193,
                                 32768, 32769, 262144, 1 << 20, 1 << 26, 1ULL << 40};

/* Builds what the table chose, on hosts of this layout; the caller frees it. */
static void build_choice(team *t, const plan_choice *choice, int how, bool *small)
{
    uint16_t host_of[TESTING_MAX_RANKS];
    plan_algorithm algorithm = plan_select(choice, small);
    plan_layout layout = {.ranks = choice->ranks, .adasum = choice->adasum, .small = *small};
    layout.host_of = spread_over_hosts(host_of, choice->ranks, how);
    if (!team_build(t, choice->collective, algorithm, layout))
        fail_msg("%s by %s: %s", plan_collective_name(choice->collective),
                 plan_algorithm_name(algorithm), t->why);
}

static unsigned hosts_of(unsigned ranks, int how)
{
    uint16_t host_of[TESTING_MAX_RANKS];
    unsigned hosts = 0;
    spread_over_hosts(host_of, ranks, how);
    for (unsigned q = 0; q < ranks; q++) {
        bool seen = false;
        for (unsigned before = 0; before < q; before++)
            seen = seen || host_of[before] == host_of[q];
        hosts += !seen;
    }
    return how == ONE_HOST ? 1 : hosts;
}

/* Without peer memory each rank counts as a host of its own in the layout. */
static void try_choice(plan_choice choice, int how)
{
    team t;
    bool small;
    for (size_t i = 0; i < sizeof BYTES / sizeof *BYTES; i++) {
        choice.bytes = BYTES[i];
        choice.hosts = (uint16_t)hosts_of(choice.ranks, how);
        build_choice(&t, &choice, choice.shared_memory ? how : OWN_HOSTS, &small);
        assert_true(!small || t.plans[0]->algorithm == PLAN_ALGORITHM_DIRECT);
        team_free(&t);
    }
}

static void every_choice_can_be_built(void **state)
{
    (void)state;
    static const uint16_t RANKS[] = {1, 2, 3, 4, 5, 8, 13};
    for (size_t i = 0; i < sizeof RANKS / sizeof *RANKS; i++)
        for (int c = 0; c < PLAN_COLLECTIVE_COUNT; c++)
            for (int how = 0; how < HOST_LAYOUTS; how++)
                for (unsigned v = 0; v < 16; v++) {
                    plan_choice choice = {.collective = (plan_collective)c,
                                          .ranks = RANKS[i],
                                          .adasum = (v & 1) && c == PLAN_ALLREDUCE,
                                          .shared_memory = v & 2,
                                          .equal_parts = v & 4,
                                          .deterministic = v & 8};
                    try_choice(choice, how);
                }
}

/* Whatever was fused with a tensor, a deterministic reduction adds it up in the same order. */
static void check_one_order(plan_collective collective)
{
    for (unsigned ranks = 2; ranks <= 9; ranks++)
        for (int how = 0; how < HOST_LAYOUTS; how++)
            for (size_t i = 0; i < sizeof BYTES / sizeof *BYTES; i++) {
                team t;
                bool small;
                plan_choice choice = {.collective = collective,
                                      .ranks = (uint16_t)ranks,
                                      .bytes = BYTES[i],
                                      .hosts = (uint16_t)hosts_of(ranks, how),
                                      .shared_memory = true,
                                      .deterministic = true};
                build_choice(&t, &choice, how, &small);
                assert_true(has_one_order(&t));
                team_free(&t);
            }
}

static void deterministic_means_one_order(void **state)
{
    (void)state;
    check_one_order(PLAN_ALLREDUCE);
    check_one_order(PLAN_REDUCE_TO_ROOT);
}

static plan_algorithm choose(plan_collective collective, unsigned ranks, unsigned hosts,
                             uint64_t bytes, bool *small)
{
    plan_choice choice = {.collective = collective,
                          .ranks = (uint16_t)ranks,
                          .hosts = (uint16_t)hosts,
                          .bytes = bytes,
                          .shared_memory = true};
    return plan_select(&choice, small);
}

static void size_and_place_decide(void **state)
{
    (void)state;
    bool small;
    assert_int_equal(choose(PLAN_ALLREDUCE, 2, 1, 1024, &small), PLAN_ALGORITHM_DIRECT);
    assert_true(small);
    assert_int_equal(choose(PLAN_ALLREDUCE, 2, 1, 1 << 20, &small), PLAN_ALGORITHM_DIRECT);
    assert_false(small);
    assert_int_equal(choose(PLAN_ALLREDUCE, 64, 1, 4096, &small), PLAN_ALGORITHM_DIRECT);
    assert_false(small); /* everybody would read 64 tensors */
    assert_int_equal(choose(PLAN_ALLREDUCE, 8, 2, 1024, &small), PLAN_ALGORITHM_DOUBLING);
    assert_int_equal(choose(PLAN_ALLREDUCE, 8, 2, 1 << 20, &small), PLAN_ALGORITHM_HIERARCHICAL);
    assert_int_equal(choose(PLAN_ALLREDUCE, 8, 8, 1 << 20, &small), PLAN_ALGORITHM_RING);
    assert_int_equal(choose(PLAN_ALLREDUCE, 1024, 1024, 1 << 30, &small), PLAN_ALGORITHM_HALVING);
    assert_int_equal(choose(PLAN_BROADCAST, 8, 8, 1024, &small), PLAN_ALGORITHM_TREE);
    assert_int_equal(choose(PLAN_REDUCE_TO_ROOT, 8, 1, 4096, &small), PLAN_ALGORITHM_DIRECT);
    assert_true(small);
    assert_int_equal(choose(PLAN_REDUCE_TO_ROOT, 8, 1, 1 << 20, &small), PLAN_ALGORITHM_DIRECT);
    assert_false(small);
    assert_int_equal(choose(PLAN_REDUCE_TO_ROOT, 8, 2, 1024, &small), PLAN_ALGORITHM_TREE);
    assert_int_equal(choose(PLAN_REDUCE_TO_ROOT, 8, 8, 1 << 20, &small), PLAN_ALGORITHM_RING);
    assert_int_equal(choose(PLAN_GATHER, 8, 1, 1 << 20, &small), PLAN_ALGORITHM_DIRECT);
    assert_int_equal(choose(PLAN_GATHER, 8, 2, 1024, &small), PLAN_ALGORITHM_PAIRWISE);
    assert_int_equal(choose(PLAN_SCATTER, 8, 8, 1 << 20, &small), PLAN_ALGORITHM_PAIRWISE);
    assert_int_equal(choose(PLAN_BARRIER, 8, 2, 0, &small), PLAN_ALGORITHM_DOUBLING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_choice_can_be_built),
        cmocka_unit_test(deterministic_means_one_order),
        cmocka_unit_test(size_and_place_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
