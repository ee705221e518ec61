/* tree_links.c: the links to control neighbours: made, written to, lost. */
#include "control/network_parts.h"
#include "world/sockets.h"

#include <stdlib.h>
#include <string.h>

#define NOTICE_NS UINT64_C(300000000) /* for a lower rank to say why it has given us up */

static bool open_stream(network *n, tree_link *l, bool again)
{
    l->stream = mesh_stream_open(n->mesh, &(mesh_purpose){.role = BOOT_TREE,
                                                          .peer = l->rank,
                                                          .number = (uint32_t)(l - n->links),
                                                          .again = again});
    return l->stream != NULL;
}

tree_link *tree_link_to(network *n, uint32_t rank)
{
    for (uint32_t i = 0; i < n->link_count; i++) {
        if (n->links[i].rank == rank)
            return &n->links[i];
    }
    tree_link *grown = realloc(n->links, (n->link_count + 1) * sizeof *grown);
    if (grown == NULL)
        return NULL;
    n->links = grown;
    tree_link *l = &n->links[n->link_count];
    *l = (tree_link){.rank = rank};
    if (!open_stream(n, l, false))
        return NULL;
    n->link_count++;
    return l;
}

net_link *tree_open_link(const tree_link *l)
{
    return l->stream == NULL ? NULL : mesh_stream_link(l->stream);
}

/* At once as far as the socket takes it; the rest waits. */
void tree_say(network *n, tree_link *l, const struct iovec *parts, int count)
{
    size_t total = 0, skip = 0;
    if (l->stream == NULL)
        return;
    for (int i = 0; i < count; i++)
        total += parts[i].iov_len;
    net_link *link = tree_open_link(l);
    if (link != NULL && byte_queue_used(&l->out) == 0) {
        const ssize_t sent = net_link_send(link, parts, count);
        if (sent < 0)
            return; /* reading will find out why */
        skip = (size_t)sent;
    }
    l->spoke = true;
    if (skip == total)
        return;
    uint8_t *to = byte_queue_room(&l->out, total - skip);
    if (to == NULL) {
        mesh_fail(n->mesh, status_fail(RUEDA_ERR_MEMORY,
                                       "out of memory for what rank %u should be told", l->rank));
        if (link != NULL &&
            (skip > 0 || mesh_has_ended(n->mesh))) /* it would wait for the rest, or the end */
            world_shutdown(net_link_fd(link), SHUT_RDWR);
        return;
    }
    for (int i = 0; i < count; i++) {
        const size_t passed = skip < parts[i].iov_len ? skip : parts[i].iov_len;
        const size_t rest = parts[i].iov_len - passed;
        if (rest > 0) /* an empty part may be no memory at all */
            memcpy(to, (const uint8_t *)parts[i].iov_base + passed, rest);
        to += rest;
        skip -= passed;
    }
    l->out.end = (size_t)(to - l->out.bytes);
}

void tree_say_to_all(network *n, const struct iovec *parts, int count, const tree_link *but)
{
    for (uint32_t i = 0; i < n->link_count; i++) {
        if (&n->links[i] != but)
            tree_say(n, &n->links[i], parts, count);
    }
}

void tree_say_to_set(network *n, const network_set *s, const struct iovec *parts, int count,
                     const tree_link *but)
{
    for (int i = 0; i < s->neighbour_count; i++) {
        if (&n->links[s->neighbours[i]] != but)
            tree_say(n, &n->links[s->neighbours[i]], parts, count);
    }
}

bool tree_write(network *n, tree_link *l)
{
    (void)n;
    const size_t waits = byte_queue_used(&l->out);
    net_link *link = waits == 0 ? NULL : tree_open_link(l);
    if (link == NULL)
        return false;
    const struct iovec part = {l->out.bytes + l->out.start, waits};
    const ssize_t sent = net_link_send(link, &part, 1);
    if (sent > 0)
        l->out.start += (size_t)sent;
    return sent > 0;
}

/* ---- Losing them ----------------------------------------------------------------------------- */

void tree_close_link(tree_link *l)
{
    mesh_stream_close(l->stream);
    l->stream = NULL;
    byte_queue_clear(&l->in);
    byte_queue_clear(&l->out);
}

/* Both ends of a broken connection may live, and all must name the same rank: it is the higher one.
 * The lower one calls it once more to tell it; one that is not told believes that the lower is dead. */
void tree_lose_link(network *n, tree_link *l)
{
    tree_close_link(l);
    if (mesh_departure(n->mesh, l->rank) != 0)
        tree_note_end(n, l);
    if (mesh_departure(n->mesh, l->rank) != 0 || mesh_has_ended(n->mesh))
        return;
    if (l->rank < n->rank) {
        mesh_suspect(n->mesh, l->rank, NOTICE_NS);
        return;
    }
    if (mesh_lose(n->mesh, l->rank, RANK_ENDED_OR_CUT_OFF) && open_stream(n, l, true))
        tree_open_link(l);
}

bool tree_adopt_again(network *n, net_link *link)
{
    const net_purpose *p = net_link_purpose(link);
    for (uint32_t i = 0; i < n->link_count; i++) {
        tree_link *l = &n->links[i];
        if (l->rank != p->from || l->rank > n->rank)
            continue;
        tree_close_link(l);
        if (!mesh_greet(link) || !open_stream(n, l, false))
            return false;
        mesh_stream_attach(l->stream, link);
        return true;
    }
    return false;
}
