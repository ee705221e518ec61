/* sendrecv_test.c: send and recv between two ranks: every type and size, orders, mismatches, from anyone.
 * ctest: threads timeout=180 */
#include "parcels.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int rank_counts[] = {1, 2, 3, 4, 5, 8};
#define RANK_COUNTS (sizeof rank_counts / sizeof rank_counts[0])

/* ---- Values ---------------------------------------------------------------------------------- */

static const size_t counts[] = {0, 1, 17, 1001, 8191, 30011, 300007};
#define COUNTS (sizeof counts / sizeof counts[0])

/* Every rank to the one behind it, all at once; with one rank, to itself. */
static void pass_around(parcel p, bool receives_first, bool in_place)
{
    const int rank = rueda_rank(), size = rueda_size();
    parcel in = p, out = p;
    doing("%s: %zu of type %d", p.name, p.count, p.dtype);
    if (receives_first)
        parcel_start_receive(&in, (rank + size - 1) % size, in_place);
    parcel_start_send(&out, (rank + 1) % size);
    if (!receives_first)
        parcel_start_receive(&in, (rank + size - 1) % size, in_place);
    CHECK_EQUAL(parcel_finish_receive(&in), (rank + size - 1) % size);
    parcel_finish_send(&out);
}

static void every_type_and_size(int rank, int size, const void *argument)
{
    (void)rank, (void)size, (void)argument;
    CHECK_OK(rueda_init(NULL));
    for (int dtype = 0; dtype < RUEDA_DTYPE_COUNT; dtype++) {
        const bool all = dtype == RUEDA_U8 || dtype == RUEDA_F32;
        for (size_t i = 0; i < (all ? COUNTS : COUNTS - 2); i++) {
            const parcel p = {.dtype = (rueda_dtype)dtype,
                              .count = counts[i],
                              .seed = i,
                              .name = i % 3 == 0 ? NULL : "around"};
            pass_around(p, (i + (size_t)dtype) % 2, i % 2);
        }
    }
    pass_around((parcel){.dtype = RUEDA_F32, .count = 4 << 20, .name = "16 MiB"}, true, true);
    CHECK_OK(rueda_shutdown());
}

static void values_of_every_type_and_size_arrive(void **state)
{
    (void)state;
    for (size_t i = 0; i < RANK_COUNTS; i++)
        run_ranks(rank_counts[i], every_type_and_size, NULL);
}

/* Large ones between all pairs in both directions at the same time. */
static void all_at_once(int rank, int size, const void *argument)
{
    (void)argument;
    parcel in[8], out[8];
    CHECK_OK(rueda_init(NULL));
    for (int peer = 0; peer < size; peer++) {
        in[peer] = out[peer] =
            (parcel){.dtype = RUEDA_F64, .count = 200003, .seed = 7, .name = "to all"};
        parcel_start_send(&out[peer], peer);
    }
    for (int peer = size - 1; peer >= 0; peer--)
        parcel_start_receive(&in[peer], peer, peer % 2);
    for (int peer = 0; peer < size; peer++) {
        CHECK_EQUAL(parcel_finish_receive(&in[peer]), peer);
        parcel_finish_send(&out[peer]);
    }
    (void)rank;
    CHECK_OK(rueda_shutdown());
}

static void large_ones_cross_each_other(void **state)
{
    (void)state;
    for (size_t i = 1; i < RANK_COUNTS; i++)
        run_ranks(rank_counts[i], all_at_once, NULL);
}

/* A blocking exchange, as pipelines do it. */
static void blocking(int rank, int size, const void *argument)
{
    (void)argument, (void)size;
    CHECK_OK(rueda_init(NULL));
    int32_t value = 0;
    const rueda_tensor t = RUEDA_TENSOR("turn", &value, RUEDA_I32, 0, NULL);
    for (int turn = 0; turn < 200; turn++) {
        if (turn % 2 == rank) {
            value = turn;
            CHECK_OK(rueda_send(&t, 1 - rank, NULL, NULL));
        } else {
            CHECK_OK(rueda_recv(&t, 1 - rank, NULL, NULL));
            CHECK_EQUAL(value, turn);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void a_call_without_request_waits(void **state)
{
    (void)state;
    run_ranks(2, blocking, NULL);
}

/* ---- Order ----------------------------------------------------------------------------------- */

#define NAMES 200

/* Rank 0 sends many names in one order, the others want them in another. */
static void many_names(int rank, int size, const void *argument)
{
    (void)argument;
    static parcel parcels[NAMES * 8];
    static char names[NAMES][32];
    size_t order[NAMES];
    dice d = {(unsigned long long)rank + 5};
    CHECK_OK(rueda_init(NULL));
    shuffle(&d, order, NAMES);
    for (size_t i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "name %zu", i);
    for (size_t i = 0; i < NAMES; i++) {
        const size_t n = order[i];
        const parcel p = {
            .dtype = RUEDA_F32, .count = n % 7 == 0 ? 9001 : n, .seed = n, .name = names[n]};
        for (int peer = rank == 0 ? 1 : 0; peer < (rank == 0 ? size : 1); peer++) {
            parcel *own = &parcels[n * 8 + (size_t)peer];
            *own = p;
            if (rank == 0)
                parcel_start_send(own, peer);
            else
                parcel_start_receive(own, 0, true);
        }
    }
    for (size_t i = 0; i < NAMES; i++) {
        for (int peer = rank == 0 ? 1 : 0; peer < (rank == 0 ? size : 1); peer++) {
            doing("%s with %d", names[i], peer);
            parcel *own = &parcels[i * 8 + (size_t)peer];
            if (rank == 0)
                parcel_finish_send(own);
            else
                CHECK_EQUAL(parcel_finish_receive(own), 0);
        }
    }
    CHECK_OK(rueda_shutdown());
}

static void names_may_come_in_any_order(void **state)
{
    (void)state;
    run_ranks(2, many_names, NULL);
    run_ranks(4, many_names, NULL);
}

#define IN_A_ROW 300

/* Of one name the order is that of the calls, whatever their sizes. Far more is on its way than may go with
 * announcements. The receiver begins late, with another name that was sent last. */
static void one_name(int rank, int size, const void *argument)
{
    (void)argument, (void)size;
    static parcel parcels[IN_A_ROW];
    CHECK_OK(rueda_init(NULL));
    parcel last = {.dtype = RUEDA_U8, .count = 5, .name = "last"};
    for (size_t i = 0; i < IN_A_ROW; i++)
        parcels[i] = (parcel){
            .dtype = RUEDA_I16, .count = i % 10 == 3 ? 9000 : 3000, .seed = i, .name = "row"};
    if (rank == 0) {
        for (size_t i = 0; i < IN_A_ROW; i++)
            parcel_start_send(&parcels[i], 1);
        parcel_start_send(&last, 1);
        meet();
        parcel_finish_send(&last);
        for (size_t i = 0; i < IN_A_ROW; i++)
            parcel_finish_send(&parcels[i]);
    } else {
        meet();
        parcel_start_receive(&last, 0, true);
        parcel_finish_receive(&last);
        for (size_t i = 0; i < IN_A_ROW; i++) {
            parcel_start_receive(&parcels[i], 0, i % 2);
            if (i % 3 == 0) /* the others wait, then several look at once */
                for (size_t n = i < 3 ? 0 : i - 2; n <= i; n++)
                    CHECK_EQUAL(parcel_finish_receive(&parcels[n]), 0);
        }
        for (size_t n = (IN_A_ROW - 1) / 3 * 3 + 1; n < IN_A_ROW; n++)
            CHECK_EQUAL(parcel_finish_receive(&parcels[n]), 0);
    }
    CHECK_OK(rueda_shutdown());
}

static void one_name_arrives_in_the_order_of_the_calls(void **state)
{
    (void)state;
    run_ranks(2, one_name, NULL);
}

/* Nobody but the two calls anything, and collectives of all go on meanwhile. */
static void beside_collectives(int rank, int size, const void *argument)
{
    (void)argument;
    CHECK_OK(rueda_init(NULL));
    parcel p = {.dtype = RUEDA_F32, .count = 5000, .seed = 3, .name = "beside"};
    parcel early = {.dtype = RUEDA_F32, .count = 500000, .seed = 4, .name = "beside"};
    if (rank == 0)
        parcel_start_send(&p, size - 1);
    if (rank == 0)
        parcel_start_send(&early, size - 1);
    for (int i = 0; i < 50; i++) {
        task t = {.kind = TASK_ALLREDUCE,
                  .recipe = RECIPE(RUEDA_F32, RUEDA_SUM, (uint64_t)i),
                  .count = (size_t)i * 100};
        task_name(&t);
        task_run(&t);
    }
    if (rank == size - 1) {
        parcel_start_receive(&p, 0, true);
        parcel_start_receive(&early, 0, false);
        parcel_finish_receive(&p);
        parcel_finish_receive(&early);
    }
    if (rank == 0) {
        parcel_finish_send(&p);
        parcel_finish_send(&early);
    }
    CHECK_OK(rueda_shutdown());
}

static void collectives_go_on_meanwhile(void **state)
{
    (void)state;
    run_ranks(2, beside_collectives, NULL);
    run_ranks(3, beside_collectives, NULL);
}

/* ---- From anyone ----------------------------------------------------------------------------- */

#define EACH 30

/* All others send as much as they like. Whoever has something gets its turn: nobody is more than a round
 * behind another while all have sent. */
static void from_anyone(int rank, int size, const void *argument)
{
    (void)argument;
    parcel parcels[EACH];
    int got[8] = {0};
    CHECK_OK(rueda_init(NULL));
    for (size_t i = 0; i < EACH && rank != 0; i++) {
        parcels[i] = (parcel){.dtype = RUEDA_I64, .count = 3, .seed = 1, .name = "any"};
        parcel_start_send(&parcels[i], 0);
    }
    CHECK_OK(rueda_barrier(RUEDA_GLOBAL_SET, NULL));
    for (size_t i = 0; i < EACH && rank != 0; i++)
        parcel_finish_send(&parcels[i]);
    for (int i = 0; i < EACH * (size - 1) && rank == 0; i++) {
        parcel p = {.dtype = RUEDA_I64, .count = 3, .seed = 1, .name = "any"};
        parcel_start_receive(&p, RUEDA_ANY_RANK, true);
        got[parcel_finish_receive(&p)]++;
    }
    for (int sender = 1; sender < size && rank == 0; sender++)
        CHECK_EQUAL(got[sender], EACH);
    CHECK_OK(rueda_shutdown());
}

/* With shared memory everything is there before the first receive, so the turns are exact. */
static void turns(int rank, int size, const void *argument)
{
    (void)argument;
    parcel parcels[EACH];
    CHECK_OK(rueda_init(NULL));
    int last[8] = {0}, got[8] = {0};
    for (size_t i = 0; i < EACH && rank != 0; i++) {
        parcels[i] = (parcel){.dtype = RUEDA_I64, .count = 3, .seed = 1, .name = "any"};
        parcel_start_send(&parcels[i], 0);
    }
    for (size_t i = 0; i < EACH && rank != 0; i++) /* the driver writes all it was given */
        CHECK_STATUS(rueda_wait(parcels[i].request, 1), RUEDA_PENDING);
    meet();
    for (int i = 0; i < EACH * (size - 1) && rank == 0; i++) {
        parcel p = {.dtype = RUEDA_I64, .count = 3, .seed = 1, .name = "any"};
        parcel_start_receive(&p, RUEDA_ANY_RANK, false);
        const int sender = parcel_finish_receive(&p);
        got[sender]++;
        if (last[sender] != 0)
            CHECK_EQUAL(i + 1 - last[sender], size - 1);
        last[sender] = i + 1;
    }
    for (size_t i = 0; i < EACH && rank != 0; i++)
        parcel_finish_send(&parcels[i]);
    CHECK_OK(rueda_shutdown());
}

static void a_receive_from_anyone_tells_who_sent(void **state)
{
    (void)state;
    run_ranks(2, from_anyone, NULL);
    run_ranks(3, from_anyone, NULL);
    run_ranks(5, from_anyone, NULL);
}

static void senders_take_turns(void **state)
{
    (void)state;
    if (harness_has_mpirun() || !harness_shares_memory() || getenv("TEST_RANKS_ON_HOST") != NULL)
        skip();
    run_ranks(4, turns, NULL);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void check_mismatch(int rank, rueda_tensor *t, const char *sent, const char *wanted)
{
    rueda_request *request;
    char expected[300];
    snprintf(expected, sizeof expected, "tensor '%s': rank 0 sends %s and rank 1 receives %s",
             t->name, sent, wanted);
    doing("%s", expected);
    if (rank == 0)
        CHECK_OK(rueda_send(t, 1, NULL, &request));
    else
        CHECK_OK(rueda_recv(t, 0, NULL, &request));
    CHECK_STATUS(rueda_wait(request, -1), RUEDA_ERR_MISMATCH);
    CHECK_SAYS(expected);
    rueda_output output = RUEDA_OUTPUT;
    CHECK_STATUS(rueda_take_output(request, &output), RUEDA_ERR_STATE);
    rueda_request_free(request);
}

static void disagree(int rank, int size, const void *argument)
{
    (void)argument, (void)size;
    CHECK_OK(rueda_init(NULL));
    static float data[20000];
    const int64_t four[] = {4}, five[] = {5}, square[] = {2, 2}, large[] = {20000};
    rueda_tensor t = RUEDA_TENSOR("type", data, rank == 0 ? RUEDA_F32 : RUEDA_I32, 1, four);
    check_mismatch(rank, &t, "float32 [4]", "int32 [4]");
    t = RUEDA_TENSOR("longer", data, RUEDA_F32, 1, rank == 0 ? four : five);
    check_mismatch(rank, &t, "float32 [4]", "float32 [5]");
    t = RUEDA_TENSOR("shorter", data, RUEDA_F32, 1, rank == 0 ? large : five);
    check_mismatch(rank, &t, "float32 [20000]", "float32 [5]");
    t = RUEDA_TENSOR("shape", data, RUEDA_F32, rank == 0 ? 1 : 2, rank == 0 ? four : square);
    check_mismatch(rank, &t, "float32 [4]", "float32 [2, 2]");
    t = RUEDA_TENSOR("scalar", data, RUEDA_F32, rank == 0 ? 0 : 1, rank == 0 ? NULL : four);
    check_mismatch(rank, &t, "float32 []", "float32 [4]");
    for (size_t i = 0; i < 20000; i++)
        CHECK(data[i] == 0);
    pass_around((parcel){.dtype = RUEDA_F32, .count = 100000, .name = "shape"}, true, true);
    CHECK_OK(rueda_shutdown());
}

static void both_sides_hear_what_differs_and_the_job_goes_on(void **state)
{
    (void)state;
    run_ranks(2, disagree, NULL);
}

/* Both ends of it are one rank's. */
static void alone(int rank, int size, const void *argument)
{
    (void)argument, (void)rank, (void)size;
    CHECK_OK(rueda_init(NULL));
    float data[4] = {1, 2, 3, 4};
    double other[4] = {0};
    const int64_t four[] = {4};
    rueda_request *requests[2];
    rueda_tensor t = RUEDA_TENSOR("self", data, RUEDA_F32, 1, four);
    CHECK_OK(rueda_send(&t, rank, NULL, &requests[0]));
    t = RUEDA_TENSOR("self", other, RUEDA_F64, 1, four);
    CHECK_OK(rueda_recv(&t, RUEDA_ANY_RANK, NULL, &requests[1]));
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(rueda_wait(requests[i], -1), RUEDA_ERR_MISMATCH);
        CHECK_SAYS("sends float32 [4] and rank 0 receives float64 [4]");
        rueda_request_free(requests[i]);
    }
    CHECK_OK(rueda_send(&t, rank, NULL, &requests[0]));
    CHECK_STATUS(rueda_wait(requests[0], 5), RUEDA_PENDING);
    CHECK_OK(rueda_shutdown());
    CHECK_STATUS(rueda_wait(requests[0], 0), RUEDA_ERR_SHUTDOWN);
    rueda_request_free(requests[0]);
}

static void a_rank_may_send_to_itself(void **state)
{
    (void)state;
    run_ranks(1, alone, NULL);
}

static void wrong_ranks(int rank, int size, const void *argument)
{
    (void)argument, (void)size;
    float value = 0;
    rueda_request *request;
    const rueda_tensor t = RUEDA_TENSOR("wrong", &value, RUEDA_F32, 0, NULL);
    rueda_tensor nowhere = RUEDA_TENSOR("nowhere", NULL, RUEDA_F32, 0, NULL);
    CHECK_STATUS(rueda_send(&t, 0, NULL, NULL), RUEDA_ERR_STATE);
    CHECK_OK(rueda_init(NULL));
    CHECK_STATUS(rueda_send(&t, 3, NULL, &request), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("rueda_send 'wrong': rank 3 is not a rank of process set 0");
    CHECK_STATUS(rueda_send(&t, RUEDA_ANY_RANK, NULL, &request), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_recv(&t, -2, NULL, &request), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("rueda_recv 'wrong': rank -2 is not");
    CHECK_STATUS(rueda_recv(&nowhere, 0, NULL, &request), RUEDA_ERR_ARGUMENT);
    CHECK_STATUS(rueda_send(&nowhere, 0, NULL, &request), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("input is NULL");
    nowhere.output = &value;
    nowhere.output_bytes = 2;
    CHECK_STATUS(rueda_recv(&nowhere, 0, NULL, &request), RUEDA_ERR_ARGUMENT);
    CHECK_SAYS("the result has 4 bytes, and output_bytes is 2");
    int32_t set;
    const int32_t ranks[] = {0, 2};
    CHECK_OK(rueda_process_set_add(ranks, 2, &set));
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    options.process_set = set;
    if (rank == 1) {
        CHECK_STATUS(rueda_send(&t, 0, &options, NULL), RUEDA_ERR_STATE);
    } else {
        CHECK_STATUS(rueda_send(&t, 1, &options, NULL), RUEDA_ERR_ARGUMENT);
        CHECK_SAYS("rank 1 is not a rank of process set 1");
    }
    CHECK_OK(rueda_shutdown());
}

static void a_rank_must_be_in_the_set(void **state)
{
    (void)state;
    run_ranks(3, wrong_ranks, NULL);
}

/* ---- Threads --------------------------------------------------------------------------------- */

#define THREADS 3
#define THREAD_TURNS 40

static void *play(void *argument)
{
    const char *name = argument;
    const int other = 1 - rueda_rank();
    for (int turn = 0; turn < THREAD_TURNS; turn++) {
        parcel in = {
            .dtype = RUEDA_F32, .count = (size_t)turn * 200, .seed = (uint64_t)turn, .name = name};
        parcel out = in;
        parcel_start_send(&out, other);
        parcel_start_receive(&in, turn % 2 == 0 ? other : RUEDA_ANY_RANK, true);
        parcel_finish_receive(&in);
        parcel_finish_send(&out);
    }
    return NULL;
}

static void many_threads(int rank, int size, const void *argument)
{
    (void)argument, (void)size, (void)rank;
    static char names[THREADS][32];
    pthread_t threads[THREADS];
    CHECK_OK(rueda_init(NULL));
    for (int i = 0; i < THREADS; i++) {
        snprintf(names[i], sizeof names[i], "thread %d", i);
        CHECK_EQUAL(pthread_create(&threads[i], NULL, play, names[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK_OK(rueda_shutdown());
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    run_ranks(2, many_threads, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_every_type_and_size_arrive),
        cmocka_unit_test(large_ones_cross_each_other),
        cmocka_unit_test(a_call_without_request_waits),
        cmocka_unit_test(names_may_come_in_any_order),
        cmocka_unit_test(one_name_arrives_in_the_order_of_the_calls),
        cmocka_unit_test(collectives_go_on_meanwhile),
        cmocka_unit_test(a_receive_from_anyone_tells_who_sent),
        cmocka_unit_test(senders_take_turns),
        cmocka_unit_test(both_sides_hear_what_differs_and_the_job_goes_on),
        cmocka_unit_test(a_rank_may_send_to_itself),
        cmocka_unit_test(a_rank_must_be_in_the_set),
        cmocka_unit_test(threads_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
