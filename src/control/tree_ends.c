/* tree_ends.c: aborts and departures, told to all neighbours of all sets. */
#include "control/network_parts.h"

#include <stdio.h>
#include <string.h>

typedef struct tree_abort {
    tree_header header;
    uint32_t status;
    int32_t rank;
    char text[SEGMENT_ABORT_TEXT];
} tree_abort;

typedef struct tree_left {
    tree_header header;
    uint32_t rank, zero;
} tree_left;

/* Says the same in the tree of one set, behind all that was said there. */
typedef struct tree_left_set {
    tree_header header;
    uint32_t rank, set;
    uint64_t epoch;
} tree_left_set;

void network_tell_abort(network *n, const segment_abort *a)
{
    if (mesh_has_ended(n->mesh))
        return;
    mesh_end(n->mesh);
    tree_abort message = {
        .header = {sizeof message, TREE_ABORT}, .status = a->status, .rank = a->rank};
    snprintf(message.text, sizeof message.text, "%s", a->text);
    tree_say_to_all(n, &(struct iovec){&message, sizeof message}, 1, NULL);
}

const segment_abort *network_heard_abort(const network *n)
{
    return n->has_heard ? &n->heard : NULL;
}

bool tree_take_abort(network *n, const uint8_t *bytes, size_t size)
{
    tree_abort m;
    if (size != sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    if (memchr(m.text, '\0', sizeof m.text) == NULL || m.status > RUEDA_ERR_INTERNAL ||
        m.status < RUEDA_ERR_ARGUMENT)
        return false;
    if (n->has_heard)
        return true;
    n->heard.status = m.status;
    n->heard.rank = m.rank;
    memcpy(n->heard.text, m.text, sizeof m.text);
    n->has_heard = true;
    network_tell_abort(n, &n->heard); /* before the departure of who said it, which may come next */
    return true;
}

static void tell_left_set(network *n, uint32_t set, uint32_t rank, const tree_link *but)
{
    const network_set *s = &n->sets[set];
    tree_left_set message = {
        .header = {sizeof message, TREE_LEFT_SET}, .rank = rank, .set = set, .epoch = s->epoch};
    tree_say_to_set(n, s, &(struct iovec){&message, sizeof message}, 1, but);
}

static void note_left_set(network *n, uint32_t set, uint32_t rank, const tree_link *from)
{
    const network_set *s = &n->sets[set];
    const int index = s->used && rank != n->rank ? tree_index(s, rank) : -1;
    if (index < 0 || s->left[index])
        return;
    s->left[index] = true;
    tell_left_set(n, set, rank, from);
}

/* To everybody first: whoever then leaves because of it must have passed it on before. */
void tree_tell_left(network *n)
{
    const tree_left message = {.header = {sizeof message, TREE_LEFT}, .rank = n->rank};
    tree_say_to_all(n, &(struct iovec){(void *)&message, sizeof message}, 1, NULL);
    for (uint32_t set = 0; set < SEGMENT_SETS; set++) {
        if (n->sets[set].used)
            tell_left_set(n, set, n->rank, NULL);
    }
}

bool tree_take_left(network *n, const uint8_t *bytes, size_t size, const tree_link *from)
{
    tree_left m;
    if (size != sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    if (m.rank >= n->size)
        return false;
    if (mesh_departure(n->mesh, m.rank) != 0)
        return true;
    mesh_note_left(n->mesh, m.rank); /* who leaves because of it says so behind this message */
    tree_say_to_all(n, &(struct iovec){(void *)bytes, size}, 1, from);
    return true;
}

/* A departure takes the shortest way through the trees of all sets, and may overtake what its rank has said in one of
 * them before; this one cannot. */
bool tree_take_left_set(network *n, const uint8_t *bytes, size_t size, const tree_link *from)
{
    tree_left_set m;
    if (size != sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    if (m.set >= SEGMENT_SETS || m.rank >= n->size)
        return false;
    if (n->sets[m.set].epoch == m.epoch)
        note_left_set(n, m.set, m.rank, from);
    return true;
}

void tree_note_end(network *n, const tree_link *l)
{
    for (uint32_t set = 0; set < SEGMENT_SETS; set++)
        note_left_set(n, set, l->rank, l);
}

bool network_has_left(const network *n, uint32_t set, uint16_t index)
{
    return n->sets[set].left[index];
}
