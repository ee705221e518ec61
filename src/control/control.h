/* control.h: how ranks agree, wake each other and end the job; never tensor data. On one host through
 * the segment, on several through the network; above this header nobody sees a difference.
 *
 * Rounds. Each process set has rounds 1, 2, …. A member contributes once to a round: ready bits,
 * flags and news. When all members have contributed, each reads all contributions, in the order of
 * the set, and so all compute the same result. Two buffers are enough: a member contributes to round
 * r+2 only after everyone has contributed to r+1, hence has read round r.
 *
 * Bells. Whoever changes shared memory that a peer may wait for calls control_notify; it costs a
 * fence and a load, and a system call only if the peer really sleeps.
 *
 * Abort. The first rank that finds the job broken says so for all, once; see control_abort.
 */
#ifndef RUEDA_CONTROL_H
#define RUEDA_CONTROL_H

#include "control/network.h"

/* Flags of a contribution, or-ed over the members. */
enum control_flags {
    CONTROL_NEWS = 1,  /* descriptions of tensors follow */
    CONTROL_JOINED = 2 /* this member has no more data */
};

/* This rank's place in the job. */
typedef struct control {
    segment *segment;
    network *network; /* NULL: all ranks are on this host */
    uint32_t rank;
    uint32_t
        pieces; /* wanted of a tensor, alike on all ranks; few where ranks take turns on a core */
    struct mpi_job *mpi; /* of the transport that needs it (transport/mpi/mpi.h); else NULL */
} control;

/* A process set as the control plane sees it. */
typedef struct control_group {
    const control *job;
    uint32_t set;          /* number of its part in every area */
    uint16_t size, index;  /* members, and which of them we are */
    const uint16_t *ranks; /* global rank of each member, ascending */
    uint64_t epoch;        /* tells sets apart that have the same number one after the other */
} control_group;

/* Before the first and after the last round of a group. */
rueda_status control_group_open(const control_group *g);
void control_group_close(const control_group *g);

/* Takes in what has come by the network; true: something moved. */
bool control_pump(const control *c);
/* Whether a rank shares our memory. */
static inline bool control_is_local(const control *c, uint32_t rank)
{
    return c->network == NULL || network_is_local(c->network, rank);
}
/* Whether a rank has left in good order. */
bool control_left(const control *c, uint32_t rank);
/* That a rank of this host touches no memory of others any more: we ourselves, or one that is dead. */
void control_let_go(const control *c, uint32_t rank);
bool control_has_let_go(const control *c, uint32_t rank); /* or has left */
/* From now on the others do not wait for us. */
void control_leave(const control *c);

/* Writes and publishes this member's part in `round`; the caller fills in flags, words, digest, ready
 * bits and news before, in the buffer that control_draft returns. Does not block. */
segment_contribution *control_draft(const control_group *g, uint64_t round);
void control_contribute(const control_group *g, uint64_t round);
uint8_t *control_news_of(const control_group *g, segment_contribution *c);

/* Whether member `index` has contributed to `round`. */
bool control_contributed(const control_group *g, uint64_t round, uint16_t index);
/* Whether any other member has. */
bool control_opened(const control_group *g, uint64_t round);
/* Whether all have. */
bool control_complete(const control_group *g, uint64_t round);
/* The contribution of a member to a complete round; valid until the caller contributes to the one
 * after the next. */
segment_contribution *control_part(const control_group *g, uint64_t round, uint16_t index);

/* Tells the other members that shared memory has changed. Before it: the change, at least with
 * release order. */
void control_notify(const control_group *g);
void control_notify_rank(const control *c, uint32_t rank);

/* Notes where this rank waits; true: another rank of the host waits on the same core, so that
 * spinning would only keep it from what we wait for. */
bool control_shares_core(const control *c);

/* Sleeping is: announce it, look once more, sleep, take it back. */
uint32_t control_sleep_announce(const control *c);
void control_sleep(const control *c, uint32_t seen, uint64_t timeout_ns);
void control_sleep_end(const control *c);

/* Ends the job for all ranks with one status; only the first call has an effect. */
void control_abort(const control *c, rueda_status status, int rank, const char *text);
/* RUEDA_OK, or the status and (in the thread's sentence) the text of the abort. Every rank that asks
 * has passed it on to its neighbours when this returns, so it may then go. */
rueda_status control_aborted(const control *c);
static inline bool control_is_aborted(const control *c)
{
    return atomic_load_explicit(&c->segment->header->aborted_by, memory_order_acquire) != 0;
}

#endif
