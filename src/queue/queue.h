/* queue.h: what is pending on this rank in one process set.
 *
 * A record is a name; it lives as long as a tensor of that name is pending here, is being negotiated,
 * or is remembered by the cache. An entry is a tensor that the caller has handed over. Submitting
 * takes the lock for a bounded time. What is not said to be guarded by the lock belongs to whoever drives.
 * Invariant: a record has at most one entry.
 */
#ifndef RUEDA_QUEUE_H
#define RUEDA_QUEUE_H

#include "queue/request.h"
#include "queue/signature.h"
#include "world/world.h"

typedef struct record record;

/* What a member has said about an open record. RECORD_OWES: it has set the tensor's bit, and then the bit was
 * given to another tensor. So it has the tensor and will describe it in words, even if it joins before. */
enum { RECORD_SILENT, RECORD_SPOKE, RECORD_OWES };

typedef struct entry {
    record *record;
    signature signature;
    const uint8_t *in;
    uint8_t *out;       /* NULL: the library allocates it at launch */
    uint64_t out_bytes; /* room there, where the result can have another size than the input */
    rueda_request *request;
    uint64_t submitted_ns;
    struct entry *next; /* in the inbox or a list of negotiate */
} entry;

/* What members have said of it in words; news.c. It is open while some have, and not all. */
typedef struct record_news {
    bool untold;        /* our description waits for the next round */
    int32_t open_index; /* place among the open ones, or -1 */
    signature mine;     /* what this rank said last */
    int first_rank;     /* who spoke first (index in the set) */
    uint32_t spoken;    /* members that have described it */
    uint8_t *spoke;     /* RECORD_SILENT, …, one for each member */
} record_news;

/* How it is remembered; cache.c. */
typedef struct record_cache {
    int32_t bit;         /* that stands for `agreed`, or -1 */
    uint64_t used_round; /* last round that decided it */
    bool recent;         /* used again since the cache's hand last passed */
} record_cache;

/* Who was asked about it because it waits for long; the engine's stall.c. */
typedef struct record_stall {
    uint64_t asked_ns;        /* when someone last asked who holds it, … */
    uint64_t asked_to_end_ns; /* … and when we did to end the job */
    uint32_t asked_number;    /* of our question about it; 0: none, or another rank reports it */
    uint32_t asked_index;     /* its place there */
} record_stall;

/* Of its last Adasum; guarded by the lock. */
typedef struct record_norms {
    bool known;
    double combined, leaves; /* squared norms */
    double counted;          /* leaves that were not 0 */
} record_norms;

struct record {
    struct record *chain; /* of the hash table */
    uint64_t hash;
    uint32_t length;
    entry *entry; /* pending here; guarded by the lock */

    record_news news;
    record_cache cache;
    bool waits;       /* the entry has reached negotiation and is not decided yet */
    uint32_t order;   /* among the candidates of this round */
    entry *launching; /* our entry that this round decided, or NULL: we have joined */

    /* what all members have agreed on; complete when it is decided */
    signature agreed;      /* what the first speaker said */
    int64_t *rows;         /* allgather, alltoall: rows that come from each member */
    uint64_t largest_rows; /* alltoall: largest split of any member */
    bool unequal;          /* alltoall: not all splits alike */
    bool all_mapped;       /* every speaker's memory can be reached */
    bool whole;            /* as decided, every member has a tensor: none has joined before */
    bool conflicting;      /* the members disagree about it */
    char *conflict;        /* the first disagreement; valid if conflicting */

    record_stall stall;
    record_norms norms;
    uint64_t *ready_ns; /* by member, for the timeline; NULL: not watched. readiness.c */

    char name[];
};

typedef struct queue {
    world_lock lock;
    record **buckets;
    size_t bucket_count, record_count;
    entry *inbox, **inbox_end;
    _Atomic uint64_t submitted; /* entries ever put into the inbox */
    uint64_t taken;             /* entries ever taken out; the driver's */
    uint64_t unnamed[SIGNATURE_KIND_COUNT];
    rueda_status closed; /* not OK: nothing may be submitted any more */
    char closed_text[STATUS_TEXT_MAX];
} queue;

rueda_status queue_init(queue *q);
/* Frees all records; entries must have been ended before. Safe on a zeroed queue. */
void queue_fini(queue *q);

/* Hands entries over, all or none. Each entry's record is found or made from names[i] (NULL: a name
 * is made up from the kind and a count). On success the queue owns entries and signatures.
 * ERR_DUPLICATE, ERR_MEMORY, or the status the queue was closed with. */
rueda_status queue_submit(queue *q, entry *const *entries, const char *const *names, size_t count);

/* All entries submitted since the last call, in order. */
entry *queue_take(queue *q);
static inline bool queue_has_mail(queue *q)
{
    return atomic_load_explicit(&q->submitted, memory_order_acquire) != q->taken;
}

/* From now on queue_submit returns this status. */
void queue_close(queue *q, rueda_status status, const char *text);

/* Finds or makes the record of a name; NULL: not there, or out of memory. */
record *queue_record(queue *q, const char *name, size_t length, bool make);

/* The record with this hash, or NULL; the caller holds the lock. */
record *queue_find_hash(const queue *q, uint64_t hash);

/* One record after the other, in no order; the first after NULL, and NULL after the last. The caller holds the
 * lock all the while. */
record *queue_next(const queue *q, const record *r);

/* Takes the entry off its record, so that the name may be submitted again. The caller ends the
 * request and frees the entry. */
void queue_finish(queue *q, entry *e);
/* The same for several, with one lock. */
void queue_finish_all(queue *q, entry *const *entries, size_t count);

/* The others decided this tensor without us: if its name was made up, it has used a number here,
 * too, so that the next unnamed one gets the same number on all ranks. */
void queue_skip_unnamed(queue *q, const record *r);

/* Forgets the record if nobody needs it any more. */
void queue_forget(queue *q, record *r);

void entry_free(entry *e); /* NULL is allowed */

#endif
