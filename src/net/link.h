/* link.h: inside a link; for link.c, door.c and tests. */
#ifndef RUEDA_NET_LINK_H
#define RUEDA_NET_LINK_H

#include "net/handshake.h"
#include "net/seal.h"

#define LINK_WHY 200 /* bytes of the reason, with the terminating zero */

struct net_link {
    int fd;
    net_state state;
    bool ended;            /* nothing more will arrive */
    bool altered;          /* what arrived was not what was sent */
    proof_verdict verdict; /* of a refused link */
    bool met_stranger;     /* of a refused call: somebody was there */
    uint64_t deadline_ns;  /* while it waits */
    net_purpose purpose;
    net_address peer;
    handshake *shake; /* NULL as soon as the link is open or refused */
    seal *seal;       /* NULL: there is no key, and nothing is protected */
    char why[LINK_WHY];
};

/* The host's side of an accepted connection; `all` (or NULL): what its door has heard. Takes the
 * descriptor over; NULL: out of memory, it stays the caller's. */
net_link *link_host(const net_identity *me, heard *all, int fd, const net_address *peer,
                    uint64_t deadline_ns);

/* Whether the caller has sent a hello that only one who has the key can have made, and that is new. */
bool link_is_credible(const net_link *link);

/* Sends on what waits inside an open link; the link may break by it. */
void link_push(net_link *link);

#endif
