/* timeline.h: what happened to every tensor, and when, as a file for Perfetto or chrome://tracing.
 *
 * The driving thread drops notes into a ring and never waits; a thread of the timeline turns them into
 * events (timeline_text.c) and adds those to the file (timeline_file.c). Notes that find no room are
 * counted, and the count is told in the file and in the log.
 * Events have Horovod's names. A tensor is a process of the trace, a rank is a thread in it. Times are
 * microseconds of the host's monotonic clock, plus the rank's offset to the clock of rank 0.
 * Invariant: a note says all of an activity, its beginning and its end: whenever a timeline starts or
 * stops, and whichever notes are dropped, beginnings and ends stay paired.
 */
#ifndef RUEDA_OBSERVE_TIMELINE_H
#define RUEDA_OBSERVE_TIMELINE_H

#include "observe/log.h"
#include "observe/note_ring.h"
#include "observe/timeline_file.h"
#include "observe/timeline_text.h"
#include "world/world.h"

#define TIMELINE_RING_BYTES (4 << 20)  /* notes that the writer has not seen yet */
#define TIMELINE_TEXT_BYTES (32 << 20) /* events not yet in the file */
#define TIMELINE_FLUSH_NS                                                                          \
    UINT64_C(100000000)            /* between two additions to the file, for each writer */
#define TIMELINE_DYNAMIC "DYNAMIC" /* Horovod's word for "none until asked for" */

typedef struct timeline {
    _Atomic bool on; /* the driver writes notes */
    _Atomic bool mark_rounds;
    _Atomic int64_t offset_ns;
    _Atomic bool offset_known;
    _Atomic uint64_t dropped; /* notes, in this timeline */
    int rank;
    const logger *log;
    note_ring ring; /* stays after the first start: the driver may still be in it after a stop */

    _Atomic uint32_t
        changing; /* 1: a thread starts or stops it, and nobody else uses what follows */
    bool running;
    world_thread writer;
    int writers;
    bool await_offset;
    _Atomic uint32_t stopping, wake; /* the writer sleeps on `wake` */

    /* the writer's while it runs */
    timeline_file file;
    timeline_text text;
    uint64_t told_dropped;
    rueda_status status; /* of the file */
} timeline;

void timeline_init(timeline *t, int rank, const logger *log);
void timeline_fini(timeline *t); /* stops it first */

typedef struct timeline_options {
    const char *path;
    bool fresh;         /* the file starts empty, whatever was there; else it is added to */
    bool mark_rounds;   /* notes of timeline_round are wanted */
    uint64_t max_bytes; /* of the file */
    int writers;        /* ranks that write to it from this host: they take turns */
    bool await_offset;  /* notes stay in the ring until timeline_set_offset has been called */
} timeline_options;

/* Writes to a file from now on. ERR_STATE: one is being written. ERR_ARGUMENT, ERR_SYSTEM: the file.
 * ERR_MEMORY. Any thread. */
rueda_status timeline_start(timeline *t, const timeline_options *options);
/* Returns when all is in the file; OK also if there is none. ERR_SYSTEM: something could not be written.
 * Any thread. */
rueda_status timeline_stop(timeline *t);

/* To be added to this rank's clock to get that of rank 0; 0 on the same host. Any thread. */
void timeline_set_offset(timeline *t, int64_t offset_ns);

/* Whether notes are wanted; NULL is allowed. */
static inline bool timeline_is_on(const timeline *t)
{
    return t != NULL && atomic_load_explicit(&t->on, memory_order_acquire);
}

/* ---- Notes: the driving thread's, and only while the timeline is on -------------------------- */

/* A tensor of a process set under an operation ("ALLREDUCE", static). */
typedef struct timeline_subject {
    const char *name;
    uint32_t name_length;
    int32_t set;
    const char *op;
} timeline_subject;

/* It has waited long to be ready everywhere, and still does. */
void timeline_waiting(timeline *t, const timeline_subject *s, uint64_t submitted_ns);

/* It was found ready everywhere, or refused with this status. Member i of the set, rank ranks[i], was
 * ready at ready_ns[i]; 0: not known. `ready_ns` may be NULL. */
void timeline_negotiated(timeline *t, const timeline_subject *s, uint64_t submitted_ns,
                         uint64_t decided_ns, rueda_status status, const uint64_t *ready_ns,
                         const uint16_t *ranks, uint16_t count);

typedef struct timeline_work {
    uint64_t decided_ns, began_ns, ended_ns; /* began_ns 0: it never began */
    rueda_status status;
    rueda_dtype dtype;
    int ndim;
    const int64_t *shape;
    const char *engine, *algorithm; /* "shm", "ring"; static */
    uint64_t number;                /* of the operation in its set */
    uint32_t tensors;               /* that it combined as one */
} timeline_work;

/* It was worked on. */
void timeline_done(timeline *t, const timeline_subject *s, const timeline_work *w);

/* A negotiation round starts; no note unless rounds are marked. */
void timeline_round(timeline *t, int32_t set, uint64_t round);

#endif
