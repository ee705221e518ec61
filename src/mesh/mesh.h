/* mesh.h: this rank's connections with the others, where ranks have met by TCP.
 *
 * A stream is a connection of its own for one purpose with one other rank: for data one for each set,
 * channel and pair of ranks, for control one for each pair of neighbours. It is made when first used. Of two
 * ranks the higher one calls. The window that TCP grants is the receiver's credit, and no stream stands in
 * the way of another. One poll covers all of them, this rank's door and its bell.
 *
 * Contract: everything but mesh_ring belongs to the driver. Nothing blocks but mesh_sleep.
 */
#ifndef RUEDA_MESH_H
#define RUEDA_MESH_H

#include "boot/boot.h"

/* Why a rank is lost, in the same words whoever notices it. It may have been killed, or have exited with 0: only
 * who started it knows. */
#define RANK_ENDED "it ended without rueda_shutdown"
#define RANK_ENDED_OR_CUT_OFF RANK_ENDED ", or was cut off"

typedef struct mesh mesh;
typedef struct mesh_stream mesh_stream;

/* Who is told of streams with a number, and of links that nobody waits for. */
typedef struct mesh_owner {
    bool (*arrived)(void *context, uint32_t number); /* something has; true: it was of use */
    bool (*adopt)(void *context, net_link *link);    /* true: it is taken over */
    void *context;
} mesh_owner;

/* Asked when a rank calls for data of a set and channel that no stream is open for: opens it, if it may.
 * True: it is worth looking again. */
typedef struct mesh_late {
    bool (*open)(void *context, uint32_t set, uint32_t channel, uint64_t epoch);
    void *context;
} mesh_late;

/* Takes the meeting over, also on failure. `limit_ns`: for a connection to be made. */
rueda_status mesh_open(boot_meeting *meeting, const boot_identity *who, uint64_t limit_ns,
                       const logger *log, mesh **opened);
void mesh_close(mesh *m);  /* closes all streams; NULL is allowed */
void mesh_forget(mesh *m); /* in a forked child: closes its copies of the descriptors */
void mesh_set_owner(mesh *m, mesh_owner owner);
void mesh_set_late(mesh *m, mesh_late late);
/* A link to a control neighbour that the meeting has made, which is the caller's then; *rank: to whom.
 * NULL: there are no more. */
net_link *mesh_take_link(mesh *m, uint32_t *rank);

/* Moves on what can be; true: something happened. */
bool mesh_pump(mesh *m, uint64_t now_ns);
/* Until something arrives, the bell rings, or the time is up; then the same. Returns the time. */
uint64_t mesh_sleep(mesh *m, uint64_t timeout_ns);
/* Wakes a rank of this host (or ourselves) out of mesh_sleep. Any thread. */
void mesh_ring(const mesh *m, uint32_t rank);
/* Moves on connections that are being made, and nothing else. */
void mesh_connect(mesh *m);
/* Whether all that was sent on the streams has left this process. Of a job that is broken (not `whole`) only
 * control counts. */
bool mesh_flushed(const mesh *m, bool whole);

bool mesh_is_local(const mesh *m, uint32_t rank); /* shares our memory */
/* Number of the host for plans: ranks with the same number share memory. */
uint32_t mesh_host(const mesh *m, uint32_t rank);

/* ---- Streams ---- */

#define MESH_NO_NUMBER UINT32_MAX

typedef struct mesh_purpose {
    boot_role role;
    uint32_t peer, set, channel;
    uint64_t epoch;  /* tells sets apart that have the same number one after the other */
    uint32_t number; /* for the owner; MESH_NO_NUMBER: it is not told */
    bool again;      /* the lower rank calls, once, to say why it has given the higher one up */
} mesh_purpose;

mesh_stream *mesh_stream_open(mesh *m, const mesh_purpose *purpose); /* NULL: out of memory */
void mesh_stream_close(mesh_stream *s);                              /* NULL is allowed */
/* Gives a stream a link that is there already. */
void mesh_stream_attach(mesh_stream *s, net_link *link);
/* The open link, or NULL: not connected yet (it is under way), or broken. */
net_link *mesh_stream_link(mesh_stream *s);
bool mesh_stream_is_open(const mesh_stream *s); /* was made, and may have broken since */
/* Our call has been taken, or may be: for the other end there may be a connection already. */
bool mesh_stream_calls(const mesh_stream *s);
/* A send or receive failed: unless there is a better reason soon, the peer counts as lost. */
void mesh_stream_broke(mesh_stream *s);
/* Whether it is broken, or was never made and nothing is under way. */
bool mesh_stream_ended(const mesh_stream *s);
/* Tells a caller that its link has a use. */
bool mesh_greet(net_link *link);
/* Whether all that was sent on the data streams of a set's first `channels` has left this process. */
bool mesh_set_sent(const mesh *m, uint32_t set, uint32_t channels);

/* A fault on purpose: shuts connections to a rank down. */
typedef enum mesh_links { MESH_ALL, MESH_DATA, MESH_TREE } mesh_links;
void mesh_cut(mesh *m, uint32_t rank, mesh_links links);

/* ---- Trouble ---- */

/* A rank is lost; *why must live as long as the mesh. Only the first counts, nobody who has left, and none
 * after mesh_end. Whether this rank is the one that counts. */
bool mesh_lose(mesh *m, uint32_t rank, const char *why);
bool mesh_has_lost(const mesh *m); /* somebody, and nobody was told yet */
/* If the link broke because something else arrived than was sent: the reason is certain, and is told at
 * once. */
bool mesh_lose_altered(mesh *m, uint32_t rank, const net_link *link);
/* Its connection broke: it is lost in wait_ns, unless there is a better reason before. */
void mesh_suspect(mesh *m, uint32_t rank, uint64_t wait_ns);
/* -1, or a rank that was lost; *why: how. Told once. */
int mesh_take_lost(mesh *m, const char **why);
/* This rank lacks memory or descriptors, as the thread's sentence says: it is to blame and nobody else. */
void mesh_fail(mesh *m, rueda_status status);
/* RUEDA_OK, or what this rank itself lacks to go on, with the thread's sentence. */
rueda_status mesh_failed(const mesh *m);
/* That a rank has left in good order; told once. */
void mesh_note_left(mesh *m, uint32_t rank);
/* 0: it has not; else the how-manieth it was, as we have heard it. */
uint32_t mesh_departure(const mesh *m, uint32_t rank);
/* The end of the job is told: whoever goes now is not lost. */
void mesh_end(mesh *m);
bool mesh_has_ended(const mesh *m);

#endif
