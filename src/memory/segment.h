/* segment.h: the memory that all ranks of a host share, one file for each generation of a job.
 *
 * Layout (little-endian, SEGMENT_VERSION): a header page, then one area for each rank. An area holds
 * the rank's header and answers; for each process set a head, which is its two contributions to negotiation and
 * the flags of its channels; then for each process set a body, which is its news and its channels (sums,
 * addresses, slots, message rings) and the rings of one more channel, for sends and receives of two ranks. Every word is
 * written by the area's owner only, except bells (rung by peers), the consumed counts of rings
 * (written by the reader), and the header's words that name whose abort counts and count departures.
 * The memory of rueda_alloc is not in it: each process has a file of its own (heap.h), and a segment only
 * knows where this process has mapped those of its peers.
 *
 * Memory. Only the header page and what a rank has committed has memory; the rest of the file is a hole, and who
 * touches a hole may be killed for want of memory. The owner commits, before it writes: its own header and
 * all of the global set at the start, the head of a set when the set is made, a body as far as an
 * operation needs it. So peers may read a head when they know that all members have made the set, and
 * something of a body when a head says that it was written.
 * Areas start a non-power-of-two distance apart, plus some cache lines: equal low address bits on
 * all ranks cost several times in the caches.
 * Invariant: offsets follow from the header alone; the file never shrinks.
 */
#ifndef RUEDA_MEMORY_SEGMENT_H
#define RUEDA_MEMORY_SEGMENT_H

#include "base/config.h"
#include "world/world.h"

/* Places for process sets: one more than there can be sets, since the place of a set that was just removed
 * rests until all ranks have left it (engine/sets.c). */
#define SEGMENT_SETS (RUEDA_MAX_SETS + 1)
#define SEGMENT_MAGIC 0x61646575 /* "ueda" */
#define SEGMENT_VERSION 10
#define SEGMENT_NEWS_BYTES                                                                         \
    16384                     /* description of new tensors in one round, beside 8 bytes a rank */
#define SEGMENT_SUMS 512      /* tensors of one Adasum operation */
#define SEGMENT_SUM_PARTS 5   /* a·b, a·a, b·b, squared norms of the leaves, number of leaves */
#define SEGMENT_ADDRESSES 128 /* tensors of one operation on shared memory */
#define SEGMENT_RING_BYTES 65536 /* message bytes in flight between two ranks on one channel */
#define SEGMENT_SMALL_SLOT_BYTES                                                                   \
    OS_PAGE /* of a slot, for the small operations of added sets: 4 pages are enough for them */
#define SEGMENT_ABORT_TEXT 400
#define SEGMENT_QUESTION_NAMES 512 /* tensors that one question can be about */
#define SEGMENT_ANSWER_WORDS (SEGMENT_QUESTION_NAMES / 64)

/* What a rank tells by ending the job for all. It is written to the rank's own area first: a rank that
 * dies or stops meanwhile is in nobody's way. */
typedef struct segment_abort {
    uint32_t status; /* rueda_status */
    int32_t rank;    /* the culprit */
    char text[SEGMENT_ABORT_TEXT];
} segment_abort;

#define SEGMENT_END_OF_VIEW UINT32_C(0x80000000)

typedef struct segment_header {
    uint32_t magic, version;
    uint64_t generation;
    uint32_t ranks, channels, cache_words, sets;
    uint64_t slot_bytes;
    uint64_t bytes; /* of the whole file */
    /* rank + 1 whose abort counts, or with SEGMENT_END_OF_VIEW whose end of a view; 0: none */
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t aborted_by;
    _Atomic uint32_t timed;      /* someone here writes a timeline: contributions tell the time */
    _Atomic uint32_t departures; /* ranks that have left in good order */
} segment_header;

/* One line for sleeping and waking, so that ringing a bell touches nothing else. */
typedef struct segment_bell {
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t rings;
    _Atomic uint32_t sleeping;
    _Atomic int32_t core; /* where the rank last waited */
} segment_bell;

typedef enum segment_state { SEGMENT_ABSENT, SEGMENT_HERE, SEGMENT_LEFT } segment_state;

/* Which of these tensors of a process set do you hold? See control.h. */
typedef struct segment_question {
    _Atomic uint32_t number; /* written last; 0: none yet */
    uint32_t set;
    uint64_t epoch; /* of the set */
    uint32_t count, zero;
    uint64_t names[SEGMENT_QUESTION_NAMES]; /* hashes */
} segment_question;

typedef struct segment_answer {
    _Atomic uint32_t number; /* of the question; written last */
    uint32_t zero;
    uint64_t held[SEGMENT_ANSWER_WORDS]; /* a bit for each name */
} segment_answer;

typedef struct segment_rank {
    segment_bell bell;
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t work;  /* the rank's background thread sleeps on it */
    _Alignas(OS_CACHE_LINE) _Atomic uint32_t state; /* segment_state */
    int32_t pid;
    uint64_t process_space;     /* in which the number is valid */
    _Atomic uint64_t beats;     /* grows while the rank lives and runs */
    _Atomic uint32_t withdrawn; /* it touches no memory of others any more */
    uint32_t departure;         /* when it has left: how many had by then, with it */
    os_cpus cpus;               /* where it may run */
    segment_abort abort;        /* complete when the header names the rank */
    segment_abort end_of_view;  /* the same, said by another thread, of an elastic job */
    segment_question question;  /* the rank's last */
    config settings;
} segment_rank;

/* A rank's part in one round of negotiation; see control.h. */
typedef struct segment_contribution {
    _Alignas(OS_CACHE_LINE) _Atomic uint64_t round; /* written last; 0: none yet */
    uint32_t flags;
    uint32_t words; /* of ready bits */
    uint64_t digest;
    uint32_t news_bytes, news_count;
    uint64_t told_ns; /* when, by the clock of the host that reads it; 0: nobody wants to know */
    uint64_t ready[]; /* `cache_words` */
} segment_contribution;

/* How far a rank has come with the operations of a channel; see exec.h. */
typedef struct segment_flag {
    _Alignas(OS_CACHE_LINE) _Atomic uint64_t value;
    _Atomic uint32_t rings; /* not 0: the rank's message rings of the channel have memory */
} segment_flag;

typedef struct segment_address {
    uint64_t in, out; /* offsets in the heap of the rank that tells them */
} segment_address;

/* A stream of bytes to one reader; see transport/shm. */
typedef struct segment_ring {
    _Alignas(OS_CACHE_LINE) _Atomic uint64_t written;
    _Alignas(OS_CACHE_LINE) _Atomic uint64_t consumed;
    _Alignas(OS_CACHE_LINE) uint8_t bytes[SEGMENT_RING_BYTES];
} segment_ring;

/* The heap of a rank, as this process has mapped it. */
typedef struct segment_heap {
    uint8_t *base;  /* NULL: it cannot be reached */
    uint64_t bytes; /* 0: the mapping is not the segment's */
} segment_heap;

typedef struct segment {
    int fd;
    uint8_t *base;
    segment_header *header;
    uint64_t area_offset, area_bytes;                     /* first area, distance of areas */
    uint64_t head_offset, head_bytes;                     /* of sets, within an area */
    uint64_t contribution_bytes;                          /* each of two, in a head */
    uint64_t flags_offset;                                /* within a head */
    uint64_t body_offset, body_bytes;                     /* of sets, within an area */
    uint64_t news_bytes;                                  /* each of two, in a body */
    uint64_t channel_offset, channel_bytes;               /* within a body */
    uint64_t sums_offset, addresses_offset, slots_offset; /* within a channel */
    uint64_t rings_offset;                                /* within a channel */
    uint64_t message_offset; /* within a body: the channel that has rings only */
    uint8_t *committed;      /* by this rank: for each set its news, then its channels */
    segment_heap *heaps;     /* by rank; NULL: none can be reached */
} segment;

/* Makes the segment of a new generation, sized by the settings. */
rueda_status segment_create(segment *s, const config *settings, uint32_t ranks,
                            uint64_t generation);
/* Maps a segment made by another rank. Takes the descriptor over, also on failure. */
rueda_status segment_attach(segment *s, int fd);
void segment_close(segment *s);

/* Maps the heap of another rank, until segment_close. Takes the descriptor over, also on failure. */
rueda_status segment_attach_heap(segment *s, uint32_t rank, int fd);
/* Where our own is mapped, which stays the caller's. */
rueda_status segment_own_heap(segment *s, uint32_t rank, uint8_t *base);

/* Backs a rank's head of a process set with memory, and of the global set all but the rings; before the
 * others look at it, by its owner, as everything that commits. ERR_MEMORY. */
rueda_status segment_commit_set(segment *s, uint32_t rank, uint32_t set);
/* Backs a rank's news of a set. */
rueda_status segment_commit_news(segment *s, uint32_t rank, uint32_t set);
/* Backs what an operation uses of a rank's channel: slots of SEGMENT_SMALL_SLOT_BYTES alone, or everything
 * but the rings. */
rueda_status segment_commit_channel(segment *s, uint32_t rank, uint32_t set, uint32_t channel,
                                    bool small);
/* Backs a rank's message rings of a channel. */
rueda_status segment_commit_rings(segment *s, uint32_t rank, uint32_t set, uint32_t channel);
/* Whether something of a rank's body of a set was committed, and giving that memory back. */
bool segment_has_body(const segment *s, uint32_t set);
void segment_release_body(segment *s, uint32_t rank, uint32_t set);
/* A rank's head as it is before the first round and the first operation. */
void segment_clear_head(segment *s, uint32_t rank, uint32_t set);

/* The channel of a set that has message rings and nothing else. */
static inline uint32_t segment_message_channel(const segment *s)
{
    return s->header->channels;
}
/* Takes back what nobody has read of a rank's messages there, by that rank, when no member uses the set any
 * more: the next set in its place finds empty rings. */
void segment_empty_messages(segment *s, uint32_t rank, uint32_t set);

segment_rank *segment_rank_at(const segment *s, uint32_t rank);
/* What `rank` has answered to the last question of `asker`. */
segment_answer *segment_answer_at(const segment *s, uint32_t rank, uint32_t asker);
/* `round` selects one of the two buffers by its parity. */
segment_contribution *segment_contribution_at(const segment *s, uint32_t rank, uint32_t set,
                                              uint64_t round);
uint8_t *segment_news_at(const segment *s, uint32_t rank, uint32_t set, uint64_t round);
segment_flag *segment_flag_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel);
double *segment_sums_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel);
segment_address *segment_addresses_at(const segment *s, uint32_t rank, uint32_t set,
                                      uint32_t channel);
uint8_t *segment_slots_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel);
segment_ring *segment_ring_at(const segment *s, uint32_t rank, uint32_t set, uint32_t channel,
                              uint32_t reader);
/* What the addresses count from that a rank tells; NULL: its heap cannot be reached. */
uint8_t *segment_heap_at(const segment *s, uint32_t rank);

/* The time that a contribution carries; 0 as long as no rank of the host wants it. */
static inline uint64_t segment_time(const segment *s)
{
    return atomic_load_explicit(&s->header->timed, memory_order_relaxed) != 0 ? world_now_ns() : 0;
}

/* Bytes for news in a contribution. */
uint64_t segment_news_bytes(const segment *s);

#endif
