/* verify.h: the parts of the verifier.
 *
 * plan_verify runs the plans of all ranks together on symbols instead of numbers: a cooperative
 * simulation in which a rank runs until it waits. What it proves holds for every timing, because
 * order is judged by happens-before (vector clocks), never by the order of the simulation. It also
 * holds after every other plan on the channel: the peers are taken to read all of a rank's slots, sums
 * and addresses until they have left the operation before.
 *   verify_bounds.c  what a single step may name
 *   verify_shape.c   expressions: what a piece of memory holds
 *   verify_race.c    who has seen what, and which accesses are not ordered
 *   verify_step.c    what each kind of step does to symbols
 *   verify_post.c    what each collective promises
 *   verify_run.c     ticks, waiting, messages
 */
#ifndef RUEDA_PLAN_VERIFY_H
#define RUEDA_PLAN_VERIFY_H

#include "plan/plan.h"

/* ---- Expressions ----------------------------------------------------------------------------- */

/* An expression without regard to which chunk it is about. Equal expressions have equal numbers;
 * REDUCED is commutative, not associative. 0 is memory nobody has written. */
typedef enum shape_kind {
    SHAPE_LEAF,
    SHAPE_PRE,
    SHAPE_POST,
    SHAPE_REDUCED,
    SHAPE_ADASUM
} shape_kind;

typedef struct shape_node {
    uint32_t kind, x, y; /* LEAF: x is the rank */
    uint32_t next;       /* in the same hash bucket */
    bool each_once;      /* known: every rank's contribution exactly once */
} shape_node;

typedef struct shape_table {
    shape_node *nodes;
    uint32_t count, capacity;
    uint32_t *buckets;
    bool no_memory;
} shape_table;

bool shapes_make(shape_table *t);
void shapes_free(shape_table *t);
/* 0 when an operand is 0, or when there is no memory. */
uint32_t shape_of(shape_table *t, shape_kind kind, uint32_t x, uint32_t y);
uint32_t shape_leaf(shape_table *t, unsigned rank);
/* What a rank contributes: its leaf, scaled if the plan scales. */
uint32_t shape_contribution(shape_table *t, const plan_layout *layout, unsigned rank);
/* Decision: the binary tree of joined blocks over the ranks [first, end). */
uint32_t shape_tree(shape_table *t, const plan_layout *layout, unsigned first, unsigned end);
/* Whether the shape is POST of a reduction with every rank's contribution exactly once. */
bool shape_is_whole(shape_table *t, const plan_layout *layout, uint32_t shape, uint8_t *seen);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* What a piece of memory holds: `shape` over chunk `chunk` of the inputs. */
typedef struct value {
    uint32_t shape, chunk, piece;
    uint32_t phase; /* in which it was laid into a slot */
} value;

typedef struct cell {
    value value;
    uint32_t written; /* epoch of the last write; 0: none */
    uint16_t writer;
    uint8_t sending;   /* transfers that read it */
    uint8_t receiving; /* transfers that write it */
    uint32_t reads;    /* list of reads since the last write; 0: none */
} cell;

/* Partial dot products of a rank, and the count of leaves that it carries. A count is known by the
 * vector whose leaves were counted: its shape names each of them, once or as often as it was counted. */
typedef struct sums {
    bool started, broken;
    uint32_t lower, upper; /* shapes */
    uint32_t counted;      /* shape; 0: nothing has been counted */
    uint64_t *covered;     /* bit per (chunk, piece) */
} sums;

/* ---- The run --------------------------------------------------------------------------------- */

/* The first epochs of every rank. */
enum {
    EPOCH_LEFT = 1, /* it has left the operation before */
    EPOCH_CAME = 2  /* its caller has come to this one */
};

typedef struct read_record {
    uint32_t epoch, next;
    uint16_t rank;
} read_record;

/* A rank's accesses to a span of memory that phases cut differently: a chunk, or all slots. */
typedef struct span_record {
    uint32_t phase;
    uint32_t read, read_before;   /* last epochs: in `phase`, and before it */
    uint32_t write, write_before; /* */
    uint32_t next;
    uint16_t rank;
    bool read_checked, write_checked; /* against other ranks' other phases, in `phase` */
} span_record;

typedef struct transfer {
    const plan_step *step;
    uint32_t phase, piece;
    uint16_t rank;   /* whose step it is */
    bool matched;    /* its counterpart has started */
    uint32_t *clock; /* SEND: of the sender at the start; RECV: of the matched sender */
    struct transfer *in_queue, *in_flight;
} transfer;

typedef struct queue {
    transfer *head, *tail;
} queue;

typedef struct actor {
    const plan *plan;
    uint32_t phase, tick, step; /* where it is; tick within the phase, step within the plan */
    uint32_t published;         /* ticks */
    uint32_t *clock;            /* per rank: the last epoch of it that happened before */
    uint32_t **tick_clocks;     /* per published tick: the clock then */
    cell *in, *out, *work, *slot;
    cell address[2];   /* of IN and OUT, as ADDRESSES tells them */
    bool owns_channel; /* knows that all others of its host have left the operation before */
    uint32_t in_span, out_span, slot_span;
    sums *own_sums;              /* two */
    uint32_t lower, upper;       /* coefficients of the last WEIGH; 0: none */
    uint32_t counted;            /* the leaves that it has counted, see sums */
    transfer *flying;            /* started and not fenced */
    uint32_t unmatched;          /* of them */
    const plan_step *collective; /* the COLL it is in; NULL: none */
    bool collected;              /* all others are in theirs, and it is over */
    bool entered;                /* the steps before the first phase are done */
    uint32_t *needs;             /* per rank: the last epoch of it that this rank waits for */
    bool done;
} actor;

typedef struct verifier {
    plan *const *plans;
    const plan *first;
    unsigned ranks;
    uint32_t pieces;
    bool aliased; /* OUT is the same memory as IN */
    bool reached; /* some step names a peer's IN or OUT */
    bool no_memory;
    plan_verdict verdict; /* of the race, deadlock and matching checks */
    plan_verdict data;    /* of the data check; counts only if nothing else fails */

    shape_table shapes;
    actor *actors;
    uint32_t in_chunks, out_chunks, cells;
    cell *memory;
    cell *sum_cells; /* [holder][rank][parity] */
    sums *mirrors;   /* the same; own_sums are those with holder = rank */
    uint64_t *bits, *scratch_bits;
    size_t words; /* of one coverage */
    uint32_t *clocks;
    uint32_t *spans; /* heads of span_record lists */
    uint32_t *needs; /* [who waits][for whom] */
    read_record *reads;
    uint32_t read_count, read_capacity, free_read;
    span_record *records;
    uint32_t record_count, record_capacity;
    queue *queues; /* [from][to] */
    transfer *spare_transfers;
    uint8_t *seen;       /* per rank, scratch */
    unsigned collecting; /* ranks that wait in a COLL */
} verifier;

/* Sets the verdict unless one is there. The step is described in front of the text. */
void verify_fail(verifier *v, plan_check check, unsigned rank, uint32_t step, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));

/* Checks each plan by itself, and that they belong together. */
void verify_bounds(verifier *v);
/* Number of chunks of a buffer; 0 if the collective has none. */
uint32_t verify_chunks_of(const plan *p, plan_buffer buffer);

/* ---- Accesses (verify_race.c) ---------------------------------------------------------------- */

typedef struct place {
    cell *cell;
    uint32_t span;  /* 0: none */
    bool reachable; /* other ranks can touch it */
    bool channels;  /* this rank's part of the channel: slots, sums, addresses */
} place;

place verify_find(verifier *v, const actor *x, const plan_operand *operand, uint32_t piece);
void verify_access(verifier *v, actor *x, place where, bool write);
/* The other ranks of its host have left the operation before. */
void verify_enter(verifier *v, actor *x);
/* Where a rank's ADDRESSES tell its IN or OUT. */
place verify_find_address(verifier *v, const actor *x, const plan_operand *operand);
/* The caller writes its memory: before it hands it over, and after it got it back. */
void verify_caller_touches(verifier *v, actor *x);
void verify_join_clock(const verifier *v, actor *x, const uint32_t *clock);

/* ---- Steps (verify_step.c) ------------------------------------------------------------------- */

/* A step that runs at once, on one piece. */
void verify_step(verifier *v, actor *x, const plan_step *step, uint32_t piece);
/* All ranks are in their COLL: gives each its result. */
void verify_collect(verifier *v);
/* The transfer of one piece, when both sides have started. */
void verify_deliver(verifier *v, const transfer *from, const transfer *to, uint32_t piece);
/* Whether two ends of a message speak of the same bytes. */
bool verify_same_extent(const verifier *v, const transfer *from, const transfer *to);

void verify_post(verifier *v);
/* After a run: whether the end of any rank means that no other waits for anything any more. */
bool verify_self_finishing(const verifier *v);
/* After a run: whether all chunks were reduced in the same order. */
bool verify_same_order(const verifier *v);
/* Runs all ranks to their end. Needs memory from verify.c. */
void verify_run(verifier *v);

#endif
