/* readiness.c: since when the other members have had a tensor ready, as far as this rank can see: since
 * their contribution that says so has arrived. Only while a timeline is written. */
#include "negotiate/negotiate.h"

#include <stdlib.h>
#include <string.h>

void readiness_watch(negotiation *n)
{
    uint64_t now = 0;
    if (n->arrived_round != n->round)
        memset(n->arrived_ns, 0, n->group->size * sizeof *n->arrived_ns);
    n->arrived_round = n->round;
    for (uint16_t i = 0; i < n->group->size; i++) {
        if (i == n->group->index || n->arrived_ns[i] != 0 ||
            !control_contributed(n->group, n->round, i))
            continue;
        now = now == 0 ? os_now_ns() : now;
        n->arrived_ns[i] = now;
    }
}

/* The first word about it counts. */
static void note(negotiation *n, record *r, uint16_t member)
{
    if (r->ready_ns == NULL)
        r->ready_ns = calloc(n->group->size, sizeof *r->ready_ns);
    if (r->ready_ns != NULL && r->ready_ns[member] == 0)
        r->ready_ns[member] = n->arrived_ns[member];
}

static void note_bits(negotiation *n, uint16_t member)
{
    const segment_contribution *c = control_part(n->group, n->round, member);
    for (uint32_t w = 0; w < c->words; w++) {
        for (uint64_t bits = c->ready[w]; bits != 0; bits &= bits - 1) {
            const uint32_t slot = w * 64 + (uint32_t)__builtin_ctzll(bits);
            if (slot < n->used && n->cache[slot] != NULL)
                note(n, n->cache[slot], member);
        }
    }
}

void readiness_read(negotiation *n)
{
    readiness_watch(n);
    for (uint16_t i = 0; i < n->group->size; i++)
        note_bits(n, i);
    for (uint32_t k = 0; k < n->open_count; k++) {
        for (uint16_t i = 0; i < n->group->size; i++) {
            if (n->open[k]->spoke[i] == RECORD_SPOKE)
                note(n, n->open[k], i);
        }
    }
}

void negotiation_forget_ready(const negotiation *n, record *r)
{
    if (r->ready_ns != NULL)
        memset(r->ready_ns, 0, n->group->size * sizeof *r->ready_ns);
}
