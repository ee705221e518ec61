/* host_order_test.c: plans for hosts whose ranks do not follow each other, and what crosses between hosts. */
#include "plan/algorithms/algorithms.h"
#include "plan/host_order.h"
#include "plan/testing.h"
#include "plan/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MOST_RANKS 10

static void hosts_are_put_side_by_side(void **state)
{
    (void)state;
    static const uint16_t HOST_OF[] = {7, 3, 7, 5, 3, 7}, EXPECTED[] = {0, 2, 5, 1, 4, 3};
    uint16_t order[6], host_of[6];
    const plan_layout layout = {.ranks = 6, .rank = 4, .root = 5, .host_of = HOST_OF};
    assert_false(host_order_is_kept(&layout));
    host_order_find(&layout, order);
    assert_memory_equal(order, EXPECTED, sizeof order);
    const plan_layout sorted = host_order_layout(&layout, order, host_of);
    assert_true(host_order_is_kept(&sorted));
    assert_int_equal(sorted.rank, 4);
    assert_int_equal(sorted.root, 2);
    assert_true(host_order_is_kept(&(plan_layout){.ranks = 6}));
}

static void prove(plan_collective collective, plan_algorithm algorithm, plan_layout layout)
{
    team t;
    if (!team_build(&t, collective, algorithm, layout))
        fail_msg("%s by %s: %s", plan_collective_name(collective), plan_algorithm_name(algorithm),
                 t.why);
    plan_verdict verdict = plan_verify(t.plans);
    if (verdict.failed != PLAN_CHECK_OK)
        print_verdict(&t, &verdict);
    assert_int_equal(verdict.failed, PLAN_CHECK_OK);
    team_free(&t);
}

/* Whatever serves several hosts serves them in any order. */
static void every_order_is_proved(void **state)
{
    (void)state;
    uint16_t host_of[MOST_RANKS];
    for (int a = 1; a < PLAN_ALGORITHM_COUNT; a++)
        for (int c = 0; c < PLAN_COLLECTIVE_COUNT; c++) {
            const plan_row *row = plan_find_row((plan_algorithm)a, (plan_collective)c);
            if (row == NULL || (row->service & PLAN_ONE_HOST))
                continue;
            for (unsigned ranks = 3; ranks <= MOST_RANKS; ranks++)
                for (int how = IN_TURN; how <= MIXED; how++)
                    for (int prescaled = 0; prescaled < 2; prescaled++) {
                        plan_layout layout = {.ranks = (uint16_t)ranks, .prescaled = prescaled};
                        layout.host_of = spread_over_hosts(host_of, ranks, how);
                        layout.root = (uint16_t)(ranks - 2 + prescaled);
                        prove((plan_collective)c, (plan_algorithm)a, layout);
                    }
        }
}

/* ---- What crosses between hosts -------------------------------------------------------------- */

/* Chunks that the ranks of the first rank's host send to other hosts. */
static uint64_t chunks_leaving(const team *t)
{
    uint64_t chunks = 0;
    for (unsigned r = 0; r < t->ranks; r++) {
        const plan *p = t->plans[r];
        const uint16_t *host_of = p->layout.host_of;
        for (uint32_t i = 0; i < p->step_count && host_of[r] == host_of[0]; i++)
            chunks += p->steps[i].kind == PLAN_SEND && p->steps[i].a.buffer != PLAN_SUMS &&
                      host_of[p->steps[i].peer] != host_of[0];
    }
    return chunks;
}

static void expect_leaving(plan_algorithm algorithm, const uint16_t *host_of, unsigned ranks,
                           unsigned parts)
{
    team t;
    plan_layout layout = {.ranks = (uint16_t)ranks, .host_of = host_of};
    assert_true(team_build(&t, PLAN_ALLREDUCE, algorithm, layout));
    /* 2(parts − 1) / parts of the tensor */
    assert_int_equal(chunks_leaving(&t) * parts, 2 * (parts - 1) * t.plans[0]->chunks);
    team_free(&t);
}

/* Each host sends what an allreduce between hosts must send, and not a byte more; Adasum, too. The flat
 * ring leaves a host by one link, and carries there what a ring of all ranks carries. */
static void hosts_send_the_least(void **state)
{
    (void)state;
    uint16_t side_by_side[32], in_turn[32];
    for (unsigned hosts = 2; hosts <= 8; hosts *= 2)
        for (unsigned size = 2; size <= 4; size *= 2) {
            for (unsigned q = 0; q < hosts * size; q++) {
                side_by_side[q] = (uint16_t)(q / size);
                in_turn[q] = (uint16_t)(q % hosts);
            }
            expect_leaving(PLAN_ALGORITHM_HIERARCHICAL, side_by_side, hosts * size, hosts);
            expect_leaving(PLAN_ALGORITHM_HIERARCHICAL, in_turn, hosts * size, hosts);
            expect_leaving(PLAN_ALGORITHM_ADASUM, side_by_side, hosts * size, hosts);
            expect_leaving(PLAN_ALGORITHM_RING, side_by_side, hosts * size, hosts * size);
            expect_leaving(PLAN_ALGORITHM_RING, in_turn, hosts * size, hosts * size);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_put_side_by_side),
        cmocka_unit_test(every_order_is_proved),
        cmocka_unit_test(hosts_send_the_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
