/* oracle.h: runs plans on numbers, under random timing. It knows nothing of the verifier.
 *
 * Used to test the verifier: what the verifier accepts must give right numbers under every timing
 * tried here. Each piece of memory is two numbers: `sum` adds up (so a contribution that is missing
 * or comes twice shows), `mix` is commutative but not associative (so another order shows).
 * The timing: the runnable rank of the highest priority runs; priorities change now and then.
 * Before each rank begins, it is still in an operation that reads all the slots, sums and addresses of
 * its host, and must find them as they were.
 */
#ifndef RUEDA_PLAN_ORACLE_H
#define RUEDA_PLAN_ORACLE_H

#include "plan/testing.h"

#define ORACLE_RANKS 8
#define ORACLE_CHUNKS 32 /* and cells */
#ifndef ORACLE_PIECES
#define ORACLE_PIECES 5
#endif
#define ORACLE_TENSORS 3
#define ORACLE_QUEUE 512

typedef struct number {
    uint64_t sum, mix;
} number;

/* Sums of two vectors' products and of each one's, and the leaves below the block, added up: each leaf
 * has a number of its own, so that a wrong one shows, and counts. All products are so small that sums of
 * them are exact, also as doubles. */
typedef struct oracle_sums {
    uint64_t products, lower, upper, leaves, counted;
} oracle_sums;

/* Which pieces of a chunk there are, and which tensor each is of. NULL: all, of one. */
typedef struct oracle_space {
    uint32_t lengths[ORACLE_CHUNKS];
    uint8_t tensor_of[ORACLE_CHUNKS][ORACLE_PIECES];
} oracle_space;

typedef number oracle_area[ORACLE_CHUNKS][ORACLE_PIECES];

typedef struct oracle_transfer {
    const plan_step *step;
    uint32_t piece;
    unsigned rank;
    bool once; /* of a phase without pieces: the whole chunk */
} oracle_transfer;

/* FIFO from one rank to another: the n-th of each list belong together. */
typedef struct oracle_queue {
    oracle_transfer sends[ORACLE_QUEUE], receives[ORACLE_QUEUE];
    unsigned send_count, receive_count, delivered;
} oracle_queue;

typedef struct oracle_rank {
    const plan *plan;
    uint32_t entry, phase, tick, step, published, priority;
    bool left, started, done; /* the operation before; this one */
    bool told[2];             /* the addresses of IN and OUT */
    uint64_t written;         /* times that it has written slots, sums or addresses */
    oracle_area in, out, work, result;
    number slot[PLAN_SLOTS][ORACLE_CHUNKS];
    oracle_sums sums[ORACLE_RANKS][2][ORACLE_TENSORS]; /* own at the own index; copies of others' */
    uint64_t weight[ORACLE_TENSORS];                   /* of the last WEIGH */
    uint64_t leaves[ORACLE_TENSORS], counted[ORACLE_TENSORS];
    const plan_step *collective; /* the COLL it is in */
    bool collected;              /* it is over */
} oracle_rank;

typedef struct oracle {
    const team *team;
    uint32_t pieces;
    const oracle_space *space;
    bool plain_leaves;   /* a leaf is a leaf, as for exec, whichever it is */
    bool in_place, late; /* late: messages arrive at the last moment */
    bool disturbed;      /* the operation before found something else than it had left */
    number nowhere;      /* what lies at an address that nobody has told */
    uint64_t random;
    oracle_rank ranks[ORACLE_RANKS];
    oracle_queue queues[ORACLE_RANKS][ORACLE_RANKS];
} oracle;

static inline uint64_t oracle_random(oracle *o)
{
    o->random ^= o->random << 13;
    o->random ^= o->random >> 7;
    o->random ^= o->random << 17;
    return o->random;
}

static inline uint64_t oracle_hash(uint64_t x)
{
    x = (x ^ x >> 31) * 0x7FB5D329728EA185u;
    x = (x ^ x >> 27) * 0x81DADEF4BC2DD44Du;
    return x ^ x >> 33;
}

/* The contribution of a rank: any number that is hard to meet by accident. */
static inline number oracle_input(unsigned rank, uint32_t chunk, uint32_t piece)
{
    uint64_t x = oracle_hash(((uint64_t)rank << 40) + ((uint64_t)chunk << 20) + piece + 12345);
    return (number){x, x};
}

static inline number oracle_scale(number x, uint64_t factor)
{
    return (number){x.sum * factor, oracle_hash(x.mix + factor)};
}

static inline number oracle_reduce(number x, number y)
{
    return (number){x.sum + y.sum, oracle_hash(oracle_hash(x.mix) + oracle_hash(y.mix))};
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The memory that rank `by` finds under this name. */
static inline number *oracle_at(oracle *o, unsigned by, const plan_operand *x, uint32_t piece)
{
    oracle_rank *r = &o->ranks[x->rank];
    bool callers = x->buffer == PLAN_IN || x->buffer == PLAN_OUT;
    if (callers && x->rank != by && !r->told[x->buffer == PLAN_OUT]) {
        o->nowhere = (number){oracle_random(o), oracle_random(o)};
        return &o->nowhere;
    }
    switch (x->buffer) {
    case PLAN_IN:
        return o->in_place ? &r->out[x->index][piece] : &r->in[x->index][piece];
    case PLAN_OUT:
        return &r->out[x->index][piece];
    case PLAN_WORK:
        return &r->work[x->index][piece];
    default:
        return &r->slot[piece % PLAN_SLOTS][x->index];
    }
}

/* The sums of rank q as rank r sees them. */
static inline const oracle_sums *oracle_sums_of(const oracle *o, unsigned r, unsigned q,
                                                unsigned parity, unsigned tensor)
{
    const uint16_t *host_of = o->team->plans[0]->layout.host_of;
    bool shared = host_of == NULL || host_of[r] == host_of[q];
    return &o->ranks[shared ? q : r].sums[q][parity][tensor];
}

static inline bool oracle_has_chunk(const plan_operand *x)
{
    return x->buffer == PLAN_IN || x->buffer == PLAN_OUT || x->buffer == PLAN_WORK;
}

/* The chunk that a step of Adasum is about. */
static inline uint32_t oracle_chunk_of(const plan_step *s)
{
    const plan_operand *named[] = {&s->dst, &s->a, &s->b};
    for (int i = 0; i < 3; i++)
        if (oracle_has_chunk(named[i]))
            return named[i]->index;
    return s->dst.index;
}

static inline unsigned oracle_tensor_of(const oracle *o, const plan_step *s, uint32_t piece)
{
    return o->space ? o->space->tensor_of[oracle_chunk_of(s)][piece] : 0;
}

static inline bool oracle_exists(const oracle *o, uint32_t chunk, uint32_t piece)
{
    return o->space == NULL || piece < o->space->lengths[chunk];
}

/* What is not the plan's memory, before its start and after its end, changes at will. */
static inline void oracle_spoil(oracle *o, oracle_area area)
{
    for (unsigned c = 0; c < ORACLE_CHUNKS; c++)
        for (unsigned i = 0; i < ORACLE_PIECES; i++)
            area[c][i] = (number){oracle_random(o), oracle_random(o)};
}

static inline void oracle_start_rank(oracle *o, unsigned r)
{
    oracle_rank *x = &o->ranks[r];
    oracle_spoil(o, x->out);
    for (unsigned c = 0; c < ORACLE_CHUNKS; c++)
        for (unsigned i = 0; i < ORACLE_PIECES; i++)
            (o->in_place ? x->out : x->in)[c][i] = oracle_input(r, c, i);
    x->started = true;
}

static inline bool oracle_same_host(const oracle *o, unsigned x, unsigned y)
{
    return plan_same_host(o->team->plans[0], x, y);
}

/* The rank ends the operation before, whose last step reads everything that its host shares. */
static inline void oracle_leave_before(oracle *o, unsigned r)
{
    for (unsigned q = 0; q < o->team->ranks; q++)
        o->disturbed = o->disturbed || (oracle_same_host(o, q, r) && o->ranks[q].written > 0);
    o->ranks[r].left = true;
}

static inline bool oracle_enter(const oracle *o, unsigned r)
{
    for (unsigned q = 0; q < o->team->ranks; q++)
        if (q != r && oracle_same_host(o, q, r) && !o->ranks[q].left)
            return false;
    return true;
}

static inline void oracle_end_rank(oracle *o, unsigned r)
{
    oracle_rank *x = &o->ranks[r];
    memcpy(x->result, x->out, sizeof x->result);
    oracle_spoil(o, x->out);
    oracle_spoil(o, x->in);
    x->done = true;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static inline void oracle_copy(oracle *o, unsigned r, const plan_step *s, uint32_t piece)
{
    number x = *oracle_at(o, r, &s->a, piece);
    bool prescaled = o->team->plans[0]->layout.prescaled;
    if (s->flags & PLAN_PRESCALE && prescaled)
        x = oracle_scale(x, 3);
    if (s->flags & PLAN_POSTSCALE)
        x = oracle_scale(x, 5);
    *oracle_at(o, r, &s->dst, piece) = x;
}

/* What a DOT adds: of the products, and of one vector. */
static inline uint64_t oracle_product(uint64_t a, uint64_t b)
{
    return oracle_hash(a * 3 + oracle_hash(b)) >> 24;
}

static inline uint64_t oracle_norm(uint64_t a)
{
    return oracle_hash(a) >> 24;
}

static inline void oracle_dot(oracle *o, unsigned r, const plan_step *s, uint32_t piece)
{
    number a = *oracle_at(o, r, &s->a, piece), b = *oracle_at(o, r, &s->b, piece);
    unsigned parity = s->flags & PLAN_SUMS_ODD ? 1 : 0;
    oracle_sums *sums = &o->ranks[r].sums[r][parity][oracle_tensor_of(o, s, piece)];
    if (oracle_exists(o, oracle_chunk_of(s), piece)) {
        sums->products += oracle_product(a.mix, b.mix);
        sums->lower += oracle_norm(a.mix);
        sums->upper += oracle_norm(b.mix);
    }
    if (s->dst.buffer != PLAN_NONE)
        *oracle_at(o, r, &s->dst, piece) = s->a.rank == r ? b : a;
}

static inline void oracle_start_sums(oracle *o, unsigned r, unsigned parity)
{
    oracle_rank *x = &o->ranks[r];
    for (unsigned t = 0; t < ORACLE_TENSORS; t++)
        x->sums[r][parity][t] = (oracle_sums){.leaves = x->leaves[t], .counted = x->counted[t]};
}

/* The leaves of a block: of one rank, its vector's own number; else what its first rank carries. */
static inline oracle_sums oracle_leaves(const oracle *o, unsigned r, plan_operand first,
                                        unsigned ranks, unsigned tensor, uint64_t own)
{
    if (ranks == 1)
        return (oracle_sums){.leaves = oracle_hash(own), .counted = own != 0};
    return *oracle_sums_of(o, r, first.rank, first.index, tensor);
}

/* Decision 17: 1 − nₐ/n · a·b/‖a‖², with ‖a‖² taken n/nₐ times. */
static inline double oracle_coefficient(uint64_t product, uint64_t norm, uint64_t counted,
                                        uint64_t all)
{
    if (norm == 0 || counted == 0)
        return 1;
    return 1 - (double)product / ((double)all / (double)counted * (double)norm);
}

/* Two coefficients as one number. */
static inline uint64_t oracle_pair(double lower, double upper)
{
    uint64_t bits[2];
    memcpy(&bits[0], &lower, sizeof lower);
    memcpy(&bits[1], &upper, sizeof upper);
    return oracle_hash(bits[0] * 7 + oracle_hash(bits[1]));
}

static inline void oracle_weigh_tensor(oracle *o, unsigned r, const plan_step *s, unsigned t)
{
    const unsigned first = s->a.rank, middle = s->b.rank, end = first + s->ranks;
    oracle_rank *x = &o->ranks[r];
    oracle_sums all = {0};
    for (unsigned q = first; q < end; q++) {
        const oracle_sums *part = oracle_sums_of(o, r, q, s->a.index, t);
        all.products += part->products;
        all.lower += part->lower;
        all.upper += part->upper;
    }
    const oracle_sums lower = oracle_leaves(o, r, s->a, middle - first, t, all.lower);
    const oracle_sums upper = oracle_leaves(o, r, s->b, end - middle, t, all.upper);
    x->counted[t] = lower.counted + upper.counted;
    x->leaves[t] = lower.leaves + upper.leaves;
    x->weight[t] =
        oracle_pair(oracle_coefficient(all.products, all.lower, lower.counted, x->counted[t]),
                    oracle_coefficient(all.products, all.upper, upper.counted, x->counted[t]));
    if (!o->plain_leaves)
        x->weight[t] += oracle_hash(lower.leaves * 3 + oracle_hash(upper.leaves));
}

static inline void oracle_weigh(oracle *o, unsigned r, const plan_step *s)
{
    for (unsigned t = 0; t < ORACLE_TENSORS; t++)
        oracle_weigh_tensor(o, r, s, t);
}

static inline uint64_t oracle_combined(uint64_t a, uint64_t b, uint64_t weight)
{
    return oracle_hash(a * 5 + oracle_hash(b + weight));
}

static inline void oracle_combine(oracle *o, unsigned r, const plan_step *s, uint32_t piece)
{
    number a = *oracle_at(o, r, &s->a, piece), b = *oracle_at(o, r, &s->b, piece);
    uint64_t x = oracle_combined(a.mix, b.mix, o->ranks[r].weight[oracle_tensor_of(o, s, piece)]);
    *oracle_at(o, r, &s->dst, piece) = (number){x, x};
}

static inline void oracle_data_step(oracle *o, unsigned r, const plan_step *s, uint32_t piece)
{
    if (s->kind == PLAN_COPY)
        oracle_copy(o, r, s, piece);
    else if (s->kind == PLAN_REDUCE)
        *oracle_at(o, r, &s->dst, piece) =
            oracle_reduce(*oracle_at(o, r, &s->a, piece), *oracle_at(o, r, &s->b, piece));
    else if (s->kind == PLAN_DOT)
        oracle_dot(o, r, s, piece);
    else if (s->kind == PLAN_COMBINE)
        oracle_combine(o, r, s, piece);
}

/* ---- Messages -------------------------------------------------------------------------------- */

static inline void oracle_deliver(oracle *o, const oracle_transfer *from, const oracle_transfer *to)
{
    const plan_step *s = to->step;
    if (s->dst.buffer == PLAN_NONE || from->step->a.buffer == PLAN_NONE)
        return;
    if (s->dst.buffer == PLAN_SUMS) {
        memcpy(o->ranks[to->rank].sums[s->dst.rank][s->dst.index],
               o->ranks[from->rank].sums[from->rank][from->step->a.index],
               sizeof o->ranks[0].sums[0][0]);
        return;
    }
    uint32_t first = to->once ? 0 : to->piece, end = to->once ? o->pieces : to->piece + 1;
    for (uint32_t i = first; i < end; i++) {
        number x = *oracle_at(o, from->rank, &from->step->a, from->once ? i : from->piece);
        if (s->kind == PLAN_RECV_REDUCE)
            x = oracle_reduce(*oracle_at(o, to->rank, &s->a, i), x);
        *oracle_at(o, to->rank, &s->dst, i) = x;
    }
}

static inline void oracle_deliver_all(oracle *o, oracle_queue *q)
{
    for (; q->delivered < q->send_count && q->delivered < q->receive_count; q->delivered++)
        oracle_deliver(o, &q->sends[q->delivered], &q->receives[q->delivered]);
}

static inline void oracle_start_transfer(oracle *o, unsigned r, const plan_step *s, uint32_t piece)
{
    bool sends = s->kind == PLAN_SEND;
    oracle_queue *q = sends ? &o->queues[r][s->peer] : &o->queues[s->peer][r];
    unsigned *count = sends ? &q->send_count : &q->receive_count;
    oracle_transfer *list = sends ? q->sends : q->receives;
    if (*count == ORACLE_QUEUE)
        abort();
    list[(*count)++] =
        (oracle_transfer){s, piece, r, o->ranks[r].plan->phases[o->ranks[r].phase].once};
    if (!o->late)
        oracle_deliver_all(o, q);
}

static inline bool oracle_fence(oracle *o, unsigned r)
{
    for (unsigned q = 0; q < o->team->ranks; q++) {
        oracle_queue *out = &o->queues[r][q], *in = &o->queues[q][r];
        oracle_deliver_all(o, out);
        oracle_deliver_all(o, in);
        if (out->delivered < out->send_count || in->delivered < in->receive_count)
            return false;
    }
    return true;
}

/* All ranks must be in a COLL; then each gets the result. */
static inline void oracle_collect_all(oracle *o)
{
    const plan *p = o->team->plans[0];
    const bool is_broadcast = p->collective == PLAN_BROADCAST;
    for (unsigned r = 0; r < o->team->ranks; r++)
        if (o->ranks[r].collective == NULL || o->ranks[r].collected)
            return;
    for (uint32_t i = 0; i < o->pieces; i++) {
        unsigned giver = is_broadcast ? p->layout.root : 0;
        number sum = *oracle_at(o, giver, &o->ranks[giver].collective->a, i);
        for (unsigned r = 1; r < o->team->ranks && !is_broadcast; r++)
            sum = oracle_reduce(sum, *oracle_at(o, r, &o->ranks[r].collective->a, i));
        for (unsigned r = 0; r < o->team->ranks; r++)
            *oracle_at(o, r, &o->ranks[r].collective->dst, i) = sum;
    }
    for (unsigned r = 0; r < o->team->ranks; r++)
        o->ranks[r].collected = true;
}

static inline bool oracle_collect(oracle *o, unsigned r, const plan_step *s)
{
    oracle_rank *x = &o->ranks[r];
    if (x->collective == NULL)
        x->collective = s;
    oracle_collect_all(o);
    if (!x->collected)
        return false;
    x->collected = false;
    x->collective = NULL;
    return true;
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

/* What the peers of the operation before may still want to read. */
static inline void oracle_note_write(oracle *o, unsigned r, const plan_step *s)
{
    bool slot = s->dst.buffer == PLAN_SLOT && s->dst.rank == r;
    bool sums = s->kind == PLAN_START_SUMS || s->kind == PLAN_DOT;
    o->ranks[r].written += slot || sums || s->kind == PLAN_ADDRESSES;
}

/* Runs the next step of a rank; false: it has to wait. `phase` is NULL outside of phases. */
static inline bool oracle_step(oracle *o, unsigned r, const plan_phase *phase, const plan_step *s)
{
    oracle_rank *x = &o->ranks[r];
    bool always = s->kind == PLAN_FENCE || s->kind == PLAN_PUBLISH;
    bool has_piece = x->tick >= s->stage && x->tick - s->stage < o->pieces;
    bool once = phase == NULL || phase->once;
    if (!always && !once && !has_piece)
        return true;
    uint32_t piece = once ? 0 : x->tick - s->stage;
    oracle_note_write(o, r, s);
    switch (s->kind) {
    case PLAN_ENTER:
        return oracle_enter(o, r);
    case PLAN_ADDRESSES:
        x->told[0] = x->told[0] || s->a.buffer == PLAN_IN;
        x->told[1] = x->told[1] || s->dst.buffer == PLAN_OUT;
        return true;
    case PLAN_START_SUMS:
        oracle_start_sums(o, r, s->dst.index);
        return true;
    case PLAN_LEAVE:
        return true;
    case PLAN_SEND:
    case PLAN_RECV:
    case PLAN_RECV_REDUCE:
        oracle_start_transfer(o, r, s, piece);
        return true;
    case PLAN_FENCE:
        return oracle_fence(o, r);
    case PLAN_PUBLISH:
        x->published++;
        return true;
    case PLAN_AWAIT:
        return o->ranks[s->peer].published + s->lag >= x->published + 1;
    case PLAN_WEIGH:
        oracle_weigh(o, r, s);
        return true;
    case PLAN_COLL:
        return oracle_collect(o, r, s);
    default:
        for (uint32_t i = piece; i < (once ? o->pieces : piece + 1); i++)
            oracle_data_step(o, r, s, i);
        return true;
    }
}

/* Moves a rank by one step; false: it waits. */
static inline bool oracle_move(oracle *o, unsigned r)
{
    oracle_rank *x = &o->ranks[r];
    const plan *p = x->plan;
    if (!x->left) {
        oracle_leave_before(o, r);
        return true;
    }
    if (!x->started)
        oracle_start_rank(o, r);
    if (x->entry < p->entry_count) {
        if (!oracle_step(o, r, NULL, &p->steps[x->entry]))
            return false;
        x->entry++;
        return true;
    }
    if (x->phase == p->phase_count) {
        oracle_step(o, r, NULL, &p->steps[p->step_count - 1]);
        oracle_end_rank(o, r);
        return true;
    }
    const plan_phase *phase = &x->plan->phases[x->phase];
    uint32_t ticks = phase->once ? 1 : o->pieces + phase->depth - 1;
    if (x->tick == ticks) {
        x->phase++;
        x->tick = x->step = 0;
        return true;
    }
    if (x->step == phase->count) {
        x->tick++;
        x->step = 0;
        return true;
    }
    if (!oracle_step(o, r, phase, &x->plan->steps[phase->first + x->step]))
        return false;
    x->step++;
    return true;
}

static inline void oracle_reset(oracle *o, const team *t, uint32_t pieces, bool in_place,
                                uint64_t seed)
{
    o->team = t;
    o->pieces = pieces;
    o->in_place = in_place;
    o->random = seed | 1;
    o->disturbed = false;
    for (int i = 0; i < 8; i++)
        oracle_random(o);
    o->late = oracle_random(o) & 1;
    for (unsigned r = 0; r < t->ranks; r++) {
        memset(&o->ranks[r], 0, sizeof o->ranks[r]);
        o->ranks[r].plan = t->plans[r];
        o->ranks[r].priority = (uint32_t)oracle_random(o);
        for (unsigned q = 0; q < t->ranks; q++)
            o->queues[r][q].send_count = o->queues[r][q].receive_count = o->queues[r][q].delivered =
                0;
        oracle_spoil(o, o->ranks[r].in);
        oracle_spoil(o, o->ranks[r].out);
        oracle_spoil(o, o->ranks[r].work);
    }
}

/* Moves the rank of the highest priority that can; false: nobody can. */
static inline bool oracle_move_any(oracle *o, unsigned left)
{
    bool tried[ORACLE_RANKS] = {false}, moved = false;
    for (unsigned n = 0; n < left && !moved; n++) {
        unsigned best = ORACLE_RANKS;
        for (unsigned r = 0; r < o->team->ranks; r++)
            if (!o->ranks[r].done && !tried[r] &&
                (best == ORACLE_RANKS || o->ranks[r].priority > o->ranks[best].priority))
                best = r;
        tried[best] = true;
        moved = oracle_move(o, best);
        if (oracle_random(o) % 16 == 0)
            o->ranks[best].priority = (uint32_t)oracle_random(o);
    }
    return moved;
}

static inline unsigned oracle_done(const oracle *o)
{
    unsigned done = 0;
    for (unsigned r = 0; r < o->team->ranks; r++)
        done += o->ranks[r].done;
    return done;
}

/* Runs to the end; false: a deadlock, or the operation before was disturbed. */
static inline bool oracle_run(oracle *o, const team *t, uint32_t pieces, bool in_place,
                              uint64_t seed)
{
    oracle_reset(o, t, pieces, in_place, seed);
    for (unsigned done = 0; done < t->ranks; done = oracle_done(o))
        if (!oracle_move_any(o, t->ranks - done))
            return false;
    return !o->disturbed;
}

#endif
