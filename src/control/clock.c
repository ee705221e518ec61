/* clock.c: the difference between our clock and rank 0's, for the timeline of a job on several machines.
 *
 * Each rank asks its parent in the global tree now and then what time it is on rank 0. The answer is as
 * good as the way there and back was short: of the samples the one with the shortest way counts, and it
 * ages, since clocks drift.
 */
#include "control/network_parts.h"

#include <string.h>

#define FIRST_ASKS 8                         /* at the start, one after the other … */
#define FIRST_PAUSE_NS UINT64_C(2000000)     /* … so far apart … */
#define LATER_PAUSE_NS UINT64_C(10000000000) /* … then from time to time */
#define AGEING 2 /* a later sample may have been so much longer on its way */

/* Asked with root_ns 0, answered with the time on rank 0. */
typedef struct tree_time {
    tree_header header;
    uint64_t asked_ns, root_ns;
} tree_time;

bool network_clock_offset(const network *n, int64_t *offset_ns)
{
    if (n->rank != 0 && n->clock.trip_ns == 0)
        return false;
    *offset_ns = n->clock.offset_ns;
    return true;
}

/* True: it is time to ask, and now counts as asked. */
static bool clock_asks(network *n, uint64_t now_ns)
{
    network_clock *c = &n->clock;
    if (n->rank == 0 || now_ns < c->next_ns)
        return false;
    c->next_ns = now_ns + (c->answers < FIRST_ASKS ? FIRST_PAUSE_NS : LATER_PAUSE_NS);
    return true;
}

static void clock_take(network *n, uint64_t asked_ns, uint64_t root_ns, uint64_t now_ns)
{
    network_clock *c = &n->clock;
    const uint64_t trip = now_ns - asked_ns + 1;
    if (asked_ns > now_ns)
        return;
    const bool later = c->answers >= FIRST_ASKS;
    c->answers++;
    if (c->trip_ns != 0 && trip > c->trip_ns * (later ? AGEING : 1)) {
        c->trip_ns += later ? c->trip_ns / 4 : 0; /* one lucky sample must not stay for ever */
        return;
    }
    c->trip_ns = trip;
    c->offset_ns = (int64_t)(root_ns - (asked_ns + trip / 2));
}

/* ---- Messages -------------------------------------------------------------------------------- */

void tree_ask_time(network *n, uint64_t now_ns)
{
    if (!n->terms.clock || !clock_asks(n, now_ns))
        return;
    const uint32_t parent = (uint32_t)boot_parent((int)n->rank);
    tree_time m = {.header = {sizeof m, TREE_TIME}, .asked_ns = now_ns};
    for (uint32_t i = 0; i < n->link_count; i++) {
        if (n->links[i].rank == parent)
            tree_say(n, &n->links[i], &(struct iovec){&m, sizeof m}, 1);
    }
}

/* A question is answered as soon as we know it ourselves; until then it is asked again. */
bool tree_take_time(network *n, const uint8_t *bytes, size_t size, tree_link *from)
{
    tree_time m;
    if (size != sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    const uint64_t now = world_now_ns();
    int64_t offset_ns;
    if (m.root_ns != 0) {
        clock_take(n, m.asked_ns, m.root_ns, now);
    } else if (network_clock_offset(n, &offset_ns)) {
        m.root_ns = now + (uint64_t)offset_ns;
        tree_say(n, from, &(struct iovec){&m, sizeof m}, 1);
    }
    return true;
}
