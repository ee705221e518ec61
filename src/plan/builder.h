/* builder.h: how an algorithm writes its plan.
 *
 * Authors open phases and add data steps by stage; the builder adds every PUBLISH, AWAIT and FENCE, and
 * ENTER, ADDRESSES and LEAVE around them.
 * Invariant: authors never write an edge. What is derived follows from which memory a step names:
 *   a peer's memory        AWAIT(peer, 1) once per tick, stage and peer
 *   an own slot            AWAIT of its readers, unless later stages wait for them anyway
 *   a chunk in transfer    FENCE, and one FENCE at the end of a tick that has transfers
 *   the end of a tick      PUBLISH, in phases that publish
 *   what peers may read    ENTER, before this rank writes its slots, sums or addresses
 * After a failure (no memory) every call does nothing and builder_finish returns NULL.
 */
#ifndef RUEDA_PLAN_BUILDER_H
#define RUEDA_PLAN_BUILDER_H

#include "plan/plan.h"

#define BUILDER_BUCKETS 256

/* Memory that a started SEND reads, or a RECV writes. */
typedef struct builder_transfer {
    plan_operand memory;
    uint32_t next; /* with the same bucket; 1 + its number, 0: none */
    uint8_t stage;
    bool written;
} builder_transfer;

enum builder_mark { BUILDER_READS_SLOTS = 1, BUILDER_AWAITED_LATER = 2 };

typedef struct builder {
    plan *plan;
    uint16_t ranks, rank; /* of plan->layout, for short */
    uint8_t stage;        /* of the steps added now */
    bool settled;         /* they need no AWAIT */
    bool failed, open;
    bool reached_in, reached_out; /* see builder_reached */
    bool starts_sums;             /* before the first phase, SUMS[0] */
    uint32_t step_capacity, phase_capacity;

    plan_phase phase;  /* the open one */
    plan_step *drafts; /* its data steps; `zero` marks settled ones */
    uint32_t draft_count, draft_capacity;

    builder_transfer *transfers; /* started in this tick and not fenced */
    uint32_t transfer_count, transfer_capacity;
    uint32_t by_index[BUILDER_BUCKETS]; /* lists of transfers by chunk; 1 + number */
    bool sums_in_transfer;

    uint8_t *marks;    /* per rank: builder_mark of the open phase */
    uint32_t *awaited; /* per rank: phase and stage of the last AWAIT derived for it */
} builder;

/* Starts a plan; NULL when there is no memory. */
builder *builder_start(plan_collective collective, plan_algorithm algorithm,
                       const plan_layout *layout);
/* Ends it. Returns the plan, or NULL when there was no memory. Frees the builder. */
plan *builder_finish(builder *b);
void builder_abandon(builder *b);

void builder_chunks(builder *b, uint32_t chunks);

/* Opens a looping phase of `depth` stages in which peers read each other's memory; slots are cut
 * into `cells`. Closes the phase before it. Stages start at 0. */
void builder_loop(builder *b, unsigned depth, unsigned cells);
/* A looping phase of messages and private memory only. */
void builder_loop_messages(builder *b, unsigned depth);
/* A phase of one tick. */
void builder_once(builder *b, bool publishes);
/* A phase in which this rank waits until the other ranks in [first, end) on its host have finished
 * all phases before. */
void builder_meet(builder *b, unsigned first, unsigned end);
/* The same inside an open `once` phase. */
void builder_meet_here(builder *b, unsigned first, unsigned end);

/* Steps added to the open phase from now on belong to this stage. */
void builder_stage(builder *b, unsigned stage);
/* Whether what they read from peers was complete before the phase, and needs no AWAIT in it. */
void builder_settled(builder *b, bool settled);
/* In the open phase, rank q reads this rank's slots. Needed for a q whose slots this rank does not
 * read itself. */
void builder_read_by(builder *b, unsigned q);
/* Peers reach this rank's IN or OUT. */
void builder_reached(builder *b, plan_buffer buffer);
/* Before the first phase (SUMS[0] only), or in an open `once` phase. */
void builder_start_sums(builder *b, unsigned parity);

void builder_copy(builder *b, plan_operand dst, plan_operand a, unsigned flags);
void builder_reduce(builder *b, plan_operand dst, plan_operand a, plan_operand other);
void builder_send(builder *b, unsigned peer, plan_operand a);
void builder_recv(builder *b, unsigned peer, plan_operand dst);
void builder_recv_reduce(builder *b, unsigned peer, plan_operand dst, plan_operand a,
                         unsigned flags);
void builder_dot(builder *b, plan_operand dst, plan_operand lower, plan_operand upper,
                 unsigned flags);
void builder_weigh(builder *b, unsigned first, unsigned middle, unsigned end, unsigned parity);
void builder_combine(builder *b, plan_operand dst, plan_operand lower, plan_operand upper);
void builder_collect(builder *b, plan_operand dst, plan_operand a);

/* out ← x(first) ∘ x(first+1) ∘ … ∘ x(end−1), where x(q) is `buffer`[index] of rank q, and `own`
 * for this rank. If own is IN, it stays whole until it is used, although out may be the same
 * memory: `spare` holds the beginning. */
void builder_reduce_in_order(builder *b, plan_operand out, plan_operand own, plan_operand spare,
                             plan_buffer buffer, uint32_t index, unsigned first, unsigned end);

bool builder_same_host(const builder *b, unsigned q); /* q and this rank */

/* Between builder.c and builder_edges.c: room for one more element (returns the array, moved if need
 * be), and the end of a phase. */
void *builder_grow(builder *b, void *array, uint32_t count, uint32_t *capacity, size_t size);
void builder_close_phase(builder *b);
void builder_emit(builder *b, plan_step step);

static inline plan_operand at(plan_buffer buffer, unsigned rank, unsigned index)
{
    return (plan_operand){(uint8_t)buffer, 0, (uint16_t)rank, index};
}

static inline plan_operand own(const builder *b, plan_buffer buffer, unsigned index)
{
    return at(buffer, b->rank, index);
}

static inline plan_operand nothing(void)
{
    return at(PLAN_NONE, 0, 0);
}

#endif
