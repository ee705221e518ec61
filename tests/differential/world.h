/* world.h: all ranks of a job in one process, for tests that decide who moves when.
 *
 * The segment, the channels, the flags and the rings between ranks are the real ones. Only three things are not:
 * arithmetic is the oracle's, which shows any other order; a transport may take and show less at a time
 * than it could; and it has collectives of its own. Ranks of different hosts cannot see each other's memory.
 */
#ifndef RUEDA_TESTS_WORLD_H
#define RUEDA_TESTS_WORLD_H

#define ORACLE_PIECES 12

#include "exec/exec.h"
#include "plan/oracle_right.h"

#define WORLD_SEQUENCE 3 /* most operations that follow each other on the channel */

/* How an operation cuts its tensors; lengths are elements. */
typedef struct world_cut {
    uint32_t tensors;                          /* of allreduce and broadcast; 1 for others */
    uint32_t tensor_counts[ORACLE_TENSORS];    /* */
    uint32_t in[ORACLE_RANKS][ORACLE_CHUNKS];  /* by rank */
    uint32_t out[ORACLE_RANKS][ORACLE_CHUNKS]; /* by rank */
    uint32_t largest;                          /* of all */
    uint32_t piece;                            /* no piece is longer */
    bool in_place, stream;
} world_cut;

/* One operation of all ranks. */
typedef struct world_operation {
    team team;
    world_cut cut;
    uint64_t results[ORACLE_RANKS][ORACLE_CHUNKS][ORACLE_PIECES];
} world_operation;

typedef enum world_end {
    WORLD_DONE,
    WORLD_DEADLOCK,
    WORLD_FAILED /* exec has refused something; status_text says what */
} world_end;

typedef struct world world;

/* NULL: no memory. One at a time. */
world *world_open(void);
void world_close(world *w);

/* Runs the operations one after the other on the same channel, each rank at its own pace, a few steps at a
 * time; the seed says who. `alone`, for a single operation, or NULL: once one rank has ended, each of the
 * others is to end without anybody else; false afterwards: one could not. */
world_end world_run(world *w, world_operation *operations, unsigned count, bool *alone,
                    uint64_t seed);

#endif
