/* tree_beats.c: signs of life between control neighbours, and what silence means; see heartbeat.h. */
#include "control/network_parts.h"

#include <stdio.h>

/* Names also the ranks that are probably lost with it: a host that is cut off is more likely than a
 * single rank that is stopped. */
static const char *silence_of(network *n, uint32_t rank)
{
    rank_list beside = {.count = 0};
    for (uint32_t r = 0; r < n->size; r++) {
        if (r != rank && mesh_host(n->mesh, r) == mesh_host(n->mesh, rank) &&
            mesh_departure(n->mesh, r) == 0)
            rank_list_add(&beside, r);
    }
    snprintf(n->silence, sizeof n->silence, "%s%s%s%s", HEARTBEAT_LOST,
             beside.count > 0 ? " (also there:" : "", beside.text, beside.count > 0 ? ")" : "");
    return n->silence;
}

void tree_beat(network *n, uint64_t now_ns)
{
    const tree_header beat = {sizeof beat, TREE_BEAT};
    if (n->heartbeat.limit_ns == 0 || now_ns < n->next_beat_ns)
        return;
    const uint64_t counts = heartbeat_look(&n->heartbeat, now_ns);
    n->next_beat_ns = now_ns + heartbeat_period(&n->heartbeat);
    for (uint32_t i = 0; i < n->link_count; i++) {
        tree_link *l = &n->links[i];
        if (tree_open_link(l) == NULL)
            continue;
        if (heartbeat_is_lost(&n->heartbeat, &l->silence_ns, counts) && !mesh_has_lost(n->mesh))
            mesh_lose(n->mesh, l->rank, silence_of(n, l->rank));
        if (!l->spoke)
            tree_say(n, l, &(struct iovec){(void *)&beat, sizeof beat}, 1);
        l->spoke = false;
    }
}
