/* sendrecv_end_test.c: how sends and receives end that nobody completes: deaths, departures, stalls.
 * ctest: timeout=180 */
#include "tensors.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LARGE 3000000

static rueda_request *start(const char *name, bool sends, int peer, float *data, int64_t count)
{
    rueda_request *request;
    const rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F32, 1, &count);
    CHECK_OK(sends ? rueda_send(&t, peer, NULL, &request) : rueda_recv(&t, peer, NULL, &request));
    return request;
}

static void finish(rueda_request *request, rueda_status wanted, const char *part)
{
    CHECK_STATUS(rueda_wait(request, -1), wanted);
    if (part != NULL)
        CHECK_SAYS(part);
    rueda_request_free(request);
}

/* Pairs send to each other; rank 1 is the one who goes. */
enum { SMALL, LARGE_ONE, RECEIVE, ANYONE, KINDS };

static rueda_status call_rank_1(int kind, float *data, rueda_request **request)
{
    const int64_t count = kind == SMALL ? 3 : LARGE;
    const rueda_tensor t = RUEDA_TENSOR("forlorn", data, RUEDA_F32, 1, &count);
    if (kind == SMALL || kind == LARGE_ONE)
        return rueda_send(&t, 1, NULL, request);
    return rueda_recv(&t, kind == ANYONE ? RUEDA_ANY_RANK : 1, NULL, request);
}

static rueda_request *wait_for_rank_1(int kind, float *data)
{
    rueda_request *request;
    CHECK_OK(call_rank_1(kind, data, &request));
    return request;
}

/* ---- Deaths ---------------------------------------------------------------------------------- */

static void warm_up(int rank, int size, float *data)
{
    rueda_request *in = start("warm up", false, (rank + 1) % size, data, 2);
    float own[2] = {0};
    rueda_request *out = start("warm up", true, (rank + size - 1) % size, own, 2);
    finish(in, RUEDA_OK, NULL);
    finish(out, RUEDA_OK, NULL);
}

static void die(int rank, int size, const void *argument)
{
    const int kind = *(const int *)argument;
    float *data = memory_take(MEMORY_PRIVATE, LARGE * sizeof *data);
    CHECK_OK(rueda_init(NULL));
    warm_up(rank, size, data);
    if (rank == 1 && kind == LARGE_ONE) /* it has agreed to receive when it dies */
        CHECK_STATUS(rueda_wait(start("forlorn", false, 0, data, LARGE), 2), RUEDA_PENDING);
    meet();
    if (rank == 1)
        raise(SIGKILL);
    rueda_request *request = NULL;
    rueda_status status = call_rank_1(kind, data, &request);
    if (status == RUEDA_OK) /* its death may be known already */
        status = rueda_wait(request, -1);
    CHECK_STATUS(status, RUEDA_ERR_PEER);
    CHECK_SAYS("rank 1 is lost");
    memset(data, 7, LARGE * sizeof *data); /* it is ours again */
    rueda_request_free(request);
    const rueda_tensor t = RUEDA_TENSOR("later", data, RUEDA_F32, 0, NULL);
    CHECK_STATUS(rueda_send(&t, 0, NULL, &request), RUEDA_ERR_PEER);
    CHECK_SAYS("rank 1 is lost");
    CHECK_OK(rueda_shutdown());
    memory_give(MEMORY_PRIVATE, data);
}

static void a_death_ends_them_with_the_name_of_the_dead(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        run_job(&(job){.ranks = 2 + kind % 2, .body = die, .argument = &kind, .killed = 1u << 1});
}

/* ---- Departures ------------------------------------------------------------------------------ */

static void leave(int rank, int size, const void *argument)
{
    const int kind = *(const int *)argument;
    float *data = memory_take(MEMORY_PRIVATE, LARGE * sizeof *data);
    CHECK_OK(rueda_init(NULL));
    warm_up(rank, size, data);
    if (rank == 0) {
        char said[80];
        rueda_request *request = wait_for_rank_1(kind, data);
        meet();
        snprintf(said, sizeof said, "rank 1 has shut down while rank 0 still waits for it");
        finish(request, RUEDA_ERR_SHUTDOWN, said);
    } else {
        meet();
    }
    CHECK_OK(rueda_shutdown());
    memory_give(MEMORY_PRIVATE, data);
}

static void a_departure_ends_those_who_wait_for_it(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        run_ranks(2, leave, &kind);
}

/* What a rank sent before it left arrives; and who received may leave at once, too. */
static void leave_behind(int rank, int size, const void *argument)
{
    (void)argument;
    float *data = memory_take(MEMORY_PRIVATE, LARGE * sizeof *data);
    for (int turn = 0; turn < 3; turn++) {
        const int64_t count = turn == 0 ? 5 : turn == 1 ? 3000 : LARGE;
        CHECK_OK(rueda_init(NULL));
        for (int64_t i = 0; i < count; i++)
            data[i] = rank == 0 ? (float)(i % 1000) : 0;
        if (rank == 0)
            finish(start("last words", true, size - 1, data, count), RUEDA_OK, NULL);
        if (rank == size - 1)
            finish(start("last words", false, RUEDA_ANY_RANK, data, count), RUEDA_OK, NULL);
        CHECK_OK(rueda_shutdown());
        for (int64_t i = 0; i < count && rank == size - 1; i++)
            CHECK(data[i] == (float)(i % 1000));
    }
    memory_give(MEMORY_PRIVATE, data);
}

static void what_was_agreed_on_arrives_before_a_rank_leaves(void **state)
{
    (void)state;
    run_ranks(2, leave_behind, NULL);
    run_ranks(3, leave_behind, NULL);
}

/* Another rank that waits for nobody may go; who receives from anyone waits for those that are left. */
static void one_goes(int rank, int size, const void *argument)
{
    (void)argument, (void)size;
    float value = (float)rank;
    CHECK_OK(rueda_init(NULL));
    if (rank == 0) {
        rueda_request *request = start("who", false, RUEDA_ANY_RANK, &value, 1);
        meet();
        CHECK_STATUS(rueda_wait(request, 150), RUEDA_PENDING);
        meet();
        rueda_output output = RUEDA_OUTPUT;
        CHECK_OK(rueda_wait(request, -1));
        CHECK_OK(rueda_take_output(request, &output));
        CHECK_EQUAL(output.source, 2);
        CHECK(value == 2);
        rueda_request_free(request);
    } else if (rank == 1) {
        CHECK_OK(rueda_shutdown());
        meet();
        meet();
        return;
    } else {
        meet();
        meet();
        finish(start("who", true, 0, &value, 1), RUEDA_OK, NULL);
    }
    CHECK_OK(rueda_shutdown());
}

static void a_receive_from_anyone_waits_for_those_that_are_left(void **state)
{
    (void)state;
    run_ranks(3, one_goes, NULL);
}

/* ---- Stalls ---------------------------------------------------------------------------------- */

static const char *const reports[] = {
    "send 'nobody wants it' to rank 1: rank 1 has not called rueda_recv",
    "receive 'nobody has it' from rank 0: rank 0 has not called rueda_send",
    "receive '(unnamed)' from any rank: none has called rueda_send"};

static void await_report(rueda_request *request, const char *part)
{
    while (strstr(captured_stderr(), part) == NULL)
        CHECK_STATUS(rueda_wait(request, 50), RUEDA_PENDING);
    CHECK(strstr(captured_stderr(), "Sends or receives have been waiting for more than") != NULL);
}

static void stall(int rank, int size, const void *argument)
{
    (void)argument, (void)size;
    float value = 0;
    capture_stderr();
    CHECK_OK(rueda_init(NULL));
    static const char *const names[] = {"nobody wants it", "nobody has it", NULL};
    rueda_request *request = start(names[rank], rank == 0,
                                   rank == 0   ? 1
                                   : rank == 1 ? 0
                                               : RUEDA_ANY_RANK,
                                   &value, 1);
    await_report(request, reports[rank]);
    CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    float other = 5;
    rueda_request *more[2] = {NULL, NULL};
    if (rank == 0) {
        more[0] = start("nobody has it", true, 1, &other, 1);
        more[1] = start(NULL, true, 2, &other, 1);
    } else if (rank == 1) {
        more[0] = start("nobody wants it", false, 0, &other, 1);
    }
    finish(request, RUEDA_OK, NULL);
    for (int i = 0; i < 2 && more[i] != NULL; i++)
        finish(more[i], RUEDA_OK, NULL);
    CHECK_OK(rueda_shutdown());
}

static void who_waits_says_for_what(void **state)
{
    (void)state;
    static const char *const soon[] = {"RUEDA_STALL_WARN=1", NULL};
    run_job(&(job){.ranks = 3, .body = stall, .environment = soon});
}

static void stall_for_good(int rank, int size, const void *argument)
{
    (void)argument, (void)size;
    float value = 0;
    CHECK_OK(rueda_init(NULL));
    finish(start("for ever", rank == 0, rank == 0 ? 1 : RUEDA_ANY_RANK, &value, rank + 1),
           RUEDA_ERR_MISMATCH, NULL);
    rueda_request *request = rank == 0 ? start("for ever", true, 1, &value, 1) : NULL;
    if (rank == 0)
        finish(request, RUEDA_ERR_STALLED,
               "rank 0 still waits: send 'for ever' to rank 1: rank 1 has not called rueda_recv");
    meet();
    CHECK_STATUS(rueda_barrier(RUEDA_GLOBAL_SET, NULL), RUEDA_ERR_STALLED);
    CHECK_OK(rueda_shutdown());
}

static void a_stall_ends_the_job_if_asked_to(void **state)
{
    (void)state;
    static const char *const soon[] = {"RUEDA_STALL_END=1", NULL};
    run_job(&(job){.ranks = 2, .body = stall_for_good, .environment = soon});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_ends_them_with_the_name_of_the_dead),
        cmocka_unit_test(a_departure_ends_those_who_wait_for_it),
        cmocka_unit_test(what_was_agreed_on_arrives_before_a_rank_leaves),
        cmocka_unit_test(a_receive_from_anyone_waits_for_those_that_are_left),
        cmocka_unit_test(who_waits_says_for_what),
        cmocka_unit_test(a_stall_ends_the_job_if_asked_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
