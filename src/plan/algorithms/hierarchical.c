/* hierarchical.c: allreduce over several hosts: inside a host by memory, between hosts by messages.
 *
 * Each host's ranks share the chunks among them; the owner of a chunk combines its host's part, the
 * owners of the same chunk on all hosts exchange, and each shares the result in its host. Every
 * rank's link carries its own chunks; there is no leader.
 * Invariant: a chunk has one home host, whose owner finishes it; all others only copy.
 */
#include "plan/algorithms/algorithms.h"
#include "plan/host_order.h"

#include <stdlib.h>

#define MOST_CHUNKS 16384u /* many very uneven hosts share less evenly instead */
#define OVERLAP_CELLS 24u  /* with more the pieces, and so the messages, would become too short */

/* The hosts as this rank sees them. */
typedef struct hosts {
    builder *b;
    unsigned count, here; /* number of hosts, and which is this rank's */
    unsigned largest;     /* ranks on the largest */
    bool equal;           /* all have as many */
    uint16_t *first;      /* first rank of each host; one entry more for the end */
    uint32_t chunks;
} hosts;

static bool find_hosts(hosts *h)
{
    builder *b = h->b;
    h->first = calloc((size_t)b->ranks + 1, sizeof *h->first);
    if (!h->first)
        return false;
    const uint16_t *host_of = b->plan->layout.host_of;
    for (unsigned q = 0; q < b->ranks; q++) {
        if (q == 0 || host_of[q] != host_of[q - 1])
            h->first[h->count++] = (uint16_t)q;
        if (q == b->rank)
            h->here = h->count - 1;
    }
    h->first[h->count] = b->ranks;
    h->equal = true;
    for (unsigned g = 0; g < h->count; g++) {
        unsigned size = (unsigned)(h->first[g + 1] - h->first[g]);
        h->largest = size > h->largest ? size : h->largest;
        h->equal = h->equal && size == h->first[1];
    }
    h->chunks = h->count * h->largest * (h->equal ? 1 : 4);
    h->chunks = h->chunks < MOST_CHUNKS ? h->chunks : MOST_CHUNKS;
    return true;
}

/* ---- Who owns what --------------------------------------------------------------------------- */

/* A host's ranks own runs of neighbouring chunks. */
static unsigned owner_on(const hosts *h, unsigned g, uint32_t c)
{
    unsigned size = (unsigned)(h->first[g + 1] - h->first[g]);
    return h->first[g] + (unsigned)((uint64_t)c * size / h->chunks);
}

static bool owns(const hosts *h, uint32_t c)
{
    return owner_on(h, h->here, c) == h->b->rank;
}

/* Homes change from chunk to chunk, so that each owner is home to its share. */
static unsigned home_of(const hosts *h, uint32_t c)
{
    return c % h->count;
}

/* The number of chunk c among those of its owner on this host. */
static uint32_t number_of(const hosts *h, uint32_t c)
{
    uint32_t number = 0;
    while (number < c && owner_on(h, h->here, c - number - 1) == owner_on(h, h->here, c))
        number++;
    return number;
}

/* The largest number of chunks a rank of any host owns. */
static unsigned most_owned(const hosts *h)
{
    unsigned most = 0;
    for (unsigned g = 0; g < h->count; g++) {
        unsigned size = (unsigned)(h->first[g + 1] - h->first[g]);
        unsigned share = (h->chunks + size - 1) / size;
        most = share > most ? share : most;
    }
    return most;
}

/* ---- Phases ---------------------------------------------------------------------------------- */

static void combine_chunk(const hosts *h, uint32_t c)
{
    builder *b = h->b;
    plan_operand part = own(b, PLAN_IN, c), cell = own(b, PLAN_SLOT, c), out = own(b, PLAN_OUT, c);
    unsigned first = h->first[h->here], end = h->first[h->here + 1];
    if (end - first == 1) {
        builder_copy(b, out, part, PLAN_PRESCALE);
        return;
    }
    if (b->plan->layout.prescaled) {
        builder_copy(b, cell, part, PLAN_PRESCALE);
        part = cell;
    }
    builder_reduce_in_order(b, out, part, cell, PLAN_SLOT, c, first, end);
}

/* Two stages, with a cell for each chunk. */
static void reduce_in_host(const hosts *h)
{
    builder *b = h->b;
    builder_stage(b, 0);
    for (uint32_t c = 0; c < h->chunks; c++)
        if (!owns(h, c))
            builder_copy(b, own(b, PLAN_SLOT, c), own(b, PLAN_IN, c), PLAN_PRESCALE);
    builder_stage(b, 1);
    for (uint32_t c = 0; c < h->chunks; c++)
        if (owns(h, c))
            combine_chunk(h, c);
}

/* Round n: parts go to the homes n hosts further on, and come from n hosts before. */
static void send_home(const hosts *h, unsigned n)
{
    builder *b = h->b;
    unsigned to = (h->here + n) % h->count, from = (h->here + h->count - n) % h->count;
    for (uint32_t c = 0; c < h->chunks; c++) {
        plan_operand out = own(b, PLAN_OUT, c);
        if (owns(h, c) && home_of(h, c) == to)
            builder_send(b, owner_on(h, to, c), out);
        else if (owns(h, c) && home_of(h, c) == h->here)
            builder_recv_reduce(b, owner_on(h, from, c), out, out,
                                from < h->here ? PLAN_MESSAGE_FIRST : 0);
    }
}

static void send_results(const hosts *h, unsigned n)
{
    builder *b = h->b;
    unsigned to = (h->here + n) % h->count, from = (h->here + h->count - n) % h->count;
    for (uint32_t c = 0; c < h->chunks; c++) {
        if (owns(h, c) && home_of(h, c) == h->here)
            builder_send(b, owner_on(h, to, c), own(b, PLAN_OUT, c));
        else if (owns(h, c) && home_of(h, c) == from)
            builder_recv(b, owner_on(h, from, c), own(b, PLAN_OUT, c));
    }
}

/* As many stages as there are hosts, from `stage` on. */
static void exchange_between_hosts(const hosts *h, unsigned stage)
{
    builder *b = h->b;
    for (unsigned n = 1; n < h->count; n++) {
        start_round(b, stage + n - 1);
        send_home(h, n);
    }
    start_round(b, stage + h->count - 1);
    for (uint32_t c = 0; c < h->chunks; c++)
        if (owns(h, c) && home_of(h, c) == h->here)
            builder_copy(b, own(b, PLAN_OUT, c), own(b, PLAN_OUT, c), PLAN_POSTSCALE);
    for (unsigned n = 1; n < h->count; n++)
        send_results(h, n);
}

/* Two stages, with a cell for each chunk of an owner, from `cell` on. */
static void share_in_host(const hosts *h, unsigned stage, unsigned cell)
{
    builder *b = h->b;
    if (h->first[h->here + 1] - h->first[h->here] == 1)
        return;
    builder_stage(b, stage);
    for (uint32_t c = 0; c < h->chunks; c++)
        if (owns(h, c))
            builder_copy(b, own(b, PLAN_SLOT, cell + number_of(h, c)), own(b, PLAN_OUT, c), 0);
    builder_stage(b, stage + 1);
    for (uint32_t c = 0; c < h->chunks; c++)
        if (!owns(h, c))
            builder_copy(b, own(b, PLAN_OUT, c),
                         at(PLAN_SLOT, owner_on(h, h->here, c), cell + number_of(h, c)), 0);
}

/* One phase, whose pieces go through all parts one after the other. In every tick messages are started
 * first: while they travel, the memory of other pieces is combined and shared. */
static void overlapped(const hosts *h)
{
    builder_loop(h->b, h->count + 4, h->chunks + most_owned(h));
    exchange_between_hosts(h, 2);
    reduce_in_host(h);
    share_in_host(h, h->count + 2, h->chunks);
}

static void in_turn(const hosts *h)
{
    builder *b = h->b;
    if (h->largest > 1)
        builder_loop(b, 2, h->chunks);
    else
        builder_loop_messages(b, 2);
    reduce_in_host(h);
    open_rounds(b, h->count);
    exchange_between_hosts(h, 0);
    if (h->largest == 1)
        return;
    builder_meet(b, h->first[h->here], h->first[h->here + 1]);
    builder_loop(b, 2, most_owned(h));
    share_in_host(h, 0, 0);
}

/* ---- Entry ----------------------------------------------------------------------------------- */

static const char *build_adasum(const hosts *h)
{
    bool power = (h->largest & (h->largest - 1)) == 0;
    if (!h->equal || !power || !host_order_is_kept(&h->b->plan->layout))
        return "hierarchical Adasum needs hosts of the same power of two of ranks";
    return adasum_across_hosts(h->b, h->largest);
}

const char *hierarchical_allreduce(builder *b)
{
    hosts h = {.b = b};
    const char *refusal = NULL;
    if (!b->plan->layout.host_of)
        return direct_allreduce(b);
    if (!find_hosts(&h))
        return plan_no_memory;
    if (h.count == 1) {
        refusal = direct_allreduce(b);
    } else if (b->plan->layout.adasum) {
        refusal = build_adasum(&h);
    } else {
        builder_chunks(b, h.chunks);
        if (h.largest > 1 && h.chunks + most_owned(&h) <= OVERLAP_CELLS)
            overlapped(&h);
        else
            in_turn(&h);
    }
    free(h.first);
    return refusal;
}
