/* scenarios.c: the steps and their table. */
#include "scenarios.h"
#include "harness.h"

#include <math.h>
#include <string.h>

#define FEW 6
#define LARGE (512 * 1024) /* elements: more than a slot, and the lane of large ones */
#define GROUP 3
#define MANY 300 /* more than the first tables for names and decided tensors hold */

char scenario_timeline[128];

static double large_data[LARGE];

/* Ends a request; its output, if there is one, goes to `output`. */
static rueda_status finish(rueda_status submitted, rueda_request **request, rueda_output *output)
{
    if (submitted != RUEDA_OK)
        return submitted;
    rueda_status status = rueda_wait(*request, -1);
    if (status == RUEDA_OK && output != NULL)
        status = rueda_take_output(*request, output);
    rueda_request_free(*request);
    return status;
}

static void fill(double *data, size_t count, double value)
{
    for (size_t i = 0; i < count; i++)
        data[i] = value;
}

static void expect(const double *data, size_t count, double value)
{
    for (size_t i = 0; i < count; i++) {
        if (fabs(data[i] - value) > 1e-9)
            rank_fail(__FILE__, __LINE__, "element %zu of %zu is %g, not %g", i, count, data[i],
                      value);
    }
}

static double sum_of_ranks(int size)
{
    return size * (size + 1) / 2.0;
}

static rueda_status reduce_in(double *data, size_t count, const char *name, int32_t set, int rank,
                              int size)
{
    const int64_t shape[] = {(int64_t)count};
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    rueda_request *request = NULL;
    options.process_set = set;
    fill(data, count, rank + 1);
    const rueda_tensor t = RUEDA_TENSOR(name, data, RUEDA_F64, 1, shape);
    const rueda_status status = finish(rueda_allreduce(&t, &options, &request), &request, NULL);
    if (status == RUEDA_OK)
        expect(data, count, sum_of_ranks(size));
    return status;
}

static rueda_status allreduce(int rank, int size)
{
    double data[FEW];
    return reduce_in(data, FEW, "few", RUEDA_GLOBAL_SET, rank, size);
}

static rueda_status allreduce_large(int rank, int size)
{
    return reduce_in(large_data, LARGE, "large", RUEDA_GLOBAL_SET, rank, size);
}

/* In memory that the others can reach. */
static rueda_status allreduce_shared(int rank, int size)
{
    double *data = rueda_alloc(LARGE * sizeof *data);
    if (data == NULL)
        return RUEDA_ERR_MEMORY;
    const rueda_status status = reduce_in(data, LARGE, "shared", RUEDA_GLOBAL_SET, rank, size);
    rueda_free(data);
    return status;
}

/* Parallel vectors: their mean. */
static rueda_status adasum(int rank, int size)
{
    double data[FEW];
    const int64_t shape[] = {FEW};
    rueda_request *request = NULL;
    const rueda_tensor t = RUEDA_TENSOR("adasum", data, RUEDA_F64, 1, shape);
    fill(data, FEW, rank + 1);
    const rueda_status status =
        finish(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_ADASUM), &request), &request, NULL);
    if (status == RUEDA_OK)
        expect(data, FEW, sum_of_ranks(size) / size);
    return status;
}

static rueda_status grouped(int rank, int size)
{
    static const char *const names[GROUP] = {"group a", "group b", "group c"};
    double data[GROUP][FEW];
    const int64_t shape[] = {FEW};
    rueda_tensor tensors[GROUP];
    rueda_request *request = NULL;
    for (int i = 0; i < GROUP; i++) {
        fill(data[i], FEW, rank + 1 + i);
        tensors[i] = RUEDA_TENSOR(names[i], data[i], RUEDA_F64, 1, shape);
    }
    const rueda_status status =
        finish(rueda_grouped_allreduce(tensors, GROUP, &RUEDA_OPTIONS(RUEDA_SUM), &request),
               &request, NULL);
    for (int i = 0; i < GROUP && status == RUEDA_OK; i++)
        expect(data[i], FEW, sum_of_ranks(size) + size * i);
    return status;
}

/* Rank r has r + 1 rows of two elements. */
static rueda_status allgather(int rank, int size)
{
    double data[2 * HARNESS_MAX_RANKS];
    const int64_t shape[] = {rank + 1, 2};
    rueda_request *request = NULL;
    rueda_output output = RUEDA_OUTPUT;
    const rueda_tensor t = RUEDA_TENSOR("gathered", data, RUEDA_F64, 2, shape);
    fill(data, 2 * (size_t)(rank + 1), rank);
    const rueda_status status = finish(rueda_allgather(&t, NULL, &request), &request, &output);
    if (status != RUEDA_OK)
        return status;
    const double *at = output.data;
    CHECK_EQUAL(output.shape[0], (int64_t)sum_of_ranks(size));
    for (int r = 0; r < size; at += 2 * (r + 1), r++)
        expect(at, 2 * (size_t)(r + 1), r);
    rueda_output_free(&output);
    return RUEDA_OK;
}

static rueda_status broadcast(int rank, int size)
{
    double data[FEW];
    const int64_t shape[] = {FEW};
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    rueda_request *request = NULL;
    options.root = size - 1;
    fill(data, FEW, rank);
    const rueda_tensor t = RUEDA_TENSOR("sent", data, RUEDA_F64, 1, shape);
    const rueda_status status = finish(rueda_broadcast(&t, &options, &request), &request, NULL);
    if (status == RUEDA_OK)
        expect(data, FEW, size - 1);
    return status;
}

/* Rank r sends q + 1 rows with r to rank q. */
static rueda_status alltoall(int rank, int size)
{
    double data[HARNESS_MAX_RANKS];
    int64_t splits[HARNESS_MAX_RANKS];
    const int64_t rows = (int64_t)sum_of_ranks(size), shape[] = {rows};
    rueda_options options = RUEDA_OPTIONS(RUEDA_SUM);
    rueda_request *request = NULL;
    rueda_output output = RUEDA_OUTPUT;
    for (int q = 0; q < size; q++)
        splits[q] = q + 1;
    options.splits = splits;
    fill(data, (size_t)rows, rank);
    const rueda_tensor t = RUEDA_TENSOR("exchanged", data, RUEDA_F64, 1, shape);
    const rueda_status status = finish(rueda_alltoall(&t, &options, &request), &request, &output);
    if (status != RUEDA_OK)
        return status;
    for (int q = 0; q < size; q++) {
        CHECK_EQUAL(output.received_splits[q], rank + 1);
        expect((const double *)output.data + q * (rank + 1), (size_t)rank + 1, q);
    }
    rueda_output_free(&output);
    return RUEDA_OK;
}

static rueda_status reducescatter(int rank, int size)
{
    double data[HARNESS_MAX_RANKS];
    const int64_t shape[] = {size};
    rueda_request *request = NULL;
    rueda_output output = RUEDA_OUTPUT;
    fill(data, (size_t)size, rank + 1);
    const rueda_tensor t = RUEDA_TENSOR("scattered", data, RUEDA_F64, 1, shape);
    const rueda_status status =
        finish(rueda_reducescatter(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request), &request, &output);
    if (status != RUEDA_OK)
        return status;
    CHECK_EQUAL(output.shape[0], 1);
    expect(output.data, 1, sum_of_ranks(size));
    rueda_output_free(&output);
    return RUEDA_OK;
}

static rueda_status reduce_to_root(int rank, int size)
{
    double data[FEW];
    const int64_t shape[] = {FEW};
    rueda_request *request = NULL;
    const rueda_tensor t = RUEDA_TENSOR("to root", data, RUEDA_F64, 1, shape);
    fill(data, FEW, rank + 1);
    const rueda_status status =
        finish(rueda_reduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request), &request, NULL);
    if (status == RUEDA_OK)
        expect(data, FEW, rank == 0 ? sum_of_ranks(size) : rank + 1);
    return status;
}

static rueda_status gather_at_root(int rank, int size)
{
    double data = 3;
    const int64_t shape[] = {1};
    rueda_request *request = NULL;
    rueda_output output = RUEDA_OUTPUT;
    const rueda_tensor t = RUEDA_TENSOR("gathered at root", &data, RUEDA_F64, 1, shape);
    const rueda_status status = finish(rueda_gather(&t, NULL, &request), &request, &output);
    if (status != RUEDA_OK)
        return status;
    CHECK_EQUAL(output.shape[0], rank == 0 ? size : 0);
    expect(output.data, (size_t)output.shape[0], 3);
    rueda_output_free(&output);
    return RUEDA_OK;
}

static rueda_status scatter_from_root(int rank, int size)
{
    double data[HARNESS_MAX_RANKS];
    const int64_t shape[] = {size};
    rueda_request *request = NULL;
    rueda_output output = RUEDA_OUTPUT;
    const rueda_tensor t = RUEDA_TENSOR("from root", data, RUEDA_F64, 1, shape);
    fill(data, (size_t)size, rank + 5);
    const rueda_status status = finish(rueda_scatter(&t, NULL, &request), &request, &output);
    if (status != RUEDA_OK)
        return status;
    CHECK_EQUAL(output.shape[0], 1);
    expect(output.data, 1, 5);
    rueda_output_free(&output);
    return RUEDA_OK;
}

static rueda_status barrier(int rank, int size)
{
    (void)rank;
    (void)size;
    rueda_request *request = NULL;
    return finish(rueda_barrier(RUEDA_GLOBAL_SET, &request), &request, NULL);
}

/* All others have no more data; the last rank has. */
static rueda_status join(int rank, int size)
{
    rueda_request *request = NULL;
    if (rank == size - 1) {
        double data[FEW];
        const int64_t shape[] = {FEW};
        rueda_request *reduced = NULL;
        const rueda_tensor t = RUEDA_TENSOR("alone", data, RUEDA_F64, 1, shape);
        fill(data, FEW, 7);
        const rueda_status status =
            finish(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &reduced), &reduced, NULL);
        if (status != RUEDA_OK)
            return status;
        expect(data, FEW, 7);
    }
    const rueda_status status = finish(rueda_join(&request), &request, NULL);
    if (status == RUEDA_OK)
        CHECK_EQUAL(rueda_last_joined(), size - 1);
    return status;
}

/* The set of all ranks exists, so it is one of all but the last, and of rank 0 alone where there are two. */
static int32_t added_set;

static rueda_status add_set(int rank, int size)
{
    (void)rank;
    int32_t ranks[HARNESS_MAX_RANKS];
    for (int r = 0; r < size - 1; r++)
        ranks[r] = r;
    return rueda_process_set_add(ranks, size - 1, &added_set);
}

static rueda_status use_set(int rank, int size)
{
    double data[FEW];
    return rank == size - 1 ? RUEDA_OK : reduce_in(data, FEW, "in set", added_set, rank, size - 1);
}

static rueda_status use_set_large(int rank, int size)
{
    return rank == size - 1
               ? RUEDA_OK
               : reduce_in(large_data, LARGE, "large in set", added_set, rank, size - 1);
}

static rueda_status remove_set(int rank, int size)
{
    (void)rank;
    (void)size;
    return rueda_process_set_remove(added_set);
}

/* The ranks disagree, and all must hear it. */
static rueda_status expect_mismatch(rueda_status status)
{
    if (status == RUEDA_OK)
        rank_fail(__FILE__, __LINE__, "ranks that disagree have agreed");
    return status == RUEDA_ERR_MISMATCH ? RUEDA_OK : status;
}

static rueda_status mismatch(int rank, int size)
{
    (void)size;
    double data[FEW];
    const int64_t shape[] = {rank == 0 ? FEW : FEW - 1};
    rueda_request *request = NULL;
    const rueda_tensor t = RUEDA_TENSOR("disputed", data, RUEDA_F64, 1, shape);
    fill(data, FEW, 1);
    return expect_mismatch(
        finish(rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &request), &request, NULL));
}

static rueda_status mismatch_in_group(int rank, int size)
{
    (void)size;
    double data[2][FEW];
    const int64_t shape[] = {FEW}, other[] = {rank == 0 ? FEW : FEW - 1};
    rueda_request *request = NULL;
    fill(data[0], 2 * FEW, 1);
    const rueda_tensor tensors[] = {RUEDA_TENSOR("agreed", data[0], RUEDA_F64, 1, shape),
                                    RUEDA_TENSOR("not agreed", data[1], RUEDA_F64, 1, other)};
    return expect_mismatch(finish(
        rueda_grouped_allreduce(tensors, 2, &RUEDA_OPTIONS(RUEDA_SUM), &request), &request, NULL));
}

/* So many at a time that tables grow. */
static rueda_status many(int rank, int size)
{
    static rueda_request *requests[MANY];
    static double data[MANY];
    static char names[MANY][24];
    const int64_t shape[] = {1};
    rueda_status status = RUEDA_OK;
    int submitted = 0;
    for (; submitted < MANY && status == RUEDA_OK; submitted += status == RUEDA_OK) {
        snprintf(names[submitted], sizeof names[submitted], "many %d", submitted);
        data[submitted] = rank + 1;
        const rueda_tensor t =
            RUEDA_TENSOR(names[submitted], &data[submitted], RUEDA_F64, 1, shape);
        for (int tries = 0; tries < 2;
             tries++) { /* what was refused for want of memory may come again */
            status = rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), &requests[submitted]);
            if (status != RUEDA_ERR_MEMORY)
                break;
        }
    }
    for (int i = 0; i < submitted; i++) {
        const rueda_status ended = finish(RUEDA_OK, &requests[i], NULL);
        if (ended == RUEDA_OK)
            expect(&data[i], 1, sum_of_ranks(size));
        status = status == RUEDA_OK ? ended : status;
    }
    return status;
}

static rueda_status start_timeline(int rank, int size)
{
    (void)rank;
    (void)size;
    const rueda_status status = rueda_timeline_start(scenario_timeline, 1);
    return status == RUEDA_ERR_STATE ? RUEDA_OK : status; /* a second try */
}

/* What could not be written is said; the job goes on. */
static rueda_status stop_timeline(int rank, int size)
{
    (void)rank;
    (void)size;
    rueda_timeline_stop();
    return RUEDA_OK;
}

/* From one rank to another; the others do nothing. One call each, so that it can be repeated. */
static rueda_status pass_on(int rank, int from, int to, double *data, size_t count)
{
    const int64_t shape[] = {(int64_t)count};
    const rueda_tensor t = RUEDA_TENSOR("passed on", data, RUEDA_F64, 1, shape);
    rueda_request *request = NULL;
    fill(data, count, rank == from ? 7 : 0);
    if (rank == from)
        return finish(rueda_send(&t, to, NULL, &request), &request, NULL);
    if (rank != to)
        return RUEDA_OK;
    rueda_output output = RUEDA_OUTPUT;
    const rueda_status status = finish(rueda_recv(&t, from, NULL, &request), &request, &output);
    if (status != RUEDA_OK)
        return status;
    CHECK_EQUAL(output.source, from);
    expect(data, count, 7);
    return RUEDA_OK;
}

static rueda_status send_few(int rank, int size)
{
    double data[FEW];
    return pass_on(rank, 0, size - 1, data, FEW);
}

static rueda_status send_large(int rank, int size)
{
    return pass_on(rank, size - 1, 0, large_data, LARGE);
}

const scenario scenarios[] = {
    {"collectives",
     true,
     1,
     0,
     {0},
     {allreduce, grouped, adasum, allgather, broadcast, alltoall, reducescatter, reduce_to_root,
      gather_at_root, scatter_from_root, barrier, allreduce, alltoall, barrier}},
    {"large", false, 1, 0, {0}, {allreduce_large, allreduce_shared, allreduce_large}},
    {"mismatch", false, 1, 0, {0}, {mismatch, mismatch_in_group, allreduce}},
    {"sets", /* of at least two members: they take memory when they first use it */
     false,
     1,
     3,
     {0},
     {add_set, use_set, use_set_large, remove_set, allreduce}},
    {"sets-by-ring", false, 31, 3, {"RUEDA_ALGORITHM=ring"}, {add_set, use_set, remove_set}},
    {"sendrecv", false, 1, 0, {0}, {send_few, send_large, allreduce, send_few}},
    {"join", false, 1, 0, {0}, {allreduce, join, allreduce}},
    {"timeline",
     true,
     1,
     0,
     {"RUEDA_TIMELINE_ALL_RANKS=1", "RUEDA_TRACE=64", "RUEDA_TIMELINE_MARK_CYCLES=1"},
     {start_timeline, allreduce, allgather, stop_timeline}},
    {"messages", false, 1, 0, {"RUEDA_ALGORITHM=ring"}, {allreduce, allgather}},
    {"verified", false, 31, 0, {"RUEDA_VERIFY=1"}, {allreduce, adasum}},
    {"many", false, 61, 0, {0}, {many}},
};
const int scenario_count = (int)(sizeof scenarios / sizeof *scenarios);
