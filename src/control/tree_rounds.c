/* tree_rounds.c: contributions to rounds, passed on in the tree of each set. */
#include "control/network_parts.h"

#include <stdlib.h>
#include <string.h>

typedef struct tree_contribution {
    tree_header header;
    uint32_t set, rank;
    uint64_t epoch, round, digest;
    uint32_t flags, words, news_bytes, news_count;
} tree_contribution;

/* In the tree over the members' indices. */
static rueda_status find_neighbours(network *n, network_set *s)
{
    int index = 0;
    while (s->ranks[index] != n->rank)
        index++;
    for (int i = 0; i < s->size; i++) {
        const bool is_parent = index > 0 && i == boot_parent(index);
        const bool is_child = i > 0 && boot_parent(i) == index;
        if (!is_parent && !is_child)
            continue;
        const tree_link *l = tree_link_to(n, s->ranks[i]);
        if (l == NULL)
            return status_fail(RUEDA_ERR_MEMORY, "out of memory for a process set");
        tree_open_link(
            l); /* if it is ours to call, it must be before the other side has to say something */
        s->neighbours[s->neighbour_count++] = (uint32_t)(l - n->links);
    }
    return RUEDA_OK;
}

rueda_status network_set_open(network *n, uint32_t set, uint64_t epoch, const uint16_t *ranks,
                              uint16_t size)
{
    network_set *s = &n->sets[set];
    const size_t bytes = n->segment->contribution_bytes; /* a multiple of the line */
    s->parts = aligned_alloc(OS_CACHE_LINE, (size_t)size * 2 * bytes);
    s->news = calloc((size_t)size * 2, sizeof *s->news);
    s->left = calloc(size, sizeof *s->left);
    s->size = size;
    if (s->parts == NULL || s->news == NULL || s->left == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a process set");
    for (size_t i = 0; i < (size_t)size * 2; i++)
        memset(s->parts + i * bytes, 0, sizeof(segment_contribution));
    s->epoch = epoch;
    s->ranks = ranks;
    s->used = true;
    return find_neighbours(n, s);
}

void network_set_close(network *n, uint32_t set)
{
    network_set *s = &n->sets[set];
    for (size_t i = 0; s->news != NULL && i < (size_t)s->size * 2; i++)
        free(s->news[i].bytes);
    free(s->news);
    free(s->parts);
    free(s->left);
    *s = (network_set){0};
}

static size_t part_number(uint64_t round, uint16_t index)
{
    return (size_t)index * 2 + (round & 1);
}

segment_contribution *network_part(const network *n, uint32_t set, uint64_t round, uint16_t index)
{
    return (segment_contribution *)(n->sets[set].parts +
                                    part_number(round, index) * n->segment->contribution_bytes);
}

rueda_status network_news_room(network *n, uint32_t set, uint64_t round, uint16_t index,
                               uint64_t bytes)
{
    network_newsroom *room = &n->sets[set].news[part_number(round, index)];
    if (bytes <= room->room)
        return RUEDA_OK;
    uint8_t *grown = realloc(room->bytes, bytes);
    if (grown == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "no %llu bytes for news of process set %u",
                           (unsigned long long)bytes, set);
    *room = (network_newsroom){grown, bytes};
    return RUEDA_OK;
}

uint8_t *network_news(const network *n, uint32_t set, uint64_t round, uint16_t index)
{
    return n->sets[set].news[part_number(round, index)].bytes;
}

void network_contribute(network *n, uint32_t set, uint64_t round, uint16_t index)
{
    segment_contribution *c = network_part(n, set, round, index);
    const size_t bits = c->words * sizeof c->ready[0];
    tree_contribution message = {
        .header = {(uint32_t)(sizeof message + bits + c->news_bytes), TREE_CONTRIBUTION},
        .set = set,
        .rank = n->rank,
        .epoch = n->sets[set].epoch,
        .round = round,
        .digest = c->digest,
        .flags = c->flags,
        .words = c->words,
        .news_bytes = c->news_bytes,
        .news_count = c->news_count};
    const struct iovec parts[] = {{&message, sizeof message},
                                  {c->ready, bits},
                                  {network_news(n, set, round, index), c->news_bytes}};
    atomic_store_explicit(&c->round, round, memory_order_release);
    tree_say_to_set(n, &n->sets[set], parts, 3, NULL);
}

int tree_index(const network_set *s, uint32_t rank)
{
    int low = 0, high = s->size - 1; /* ranks ascend */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (s->ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return s->ranks[low] == rank ? low : -1;
}

/* What belongs to a set that is gone is dropped. */
bool tree_take_contribution(network *n, const uint8_t *bytes, size_t size, const tree_link *from)
{
    tree_contribution m;
    if (size < sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    if (m.set >= SEGMENT_SETS || m.rank >= n->size || m.words > n->segment->header->cache_words ||
        m.news_bytes > segment_news_bytes(n->segment) ||
        size != sizeof m + m.words * sizeof(uint64_t) + m.news_bytes)
        return false;
    const network_set *s = &n->sets[m.set];
    const int index = s->used && s->epoch == m.epoch ? tree_index(s, m.rank) : -1;
    if (index < 0 || m.rank == n->rank)
        return true;
    const rueda_status room = network_news_room(n, m.set, m.round, (uint16_t)index, m.news_bytes);
    if (room != RUEDA_OK) /* the job ends, as we cannot hear what we are told */
        return mesh_fail(n->mesh, room), true;
    segment_contribution *c = network_part(n, m.set, m.round, (uint16_t)index);
    c->flags = m.flags;
    c->words = m.words;
    c->digest = m.digest;
    c->news_bytes = m.news_bytes;
    c->news_count = m.news_count;
    c->told_ns = segment_time(n->segment); /* clocks of hosts differ: when it has arrived */
    const uint8_t *bits = bytes + sizeof m;
    memcpy(c->ready, bits, m.words * sizeof(uint64_t));
    if (m.news_bytes > 0)
        memcpy(network_news(n, m.set, m.round, (uint16_t)index), bits + m.words * sizeof(uint64_t),
               m.news_bytes);
    atomic_store_explicit(&c->round, m.round, memory_order_release);
    tree_say_to_set(n, s, &(struct iovec){(void *)bytes, size}, 1, from);
    return true;
}

size_t tree_longest_message(const network *n)
{
    return sizeof(tree_contribution) + n->segment->contribution_bytes + n->segment->news_bytes;
}
