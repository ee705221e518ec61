/* trace.h: the last steps of every operation, kept in a ring for the day the job breaks.
 *
 * A record says which steps of a plan have run, or at which step an operation waits and for whom; the
 * numbers are those that `rueda plan` prints. One record covers the steps that ran without a pause in
 * one tick: a record for each step would cost a small operation more than 2 % of its time.
 * Writing is for the driving thread alone. Reading is for anyone at any time: a reader that is overtaken
 * loses the oldest records and sees no torn ones.
 * Invariant: a ring that is off has no memory, and exec then gets no trace at all.
 */
#ifndef RUEDA_OBSERVE_TRACE_H
#define RUEDA_OBSERVE_TRACE_H

#include "base/os.h"
#include "observe/log.h"

#include <stddef.h>

#define TRACE_WORDS 4        /* of 8 bytes, a record */
#define TRACE_LINE_MAX 192   /* bytes of a record for people */
#define TRACE_LOG_RECORDS 32 /* the latest ones, when the trace goes to the log */
#define TRACE_NUMBER_BITS 48 /* of the number of an operation */
#define TRACE_STEP_BITS 24   /* of a step, and of a tick */
#define TRACE_GENERATION_BITS 16

typedef enum trace_event {
    TRACE_BEGINS, /* the first record of an operation: kind and peer are collective and algorithm,
                     last_step the number of tensors */
    TRACE_RAN,    /* steps first_step to last_step are done; kind is that of the last */
    TRACE_WAITS,  /* at first_step, of this kind; for `peer`, or for TRACE_NOBODY in particular */
    TRACE_ENDS,   /* like TRACE_RAN, and these were the operation's last steps */
    TRACE_FAILS,  /* at first_step: what arrived is not what the plan says */
    TRACE_EVENT_COUNT
} trace_event;

#define TRACE_NOBODY UINT16_MAX

typedef struct trace_record {
    uint64_t time;   /* ticks of os_ticks; trace_read gives nanoseconds of os_now_ns */
    uint64_t number; /* of the operation in its set */
    uint32_t set, generation;
    uint32_t phase, tick, first_step, last_step;
    uint8_t event, kind; /* trace_event; plan_kind */
    uint16_t peer;       /* index in the set */
} trace_record;

typedef struct trace {
    _Atomic uint64_t *words; /* NULL: off */
    uint64_t mask;           /* records − 1 */
    _Atomic uint64_t head;   /* records ever written */
    uint32_t generation;
    uint64_t origin_ticks, origin_ns; /* read together at the start */
} trace;

/* A ring of at least `records`, rounded up to a power of two; 0: off. ERR_MEMORY. */
rueda_status trace_init(trace *t, uint64_t records, uint64_t generation);
void trace_fini(trace *t); /* safe on a zeroed one */

/* What exec gets: NULL when the ring is off. */
static inline trace *trace_if_on(trace *t)
{
    return t->words != NULL ? t : NULL;
}

/* Adds a record; generation is the ring's. */
static inline void trace_put(trace *t, const trace_record *r)
{
    const uint64_t at = atomic_load_explicit(&t->head, memory_order_relaxed);
    _Atomic uint64_t *to = &t->words[(at & t->mask) * TRACE_WORDS];
    /* whoever sees a word of this record also sees that the one before it is complete */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&to[0], r->time, memory_order_relaxed);
    atomic_store_explicit(&to[1],
                          r->number << 16 | (uint64_t)(r->set & 0xff) << 8 | (uint64_t)r->event,
                          memory_order_relaxed);
    atomic_store_explicit(&to[2],
                          (uint64_t)r->tick << 40 | (uint64_t)(r->phase & 0xffff) << 24 |
                              (uint64_t)r->peer << 8 | r->kind,
                          memory_order_relaxed);
    atomic_store_explicit(&to[3],
                          (uint64_t)r->first_step << 40 |
                              (uint64_t)(r->last_step & 0xffffff) << 16 | (t->generation & 0xffff),
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
