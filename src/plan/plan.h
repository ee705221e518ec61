/* plan.h: a collective as data.
 *
 * An algorithm is a pure function from (collective, ranks, rank, layout) to a plan: a list of small
 * fixed-size steps over abstract buffers and chunk numbers. A plan holds no address, no dtype, no
 * reduction and no byte count; those are bound when it is launched, so plans are cached and do not
 * grow with the data. What is here is what runs, what `rueda plan` prints and what the verifier
 * proves.
 *
 * Chunks. A tensor is cut into chunks. Per collective, over P ranks:
 *   allreduce, broadcast  IN, OUT and WORK share one space of `chunks` equal parts
 *   allgather             IN chunk 0 is this rank's rows; OUT chunk c is rank c's rows
 *   reducescatter         IN and WORK chunk c are the rows of rank c; OUT chunk 0 this rank's rows
 *   alltoall              IN chunk d goes to rank d; OUT chunk s comes from rank s; WORK as IN
 *   reduce                as allreduce, but the root alone has an OUT
 *   gather                as allgather, but the root alone has an OUT
 *   scatter               as reducescatter, but the root alone has IN and WORK
 *   barrier               no chunks
 * Pieces. A looping phase walks every chunk in pieces of equal length: piece i of a chunk is its
 * elements [i·m, (i+1)·m), where m follows at launch from the slot size and the phase's cells. All
 * chunks advance together; pieces beyond a chunk's end are empty.
 * Length. A step is as long as the piece of the chunk that one of its operands names in IN, OUT or
 * WORK; a step that names slots only is as long as the piece of IN chunk dst.index: such a cell
 * stands for that chunk.
 * Slots. Each rank has `PLAN_SLOTS` slots that peers on its host can read; SLOT cell c of piece i
 * is cell c of slot i mod PLAN_SLOTS. A phase divides a slot into `cells` cells of one piece each. What
 * a stage writes into a cell must be read before the piece PLAN_SLOTS further on comes: phases of at
 * least PLAN_SLOTS stages read it in the next stage.
 *
 * Ticks. A looping phase of `depth` stages over n ≥ 1 pieces (without an element there is no operation)
 * runs n + depth − 1 ticks; in tick t a step of stage s works on piece t − s and is skipped when there is no such piece. Phases
 * marked `once` run exactly one tick, on piece 0 with the chunk as one whole. Steps run in their
 * order; only SEND and RECV overlap what follows them, until the next FENCE.
 * PUBLISH is the last step of a tick in phases that publish, and is not skipped (but in the very last
 * tick of a plan, where LEAVE follows and says more): it tells the peers of this host that all earlier
 * steps of the tick are done. Ticks of publishing phases are
 * numbered through the whole plan (1, 2, …), alike on all ranks, because all ranks have the same
 * phases. AWAIT(peer, lag) in tick t goes on when the peer has published the tick that lies `lag`
 * before; a number below 1 is always there.
 * FENCE is never skipped: at the end of a tick it also ends the transfers of the stages that did run.
 *
 * Beginning and end. The first `entry_count` steps run once, in their order, before the first phase:
 * ENTER, ADDRESSES and START_SUMS. The last step is LEAVE, after the last phase. Operations follow each
 * other on a channel and use the same slots, sums, addresses and flags: what a rank has of them is free
 * for it when its peers have LEFT the operation before, and that is what ENTER waits for. So every plan
 * that is proved is proved after every other one (docs/decisions/0015).
 *
 * Alike on all ranks: the list of phases with their depth, cells, once and publishes. Only the
 * steps inside differ. Steps of `once` phases never name SLOT.
 */
#ifndef RUEDA_PLAN_H
#define RUEDA_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PLAN_SLOTS 4        /* slots a rank has */
#define PLAN_STAGES 256     /* most stages of a phase: plan_step.stage is a byte */
#define PLAN_MAX_RANKS 4096 /* ranks of one plan */

#define PLAN_COLLECTIVE_LIST(X)                                                                    \
    X(ALLREDUCE, "allreduce")                                                                      \
    X(ALLGATHER, "allgather")                                                                      \
    X(BROADCAST, "broadcast")                                                                      \
    X(ALLTOALL, "alltoall")                                                                        \
    X(REDUCESCATTER, "reducescatter")                                                              \
    X(REDUCE_TO_ROOT, "reduce")                                                                    \
    X(GATHER, "gather")                                                                            \
    X(SCATTER, "scatter")                                                                          \
    X(BARRIER, "barrier")

typedef enum plan_collective {
#define PLAN_COLLECTIVE_ENUM(name, text) PLAN_##name,
    PLAN_COLLECTIVE_LIST(PLAN_COLLECTIVE_ENUM) PLAN_COLLECTIVE_COUNT
} plan_collective;

#define PLAN_ALGORITHM_LIST(X)                                                                     \
    X(AUTO, "auto")                                                                                \
    X(DIRECT, "direct")                                                                            \
    X(RING, "ring")                                                                                \
    X(DOUBLING, "doubling")                                                                        \
    X(HALVING, "halving")                                                                          \
    X(TREE, "tree")                                                                                \
    X(BRUCK, "bruck")                                                                              \
    X(PAIRWISE, "pairwise")                                                                        \
    X(ADASUM, "adasum")                                                                            \
    X(HIERARCHICAL, "hierarchical")                                                                \
    X(NATIVE, "native")

typedef enum plan_algorithm {
#define PLAN_ALGORITHM_ENUM(name, text) PLAN_ALGORITHM_##name,
    PLAN_ALGORITHM_LIST(PLAN_ALGORITHM_ENUM) PLAN_ALGORITHM_COUNT
} plan_algorithm;

typedef enum plan_buffer {
    PLAN_NONE,
    PLAN_IN,   /* the caller's input; never written unless it is also the output */
    PLAN_OUT,  /* the caller's output; may be the same memory as IN, at the same offsets */
    PLAN_WORK, /* private memory of the size of IN, undefined at the start */
    PLAN_SLOT, /* see Slots */
    PLAN_SUMS, /* Adasum's {a·b, a·a, b·b, leaves' norms, leaves} of every tensor; index 0 or 1, by
                  level parity */
} plan_buffer;

/* Memory of rank `rank` (index in the set). Of other ranks only SLOT and SUMS may be named, and, in
 * plans with `mapped`, the IN and OUT whose ADDRESSES they tell. SUMS of a rank on another host is this rank's own copy of them,
 * filled by a RECV of what that rank SENDs from its own; WEIGH reads it like any other. */
typedef struct plan_operand {
    uint8_t buffer; /* plan_buffer */
    uint8_t zero;
    uint16_t rank;
    uint32_t index; /* chunk, or cell for SLOT */
} plan_operand;

/* What the kinds of steps do:
 *   COPY         dst ← a, scaled if flagged; does nothing if dst is a and there is no factor
 *   REDUCE       dst ← a ∘ b, in this order; dst may be a or b
 *   SEND         start sending a to `peer`
 *   RECV         start receiving dst from `peer`
 *   RECV_REDUCE  start dst ← a ∘ message, or message ∘ a if PLAN_MESSAGE_FIRST; a may be dst
 *   FENCE        wait until all started SENDs and RECVs are done
 *   PUBLISH      see Ticks
 *   AWAIT        wait for `peer`, see Ticks
 *   DOT          own SUMS += {a·b, a·a, b·b} per tensor, a from the lower block; if dst is given,
 *                dst ← the one of a, b that is a peer's
 *   WEIGH        coefficients ← Σ SUMS[a.index] of the `ranks` ranks from a.rank on, in order; the upper
 *                block starts at rank b.rank. How many leaves a block stands for is taken from its
 *                first rank's SUMS (a and b); a block of one rank is a leaf, and its norm tells. From
 *                here on this rank carries the number of both
 *   COMBINE      dst ← ca·a + cb·b with WEIGH's coefficients
 *   COLL         all ranks together, in a `once` phase: the transport's own collective. allreduce: dst
 *                ← the reduction of all ranks' a; broadcast: dst ← the root's a, which is its dst (others have none). The
 *                verifier takes its result for granted, and that all ranks get the same bits
 *   ENTER        wait until all other ranks of this host have LEFT the channel's operation before
 *   ADDRESSES    tell the peers where this rank's IN (a) and OUT (dst) lie; without, they reach neither
 *   START_SUMS   own SUMS[dst.index] ← zero products, and the leaves that this rank carries
 *   LEAVE        wait until all that was sent has left this process, then tell the peers that this rank
 *                has finished: it touches no slots, sums and addresses any more, neither its own nor theirs
 * In the list: kind, name when all operands are this rank's, name when one is a peer's (a COPY into
 * a peer's memory is called PUT). */
#define PLAN_KIND_LIST(X)                                                                          \
    X(COPY, "COPY", "GET")                                                                         \
    X(REDUCE, "REDUCE", "GET_REDUCE")                                                              \
    X(SEND, "SEND", "SEND")                                                                        \
    X(RECV, "RECV", "RECV")                                                                        \
    X(RECV_REDUCE, "RECV_REDUCE", "RECV_REDUCE")                                                   \
    X(FENCE, "FENCE", "FENCE")                                                                     \
    X(PUBLISH, "PUBLISH", "PUBLISH")                                                               \
    X(AWAIT, "AWAIT", "AWAIT")                                                                     \
    X(DOT, "DOT", "GET_DOT")                                                                       \
    X(WEIGH, "WEIGH", "WEIGH")                                                                     \
    X(COMBINE, "COMBINE", "GET_COMBINE")                                                           \
    X(COLL, "COLL", "COLL")                                                                        \
    X(ENTER, "ENTER", "ENTER")                                                                     \
    X(ADDRESSES, "ADDRESSES", "ADDRESSES")                                                         \
    X(START_SUMS, "START_SUMS", "START_SUMS")                                                      \
    X(LEAVE, "LEAVE", "LEAVE")

typedef enum plan_kind {
#define PLAN_KIND_ENUM(name, local, remote) PLAN_##name,
    PLAN_KIND_LIST(PLAN_KIND_ENUM) PLAN_KIND_COUNT
} plan_kind;

enum plan_flags {
    PLAN_PRESCALE = 1,      /* COPY: multiply by the prescale factor bound at launch */
    PLAN_POSTSCALE = 2,     /* COPY: multiply by the postscale factor bound at launch */
    PLAN_MESSAGE_FIRST = 4, /* RECV_REDUCE: the message is the left operand */
    PLAN_SUMS_ODD = 8       /* DOT: add to SUMS[1] instead of SUMS[0] */
};

typedef struct plan_step {
    uint8_t kind;  /* plan_kind */
    uint8_t stage; /* see Ticks */
    uint8_t flags; /* plan_flags */
    uint8_t zero;
    uint16_t peer; /* SEND, RECV, RECV_REDUCE, AWAIT */
    union {
        uint16_t lag;   /* AWAIT: ticks back */
        uint16_t ranks; /* WEIGH: whose sums it adds up */
    };
    plan_operand dst, a, b;
} plan_step;

_Static_assert(sizeof(plan_step) == 32, "steps are small, fixed-size records");

typedef struct plan_phase {
    uint32_t first, count; /* its steps */
    uint16_t depth;        /* stages */
    uint16_t cells;        /* a slot is divided into so many; 0: the phase uses no slots */
    bool once;             /* one tick, no pieces */
    bool publishes;        /* every tick ends with PUBLISH */
} plan_phase;

/* Where the ranks of a set are and what a launch needs of the plan. All of it is part of the key of
 * the plan cache and the same on all ranks but for `rank`. */
typedef struct plan_layout {
    uint16_t ranks, rank;
    const uint16_t *host_of; /* host number of each rank; NULL: all on one host. Ranks without
                                shared memory count as hosts of their own */
    uint16_t root;           /* broadcast, reduce, gather, scatter */
    bool adasum;             /* allreduce: combine by projection instead of a reduction */
    bool mapped;             /* IN and OUT of peers on the host can be reached */
    bool prescaled;          /* the prescale factor is not 1 */
    bool small;              /* latency matters, bytes don't: fewest hops */
    bool packed;             /* several tensors: what is handed on whole is packed first */
} plan_layout;

typedef struct plan {
    plan_collective collective;
    plan_algorithm algorithm; /* never AUTO */
    plan_layout layout;       /* host_of points into the plan's own memory */
    uint32_t chunks;          /* of IN (of OUT for allgather and gather) */
    uint32_t phase_count, step_count;
    uint32_t entry_count; /* steps before the first phase */
    plan_phase *phases;
    plan_step *steps;

    /* What others need to know of it, derived from its steps when it is built (see plan_derive). */
    bool uses_work;        /* some step names WORK */
    bool uses_messages;    /* some step SENDs or RECVs */
    bool uses_collectives; /* some step is a COLL */
    bool reached_in;       /* peers reach this rank's IN: its ADDRESSES are told */
    bool reached_out;      /* peers reach, and may write, this rank's OUT */
    bool
        needs_equal_parts; /* alltoall: right only if all splits are alike; the same on all ranks */
} plan;

/* Builds the plan of layout->rank. Returns NULL and sets *why (static text) when the algorithm does
 * not serve this collective or layout, or to plan_no_memory. Whether it needs equal parts is said by the plan
 * itself (needs_equal_parts). The caller frees it with plan_free. */
extern const char plan_no_memory[];
plan *plan_build(plan_collective collective, plan_algorithm algorithm, const plan_layout *layout,
                 const char **why);
void plan_free(plan *p); /* NULL is allowed */

/* Reads off the steps what `plan` says about them; plan_build has done it. */
void plan_derive(plan *p);
/* Chunks of IN, OUT or WORK with the same number here have the same length, on whichever ranks: rows of
 * an allgather and splits of an alltoall may differ. */
uint32_t plan_extent(const plan *p, const plan_operand *operand);
/* Whether the output may be the input; elsewhere they have different sizes. */
static inline bool plan_may_be_in_place(plan_collective collective)
{
    return collective == PLAN_ALLREDUCE || collective == PLAN_BROADCAST ||
           collective == PLAN_REDUCE_TO_ROOT;
}
/* Whether `rank` has this buffer: with one root, some belong to it alone (see Chunks). */
bool plan_has(const plan *p, plan_buffer buffer, unsigned rank);

static inline bool plan_is_message(const plan_step *step)
{
    return step->kind == PLAN_SEND || step->kind == PLAN_RECV || step->kind == PLAN_RECV_REDUCE;
}

static inline bool plan_same_host(const plan *p, unsigned x, unsigned y)
{
    return !p->layout.host_of || p->layout.host_of[x] == p->layout.host_of[y];
}

/* What the choice of an algorithm depends on; the same on all ranks of a set. */
typedef struct plan_choice {
    plan_collective collective;
    uint16_t ranks;
    uint16_t hosts; /* number of hosts */
    uint64_t bytes; /* of the largest rank's tensor */
    bool adasum;
    bool shared_memory; /* a transport with peer memory joins the ranks of a host */
    bool mapped;        /* IN and OUT of peers on the host can be reached */
    bool equal_parts;   /* alltoall: all splits alike */
    bool
        deterministic; /* allreduce, reduce: by the tree of blocks.h, whatever the bytes and hosts */
    bool native;       /* the transport has collectives of its own for these ranks */
} plan_choice;

/* The table's answer: algorithm, and in *small whether to build it for latency. Total: there is an
 * answer for every choice. */
plan_algorithm plan_select(const plan_choice *choice, bool *small);

/* The number of bytes `rank` sends or reads from peers for a tensor of `bytes`, and the least any
 * algorithm needs, both as the largest over ranks. */
void plan_traffic(plan *const *plans, uint64_t bytes, uint64_t *most, uint64_t *least);

#define PLAN_CHECK_LIST(X)                                                                         \
    X(OK, "ok")                                                                                    \
    X(BOUNDS, "bounds")     /* a buffer, chunk, cell, rank or lag out of range */                  \
    X(MATCHING, "matching") /* a message without its counterpart, or with another chunk */         \
    X(DEADLOCK, "deadlock") /* under rendezvous: a SEND ends only with its RECV */                 \
    X(DATA, "data")         /* some output is not what the collective promises */                  \
    X(RACE, "race")         /* two accesses, one a write, not ordered by happens-before */         \
    X(MEMORY, "memory")     /* the verifier ran out of memory: nothing is proved */

typedef enum plan_check {
#define PLAN_CHECK_ENUM(name, text) PLAN_CHECK_##name,
    PLAN_CHECK_LIST(PLAN_CHECK_ENUM)
} plan_check;

#define PLAN_VERDICT_TEXT 272 /* the words of a step, a reason, and where it does not hold */

typedef struct plan_verdict {
    plan_check failed; /* PLAN_CHECK_OK: proved */
    /* If proved: once a rank has ended, no other needs anybody's further step. */
    bool self_finishing;
    /* If proved: what a chunk is reduced from is put together in the same order for all chunks. */
    bool one_order;
    uint32_t pieces; /* for this piece count */
    uint16_t rank;
    uint32_t step;
    char text[PLAN_VERDICT_TEXT]; /* what is wrong, for people */
} plan_verdict;

/* Proves the plans of all ranks together, after every other plan on the channel, for the piece counts 1,
 * S−1, S, S+1 and 2S+1. */
plan_verdict plan_verify(plan *const *plans);
/* The same for one piece count. */
plan_verdict plan_verify_pieces(plan *const *plans, uint32_t pieces);

/* Writes a plan for people to read. */
void plan_print(const plan *p, FILE *to);

const char *plan_collective_name(plan_collective collective);
const char *plan_algorithm_name(plan_algorithm algorithm);
const char *plan_check_name(plan_check check);
const char *plan_step_name(const plan *p, const plan_step *step); /* "GET_REDUCE" */
bool plan_collective_parse(const char *text, plan_collective *collective);
bool plan_algorithm_parse(const char *text, plan_algorithm *algorithm);

#endif
