/* door.h: inside a door; for door.c and tests. */
#ifndef RUEDA_NET_DOOR_H
#define RUEDA_NET_DOOR_H

#include "net/link.h"

#define DOOR_KINDS PROOF_GOOD /* of refusals */

/* How many were refused and why, since the door was opened. garbage: also who left or broke off before
 * the proof was complete; wrong_purpose: another rank was meant, `encrypt` differs, or
 * net_door_refuse; repeated: what another connection has said already. */
typedef struct door_refusals {
    uint64_t wrong_key, wrong_job, wrong_generation, wrong_version, garbage, slow, crowded,
        wrong_purpose, repeated;
} door_refusals;

typedef struct guest {
    net_link *link;   /* NULL: the place is free */
    uint64_t arrival; /* its number among all arrivals */
    bool writes;      /* polled for writing */
} guest;

struct net_door {
    net_identity me;
    heard heard;
    logger log;
    int listener, epoll;
    uint64_t arrivals;
    uint64_t resume_ns; /* when accepting goes on; UINT64_MAX: it was not interrupted */
    bool full;          /* it was interrupted until a place is free */
    bool pause_told;
    int trouble; /* of our own that keeps it from accepting: an errno, or 0 */
    bool ran_short;
    bool told[DOOR_KINDS];
    door_refusals refusals;
    uint32_t guest_count; /* mostly 0, and asked for in every pass of a driver */
    guest guests[NET_GUESTS];
};

#endif
