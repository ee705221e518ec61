/* exec.h: binds a plan to memory and runs its steps.
 *
 * There is no loop for any collective here: only the plan says what happens. An operation runs on a
 * channel; its `sequence` counts the operations of that channel, alike on all members. The member's
 * flag holds sequence·2^24 + ticks published, and (sequence+1)·2^24 when it has left the operation. Nothing
 * but steps of the plan changes the flag, or memory that peers can see.
 * Invariant: a step is started only when all earlier ones are done (messages: started), so the
 * verifier's program order is what happens.
 */
#ifndef RUEDA_EXEC_H
#define RUEDA_EXEC_H

#include "exec/fault.h"
#include "kernel/kernel.h"
#include "observe/trace.h"
#include "plan/plan.h"
#include "transport/transport.h"

#define EXEC_TICK_BITS 24   /* ticks of one operation fit in so many bits */
#define EXEC_TRIES_TOLD 256 /* after so many the trace is told that an operation waits */
#define EXEC_DOT_BLOCK 8192 /* bytes; a dot product is the sum over such blocks, in order */

/* One tensor of a (fused) operation. Offsets and counts are elements of the operation's space. */
typedef struct exec_tensor {
    uint64_t offset, count;
    const uint8_t *in;
    uint8_t *out;
} exec_tensor;

/* A chunk: elements of IN or OUT. */
typedef struct exec_extent {
    uint64_t offset, count;
} exec_extent;

/* Squared norms of an Adasum, per tensor. */
typedef struct exec_norms {
    double combined; /* of the result */
    double leaves;   /* of all ranks' inputs, added up */
    double counted;  /* how many of these are not 0 */
} exec_norms;

/* Private memory that operations of a channel use one after the other: taking it anew each time would
 * cost a page fault for every 4 KiB. Grows as needed. */
typedef struct exec_scratch {
    uint8_t *memory;
    size_t bytes;
} exec_scratch;

void exec_scratch_free(exec_scratch *s);

/* Everything a launch binds; pointers stay the caller's and must outlive the operation. */
typedef struct exec_launch {
    const plan *plan;
    transport_channel *channel;
    exec_scratch *scratch; /* of the channel */
    uint64_t sequence;     /* of the channel */
    uint64_t number;       /* of the operation in the set; travels with messages */
    rueda_dtype dtype;
    kernel_op op;
    double prescale, postscale;
    double divisor; /* not 0: instead of the postscale, for averages of integers */
    const exec_tensor *tensors;
    uint32_t tensor_count;
    const exec_extent *in, *out; /* chunks, as plan.h says for the collective */
    uint64_t largest;            /* elements of the largest chunk on any rank; not 0 with chunks */
    uint32_t pieces;             /* wanted of the largest chunk, alike on all ranks */
    uint64_t slot_bytes;         /* what it uses of each of the channel's slots; 0: all */
    uint64_t piece_limit;        /* bytes; not 0: no piece is longer, however short that is */
    bool stream;                 /* results are too large to stay in a cache */
    trace *trace;                /* told of every tick; NULL: nobody is */
    fault *fault;                /* RUEDA_FAULT, if it is meant for this operation; else NULL */
} exec_launch;

typedef struct exec_message exec_message;

typedef struct exec_op {
    exec_launch bound;
    const kernel_table *kernel;
    size_t element;       /* bytes */
    uint16_t index;       /* ours among the members */
    uint8_t *work;        /* the channel's scratch, if the plan uses it */
    double *coefficients; /* 2 per tensor, Adasum */
    exec_norms *norms;    /* per tensor, Adasum; valid when done */

    uint32_t phase, step, tick,
        ticks; /* where we are; step counts within the phase, or the entry */
    uint32_t pieces;
    uint64_t piece;      /* elements of a piece in this phase */
    uint64_t slot_bytes; /* from slot to slot; alike on all ranks */
    uint64_t cell_bytes; /* of a slot in this phase */
    uint64_t published;  /* ticks of the publishing phases before this one */
    bool entered;        /* the steps before the first phase are done */
    int waiting_for;     /* member that keeps us from going on, or -1 */

    bool traces_ticks; /* each tick is told to the trace, not the end alone */
    uint32_t tries;    /* of the tick, in vain */
    uint64_t executed; /* steps, for a fault */
    bool collecting;   /* the COLL of the step is under way */

    exec_message *messages; /* started, not yet fenced */
    uint32_t message_count, message_capacity;
} exec_op;

typedef enum exec_result {
    EXEC_DONE,
    EXEC_BLOCKED, /* nothing to do until a peer moves */
    EXEC_MORE     /* the budget is used up */
} exec_result;

/* Binds. Does not touch peers. ERR_MEMORY; ERR_ARGUMENT if the slots are too small for the plan. */
rueda_status exec_start(exec_op *o, const exec_launch *launch, const kernel_table *kernel);

/* Runs up to `budget` steps; never blocks. *moved tells whether anything was done. A message that
 * is not the expected one fails with ERR_INTERNAL. */
rueda_status exec_run(exec_op *o, uint32_t budget, exec_result *result, bool *moved);

/* Frees what exec_start took. Safe on a zeroed operation. */
void exec_fini(exec_op *o);

/* ---- between the files of this folder ---- */

typedef struct exec_run_part { /* a contiguous stretch of a step within one tensor */
    uint32_t tensor;
    uint64_t first; /* elements from the start of the chunk's piece */
    uint64_t count;
} exec_run_part;

/* Elements of the step's piece, 0 if it lies beyond the chunk. */
uint64_t exec_step_count(const exec_op *o, const plan_step *step, uint32_t piece);
/* The stretch that starts `first` elements into the piece and ends with its tensor or the piece. */
exec_run_part exec_part(const exec_op *o, const plan_step *step, uint32_t piece, uint64_t first,
                        uint64_t total);
uint8_t *exec_address(const exec_op *o, plan_operand operand, uint32_t piece, exec_run_part part);

/* Whether the step does nothing: a COPY of memory to itself without a factor. */
bool exec_is_idle(const exec_op *o, const plan_step *step);
void exec_data_step(exec_op *o, const plan_step *step, uint32_t piece);
double *exec_sums(const exec_op *o, uint16_t rank, uint32_t parity, uint32_t tensor);
void exec_start_sums(exec_op *o, uint32_t parity);
/* The number in the plan of the step that comes next. */
uint32_t exec_next_step(const exec_op *o);
void exec_weigh(exec_op *o, const plan_step *step);

/* trace_ticks.c, for operations with a trace: a tick is done, and o->tick counts the next one; all are done;
 * o->step has been tried in vain, or has failed. */
bool exec_trace_wants_ticks(const exec_op *o);
void exec_trace_tick(const exec_op *o);
void exec_trace_end(const exec_op *o);
void exec_trace_stuck(const exec_op *o, bool failed);

/* Starts the step's COLL, or looks whether it is done. */
rueda_status exec_collect(exec_op *o, const plan_step *step, bool *done);

rueda_status exec_message_start(exec_op *o, const plan_step *step, uint32_t piece);
/* Moves started messages on; *done: all are finished. */
rueda_status exec_messages_progress(exec_op *o, bool *done, bool *moved);

#endif
