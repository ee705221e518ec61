/* print_test.c: the words for plans. */
#include "plan/print.h"
#include "plan/testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void names_are_understood(void **state)
{
    (void)state;
    for (int i = 0; i < PLAN_COLLECTIVE_COUNT; i++) {
        plan_collective collective;
        assert_true(plan_collective_parse(plan_collective_name((plan_collective)i), &collective));
        assert_int_equal(collective, i);
    }
    for (int i = 0; i < PLAN_ALGORITHM_COUNT; i++) {
        plan_algorithm algorithm;
        assert_true(plan_algorithm_parse(plan_algorithm_name((plan_algorithm)i), &algorithm));
        assert_int_equal(algorithm, i);
    }
    plan_collective untouched = PLAN_BARRIER;
    assert_false(plan_collective_parse("allreduc", &untouched));
    assert_int_equal(untouched, PLAN_BARRIER);
    assert_string_equal(plan_collective_name((plan_collective)99), "?");
    assert_string_equal(plan_check_name(PLAN_CHECK_RACE), "race");
}

static void expect_text(const plan *p, uint32_t step, const char *text)
{
    char words[PLAN_STEP_TEXT];
    plan_describe_step(p, &p->steps[step], words);
    assert_string_equal(words, text);
}

static void steps_have_words(void **state)
{
    (void)state;
    team t;
    assert_true(team_build(&t, PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 2}));
    expect_text(t.plans[1], 0, "ENTER");
    expect_text(t.plans[1], 1, "COPY slot[0] ← in[0] · prescale");
    expect_text(t.plans[1], 2, "AWAIT rank 0, 1 tick back");
    expect_text(t.plans[1], 3, "GET_REDUCE out[1] ← rank 0 slot[1] ∘ in[1]");
    expect_text(t.plans[1], 4, "COPY out[1] ← out[1] · postscale");
    expect_text(t.plans[1], 7, "GET out[0] ← rank 0 slot[0]");
    expect_text(t.plans[1], 8, "PUBLISH");
    expect_text(t.plans[1], 9, "LEAVE");
    team_free(&t);
    assert_true(team_build(&t, PLAN_ALLREDUCE, PLAN_ALGORITHM_ADASUM,
                           (plan_layout){.ranks = 2, .mapped = true}));
    expect_text(t.plans[1], 1, "ADDRESSES of in and out");
    expect_text(t.plans[1], 2, "START_SUMS sums[0] ← 0, and the leaves so far");
    team_free(&t);
}

/* Every step of every algorithm fits its line. */
static void no_words_are_cut(void **state)
{
    (void)state;
    for (int c = 0; c < PLAN_COLLECTIVE_COUNT; c++)
        for (int a = 1; a < PLAN_ALGORITHM_COUNT; a++) {
            team t;
            if (!team_build(&t, (plan_collective)c, (plan_algorithm)a, (plan_layout){.ranks = 33}))
                continue;
            for (uint32_t i = 0; i < t.plans[32]->step_count; i++) {
                char words[PLAN_STEP_TEXT];
                plan_describe_step(t.plans[32], &t.plans[32]->steps[i], words);
                assert_in_range(strlen(words), 1, PLAN_STEP_TEXT - 2);
            }
            team_free(&t);
        }
}

static void plans_are_printed(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    team t;
    assert_non_null(to);
    assert_true(team_build(&t, PLAN_ALLREDUCE, PLAN_ALGORITHM_RING, (plan_layout){.ranks = 2}));
    plan_print(t.plans[0], to);
    fclose(to);
    assert_non_null(strstr(text, "rank 0 of 2: allreduce by ring, 2 chunks"));
    assert_non_null(strstr(text, "phase 0: every piece, 2 stages"));
    assert_non_null(strstr(text, "SEND in[0] to rank 1"));
    free(text);
    team_free(&t);
}

static void traffic_is_counted(void **state)
{
    (void)state;
    team t;
    uint64_t most, least;
    assert_true(team_build(&t, PLAN_BROADCAST, PLAN_ALGORITHM_TREE, (plan_layout){.ranks = 8}));
    plan_traffic(t.plans, 1000, &most, &least);
    assert_int_equal(most, 3000);
    assert_int_equal(least, 1000);
    team_free(&t);
    assert_true(team_build(&t, PLAN_ALLREDUCE, PLAN_ALGORITHM_DIRECT, (plan_layout){.ranks = 4}));
    plan_traffic(t.plans, UINT64_MAX / 2, &most, &least); /* no overflow */
    assert_true(most >= least - 4 && most <= least + 4);
    team_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_understood), cmocka_unit_test(steps_have_words),
        cmocka_unit_test(no_words_are_cut),     cmocka_unit_test(plans_are_printed),
        cmocka_unit_test(traffic_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
