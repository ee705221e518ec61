/* oracle.h: runs plans on numbers, under random timing. It knows nothing of the verifier.
 *
 * Used to test the verifier: what the verifier accepts must give right numbers under every timing
 * tried here. Each piece of memory is two numbers: `sum` adds up (so a contribution that is missing
 * or comes twice shows), `mix` is commutative but not associative (so another order shows).
 * The timing: the runnable rank of the highest priority runs; priorities change now and then.
 */
#ifndef RUEDA_PLAN_ORACLE_H
#define RUEDA_PLAN_ORACLE_H

#include "plan/testing.h"

#define ORACLE_RANKS 8
#define ORACLE_CHUNKS 32 /* and cells */
#define ORACLE_PIECES 5
#define ORACLE_QUEUE 256

typedef struct number {
    uint64_t sum, mix;
} number;

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
    uint32_t phase, tick, step, published, priority;
    bool started, done;
    oracle_area in, out, work, result;
    number slot[PLAN_SLOTS][ORACLE_CHUNKS];
    uint64_t sums[ORACLE_RANKS][2]; /* own at the own index; copies of others' */
    uint64_t weight;
    const plan_step *collective; /* the COLL it is in */
    bool collected;              /* it is over */
} oracle_rank;

typedef struct oracle {
    const team *team;
    uint32_t pieces;
    bool in_place, late; /* late: messages arrive at the last moment */
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

static inline number *oracle_at(oracle *o, const plan_operand *x, uint32_t piece)
{
    oracle_rank *r = &o->ranks[x->rank];
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
static inline uint64_t *oracle_sums(oracle *o, unsigned r, unsigned q, unsigned parity)
{
    const uint16_t *host_of = o->team->plans[0]->layout.host_of;
    bool shared = host_of == NULL || host_of[r] == host_of[q];
    return &o->ranks[shared ? q : r].sums[q][parity];
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

static inline void oracle_end_rank(oracle *o, unsigned r)
{
    oracle_rank *x = &o->ranks[r];
    memcpy(x->result, x->out, sizeof x->result);
    oracle_spoil(o, x->out);
    oracle_spoil(o, x->in);
    x->done = true;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static inline void oracle_copy(oracle *o, const plan_step *s, uint32_t piece)
{
    number x = *oracle_at(o, &s->a, piece);
    bool prescaled = o->team->plans[0]->layout.prescaled;
    if (s->flags & PLAN_PRESCALE && prescaled)
        x = oracle_scale(x, 3);
    if (s->flags & PLAN_POSTSCALE)
        x = oracle_scale(x, 5);
    *oracle_at(o, &s->dst, piece) = x;
}

static inline void oracle_dot(oracle *o, unsigned r, const plan_step *s, uint32_t piece)
{
    number a = *oracle_at(o, &s->a, piece), b = *oracle_at(o, &s->b, piece);
    uint64_t *sums = &o->ranks[r].sums[r][s->flags & PLAN_SUMS_ODD ? 1 : 0];
    if (s->flags & PLAN_SUMS_START && piece == 0)
        *sums = 0;
    *sums += oracle_hash(a.mix * 3 + oracle_hash(b.mix));
    if (s->dst.buffer != PLAN_NONE)
        *oracle_at(o, &s->dst, piece) = s->a.rank == r ? b : a;
}

static inline void oracle_weigh(oracle *o, unsigned r, const plan_step *s)
{
    o->ranks[r].weight = 0;
    for (unsigned q = s->a.rank; q < (unsigned)s->a.rank + s->lag; q++)
        o->ranks[r].weight += *oracle_sums(o, r, q, s->a.index);
}

static inline void oracle_combine(oracle *o, unsigned r, const plan_step *s, uint32_t piece)
{
    number a = *oracle_at(o, &s->a, piece), b = *oracle_at(o, &s->b, piece);
    uint64_t x = oracle_hash(a.mix * 5 + oracle_hash(b.mix + o->ranks[r].weight));
    *oracle_at(o, &s->dst, piece) = (number){x, x};
}

static inline void oracle_data_step(oracle *o, unsigned r, const plan_step *s, uint32_t piece)
{
    if (s->kind == PLAN_COPY)
        oracle_copy(o, s, piece);
    else if (s->kind == PLAN_REDUCE)
        *oracle_at(o, &s->dst, piece) =
            oracle_reduce(*oracle_at(o, &s->a, piece), *oracle_at(o, &s->b, piece));
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
        o->ranks[to->rank].sums[s->dst.rank][s->dst.index] =
            o->ranks[from->rank].sums[from->rank][from->step->a.index];
        return;
    }
    uint32_t first = to->once ? 0 : to->piece, end = to->once ? o->pieces : to->piece + 1;
    for (uint32_t i = first; i < end; i++) {
        number x = *oracle_at(o, &from->step->a, from->once ? i : from->piece);
        if (s->kind == PLAN_RECV_REDUCE)
            x = oracle_reduce(*oracle_at(o, &s->a, i), x);
        *oracle_at(o, &s->dst, i) = x;
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
    const bool spreads = p->collective == PLAN_BROADCAST;
    for (unsigned r = 0; r < o->team->ranks; r++)
        if (o->ranks[r].collective == NULL || o->ranks[r].collected)
            return;
    for (uint32_t i = 0; i < o->pieces; i++) {
        number sum = *oracle_at(o, &o->ranks[spreads ? p->layout.root : 0].collective->a, i);
        for (unsigned r = 1; r < o->team->ranks && !spreads; r++)
            sum = oracle_reduce(sum, *oracle_at(o, &o->ranks[r].collective->a, i));
        for (unsigned r = 0; r < o->team->ranks; r++)
            *oracle_at(o, &o->ranks[r].collective->dst, i) = sum;
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

/* Runs the next step of a rank; false: it has to wait. */
static inline bool oracle_step(oracle *o, unsigned r, const plan_phase *phase, const plan_step *s)
{
    oracle_rank *x = &o->ranks[r];
    bool always = s->kind == PLAN_FENCE || s->kind == PLAN_PUBLISH;
    bool has_piece = x->tick >= s->stage && x->tick - s->stage < o->pieces;
    if (!always && !phase->once && !has_piece)
        return true;
    uint32_t piece = phase->once ? 0 : x->tick - s->stage;
    switch (s->kind) {
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
        for (uint32_t i = piece; i < (phase->once ? o->pieces : piece + 1); i++)
            oracle_data_step(o, r, s, i);
        return true;
    }
}

/* Moves a rank by one step; false: it waits. */
static inline bool oracle_move(oracle *o, unsigned r)
{
    oracle_rank *x = &o->ranks[r];
    if (!x->started)
        oracle_start_rank(o, r);
    if (x->phase == x->plan->phase_count) {
        oracle_end_rank(o, r);
        return true;
    }
    const plan_phase *phase = &x->plan->phases[x->phase];
    uint32_t ticks = phase->once ? 1 : o->pieces ? o->pieces + phase->depth - 1 : 0;
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

/* Runs to the end; false: a deadlock. */
static inline bool oracle_run(oracle *o, const team *t, uint32_t pieces, bool in_place,
                              uint64_t seed)
{
    memset(o, 0, sizeof *o);
    *o = (oracle){.team = t, .pieces = pieces, .in_place = in_place, .random = seed | 1};
    for (int i = 0; i < 8; i++)
        oracle_random(o);
    o->late = oracle_random(o) & 1;
    for (unsigned r = 0; r < t->ranks; r++) {
        o->ranks[r].plan = t->plans[r];
        o->ranks[r].priority = (uint32_t)oracle_random(o);
        oracle_spoil(o, o->ranks[r].in);
        oracle_spoil(o, o->ranks[r].out);
        oracle_spoil(o, o->ranks[r].work);
    }
    for (unsigned done = 0; done < t->ranks;) {
        bool tried[ORACLE_RANKS] = {false}, moved = false;
        for (unsigned n = 0; n < t->ranks - done && !moved; n++) {
            unsigned best = ORACLE_RANKS;
            for (unsigned r = 0; r < t->ranks; r++)
                if (!o->ranks[r].done && !tried[r] &&
                    (best == ORACLE_RANKS || o->ranks[r].priority > o->ranks[best].priority))
                    best = r;
            tried[best] = true;
            moved = oracle_move(o, best);
            done += o->ranks[best].done;
            if (oracle_random(o) % 16 == 0)
                o->ranks[best].priority = (uint32_t)oracle_random(o);
        }
        if (!moved)
            return false;
    }
    return true;
}

#endif
