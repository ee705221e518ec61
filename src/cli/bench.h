/* bench.h: what `rueda bench` is asked for, and its parts.
 *
 *     rueda bench ──launch──> rank 0: leads, measures, reports ──starts──> another engine (peer)
 *                        └──> rank 1 …: serve orders
 */
#ifndef RUEDA_CLI_BENCH_H
#define RUEDA_CLI_BENCH_H

#include "cli/bench_board.h"
#include "plan/plan.h"
#include "rueda.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_SIZES_MAX 64
#define BENCH_NEAR_US 0.25 /* a cache line's round trip below this: the cores are near each other */

typedef enum bench_peer {
    PEER_NONE,
    PEER_SUM,
    PEER_OPENMPI,
    PEER_MPICH,
    PEER_GLOO,
    PEER_SOCKET
} bench_peer;

typedef struct bench_options {
    const char *what;                      /* a collective, or a scenario */
    const struct bench_scenario *scenario; /* NULL: a collective */
    plan_collective collective;
    int64_t ranks;
    uint64_t sizes[BENCH_SIZES_MAX]; /* bytes */
    int size_count;
    rueda_dtype dtype;
    rueda_op op;
    const char *algorithm, *transport;
    bool by_mpirun; /* the transport needs ranks that mpirun starts */
    bool shared, json, async, busy_peer;
    FILE *progress; /* NULL: nobody watches */
    bool bind;      /* each rank keeps to a core of its own, if there are enough */
    bench_peer against;
    double seconds;     /* for each size */
    int64_t iterations; /* for each size instead; 0: by time */
    int64_t idle_ms;
} bench_options;

const char *bench_peer_name(bench_peer peer); /* "openmpi" */

/* The life of one rank of a bench; rank 0 leads. Returns the exit code. */
int bench_worker(const bench_options *o, int board_fd);

#endif
