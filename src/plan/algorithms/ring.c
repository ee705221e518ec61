/* ring.c: each rank sends to the next and receives from the one before.
 *
 * Bandwidth-optimal for any number of ranks; the rounds are stages, so that pieces chase each other
 * around the ring and every link is busy in every tick.
 * Invariant: a chunk's reduction is computed along the ring and finished by one rank, so all ranks
 * get the same bits. Where it starts depends on the chunk.
 */
#include "plan/algorithms/algorithms.h"

static unsigned next(const builder *b)
{
    return (b->rank + 1) % b->ranks;
}

static unsigned before(const builder *b)
{
    return (b->rank + b->ranks - 1) % b->ranks;
}

/* The chunk `back` places before `from` on the ring. */
static unsigned chunk_before(const builder *b, unsigned from, unsigned back)
{
    return (from + 2 * b->ranks - back) % b->ranks;
}

/* Chunk c starts at rank c and grows by a contribution per round; after ranks − 1 rounds rank r has
 * all of chunk r + 1. Then the finished chunks go around once. */
const char *ring_allreduce(builder *b)
{
    unsigned rounds = b->ranks - 1, finished = next(b);
    builder_chunks(b, b->ranks);
    open_rounds(b, 2 * rounds);
    plan_buffer mine = contribution(b, PLAN_OUT, b->ranks);
    for (unsigned k = 0; k < rounds; k++) {
        unsigned out = chunk_before(b, b->rank, k), in = chunk_before(b, b->rank, k + 1);
        start_round(b, k);
        builder_send(b, next(b), own(b, k == 0 ? mine : PLAN_OUT, out));
        builder_recv_reduce(b, before(b), own(b, PLAN_OUT, in), own(b, mine, in),
                            PLAN_MESSAGE_FIRST);
    }
    start_round(b, rounds);
    builder_copy(b, own(b, PLAN_OUT, finished), own(b, PLAN_OUT, finished), PLAN_POSTSCALE);
    for (unsigned k = 0; k < rounds; k++) {
        start_round(b, rounds + k);
        builder_send(b, next(b), own(b, PLAN_OUT, chunk_before(b, finished, k)));
        builder_recv(b, before(b), own(b, PLAN_OUT, chunk_before(b, finished, k + 1)));
    }
    return NULL;
}

/* Chunk c starts at rank c + 1 and ends at its rank. */
const char *ring_reducescatter(builder *b)
{
    unsigned rounds = b->ranks - 1;
    plan_operand out = own(b, PLAN_OUT, 0);
    builder_chunks(b, b->ranks);
    open_rounds(b, rounds + 1);
    plan_buffer mine = contribution(b, PLAN_WORK, b->ranks);
    for (unsigned k = 0; k < rounds; k++) {
        unsigned sent = chunk_before(b, b->rank, k + 1), got = chunk_before(b, b->rank, k + 2);
        start_round(b, k);
        builder_send(b, next(b), own(b, k == 0 ? mine : PLAN_WORK, sent));
        builder_recv_reduce(b, before(b), k + 1 == rounds ? out : own(b, PLAN_WORK, got),
                            own(b, mine, got), PLAN_MESSAGE_FIRST);
    }
    start_round(b, rounds);
    builder_copy(b, out, out, PLAN_POSTSCALE);
    return NULL;
}

const char *ring_allgather(builder *b)
{
    unsigned rounds = b->ranks - 1;
    builder_chunks(b, b->ranks);
    open_rounds(b, rounds);
    builder_copy(b, own(b, PLAN_OUT, b->rank), own(b, PLAN_IN, 0), 0);
    for (unsigned k = 0; k < rounds; k++) {
        start_round(b, k);
        builder_send(b, next(b), own(b, PLAN_OUT, chunk_before(b, b->rank, k)));
        builder_recv(b, before(b), own(b, PLAN_OUT, chunk_before(b, b->rank, k + 1)));
    }
    return NULL;
}

/* A chain from the root on; pieces follow each other. */
const char *ring_broadcast(builder *b)
{
    unsigned place = (b->rank + b->ranks - b->plan->layout.root) % b->ranks;
    plan_operand out = own(b, PLAN_OUT, 0);
    builder_chunks(b, 1);
    open_rounds(b, b->ranks - 1);
    if (place == 0)
        builder_copy(b, out, own(b, PLAN_IN, 0), 0);
    if (place > 0) {
        start_round(b, place - 1);
        builder_recv(b, before(b), out);
    }
    if (place + 1 < b->ranks) {
        start_round(b, place);
        builder_send(b, next(b), out);
    }
    return NULL;
}

/* A chain to the root, which comes last: each adds its part to what the one before sends. */
const char *ring_reduce(builder *b)
{
    unsigned rounds = b->ranks - 1, root = b->plan->layout.root;
    unsigned place = (b->rank + rounds - root) % b->ranks;
    bool last = place == rounds;
    builder_chunks(b, 1);
    open_rounds(b, rounds + 1);
    plan_buffer held = contribution(b, PLAN_WORK, 1), sum = last ? PLAN_OUT : PLAN_WORK;
    if (place > 0) {
        start_round(b, place - 1);
        builder_recv_reduce(b, before(b), own(b, sum, 0), own(b, held, 0), PLAN_MESSAGE_FIRST);
        held = sum;
    }
    start_round(b, place);
    if (last)
        builder_copy(b, own(b, PLAN_OUT, 0), own(b, PLAN_OUT, 0), PLAN_POSTSCALE);
    else
        builder_send(b, next(b), own(b, held, 0));
    return NULL;
}
