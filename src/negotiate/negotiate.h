/* negotiate.h: which tensors are ready everywhere, in one order.
 *
 * One negotiation per process set. A tensor that is new, or that a rank describes differently than
 * before, is described in full by every member (it is "open"); when all have spoken it is decided:
 * launched if they agree, ended with one error for all if not. A tensor that was decided gets a bit
 * of the cache; from then on a bit in the contribution says "mine is ready, as before".
 * Invariant: order, cache and errors change only by the result of a round, which all members compute
 * from the same contributions; nothing local but the contribution itself enters it.
 */
#ifndef RUEDA_NEGOTIATE_H
#define RUEDA_NEGOTIATE_H

#include "control/control.h"
#include "observe/timeline.h"
#include "queue/queue.h"

typedef struct negotiation {
    control_members *members;
    queue *queue;
    uint64_t round;   /* the one we contribute to next, or have contributed to */
    bool contributed; /* to `round` */
    bool has_news;    /* something changed here since our last contribution */
    uint32_t waiting; /* entries that wait for a decision, join included */
    bool retiring;    /* the set is being removed: see negotiation_retire */
    bool retired;     /* its last round is decided */

    uint64_t *ready;         /* our bits */
    uint64_t *both;          /* scratch: and over members */
    uint64_t *either;        /* scratch: or over members */
    record **cache;          /* by bit */
    uint32_t capacity, used; /* bits that exist, and that have ever been used */
    uint32_t hand;           /* where the search for a bit to reuse goes on */
    uint64_t digest;         /* of all changes of the cache so far */

    entry *to_tell, **to_tell_end; /* to be described in the coming rounds */
    record **open;                 /* being described, in the order of first mention */
    uint32_t open_count, open_capacity;

    bool *joined; /* by member */
    uint32_t joined_count;
    int last_joined; /* index of the member that joined last */
    entry *join;     /* ours, pending */

    record **decided; /* result of a round */
    uint32_t decided_count, decided_capacity;

    timeline *timeline; /* told of rounds; NULL: none */

    _Atomic uint64_t rounds, messages, announcements; /* statistics */
} negotiation;

/* What a round brought. */
typedef struct negotiation_result {
    record *const *decided; /* in launch order; valid until the next call */
    uint32_t count;
    entry *join; /* not NULL: every member has joined, our join has ended */
} negotiation_result;

rueda_status negotiation_init(negotiation *n, control_members *g, queue *q, uint32_t capacity);
void negotiation_fini(negotiation *n); /* safe on a zeroed one */

/* Moves new entries from the inbox; marks them as waiting. */
void negotiation_take_mail(negotiation *n);

/* Contributes if there is reason to, and reads the result if the round is complete. Never blocks.
 * `hold`: don't open a round now, let tensors gather (a round opened by others is still answered).
 * *moved: something happened. *complete: the result is valid. ERR_MEMORY, ERR_INTERNAL: the set is
 * broken and must be aborted. */
rueda_status negotiation_progress(negotiation *n, bool hold, bool *moved, bool *complete,
                                  negotiation_result *result);

/* The set is being removed, on all members. Each says so in its next contribution, and the first round in
 * which somebody has is the last one: so all members decide the same rounds, however far they were when
 * they heard of the removal, and nobody launches what another has not. */
void negotiation_retire(negotiation *n);

/* A decided record is launched or failed: forget what was said about it. */
void negotiation_settle(negotiation *n, record *r);

/* Entries that wait and would never be decided any more; for ending them with an error. Takes them
 * out of the negotiation. */
entry *negotiation_abandon(negotiation *n);

/* What record.ready_ns holds was told, or is of no interest. */
void negotiation_forget_ready(const negotiation *n, record *r);

/* Whether a member is known to have submitted a waiting record, or has joined; for the stall report. What
 * it has submitted since it last contributed is not known here. */
bool negotiation_knows(const negotiation *n, const record *r, uint16_t member);

/* ---- between the files of this folder ---- */

/* cache.c */
void cache_remember(negotiation *n, record *r);
void cache_retire(negotiation *n, record *r);
void cache_reset(negotiation *n);
bool bit_test(const uint64_t *bits, uint32_t index);
void bit_set(uint64_t *bits, uint32_t index);
void bit_clear(uint64_t *bits, uint32_t index);

/* news.c */
uint32_t news_write(negotiation *n, uint8_t *to, uint64_t room, uint32_t *bytes);
rueda_status news_read(negotiation *n, uint16_t member, const uint8_t *from, uint32_t bytes,
                       uint32_t count);
void news_queue(negotiation *n, entry *e);
void news_sweep(negotiation *n); /* drops records whose open_index was set to -1 */

/* readiness.c */
void readiness_read(negotiation *n); /* the round is complete and read, not decided yet */

/* decide.c */
rueda_status decide(negotiation *n);

#endif
