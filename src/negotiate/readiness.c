/* readiness.c: since when the other members have had a tensor ready: since they said so for the first time,
 * which their contribution tells. Only while a timeline is written. */
#include "negotiate/negotiate.h"

#include <stdlib.h>
#include <string.h>

/* The first word about it counts. */
static void note(negotiation *n, record *r, uint16_t member, uint64_t told_ns)
{
    if (r->ready_ns == NULL)
        r->ready_ns = calloc(n->members->size, sizeof *r->ready_ns);
    if (r->ready_ns != NULL && r->ready_ns[member] == 0)
        r->ready_ns[member] =
            told_ns != 0 ? told_ns : world_now_ns(); /* 0: said before we wanted times */
}

static void note_bits(negotiation *n, uint16_t member)
{
    const segment_contribution *c = control_part(n->members, n->round, member);
    for (uint32_t w = 0; w < c->words; w++) {
        for (uint64_t bits = c->ready[w]; bits != 0; bits &= bits - 1) {
            const uint32_t bit = w * 64 + (uint32_t)__builtin_ctzll(bits);
            if (bit < n->used && n->cache[bit] != NULL)
                note(n, n->cache[bit], member, c->told_ns);
        }
    }
}

void readiness_read(negotiation *n)
{
    for (uint16_t i = 0; i < n->members->size; i++) {
        const uint64_t told_ns = control_part(n->members, n->round, i)->told_ns;
        note_bits(n, i);
        for (uint32_t k = 0; k < n->open_count; k++) {
            if (n->open[k]->news.spoke[i] == RECORD_SPOKE)
                note(n, n->open[k], i, told_ns);
        }
    }
}

void negotiation_forget_ready(const negotiation *n, record *r)
{
    if (r->ready_ns != NULL)
        memset(r->ready_ns, 0, n->members->size * sizeof *r->ready_ns);
}
