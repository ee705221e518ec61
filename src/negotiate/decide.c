/* decide.c: from the contributions of a complete round to the list of decided tensors. */
#include "negotiate/negotiate.h"

#include <stdlib.h>
#include <string.h>

static rueda_status candidate(negotiation *n, record *r, bool whole)
{
    if (n->decided_count == n->decided_capacity) {
        const uint32_t capacity = n->decided_capacity == 0 ? 64 : 2 * n->decided_capacity;
        record **grown = realloc(n->decided, capacity * sizeof *grown);
        if (grown == NULL)
            return status_fail(RUEDA_ERR_MEMORY, "out of memory in negotiation");
        n->decided = grown;
        n->decided_capacity = capacity;
    }
    r->order = n->decided_count;
    r->whole = whole;
    n->decided[n->decided_count++] = r;
    return RUEDA_OK;
}

/* Members that have joined are ready for everything. */
static void merge_bits(negotiation *n, uint32_t words)
{
    memset(n->both, 0xff, words * sizeof *n->both);
    memset(n->either, 0, words * sizeof *n->either);
    for (uint16_t i = 0; i < n->members->size; i++) {
        const segment_contribution *c = control_part(n->members, n->round, i);
        for (uint32_t w = 0; w < words; w++) {
            n->either[w] |= c->ready[w];
            if (!n->joined[i])
                n->both[w] &= c->ready[w];
        }
    }
}

/* Whether members that have joined are ready with a tensor of their own, too. */
static bool all_have_bit(const negotiation *n, uint32_t bit)
{
    for (uint16_t i = 0; n->joined_count > 0 && i < n->members->size; i++) {
        if (!bit_test(control_part(n->members, n->round, i)->ready, bit))
            return false;
    }
    return true;
}

static rueda_status collect_bits(negotiation *n, uint32_t words)
{
    for (uint32_t w = 0; w < words; w++) {
        /* `either`: with all members joined, "ready everywhere" alone would be everything */
        for (uint64_t bits = n->both[w] & n->either[w]; bits != 0; bits &= bits - 1) {
            const uint32_t bit = w * 64 + (uint32_t)__builtin_ctzll(bits);
            if (n->cache[bit] == NULL)
                continue; /* a member that has joined since spoke of it in words in this round */
            const rueda_status status = candidate(n, n->cache[bit], all_have_bit(n, bit));
            if (status != RUEDA_OK)
                return status;
        }
    }
    return RUEDA_OK;
}

static bool all_spoke(const negotiation *n, const record *r)
{
    if (r->news.spoken == n->members->size)
        return true;
    for (uint16_t i = 0; n->joined_count > 0 && i < n->members->size; i++) {
        if (r->news.spoke[i] != RECORD_SPOKE && (!n->joined[i] || r->news.spoke[i] == RECORD_OWES))
            return false;
    }
    return n->joined_count > 0;
}

static rueda_status collect_open(negotiation *n)
{
    for (uint32_t i = 0; i < n->open_count; i++) {
        if (!all_spoke(n, n->open[i]))
            continue;
        const rueda_status status =
            candidate(n, n->open[i], n->open[i]->news.spoken == n->members->size);
        if (status != RUEDA_OK)
            return status;
    }
    return RUEDA_OK;
}

static int by_group(const void *a, const void *b)
{
    const record *x = *(record *const *)a, *y = *(record *const *)b;
    if (x->agreed.group != y->agreed.group)
        return x->agreed.group < y->agreed.group ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_priority(const void *a, const void *b)
{
    const record *x = *(record *const *)a, *y = *(record *const *)b;
    if (x->agreed.priority != y->agreed.priority)
        return x->agreed.priority > y->agreed.priority ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Larger priority first; then in the order of bits and of first mention, in which the candidates
 * were collected. Mostly they are in order already. */
static void sort_by_priority(record **records, uint32_t count)
{
    bool sorted = true;
    for (uint32_t i = 1; i < count && sorted; i++)
        sorted = by_priority(&records[i - 1], &records[i]) < 0;
    if (!sorted)
        qsort(records, count, sizeof *records, by_priority);
}

static bool any_grouped(const negotiation *n)
{
    for (uint32_t i = 0; i < n->decided_count; i++) {
        if (n->decided[i]->agreed.group_size > 0)
            return true;
    }
    return false;
}

/* A group is decided when all its tensors are; one that fails takes all with it. */
static rueda_status settle_group(record **members, uint32_t count)
{
    const record *spoilt = NULL;
    for (uint32_t i = 0; i < count && spoilt == NULL; i++)
        spoilt = members[i]->conflicting ? members[i] : NULL;
    for (uint32_t i = 0; i < count && spoilt != NULL; i++) {
        record *r = members[i];
        if (r->conflicting)
            continue;
        r->conflicting = true;
        r->conflict = strdup(spoilt->conflict);
        if (r->conflict == NULL)
            return status_fail(RUEDA_ERR_MEMORY,
                               "tensor '%s': out of memory to say how ranks disagree", r->name);
    }
    return RUEDA_OK;
}

static rueda_status keep_whole_groups(negotiation *n)
{
    if (!any_grouped(n))
        return RUEDA_OK;
    qsort(n->decided, n->decided_count, sizeof *n->decided, by_group);
    uint32_t kept = 0;
    for (uint32_t i = 0, end; i < n->decided_count; i = end) {
        const signature *first = &n->decided[i]->agreed;
        for (end = i + 1; end < n->decided_count && first->group_size > 0 &&
                          n->decided[end]->agreed.group == first->group;)
            end++;
        if (first->group_size > 0 && end - i < first->group_size)
            continue;
        const rueda_status status = settle_group(&n->decided[i], end - i);
        if (status != RUEDA_OK)
            return status;
        memmove(&n->decided[kept], &n->decided[i], (end - i) * sizeof *n->decided);
        kept += end - i;
    }
    n->decided_count = kept;
    return RUEDA_OK;
}

rueda_status decide(negotiation *n)
{
    const uint32_t words = (n->used + 63) / 64;
    n->decided_count = 0;
    merge_bits(n, words);
    rueda_status status = collect_bits(n, words);
    if (status == RUEDA_OK)
        status = collect_open(n);
    if (status == RUEDA_OK)
        status = keep_whole_groups(n);
    if (status == RUEDA_OK)
        sort_by_priority(n->decided, n->decided_count);
    return status;
}
