/* bench_data.h: what a bench feeds to a collective, and what must come out.
 *
 * Inputs are small multiples of one pattern whose period divides no piece and no chunk, so data that
 * ends up in a wrong place is noticed. Results are known without computing them, so the check costs
 * one pass over memory. The `count` of an order is that of the larger buffer, as in nccl-tests: what
 * every rank ends with for allgather, what every rank starts with for reducescatter and alltoall. Where there
 * is one root, it is rank 0.
 */
#ifndef RUEDA_CLI_BENCH_DATA_H
#define RUEDA_CLI_BENCH_DATA_H

#include "plan/plan.h"
#include "rueda.h"

#include <stdbool.h>
#include <stdint.h>

#define BENCH_NAME_MAX 64

typedef struct bench_data {
    plan_collective collective;
    rueda_op op;
    rueda_dtype dtype;
    int rank, size;
    uint64_t in_count, out_count; /* elements */
    void *input, *output;         /* the same memory if in place */
    char name[BENCH_NAME_MAX];    /* of the tensor: made once, as programs do */
} bench_data;

/* Fills everything but the two addresses. `count` must suit the collective. */
void bench_data_shape(bench_data *d, uint64_t count);
bool bench_data_in_place(plan_collective collective);

/* The next count that every rank can get an equal share of, where shares are needed. */
uint64_t bench_data_round(plan_collective collective, uint64_t count, int size);

/* How many iterations in place the values survive without leaving the range of the type. */
int bench_data_burst(const bench_data *d);

void bench_data_fill(const bench_data *d);
/* Elements that are wrong after `runs` operations since the fill. */
uint64_t bench_data_check(const bench_data *d, int runs);

/* Bytes that cross a link, by bytes of the operation: turns algorithm into bus bandwidth. */
double bench_data_bus_factor(plan_collective collective, int size);

#endif
