/* elastic_test.c: jobs that go on when ranks are lost: who is left agrees on the same view, and combines right.
 * ctest: threads timeout=300 */
#include "survivors.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT 3000
#define STEPS_AFTER 5

enum { STOPPED_PROCESS, LEFT };

static const char *const ELASTIC[] = {"RUEDA_ELASTIC=1", "RUEDA_HEARTBEAT=1", NULL};

typedef struct plot {
    unsigned victims; /* bits: ranks that die before step `at` */
    unsigned later;   /* bits: ranks that die while the others adopt the next view */
    int at;
    memory_kind memory;
} plot;

/* ---- One step ------------------------------------------------------------------------------------- */

/* All members bring 2^worker, so the sum tells who took part. */
static rueda_status add_workers(float *data, int worker, double *sum)
{
    const int64_t shape[] = {COUNT};
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)(1u << worker);
    const rueda_tensor t = RUEDA_TENSOR("workers", data, RUEDA_F32, 1, shape);
    const rueda_status status = rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL);
    if (status != RUEDA_OK)
        return status;
    for (int i = 1; i < COUNT; i++)
        CHECK(data[i] == data[0]);
    *sum = (double)data[0];
    return RUEDA_OK;
}

static void check_sum(float *data, int worker, unsigned workers)
{
    double sum = 0;
    CHECK_OK(add_workers(data, worker, &sum));
    CHECK_EQUAL(sum, workers);
}

static int rank_among(unsigned workers, int worker)
{
    return __builtin_popcount(workers & ((1u << worker) - 1));
}

/* What all members must be told. */
static void check_members(const rueda_members *m, int worker, unsigned workers)
{
    CHECK_EQUAL(m->worker, worker);
    CHECK_EQUAL(m->rank, rank_among(workers, worker));
    CHECK_EQUAL(m->size, __builtin_popcount(workers));
    CHECK_EQUAL(rueda_rank(), m->rank);
    CHECK_EQUAL(rueda_size(), m->size);
    CHECK_EQUAL(rueda_local_rank(), worker);
}

/* ---- Deaths ---------------------------------------------------------------------------------------- */

static bool is_in(unsigned ranks, int rank)
{
    return (ranks >> rank & 1) != 0;
}

static void adopt(int rank, int size, unsigned lost, float *data)
{
    rueda_members m = RUEDA_MEMBERS;
    const unsigned left = ((1u << size) - 1) & ~lost;
    doing("adopt the next view");
    CHECK_OK(rueda_members_update(&m));
    while (m.size > __builtin_popcount(left)) { /* those who die late may be in a view between */
        double sum;
        CHECK_STATUS(add_workers(data, rank, &sum), RUEDA_ERR_MEMBERS);
        CHECK_OK(rueda_members_update(&m));
    }
    check_members(&m, rank, left);
    CHECK(m.view > 1);
    for (int i = 0; i < STEPS_AFTER; i++)
        check_sum(data, rank, left);
}

static void lose_some(int rank, int size, const void *argument)
{
    const plot *p = argument;
    double sum = 0;
    rueda_status status = RUEDA_OK;
    CHECK_OK(rueda_init(NULL));
    float *data = memory_take(p->memory, COUNT * sizeof *data);
    for (int step = 0; status == RUEDA_OK; step++) {
        if (step == p->at && is_in(p->victims, rank))
            raise(SIGKILL);
        doing("step %d", step);
        status = add_workers(data, rank, &sum);
        CHECK(status != RUEDA_OK || sum == (1u << size) - 1);
    }
    CHECK_EQUAL(status, RUEDA_ERR_MEMBERS);
    CHECK_SAYS("is lost: it ended without rueda_shutdown; rueda_members_update goes on");
    CHECK_EQUAL(rueda_members_changing(), 1);
    if (is_in(p->victims | p->later, rank)) /* a victim may have been slower than the others */
        raise(SIGKILL);
    adopt(rank, size, p->victims | p->later, data);
    doing("begin anew with those who are left");
    CHECK_OK(rueda_shutdown());
    CHECK_OK(rueda_init(NULL));
    CHECK_EQUAL(rueda_local_rank(), rank);
    check_sum(data, rank, ((1u << size) - 1) & ~(p->victims | p->later));
    memory_give(p->memory, data);
    doing("shut down");
    CHECK_OK(rueda_shutdown());
}

static void run_plot(int ranks, plot p)
{
    p.memory = (ranks + p.at) % 2 == 0 ? MEMORY_SHARED : MEMORY_PRIVATE;
    run_job(&(job){.ranks = ranks,
                   .body = lose_some,
                   .argument = &p,
                   .environment = ELASTIC,
                   .killed = p.victims | p.later});
}

static void any_rank_may_be_lost(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++) {
        for (int victim = 0; victim < ranks; victim++)
            run_plot(ranks, (plot){.victims = 1u << victim, .at = victim});
    }
    run_plot(5, (plot){.victims = 1u << 2, .at = 1});
    run_plot(8, (plot){.victims = 1u << 0, .at = 3});
}

static void several_at_once(void **state)
{
    (void)state;
    run_plot(3, (plot){.victims = 1u << 0 | 1u << 1, .at = 1});
    run_plot(4, (plot){.victims = 1u << 1 | 1u << 3, .at = 0});
    run_plot(4, (plot){.victims = 1u << 0 | 1u << 1 | 1u << 2, .at = 2});
    run_plot(8, (plot){.victims = 0x55, .at = 2});
}

static void more_while_the_others_recover(void **state)
{
    (void)state;
    run_plot(3, (plot){.victims = 1u << 2, .later = 1u << 0, .at = 1});
    run_plot(4, (plot){.victims = 1u << 0, .later = 1u << 1, .at = 2});
    run_plot(5, (plot){.victims = 1u << 4, .later = 1u << 0 | 1u << 1, .at = 1});
}

/* ---- Ranks that are stopped ------------------------------------------------------------------------- */

static void stop_one(int rank, int size, const void *argument)
{
    const int stopped = *(const int *)argument;
    double sum;
    float data[COUNT];
    CHECK_OK(rueda_init(NULL));
    check_sum(data, rank, (1u << size) - 1);
    if (rank == stopped)
        raise(SIGSTOP);
    CHECK_STATUS(add_workers(data, rank, &sum), RUEDA_ERR_MEMBERS);
    CHECK_SAYS("it has not answered for RUEDA_HEARTBEAT seconds");
    adopt(rank, size, 1u << stopped, data);
    CHECK_OK(rueda_shutdown());
}

static void a_stopped_rank_is_killed_before_the_others_go_on(void **state)
{
    (void)state;
    for (int stopped = 0; stopped < 3; stopped++)
        run_job(&(job){.ranks = 3,
                       .body = stop_one,
                       .argument = &stopped,
                       .environment = ELASTIC,
                       .killed = 1u << stopped});
}

/* ---- Ranks that leave -------------------------------------------------------------------------------- */

/* It must not be killed, also where the others miss it while it is still leaving. */
static void leave_early(int rank, int size, const void *argument)
{
    const bool has_left_before = *(const bool *)argument;
    double sum;
    float data[COUNT];
    CHECK_OK(rueda_init(NULL));
    check_sum(data, rank, (1u << size) - 1);
    if (rank == 1) {
        CHECK_OK(rueda_shutdown());
        atomic_store(job_counter(LEFT), 1);
        return;
    }
    if (has_left_before)
        await_counter(LEFT, 1);
    CHECK_STATUS(add_workers(data, rank, &sum), RUEDA_ERR_MEMBERS);
    adopt(rank, size, 1u << 1, data);
    CHECK_OK(rueda_shutdown());
}

static void the_others_go_on_without_one_that_has_left(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        const bool has_left_before = i == 0;
        run_job(&(job){.ranks = 2 + i % 2,
                       .body = leave_early,
                       .argument = &has_left_before,
                       .environment = ELASTIC});
    }
}

/* ---- Nothing happens --------------------------------------------------------------------------------- */

static void stay(int rank, int size, const void *argument)
{
    (void)argument;
    rueda_members m = RUEDA_MEMBERS;
    float data[COUNT];
    CHECK_STATUS(rueda_members_update(&m), RUEDA_ERR_STATE);
    const rueda_init_options options = {.struct_size = sizeof options, .elastic = 1};
    CHECK_OK(rueda_init(&options));
    for (int i = 0; i < 3; i++) {
        check_sum(data, rank, (1u << size) - 1);
        CHECK_EQUAL(rueda_members_changing(), 0);
        CHECK_OK(rueda_members_update(&m));
        check_members(&m, rank, (1u << size) - 1);
        CHECK_EQUAL(m.view, 1);
        CHECK_EQUAL(m.lost_count, 0);
    }
    CHECK_OK(rueda_shutdown());
    CHECK_OK(rueda_init(&options)); /* once more */
    check_sum(data, rank, (1u << size) - 1);
    CHECK_OK(rueda_shutdown());
}

static void without_a_loss_nothing_changes(void **state)
{
    (void)state;
    run_ranks(1, stay, NULL);
    run_ranks(3, stay, NULL);
}

static void be_refused(int rank, int size, const void *argument)
{
    (void)rank;
    (void)size;
    (void)argument;
    rueda_members m = RUEDA_MEMBERS;
    CHECK_OK(rueda_init(NULL));
    CHECK_STATUS(rueda_members_update(&m), RUEDA_ERR_STATE);
    CHECK_SAYS("the job is not elastic");
    CHECK_STATUS(rueda_members_get(&m), RUEDA_ERR_STATE);
    CHECK_EQUAL(rueda_members_changing(), 0);
    CHECK_OK(rueda_shutdown());
    setenv("RUEDA_ELASTIC", "1", 1);
    setenv("RUEDA_TRANSPORT", "tcp", 1);
    CHECK_STATUS(rueda_init(NULL), RUEDA_ERR_CONFIG);
    CHECK_SAYS("an elastic job is on one host so far");
}

static void other_jobs_are_told(void **state)
{
    (void)state;
    run_ranks(2, be_refused, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_loss_nothing_changes),
        cmocka_unit_test(other_jobs_are_told),
        cmocka_unit_test(any_rank_may_be_lost),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(more_while_the_others_recover),
        cmocka_unit_test(a_stopped_rank_is_killed_before_the_others_go_on),
        cmocka_unit_test(the_others_go_on_without_one_that_has_left),
    };
    return cmocka_run_group_tests(tests, NULL, look_for_rest);
}
