/* failure_test.c: ranks that leave, stall or die while others wait for them.
 * ctest: threads timeout=180 */
#include "tensors.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LARGE 4000000 /* floats: takes long enough to be interrupted */

static rueda_request *submit(const char *name, float *data, int64_t count)
{
    const rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F32, 1, &count);
    rueda_request *request;
    CHECK_OK(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request));
    return request;
}

static rueda_status run(const char *name)
{
    float value = 1;
    const int64_t shape[] = {1};
    const rueda_tensor t = RUEDA_TENSOR(name, &value, RUEDA_F32, 1, shape);
    return rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL);
}

/* ---- Shutdown -------------------------------------------------------------------------------- */

static void leave_with_requests_pending(int rank, int size, const void *argument)
{
    (void)argument;
    static float data[100];
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run("first"));
    rueda_request *request = submit(rank == 0 ? "only on rank 0" : "not on rank 0", data, 100);
    meet();
    if (rank == 0) {
        CHECK_OK(rueda_shutdown());
    } else {
        CHECK_STATUS(rueda_wait(request, -1), RUEDA_ERR_SHUTDOWN);
        CHECK_SAYS("rank 0");
        CHECK_STATUS(run("later"), RUEDA_ERR_SHUTDOWN);
        CHECK_OK(rueda_shutdown());
    }
    rueda_request_free(request);
    /* all meet again in a new generation */
    CHECK_OK(rueda_init(NULL));
    CHECK_EQUAL(rueda_size(), size);
    CHECK_OK(run("again"));
    CHECK_OK(rueda_shutdown());
}

static void shutdown_ends_pending_requests_everywhere(void **state)
{
    (void)state;
    run_ranks(2, leave_with_requests_pending, NULL);
    run_ranks(4, leave_with_requests_pending, NULL);
}

/* The barrier comes after the large operation on every rank, so it has been agreed on before. */
static void leave_with_an_agreed_operation(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    float *data = malloc(LARGE * sizeof *data);
    for (size_t i = 0; i < LARGE; i++)
        data[i] = 1;
    rueda_request *request = submit("large", data, LARGE);
    CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    if (rank != 0)
        CHECK_OK(rueda_wait(request, -1));
    CHECK_OK(rueda_shutdown());
    for (size_t i = 0; i < LARGE; i++)
        CHECK(data[i] == (float)size);
    rueda_request_free(request);
    free(data);
}

static void shutdown_finishes_what_was_agreed_on(void **state)
{
    (void)state;
    run_ranks(2, leave_with_an_agreed_operation, NULL);
    run_ranks(3, leave_with_an_agreed_operation, NULL);
}

/* ---- Stalls, see also stall_test.c ------------------------------------------------------------ */

static void stall_for_good(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run("warm up"));
    if (rank == 0)
        CHECK_STATUS(run("never on rank 1"), RUEDA_ERR_STALLED);
    else
        CHECK_STATUS(run("never on rank 0"), RUEDA_ERR_STALLED);
    CHECK_SAYS("never on rank ");
    CHECK_STATUS(run("later"), RUEDA_ERR_STALLED);
    CHECK_OK(rueda_shutdown());
}

static void a_stall_ends_the_job_if_asked_to(void **state)
{
    (void)state;
    static const char *const soon[] = {"RUEDA_STALL_END=1", NULL};
    run_job(&(job){.ranks = 2, .body = stall_for_good, .environment = soon});
}

/* Rank 0 has looked for stalls, and seen one end, when the next one begins. */
static void stall_after_a_look(int rank, int size, const void *argument)
{
    (void)size, (void)argument;
    static float data[10];
    CHECK_OK(rueda_init(NULL));
    if (rank != 0)
        meet();
    rueda_request *request = submit("a little late", data, 10);
    if (rank == 0) {
        CHECK_STATUS(rueda_wait(request, 300), RUEDA_PENDING);
        meet();
    }
    CHECK_OK(rueda_wait(request, -1));
    rueda_request_free(request);
    if (rank == 0)
        CHECK_STATUS(run("never on rank 1"), RUEDA_ERR_STALLED);
    meet();
    CHECK_OK(rueda_shutdown());
}

static void a_stall_after_another_is_seen(void **state)
{
    (void)state;
    static const char *const soon[] = {"RUEDA_STALL_WARN=0", "RUEDA_STALL_END=3", NULL};
    run_job(&(job){.ranks = 2, .body = stall_after_a_look, .environment = soon});
}

/* ---- Deaths ---------------------------------------------------------------------------------- */

static void die(int rank, int size, const void *argument)
{
    (void)size;
    const bool in_flight = *(const bool *)argument;
    CHECK_OK(rueda_init(NULL));
    CHECK_OK(run("warm up"));
    float *data = calloc(LARGE, sizeof *data);
    rueda_request *request = NULL;
    if (rank != 1 || in_flight)
        request = submit("large", data, LARGE);
    meet(); /* nobody dies while another is still in the warm-up or about to submit */
    if (rank == 1) {
        if (in_flight)
            CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
        raise(SIGKILL);
    }
    rueda_request *barrier = NULL;
    if (in_flight)
        CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, &barrier));
    doing("wait for rank 1, which is dead");
    rueda_status status = rueda_wait(request, -1);
    if (status != RUEDA_OK || !in_flight) { /* it may have finished just before */
        CHECK_STATUS(status, RUEDA_ERR_PEER);
        CHECK_SAYS("rank 1");
    }
    CHECK_STATUS(run("later"), RUEDA_ERR_PEER);
    CHECK_SAYS("rank 1");
    rueda_request_free(request);
    rueda_request_free(barrier);
    CHECK_OK(rueda_shutdown());
    free(data);
}

static void a_dead_rank_is_named_by_the_survivors(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++) {
        run_job(&(job){.ranks = ranks, .body = die, .argument = &(bool){false}, .killed = 1u << 1});
        run_job(&(job){.ranks = ranks, .body = die, .argument = &(bool){true}, .killed = 1u << 1});
    }
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* Not a measurement: the order of the ends. */
static void submit_small_behind_large(int rank, int size, const void *argument)
{
    (void)rank, (void)argument;
    const int64_t count = INT64_C(256) * 1024 * 1024 / (int64_t)sizeof(float);
    static float small[1024];
    CHECK_OK(rueda_init(NULL));
    float *data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = 1;
    meet();
    rueda_request *large = submit("large", data, count);
    CHECK_STATUS(rueda_wait(large, 1), RUEDA_PENDING);
    rueda_request *behind = submit("behind", small, 1024);
    CHECK_OK(rueda_wait(behind, -1));
    CHECK_EQUAL(rueda_poll(large), 0);
    CHECK_OK(rueda_wait(large, -1));
    for (int64_t i = 0; i < count; i++)
        CHECK(data[i] == (float)size);
    rueda_request_free(large);
    rueda_request_free(behind);
    free(data);
    CHECK_OK(rueda_shutdown());
}

static void a_small_operation_overtakes_a_large_one(void **state)
{
    (void)state;
    run_ranks(2, submit_small_behind_large, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shutdown_ends_pending_requests_everywhere),
        cmocka_unit_test(shutdown_finishes_what_was_agreed_on),
        cmocka_unit_test(a_stall_ends_the_job_if_asked_to),
        cmocka_unit_test(a_stall_after_another_is_seen),
        cmocka_unit_test(a_dead_rank_is_named_by_the_survivors),
        cmocka_unit_test(a_small_operation_overtakes_a_large_one),
    };
    return cmocka_run_group_tests_name("failure", tests, NULL, NULL);
}
