/* control.h: how ranks agree, wake each other and end the job; never tensor data. On one host through
 * the segment, on several through the network; above this header nobody sees a difference.
 *
 * Rounds. Each process set has rounds, numbered from CONTROL_FIRST_ROUND. A member contributes once to
 * a round: ready bits, flags and news. When all members have contributed, each reads all contributions,
 * in the order of the set, and so all compute the same result. Two buffers are enough: a member
 * contributes to round r+2 only after everyone has contributed to r+1, hence has read round r.
 *
 * Bells. Whoever changes shared memory that a peer may wait for calls control_notify; it costs a
 * fence and a load, and a system call only if the peer really sleeps.
 *
 * Questions. A rank contributes once to a round, and what it submits later stays with it until the round
 * ends. Who must know it anyway, for a report, asks: which of these tensors does each member hold? Every
 * rank that runs answers at once, also one that has nothing to do.
 *
 * Abort. The first rank that finds the job broken says so for all, once; see control_abort.
 */
#ifndef RUEDA_CONTROL_H
#define RUEDA_CONTROL_H

#include "control/network.h"

/* Flags of a contribution, or-ed over the members. */
enum control_flags {
    CONTROL_NEWS = 1,    /* descriptions of tensors follow */
    CONTROL_JOINED = 2,  /* this member has no more data */
    CONTROL_RETIRING = 4 /* the set is being removed: this round is its last */
};

/* This rank's place in the job. */
typedef struct control {
    segment *segment;
    mesh *mesh;       /* connections; NULL: all ranks are on this host */
    network *network; /* control by them; NULL as well */
    uint32_t rank;
    uint64_t generation;
    control_answerer answer;
} control;

/* Where the ranks have met by TCP: opens mesh and network of `c`, which has all else. Takes the meeting over,
 * also on failure. control_close closes them; every channel is closed before. */
rueda_status control_open(control *c, boot_meeting *meeting, const boot_identity *who,
                          const control_terms *terms, const logger *log);
void control_close(control *c);

/* A process set as the control plane sees it. */
typedef struct control_members {
    const control *job;
    uint32_t set;          /* number of its part in every area */
    uint16_t size, index;  /* members, and which of them we are */
    const uint16_t *ranks; /* global rank of each member, ascending */
    uint64_t epoch; /* tells sets apart that have the same number one after the other: how many
                              sets had been added to the job */
} control_members;

/* Before the first and after the last round of a set. */
rueda_status control_members_open(const control_members *g);
void control_members_close(const control_members *g);
/* A set's rounds count from here: what another set has left at its place was cleared before. */
#define CONTROL_FIRST_ROUND UINT64_C(1)

/* Takes in what has come by the network; true: something moved. `now_ns` is not used without one. */
bool control_pump(const control *c, uint64_t now_ns);
/* Whether a rank shares our memory. */
static inline bool control_is_local(const control *c, uint32_t rank)
{
    return c->mesh == NULL || mesh_is_local(c->mesh, rank);
}
/* Whether a member has left, and all that it has contributed to rounds of the set can be seen. */
bool control_has_left(const control_members *g, uint16_t index);
/* 0: the rank has not left in good order. Who left because another had gone has a larger number than that
 * one, on every rank. */
uint32_t control_departure(const control *c, uint32_t rank);
/* That a rank of this host touches no memory of others any more: we ourselves, or one that is dead. */
void control_withdraw(const control *c, uint32_t rank);
bool control_has_withdrawn(const control *c, uint32_t rank); /* or has left */
/* From now on the others do not wait for us. */
void control_leave(const control *c);

/* Writes and publishes this member's part in `round`; the caller fills in flags, words, digest, ready
 * bits and news before, in the buffer that control_draft gives. `with_news`: there are some, for which memory
 * is taken. ERR_MEMORY. Does not block. */
rueda_status control_draft(const control_members *g, uint64_t round, bool with_news,
                           segment_contribution **draft);
void control_contribute(const control_members *g, uint64_t round);
/* The news of a member's contribution; to be touched only if there are some. */
uint8_t *control_news(const control_members *g, uint64_t round, uint16_t index);

/* From now on contributions that are read on this host carry the time (told_ns). */
void control_want_times(const control *c);

/* Whether member `index` has contributed to `round`. */
bool control_contributed(const control_members *g, uint64_t round, uint16_t index);
/* Whether any other member has. */
bool control_opened(const control_members *g, uint64_t round);
/* Whether all have. */
bool control_complete(const control_members *g, uint64_t round);
/* The contribution of a member to a complete round; valid until the caller contributes to the one
 * after the next. */
segment_contribution *control_part(const control_members *g, uint64_t round, uint16_t index);

/* Tells the other members that shared memory has changed. Before it: the change, at least with
 * release order. */
void control_notify(const control_members *g);
void control_notify_rank(const control *c, uint32_t rank);

/* Notes where this rank waits; true: another rank of the host waits on the same core, so that
 * spinning would only keep it from what we wait for. */
bool control_shares_core(const control *c);

/* Sleeping is: announce it, look once more, sleep, take it back. */
uint32_t control_sleep_announce(const control *c);
void control_sleep(const control *c, uint32_t seen, uint64_t timeout_ns);
void control_sleep_end(const control *c);

/* Wakes a rank's background thread, if it sleeps because there is nothing to do. */
void control_call(const control *c, uint32_t rank);

/* Asks the other members. The caller has filled in count and names of the draft; *number: which the
 * question will have. */
segment_question *control_question_draft(const control *c, uint32_t *number);
void control_ask(const control_members *g);
/* A rank's answer to our last question, a bit for each name; NULL: none yet. */
const uint64_t *control_answered(const control *c, uint32_t rank);
/* Whether others wait for an answer of ours, and giving it. With a network control_pump does it. */
bool control_is_asked(const control *c);
void control_answer(const control *c);

/* Ends the job for all ranks with one status; only the first call has an effect. */
void control_abort(const control *c, rueda_status status, int rank, const char *text);
/* The same with ERR_MEMBERS, where members of an elastic job change: by another thread than all other calls, on one
 * host. */
void control_end_view(const control *c, int rank, const char *text);
/* The same for what this rank has met itself, with the thread's sentence. What it lacks is its own affair:
 * the others must read whose it was. */
void control_fail(const control *c, rueda_status status);
/* RUEDA_OK, or the status and (in the thread's sentence) the text of the abort, with the rank that
 * control_abort was given in *rank. Every rank that asks has passed it on to its neighbours when this
 * returns, so it may then go. */
rueda_status control_aborted(const control *c, int *rank);
static inline bool control_is_aborted(const control *c)
{
    return atomic_load_explicit(&c->segment->header->aborted_by, memory_order_acquire) != 0;
}

#endif
