/* doubling.c: everybody exchanges everything, with partners at doubling distance.
 *
 * log2(ranks) rounds of the whole tensor: for latency. Ranks beyond the largest power of two hand
 * their part to a partner first and get the result last.
 * Invariant: in every exchange both sides compute the same expression, the lower rank's part first.
 */
#include "plan/algorithms/algorithms.h"

/* What a rank has, and where the next sum goes: two buffers that change places, since a buffer
 * cannot be received into while it is sent. */
typedef struct sum {
    plan_buffer held, free;
} sum;

static void take_turns(sum *s)
{
    s->held = s->free;
    s->free = s->held == PLAN_WORK ? PLAN_OUT : PLAN_WORK;
}

static void receive_sum(builder *b, sum *s, unsigned peer)
{
    builder_recv_reduce(b, peer, own(b, s->free, 0), own(b, s->held, 0),
                        peer < b->rank ? PLAN_MESSAGE_FIRST : 0);
    take_turns(s);
}

static unsigned largest_power(unsigned ranks)
{
    unsigned power = 1;
    while (2 * power <= ranks)
        power *= 2;
    return power;
}

static unsigned log2_of(unsigned power)
{
    return power > 1 ? 1 + log2_of(power / 2) : 0;
}

/* A rank beyond the power of two only hands in and gets back. */
static void allreduce_beyond(builder *b, unsigned partner, plan_buffer mine, unsigned last)
{
    builder_send(b, partner, own(b, mine, 0));
    start_round(b, last);
    builder_recv(b, partner, own(b, PLAN_OUT, 0));
}

static void allreduce_within(builder *b, unsigned power, plan_buffer mine, unsigned last)
{
    sum s = {.held = mine, .free = PLAN_WORK};
    bool has_extra = b->rank + power < b->ranks;
    unsigned round = power < b->ranks ? 1 : 0;
    if (has_extra)
        receive_sum(b, &s, b->rank + power);
    for (unsigned distance = 1; distance < power; distance *= 2) {
        start_round(b, round++);
        builder_send(b, b->rank ^ distance, own(b, s.held, 0));
        receive_sum(b, &s, b->rank ^ distance);
    }
    start_round(b, last);
    builder_copy(b, own(b, PLAN_OUT, 0), own(b, s.held, 0), PLAN_POSTSCALE);
    if (has_extra)
        builder_send(b, b->rank + power, own(b, PLAN_OUT, 0));
}

const char *doubling_allreduce(builder *b)
{
    unsigned power = largest_power(b->ranks);
    unsigned last = log2_of(power) + (power < b->ranks ? 1 : 0);
    builder_chunks(b, 1);
    open_rounds(b, last + 1);
    plan_buffer mine = contribution(b, PLAN_OUT, 1);
    if (b->rank >= power)
        allreduce_beyond(b, b->rank - power, mine, last);
    else
        allreduce_within(b, power, mine, last);
    return NULL;
}

/* Dissemination: after round k everybody has heard, through others, of 2^(k+1) ranks. */
const char *doubling_barrier(builder *b)
{
    for (unsigned distance = 1; distance < b->ranks; distance *= 2) {
        builder_once(b, false);
        builder_send(b, (b->rank + distance) % b->ranks, nothing());
        builder_recv(b, (b->rank + b->ranks - distance) % b->ranks, nothing());
    }
    return NULL;
}
