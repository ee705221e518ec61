/* network.h: this rank's sockets in a job on several hosts (or with tcp forced).
 *
 * Control travels on links of its own, apart from all data. Each process set has a tree over its
 * members: a contribution is passed on to every neighbour in the tree but the one it came from, so
 * each member gets it exactly once, and nobody outside of the set is needed. An abort or a departure
 * goes to all neighbours of all sets. A member's part in a round is kept here, in the form it would
 * have in the segment. Data streams are links of their own, one for each set, channel and pair of
 * ranks, made when first used. Of two ranks the higher one calls. The window that TCP grants is the
 * receiver's credit, and no stream stands in the way of another.
 *
 * Contract: everything but network_ring belongs to the driver. Nothing blocks but network_sleep and
 * network_close.
 */
#ifndef RUEDA_CONTROL_NETWORK_H
#define RUEDA_CONTROL_NETWORK_H

#include "boot/boot.h"

typedef struct network network;
typedef struct network_stream network_stream;

/* Takes the meeting over, also on failure. The settings and the segment must outlive the network. */
rueda_status network_open(boot_meeting *meeting, const config *settings, const boot_identity *who,
                          uint64_t generation, const logger *log, const segment *s,
                          network **opened);
/* Tells everybody that we leave; after it network_flush and network_close. */
void network_leave(network *n);
/* Waits until what was sent is received, at most limit_ns; of a job that is broken (not `whole`) only
 * control counts. */
void network_flush(network *n, bool whole, uint64_t limit_ns);
void network_close(network *n);  /* NULL is allowed */
void network_forget(network *n); /* in a forked child: closes its copies of the descriptors */

/* Moves everything on that can be; true: something happened. */
bool network_pump(network *n, uint64_t now_ns);
/* Until something arrives, the bell rings, or the time is up. */
void network_sleep(network *n, uint64_t timeout_ns);
/* Wakes a rank of this host (or ourselves) out of network_sleep. Any thread. */
void network_ring(const network *n, uint32_t rank);

bool network_is_local(const network *n, uint32_t rank); /* shares our memory */
/* Number of the host for plans: ranks with the same number share memory. */
uint32_t network_host(const network *n, uint32_t rank);

/* ---- Rounds: see control.h ---- */
rueda_status network_set_open(network *n, uint32_t set, uint64_t epoch, const uint16_t *ranks,
                              uint16_t size);
void network_set_close(network *n, uint32_t set);
segment_contribution *network_part(const network *n, uint32_t set, uint64_t round, uint16_t index);
void network_contribute(network *n, uint32_t set, uint64_t round, uint16_t index);

/* ---- What is known of the others ---- */

bool network_left(const network *n, uint32_t rank); /* in good order */
/* What added to our clock gives rank 0's, in ns; 0 as long as it is not known. */
int64_t network_clock_offset(const network *n);
/* -1, or a rank that was lost; *why: how (static). Told once. */
int network_take_lost(network *n, const char **why);
/* Passes an abort on to the neighbours; only the first has an effect. */
void network_tell_abort(network *n, const segment_abort *a);
/* An abort that came in, or NULL. */
const segment_abort *network_heard_abort(const network *n);

/* A fault on purpose: shuts connections to a rank down. */
typedef enum network_links { NETWORK_ALL, NETWORK_DATA, NETWORK_TREE } network_links;
void network_cut(network *n, uint32_t rank, network_links links);

/* ---- Data streams ---- */
/* Whether all that was sent on the streams of a set has left this process. */
bool network_set_sent(const network *n, uint32_t set);
network_stream *network_stream_open(network *n, uint32_t set, uint64_t epoch, uint32_t channel,
                                    uint32_t peer); /* NULL: out of memory */
void network_stream_close(network_stream *s);       /* NULL is allowed */
/* The open link, or NULL: not connected yet (it is under way), or broken. */
net_link *network_stream_link(network_stream *s);
/* A send or receive failed: unless there is a better reason soon, the peer counts as lost. */
void network_stream_broke(network_stream *s);
/* Whether it is broken, or was never made. */
bool network_stream_ended(const network_stream *s);

#endif
