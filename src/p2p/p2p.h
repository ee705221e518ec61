/* p2p.h: sends and receives between two members of a process set, outside of its rounds.
 *
 * A round needs every member and a send concerns two, so they have a channel of their own, which carries
 * messages only. The sender announces a tensor: its name, type and shape, and the data with it where that is
 * little. The receiver looks for a receive of that name, or keeps the announcement until one comes; then it
 * says GO, the data follows in slices, and DONE ends both. The sender ends with DONE, whatever the size: a
 * send that has ended well was received, and the two agree about it.
 *
 * Order. Of two sends of one name from one rank to another the first is received first. Other names may
 * overtake. Memory. Data goes through the transport, so no peer ever knows an address of ours.
 *
 * Invariants: a stream is read whenever a call waits for its peer, and everything on it is taken in, so
 * nothing unread is in the way of another name. Data that nobody has asked for takes at most P2P_EAGER_MOST
 * bytes for each sender; beside it a description for each send that is pending there. No receive that waits
 * would fit an announcement that is here.
 *
 * Everything but p2p_call_new and p2p_submit belongs to the driver.
 */
#ifndef RUEDA_P2P_H
#define RUEDA_P2P_H

#include "queue/request.h"
#include "transport/transport.h"

#define P2P_EAGER_BYTES 8192        /* a tensor of at most so many goes with its announcement … */
#define P2P_EAGER_MOST (256 * 1024) /* … unless so much is on its way to that rank already */
#define P2P_SLICE_BYTES (256 * 1024) /* of a larger one, then another one has its turn */
#define P2P_PASS_MOST (256 * 1024)   /* bytes from or to one peer, then others have their turn */
#define P2P_BUCKETS 256              /* of names that wait */
#define P2P_ANYONE (-1)              /* instead of a member */

/* What both sides must say alike. */
typedef struct p2p_tensor {
    uint8_t dtype, ndim;
    uint64_t bytes;
    int64_t shape[RUEDA_MAX_DIMS];
} p2p_tensor;

/* Where a call is on its way. */
typedef enum p2p_state {
    P2P_NEW,      /* to be announced, or to be looked for */
    P2P_WAITS,    /* for the other side to call */
    P2P_GO_DUE,   /* a receive that has found its send: GO is to be said */
    P2P_FLOWS,    /* its data moves, or is about to; both sides have agreed on it */
    P2P_DONE_DUE, /* a receive that has all: DONE is to be said */
} p2p_state;

/* A send or a receive that a caller has handed over. */
typedef struct p2p_call {
    struct p2p_call *next;           /* of the list it waits in */
    struct p2p_call *before, *after; /* among all pending ones, as they were submitted */
    bool sends;
    uint8_t state;  /* p2p_state */
    bool refused;   /* a receive that does not fit its send */
    int32_t member; /* the other side, or P2P_ANYONE */
    p2p_tensor tensor;
    uint8_t *data; /* read by a send, written by a receive */
    rueda_request *request;
    uint64_t submitted_ns, told_ns; /* told: when the report of stalls last had it */
    uint64_t number;                /* of the send among those to its receiver */
    uint64_t moved;                 /* bytes of data */
    uint64_t hash;                  /* of the name */
    uint32_t name_length;
    char name[]; /* terminated */
} p2p_call;

typedef struct p2p p2p;

/* A call of a tensor of this name (NULL: all unnamed ones are alike); the caller fills in the rest. NULL: out
 * of memory. Freed by p2p_call_free, once it has ended. */
p2p_call *p2p_call_new(const char *name);
void p2p_call_free(p2p_call *call); /* not its request; NULL is allowed */

/* Sends and receives of a set. `lock` guards what is handed over. NULL: out of memory. */
p2p *p2p_new(const control_members *members, world_lock *lock);
void p2p_free(p2p *p); /* closes the channel; calls must have ended; NULL is allowed */

/* Hands a call over; the caller holds the lock. */
void p2p_submit(p2p *p, p2p_call *call);
bool p2p_has_mail(const p2p *p);

/* The channel, or NULL: it is to be given before anything can move. */
transport_channel *p2p_channel(const p2p *p);
void p2p_set_channel(p2p *p, transport_channel *channel);

/* One pass: never blocks; *moved becomes true if anything did. An error ends the job. */
rueda_status p2p_step(p2p *p, bool *moved);
/* A call that has ended and whose request has not, or NULL. Its own status is in the request. */
p2p_call *p2p_take_ended(p2p *p);
/* From now on nothing is read or sent: the set is being removed. */
void p2p_retire(p2p *p);
/* Takes all out that are pending, also those just handed over: p2p_take_ended gives them. */
void p2p_abandon(p2p *p);

size_t p2p_pending(const p2p *p);
bool p2p_is_idle(const p2p *p); /* nothing is pending, nor handed over: a pass would do nothing */
bool p2p_has_flight(const p2p *p); /* some that both sides have agreed on */
/* Whether a call can never end now that this member has left; `alone`: all others have left. */
bool p2p_is_stuck_on(const p2p *p, uint16_t member, bool alone);
/* The pending calls as they were submitted. */
p2p_call *p2p_first(const p2p *p);
/* Whether the other side has not called yet. */
static inline bool p2p_waits(const p2p_call *call)
{
    return call->state == P2P_NEW || call->state == P2P_WAITS;
}
const char *p2p_shown(const p2p_call *call); /* the name in a sentence */

#endif
