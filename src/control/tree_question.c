/* tree_question.c: questions and answers between control neighbours; see control.h. Both go to all members
 * of the set, so that nobody needs to know the way. */
#include "control/network_parts.h"

#include <stddef.h>
#include <string.h>

typedef struct tree_question {
    tree_header header;
    uint32_t set, rank;
    uint64_t epoch;
    uint32_t number, count; /* `count` names follow */
} tree_question;

typedef struct tree_answer {
    tree_header header;
    uint32_t set, rank;
    uint64_t epoch;
    uint32_t asker, number;
    uint64_t held[SEGMENT_ANSWER_WORDS];
} tree_answer;

void network_ask(network *n, const segment_question *q)
{
    const size_t names = q->count * sizeof q->names[0];
    tree_question m = {.header = {(uint32_t)(sizeof m + names), TREE_QUESTION},
                       .set = q->set,
                       .rank = n->rank,
                       .epoch = q->epoch,
                       .number = q->number,
                       .count = q->count};
    const struct iovec parts[] = {{&m, sizeof m}, {(void *)q->names, names}};
    tree_say_to_set(n, &n->sets[q->set], parts, 2, NULL);
}

const segment_answer *network_answer_of(const network *n, uint32_t rank)
{
    return &n->answers[rank];
}

static void give_answer(network *n, const tree_question *m, const uint8_t *names)
{
    segment_question q = {.set = m->set, .epoch = m->epoch, .count = m->count};
    memcpy(q.names, names, m->count * sizeof q.names[0]);
    tree_answer a = {.header = {sizeof a, TREE_ANSWER},
                     .set = m->set,
                     .rank = n->rank,
                     .epoch = m->epoch,
                     .asker = m->rank,
                     .number = m->number};
    if (n->answer.give != NULL)
        n->answer.give(n->answer.context, &q, m->rank, a.held);
    tree_say_to_set(n, &n->sets[m->set], &(struct iovec){&a, sizeof a}, 1, NULL);
}

/* What belongs to a set that is gone is dropped. */
bool tree_take_question(network *n, const uint8_t *bytes, size_t size, const tree_link *from)
{
    tree_question m;
    if (size < sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    if (m.set >= SEGMENT_SETS || m.rank >= n->size || m.count > SEGMENT_QUESTION_NAMES ||
        size != sizeof m + m.count * sizeof(uint64_t))
        return false;
    const network_set *s = &n->sets[m.set];
    if (!s->used || s->epoch != m.epoch || m.rank == n->rank)
        return true;
    tree_say_to_set(n, s, &(struct iovec){(void *)bytes, size}, 1, from);
    give_answer(n, &m, bytes + sizeof m);
    return true;
}

bool tree_take_answer(network *n, const uint8_t *bytes, size_t size, const tree_link *from)
{
    tree_answer m;
    if (size != sizeof m)
        return false;
    memcpy(&m, bytes, sizeof m);
    if (m.set >= SEGMENT_SETS || m.rank >= n->size || m.asker >= n->size)
        return false;
    const network_set *s = &n->sets[m.set];
    if (!s->used || s->epoch != m.epoch || m.rank == n->rank)
        return true;
    tree_say_to_set(n, s, &(struct iovec){(void *)bytes, size}, 1, from);
    if (m.asker != n->rank)
        return true;
    segment_answer *a = &n->answers[m.rank];
    memcpy(a->held, m.held, sizeof a->held);
    atomic_store_explicit(&a->number, m.number, memory_order_release);
    return true;
}
