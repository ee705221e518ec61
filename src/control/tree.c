/* tree.c: the messages of control neighbours, as they are read.
 *
 * A message is a header with its length, then its body; little-endian as everything of ours. Each is
 * checked before it is believed: a neighbour that says something impossible counts as lost.
 */
#include "control/network_parts.h"

#include <string.h>

#define READ_BYTES 65536 /* room for one read */

bool tree_take(network *n, const uint8_t *bytes, size_t size, tree_link *from)
{
    tree_header header;
    memcpy(&header, bytes, sizeof header);
    switch ((enum tree_kind)header.kind) {
    case TREE_CONTRIBUTION:
        return tree_take_contribution(n, bytes, size, from);
    case TREE_ABORT:
        return tree_take_abort(n, bytes, size);
    case TREE_LEFT:
        return tree_take_left(n, bytes, size, from);
    case TREE_LEFT_SET:
        return tree_take_left_set(n, bytes, size, from);
    case TREE_BEAT:
        return size == sizeof header;
    case TREE_TIME:
        return tree_take_time(n, bytes, size, from);
    case TREE_QUESTION:
        return tree_take_question(n, bytes, size, from);
    case TREE_ANSWER:
        return tree_take_answer(n, bytes, size, from);
    }
    return false;
}

/* All complete messages; false: something else. */
static bool take_messages(network *n, tree_link *l)
{
    while (byte_queue_used(&l->in) >= sizeof(tree_header)) {
        tree_header header;
        memcpy(&header, l->in.bytes + l->in.start, sizeof header);
        if (header.bytes < sizeof header || header.bytes > tree_longest_message(n))
            return false;
        if (byte_queue_used(&l->in) < header.bytes)
            return true;
        if (!tree_take(n, l->in.bytes + l->in.start, header.bytes, l))
            return false;
        l->in.start += header.bytes;
    }
    return true;
}

bool tree_read(network *n, tree_link *l)
{
    bool moved = false;
    for (net_link *link; (link = tree_open_link(l)) != NULL;) {
        uint8_t *to = byte_queue_room(&l->in, READ_BYTES);
        if (to == NULL) {
            mesh_fail(n->mesh, status_fail(RUEDA_ERR_MEMORY, "out of memory for what rank %u says",
                                           l->rank));
            break;
        }
        const ssize_t got = net_link_receive(link, to, READ_BYTES);
        if (got == 0)
            break;
        moved = true;
        l->silence_ns = 0;
        if (got < 0) {
            mesh_lose_altered(n->mesh, l->rank, link);
            tree_lose_link(n, l);
            break;
        }
        l->in.end += (size_t)got;
        if (!take_messages(n, l)) {
            mesh_lose(n->mesh, l->rank, "it sent what is not understood");
            tree_close_link(l);
        }
    }
    return moved;
}
