/* model.h: all ranks of a job in one process, for tests that decide who moves when.
 *
 * The segment, the channels, the flags and the rings between ranks are the real ones. Only three things are not:
 * arithmetic is the oracle's, which shows any other order; a transport may take and show less at a time
 * than it could; and it has collectives of its own. Ranks of different hosts cannot see each other's memory.
 */
#ifndef RUEDA_TESTS_MODEL_H
#define RUEDA_TESTS_MODEL_H

#define ORACLE_PIECES 12

#include "exec/exec.h"
#include "plan/oracle_right.h"
#include "transport/shm/shm.h"

#define MODEL_SEQUENCE 3 /* most operations that follow each other on the channel */

/* How an operation cuts its tensors; lengths are elements. */
typedef struct model_cut {
    uint32_t tensors;                          /* of allreduce and broadcast; 1 for others */
    uint32_t tensor_counts[ORACLE_TENSORS];    /* */
    uint32_t in[ORACLE_RANKS][ORACLE_CHUNKS];  /* by rank */
    uint32_t out[ORACLE_RANKS][ORACLE_CHUNKS]; /* by rank */
    uint32_t largest;                          /* of all */
    uint32_t piece;                            /* no piece is longer */
    bool in_place, stream;
} model_cut;

/* One operation of all ranks. */
typedef struct model_operation {
    team team;
    model_cut cut;
    uint64_t results[ORACLE_RANKS][ORACLE_CHUNKS][ORACLE_PIECES];
} model_operation;

typedef enum model_end {
    MODEL_DONE,
    MODEL_DEADLOCK,
    MODEL_FAILED /* exec has refused something; status_text says what */
} model_end;

typedef struct model model;

/* NULL: no memory. One at a time. */
model *model_open(void);
void model_close(model *w);

/* Runs the operations one after the other on the same channel, each rank at its own pace, a few steps at a
 * time; the seed says who. `alone`, for a single operation, or NULL: once one rank has ended, each of the
 * others is to end without anybody else; false afterwards: one could not. */
model_end model_run(model *w, model_operation *operations, unsigned count, bool *alone,
                    uint64_t seed);

#endif
