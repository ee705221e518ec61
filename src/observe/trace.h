/* trace.h: the last steps of every operation, kept in a ring for the day the job breaks.
 *
 * A record says that a tick of a plan is done, or at which step an operation waits and for whom; the
 * numbers are those that `rueda plan` prints. Since steps run in their order, that also says which ones
 * are done: a record for each would cost small operations more than 2 % of their time.
 * Writing is for the driving thread alone. Reading is for anyone at any time: a reader that is overtaken
 * loses the oldest records and sees no torn ones.
 * Invariant: a ring that is off has no memory, and exec then gets no trace at all.
 */
#ifndef RUEDA_OBSERVE_TRACE_H
#define RUEDA_OBSERVE_TRACE_H

#include "observe/log.h"
#include "world/world.h"

#include <stddef.h>

#define TRACE_WORDS 4        /* of 8 bytes, a record */
#define TRACE_LINE_MAX 256   /* bytes of a record for people */
#define TRACE_LOG_RECORDS 32 /* the latest ones, when the trace goes to the log */
#define TRACE_NOBODY UINT16_MAX

/* How many bits a record keeps of each number. */
#define TRACE_NUMBER_BITS 36
#define TRACE_SET_BITS 12
#define TRACE_NAME_BITS 4 /* of event, kind, collective and algorithm */
#define TRACE_STEP_BITS 24
#define TRACE_TICK_BITS 24
#define TRACE_PHASE_BITS 16
#define TRACE_PEER_BITS 16
#define TRACE_GENERATION_BITS 16

typedef enum trace_event {
    TRACE_RAN,  /* the tick is done, with steps first_step to last_step; kind is that of the last */
    TRACE_ENDS, /* likewise, and it was the operation's last tick */
    TRACE_WAITS, /* has tried first_step for a while; for `peer`, or TRACE_NOBODY in particular */
    TRACE_FAILS, /* at first_step: what arrived is not what the plan says */
    TRACE_EVENT_COUNT
} trace_event;

typedef struct trace_record {
    uint64_t time_ns; /* of world_now_ns, or of world_now_coarse_ns where only the end is told */
    uint64_t number;  /* of the operation in its set */
    uint32_t set, generation;
    uint32_t phase, tick, first_step, last_step;
    uint16_t peer;                              /* index in the set */
    uint8_t event, kind, collective, algorithm; /* trace_event; numbers of plan.h */
} trace_record;

typedef struct trace {
    _Atomic uint64_t *words; /* NULL: off */
    uint64_t mask;           /* records − 1 */
    _Atomic uint64_t head;   /* records ever written */
    uint32_t generation;     /* its low TRACE_GENERATION_BITS */
} trace;

/* A ring of at least `records`, rounded up to a power of two; 0: off. ERR_MEMORY. */
rueda_status trace_init(trace *t, uint64_t records, uint64_t generation);
void trace_fini(trace *t); /* safe on a zeroed one */

/* What exec gets: NULL when the ring is off. */
static inline trace *trace_if_on(trace *t)
{
    return t->words != NULL ? t : NULL;
}

/* Adds a record whose numbers are within their bits; generation is the ring's. */
static inline void trace_put(trace *t, const trace_record *r)
{
    const uint64_t at = atomic_load_explicit(&t->head, memory_order_relaxed);
    _Atomic uint64_t *to = &t->words[(at & t->mask) * TRACE_WORDS];
    /* whoever sees a word of this record also sees that the one before it is complete */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&to[0], r->time_ns, memory_order_relaxed);
    atomic_store_explicit(&to[1],
                          r->number << (64 - TRACE_NUMBER_BITS) | (uint64_t)r->set << 16 |
                              (uint64_t)r->event << 12 | (uint64_t)r->kind << 8 |
                              (uint64_t)r->collective << 4 | r->algorithm,
                          memory_order_relaxed);
    atomic_store_explicit(&to[2],
                          (uint64_t)r->tick << 32 | (uint64_t)r->phase << TRACE_PEER_BITS | r->peer,
                          memory_order_relaxed);
    atomic_store_explicit(&to[3],
                          (uint64_t)r->first_step << 40 |
                              (uint64_t)r->last_step << TRACE_GENERATION_BITS | t->generation,
                          memory_order_relaxed);
    atomic_store_explicit(&t->head, at + 1, memory_order_release);
}

/* Copies the latest records, at most `capacity` and one less than the ring has, oldest first; returns
 * how many. Any thread. */
size_t trace_read(const trace *t, trace_record *to, size_t capacity);

/* The words for numbers that only the plan knows. */
typedef struct trace_names {
    const char *(*kind)(uint8_t kind);
    const char *(*collective)(uint8_t collective);
    const char *(*algorithm)(uint8_t algorithm);
} trace_names;

/* One record for people, without a newline. Returns text. */
const char *trace_format(const trace_record *r, const trace_names *names,
                         char text[TRACE_LINE_MAX]);

/* Writes the ring to `path` with the rank appended (of a later generation after what is there), or,
 * if the path is empty, its latest TRACE_LOG_RECORDS to the log. What goes wrong goes to the log. */
void trace_dump(const trace *t, const trace_names *names, const char *path, const logger *log);

#endif
