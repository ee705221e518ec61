/* p2p_parts.h: between p2p.c (calls), match.c (who fits whom), write.c and read.c (the streams). */
#ifndef RUEDA_P2P_PARTS_H
#define RUEDA_P2P_PARTS_H

#include "p2p/p2p.h"

#define P2P_UNIT 8 /* bytes; frames and their parts are multiples of it */
/* Shape and name of an announcement at most. */
#define P2P_DETAILS_MOST (RUEDA_MAX_DIMS * sizeof(int64_t) + RUEDA_MAX_NAME + 1)

/* What travels. Behind the frame: ANNOUNCE: shape, name, and the data if it is eager; DATA: `bytes` of it;
 * DONE that refuses: the receiver's shape. */
typedef enum p2p_kind { P2P_ANNOUNCE = 1, P2P_GO, P2P_DATA, P2P_DONE, P2P_KIND_COUNT } p2p_kind;
enum p2p_flags { P2P_EAGER = 1, P2P_REFUSED = 2 };

typedef struct p2p_frame {
    uint32_t mark; /* of job and set: a stray frame is an error and never wrong data */
    uint8_t kind, flags, dtype, ndim;
    uint32_t name_length, zero;
    uint64_t number; /* of the send */
    uint64_t bytes;  /* of the tensor; DATA: of this slice */
} p2p_frame;

_Static_assert(sizeof(p2p_frame) % P2P_UNIT == 0, "frames keep the stream aligned");
_Static_assert(P2P_DETAILS_MOST % P2P_UNIT == 0, "the details, too");

static inline uint64_t p2p_padded(uint64_t bytes)
{
    return (bytes + P2P_UNIT - 1) / P2P_UNIT * P2P_UNIT;
}

/* A first-in first-out list of calls. */
typedef struct p2p_list {
    p2p_call *first, **end; /* end is NULL for a list that was never used */
} p2p_list;

void p2p_append(p2p_list *list, p2p_call *call);
p2p_call *p2p_pop(p2p_list *list); /* NULL: empty */
/* Takes out the call of this number, or NULL. */
p2p_call *p2p_extract(p2p_list *list, uint64_t number);
void p2p_remove(p2p_list *list, p2p_call *call);

/* A send that has been announced and is not matched yet. */
typedef struct p2p_arrival {
    struct p2p_arrival *next; /* of the bucket, in the order of arrival */
    uint16_t from;
    bool eager;
    p2p_tensor tensor;
    uint64_t number;
    p2p_call *own; /* to ourselves: the send itself */
    uint64_t hash;
    uint32_t name_length;
    const char *name; /* behind the data */
    uint8_t data[];   /* if eager */
} p2p_arrival;

typedef struct p2p_bucket {
    p2p_list receives;                     /* that wait */
    p2p_arrival *arrivals, **arrivals_end; /* that wait; end is NULL for one that was never used */
} p2p_bucket;

/* The frame that is being sent to a peer. */
typedef struct p2p_writer {
    p2p_call *call; /* whose frame; NULL: none */
    uint8_t head[sizeof(p2p_frame) + P2P_DETAILS_MOST];
    uint64_t head_bytes, body_bytes, moved;
    const uint8_t *body;
} p2p_writer;

/* The frame that is being received from a peer. */
typedef struct p2p_reader {
    uint8_t head[sizeof(p2p_frame) + P2P_DETAILS_MOST];
    uint64_t head_bytes; /* wanted; 0: the frame itself comes first */
    uint64_t body_bytes; /* that follow the head, with padding of `body_used` */
    uint64_t body_used, moved;
    uint8_t *body;
    p2p_arrival *arrival; /* an announcement that is being read */
    p2p_call *receive;    /* DATA: whose */
} p2p_reader;

typedef struct p2p_peer {
    size_t calls;       /* pending ones that only this peer can end */
    uint64_t numbered;  /* sends to it so far */
    uint64_t eager;     /* bytes sent with announcements that are not done */
    p2p_list fresh;     /* sends to be announced */
    p2p_list announced; /* sends that wait for GO or DONE */
    p2p_list flowing;   /* sends that have data to send, in turn */
    p2p_list due;       /* receives that have GO or DONE to say */
    p2p_list receiving; /* receives whose data comes */
    p2p_writer out;
    p2p_reader in;
} p2p_peer;

struct p2p {
    const control_members *members;
    world_lock *lock;
    p2p_list inbox;             /* guarded by the lock */
    _Atomic uint64_t submitted; /* ever */
    uint64_t taken;             /* of those; the driver's, as all that follows */
    transport_channel *channel; /* NULL: not opened yet */
    bool retired;
    uint32_t mark;
    size_t pending, from_anyone; /* calls; receives of those that wait for any rank */
    uint16_t turn;               /* the member that is looked at first */
    p2p_call *first, *last;      /* all pending ones */
    p2p_list looking;            /* receives that have not looked at what is here */
    p2p_list ended;
    p2p_bucket buckets[P2P_BUCKETS];
    p2p_peer peers[]; /* by member */
};

static inline int p2p_rank(const p2p *p, int32_t member)
{
    return p->members->ranks[member];
}

/* p2p.c */
/* The call has ended, with OK unless its request has a status already. */
void p2p_end(p2p *p, p2p_call *call);
/* Gives the request its status, as RUEDA_ERR_MISMATCH with the sentence of both sides. */
void p2p_disagree(p2p_call *call, int sender, const p2p_tensor *sent, int receiver,
                  const p2p_tensor *wanted);

/* match.c */
bool p2p_alike(const p2p_tensor *a, const p2p_tensor *b);
void p2p_look(p2p *p, p2p_call *receive);      /* takes what is here for it, or waits */
void p2p_arrive(p2p *p, p2p_arrival *arrival); /* takes it over */
rueda_status p2p_send_to_self(p2p *p, p2p_call *send);

/* write.c, read.c: as far as it goes without waiting. */
void p2p_write(p2p *p, uint16_t member, bool *moved);
rueda_status p2p_read(p2p *p, uint16_t member, bool *moved);

#endif
