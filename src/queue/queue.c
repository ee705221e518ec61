/* queue.c: records by name, and the inbox. */
#include "queue/queue.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 256
#define BARRIER_NAMES                                                                              \
    64 /* barriers of a set in flight; names come again, so a bit announces them */

#define NONAME ".noname."

/* How many numbers unnamed tensors of a kind go through before the first comes again. */
static uint64_t numbers_of(uint8_t kind)
{
    return kind == SIGNATURE_BARRIER ? BARRIER_NAMES : UINT64_C(1) << 63;
}

rueda_status queue_init(queue *q)
{
    *q = (queue){.bucket_count = FIRST_BUCKETS};
    q->buckets = calloc(FIRST_BUCKETS, sizeof *q->buckets);
    if (q->buckets == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a process set");
    q->inbox_end = &q->inbox;
    world_lock_init(&q->lock);
    return RUEDA_OK;
}

static void record_free(record *r)
{
    signature_fini(&r->news.mine);
    signature_fini(&r->agreed);
    free(r->news.spoke);
    free(r->rows);
    free(r->conflict);
    free(r->ready_ns);
    free(r);
}

void queue_fini(queue *q)
{
    if (q->buckets == NULL)
        return;
    for (size_t i = 0; i < q->bucket_count; i++) {
        for (record *r = q->buckets[i], *next; r != NULL; r = next) {
            next = r->chain;
            record_free(r);
        }
    }
    free(q->buckets);
    world_lock_destroy(&q->lock);
    *q = (queue){0};
}

void entry_free(entry *e)
{
    if (e == NULL)
        return;
    signature_fini(&e->signature);
    free(e);
}

static void grow(queue *q)
{
    const size_t count = 2 * q->bucket_count;
    record **buckets = calloc(count, sizeof *buckets);
    if (buckets == NULL)
        return; /* longer chains still work */
    for (size_t i = 0; i < q->bucket_count; i++) {
        for (record *r = q->buckets[i], *next; r != NULL; r = next) {
            next = r->chain;
            r->chain = buckets[r->hash & (count - 1)];
            buckets[r->hash & (count - 1)] = r;
        }
    }
    free(q->buckets);
    q->buckets = buckets;
    q->bucket_count = count;
}

static record *record_new(queue *q, const char *name, size_t length, uint64_t hash)
{
    record *r = calloc(1, sizeof *r + length + 1);
    if (r == NULL)
        return NULL;
    memcpy(r->name, name, length);
    r->length = (uint32_t)length;
    r->hash = hash;
    r->cache.bit = r->news.open_index = -1;
    if (q->record_count++ > q->bucket_count)
        grow(q);
    record **bucket = &q->buckets[hash & (q->bucket_count - 1)];
    r->chain = *bucket;
    *bucket = r;
    return r;
}

static record *find_locked(queue *q, const char *name, size_t length, bool make)
{
    const uint64_t hash = hash_bytes(0, name, length);
    record *r = q->buckets[hash & (q->bucket_count - 1)];
    while (r != NULL &&
           (r->hash != hash || r->length != length || memcmp(r->name, name, length) != 0))
        r = r->chain;
    return r != NULL || !make ? r : record_new(q, name, length, hash);
}

record *queue_record(queue *q, const char *name, size_t length, bool make)
{
    world_lock_take(&q->lock);
    record *r = find_locked(q, name, length, make);
    world_lock_release(&q->lock);
    return r;
}

record *queue_find_hash(const queue *q, uint64_t hash)
{
    record *r = q->buckets[hash & (q->bucket_count - 1)];
    while (r != NULL && r->hash != hash)
        r = r->chain;
    return r;
}

record *queue_next(const queue *q, const record *r)
{
    if (q->record_count == 0)
        return NULL;
    if (r != NULL && r->chain != NULL)
        return r->chain;
    if (q->record_count == 0)
        return NULL; /* as of most sets, where there are many */
    for (size_t b = r == NULL ? 0 : (r->hash & (q->bucket_count - 1)) + 1; b < q->bucket_count;
         b++) {
        if (q->buckets[b] != NULL)
            return q->buckets[b];
    }
    return NULL;
}

static rueda_status claim_record(queue *q, entry *e, const char *given)
{
    char made_up[64];
    const uint8_t kind = e->signature.kind;
    const char *name = given;
    if (given == NULL) {
        snprintf(made_up, sizeof made_up, "%s" NONAME "%llu", signature_kind_name(kind),
                 (unsigned long long)(q->unnamed[kind] % numbers_of(kind)));
        name = made_up;
    }
    record *r = find_locked(q, name, strlen(name), true);
    if (r == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "tensor '%s': out of memory", name);
    if (r->entry != NULL && kind == SIGNATURE_JOIN)
        return status_fail(RUEDA_ERR_DUPLICATE,
                           "this rank has joined already: wait until that join has ended, which "
                           "is when all ranks have joined; then it may join again");
    if (r->entry != NULL)
        return status_fail(
            RUEDA_ERR_DUPLICATE,
            "tensor '%s' is already in flight: wait for it, or give this one another "
            "name",
            name);
    r->entry = e;
    e->record = r;
    q->unnamed[kind] += given == NULL; /* what is refused must not cost a number */
    return RUEDA_OK;
}

void queue_skip_unnamed(queue *q, const record *r)
{
    const uint8_t kind = r->agreed.kind;
    const char *name = signature_kind_name(kind);
    const size_t length = strlen(name);
    if (strncmp(r->name, name, length) != 0 ||
        strncmp(r->name + length, NONAME, strlen(NONAME)) != 0)
        return;
    const uint64_t numbers = numbers_of(kind);
    const uint64_t number = strtoull(r->name + length + strlen(NONAME), NULL, 10);
    world_lock_take(&q->lock);
    const uint64_t ahead = (number - q->unnamed[kind]) % numbers;
    if (ahead < numbers / 2)
        q->unnamed[kind] += ahead + 1;
    world_lock_release(&q->lock);
}

static void append(queue *q, entry *e)
{
    e->next = NULL;
    *q->inbox_end = e;
    q->inbox_end = &e->next;
}

rueda_status queue_submit(queue *q, entry *const *entries, const char *const *names, size_t count)
{
    world_lock_take(&q->lock);
    rueda_status status = RUEDA_OK;
    if (q->closed != RUEDA_OK)
        status = status_restore(q->closed, q->closed_text);
    size_t claimed = 0;
    while (claimed < count && status == RUEDA_OK) {
        status = claim_record(q, entries[claimed], names[claimed]);
        claimed += status == RUEDA_OK;
    }
    for (size_t i = 0; i < claimed; i++) {
        if (status == RUEDA_OK)
            append(q, entries[i]);
        else
            entries[i]->record->entry = NULL;
    }
    if (status == RUEDA_OK)
        /* in one order with the caller's looks at who drives: see tests/litmus/background.c */
        atomic_store(&q->submitted,
                     atomic_load_explicit(&q->submitted, memory_order_relaxed) + count);
    world_lock_release(&q->lock);
    return status;
}

entry *queue_take(queue *q)
{
    world_lock_take(&q->lock);
    entry *first = q->inbox;
    q->inbox = NULL;
    q->inbox_end = &q->inbox;
    q->taken = atomic_load_explicit(&q->submitted, memory_order_relaxed);
    world_lock_release(&q->lock);
    return first;
}

void queue_close(queue *q, rueda_status status, const char *text)
{
    world_lock_take(&q->lock);
    if (q->closed == RUEDA_OK) {
        q->closed = status;
        snprintf(q->closed_text, sizeof q->closed_text, "%s", text);
    }
    world_lock_release(&q->lock);
}

void queue_finish_all(queue *q, entry *const *entries, size_t count)
{
    world_lock_take(&q->lock);
    for (size_t i = 0; i < count; i++) {
        if (entries[i] != NULL)
            entries[i]->record->entry = NULL;
    }
    world_lock_release(&q->lock);
}

void queue_finish(queue *q, entry *e)
{
    queue_finish_all(q, &e, 1);
}

void queue_forget(queue *q, record *r)
{
    world_lock_take(&q->lock);
    const bool needed = r->entry != NULL || r->cache.bit >= 0 || r->news.open_index >= 0;
    if (!needed) {
        record **link = &q->buckets[r->hash & (q->bucket_count - 1)];
        while (*link != r)
            link = &(*link)->chain;
        *link = r->chain;
        q->record_count--;
    }
    world_lock_release(&q->lock);
    if (!needed)
        record_free(r);
}
