/* news.c: tensors that are described in full. */
#include "negotiate/negotiate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void news_queue(negotiation *n, entry *e)
{
    e->record->news.untold = true;
    e->next = NULL;
    *n->to_tell_end = e;
    n->to_tell_end = &e->next;
    n->has_news = true;
}

/* What does not fit waits for the next round. */
uint32_t news_write(negotiation *n, uint8_t *to, uint64_t room, uint32_t *bytes)
{
    uint32_t count = 0;
    *bytes = 0;
    while (n->to_tell != NULL) {
        entry *e = n->to_tell;
        record *r = e->record;
        const size_t needed = signature_encoded_bytes(&e->signature, r->length);
        if (needed > room - *bytes)
            break;
        signature_encode(&e->signature, r->name, r->length, to + *bytes);
        *bytes += (uint32_t)needed;
        count++;
        r->news.untold = false;
        signature_fini(&r->news.mine);
        if (signature_copy(&r->news.mine, &e->signature) != RUEDA_OK) /* no memory for its list: */
            assert(
                !signature_repeats(&r->news.mine, &e->signature)); /* described again next time */
        n->to_tell = e->next;
    }
    if (n->to_tell == NULL)
        n->to_tell_end = &n->to_tell;
    n->announcements += count;
    return count;
}

static rueda_status grow_open(negotiation *n)
{
    if (n->open_count < n->open_capacity)
        return RUEDA_OK;
    const uint32_t capacity = n->open_capacity == 0 ? 64 : 2 * n->open_capacity;
    record **grown = realloc(n->open, capacity * sizeof *grown);
    if (grown == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory in negotiation");
    n->open = grown;
    n->open_capacity = capacity;
    return RUEDA_OK;
}

/* The first word about a tensor since it was last decided. */
static rueda_status open_record(negotiation *n, record *r, const signature *said, uint16_t member)
{
    const uint16_t size = n->members->size;
    rueda_status status = grow_open(n);
    if (r->news.spoke == NULL)
        r->news.spoke = calloc(size, sizeof *r->news.spoke);
    if (r->rows == NULL)
        r->rows = calloc(size, sizeof *r->rows);
    if (status != RUEDA_OK || r->news.spoke == NULL || r->rows == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory in negotiation", r->name);
    signature_fini(&r->agreed);
    status = signature_copy(&r->agreed, said);
    r->news.first_rank = member;
    r->news.spoken = 0;
    r->largest_rows = 0;
    r->unequal = false;
    r->all_mapped = true;
    memset(r->news.spoke, 0, size * sizeof *r->news.spoke);
    memset(r->rows, 0, size * sizeof *r->rows);
    free(r->conflict);
    r->conflict = NULL;
    r->conflicting = false;
    r->news.open_index = (int32_t)n->open_count;
    n->open[n->open_count++] = r;
    return status;
}

/* Keeps the order of first mention. */
void news_sweep(negotiation *n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n->open_count; i++) {
        record *r = n->open[i];
        if (r->news.open_index < 0)
            continue;
        r->news.open_index = (int32_t)kept;
        n->open[kept++] = r;
    }
    n->open_count = kept;
}

/* Keeps a rank's own part: rows that come from it, those that it gives, and the extremes of all splits. */
static void note_rows(negotiation *n, record *r, const signature *said, uint16_t member)
{
    if (said->kind != r->agreed.kind)
        return; /* a conflict: what was agreed may have no list */
    if (said->kind == SIGNATURE_ALLGATHER || said->kind == SIGNATURE_GATHER) {
        r->rows[member] = said->ndim == 0 ? 1 : said->shape[0];
        return;
    }
    if (said->list_count != n->members->size)
        return;
    if (said->kind == SIGNATURE_SCATTER) /* the root's; nobody else gives a list */
        memcpy(r->rows, said->list, said->list_count * sizeof *r->rows);
    if (said->kind != SIGNATURE_ALLTOALL)
        return;
    r->rows[member] = said->list[n->members->index];
    for (uint32_t i = 0; i < said->list_count; i++) {
        if ((uint64_t)said->list[i] > r->largest_rows)
            r->largest_rows = (uint64_t)said->list[i];
        if (said->list[i] != r->agreed.list[0])
            r->unequal = true;
    }
}

/* Members whose contribution to this round had the bit that was retired. */
static void note_owing(negotiation *n, record *r, uint32_t bit)
{
    for (uint16_t i = 0; i < n->members->size; i++) {
        const segment_contribution *c = control_part(n->members, n->round, i);
        if (bit / 64 < c->words && bit_test(c->ready, bit))
            r->news.spoke[i] = RECORD_OWES;
    }
}

/* If we said it with a bit, that bit means nothing any more: say it in words. */
static void retell(negotiation *n, record *r)
{
    const bool had_bit = r->cache.bit >= 0 && bit_test(n->ready, (uint32_t)r->cache.bit);
    if (r->cache.bit >= 0)
        cache_retire(n, r);
    if (had_bit)
        news_queue(n, r->entry);
}

/* The first disagreement is kept for all. Without memory for it the set is broken: a rank that went on
 * would do so alone. */
static rueda_status compare(negotiation *n, record *r, const signature *said, uint16_t member)
{
    if (r->conflicting ||
        signature_conflict(r->name, &r->agreed, n->members->ranks[r->news.first_rank], said,
                           n->members->ranks[member]) == RUEDA_OK)
        return RUEDA_OK;
    r->conflicting = true;
    r->conflict = strdup(status_text());
    return r->conflict == NULL
               ? status_fail(RUEDA_ERR_MEMORY,
                             "tensor '%s': out of memory to say how ranks disagree", r->name)
               : RUEDA_OK;
}

static rueda_status hear(negotiation *n, const signature *said, const char *name, size_t length,
                         uint16_t member)
{
    record *r = queue_record(n->queue, name, length, true);
    if (r == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory in negotiation");
    rueda_status status = RUEDA_OK;
    if (r->news.open_index < 0) {
        const int32_t bit = r->cache.bit;
        retell(n, r);
        status = open_record(n, r, said, member);
        if (status == RUEDA_OK && bit >= 0)
            note_owing(n, r, (uint32_t)bit);
    }
    if (status != RUEDA_OK)
        return status;
    if (r->news.spoke[member] != RECORD_SPOKE) {
        r->news.spoke[member] = RECORD_SPOKE;
        r->news.spoken++;
    }
    r->all_mapped = r->all_mapped && said->mapped;
    note_rows(n, r, said, member);
    return compare(n, r, said, member);
}

rueda_status news_read(negotiation *n, uint16_t member, const uint8_t *from, uint32_t bytes,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        signature said;
        const char *name;
        size_t length, taken;
        rueda_status status = signature_decode(&said, &name, &length, from, bytes, &taken);
        if (status == RUEDA_ERR_INTERNAL)
            return status_fail(status, "the description of a tensor from rank %u is damaged",
                               n->members->ranks[member]);
        if (status != RUEDA_OK)
            return status;
        status = hear(n, &said, name, length, member);
        signature_fini(&said);
        if (status != RUEDA_OK)
            return status;
        from += taken;
        bytes -= (uint32_t)taken;
    }
    return RUEDA_OK;
}
