/* mesh_parts.h: between mesh.c (the poll), streams.c (connections) and trouble.c (who is lost). */
#ifndef RUEDA_MESH_PARTS_H
#define RUEDA_MESH_PARTS_H

#include "mesh/mesh.h"

#define MESH_WHY_TEXT 160 /* bytes of a reason, with the terminating zero */
#define MESH_LACK_TEXT STATUS_TEXT_MAX

struct mesh_stream {
    mesh *mesh;
    mesh_purpose purpose;
    net_link *link;
    bool open, broken;
    uint64_t again_ns;           /* when to call again */
    uint32_t missed;             /* looks for a peer that is to call, in which it was not there */
    uint64_t unable_ns;          /* since when the system refuses to call; 0: it does not */
    uint64_t first_call_ns;      /* 0: never called */
    mesh_stream *next, **before; /* in the mesh's list; `before` is what points to us */
};

/* See trouble.c. */
typedef struct mesh_trouble {
    int lost; /* rank, or -1 */
    const char *why;
    char altered
        [MESH_WHY_TEXT]; /* where `why` points to, if somebody has tampered with a connection */
    int suspect;         /* rank whose connection broke, or -1: it counts as lost … */
    uint64_t suspect_until_ns; /* … then, unless there is a better reason before */
    net_link *probe;           /* a call to the suspect, to see whether it is there; or NULL */
    rueda_status failed;       /* this rank itself cannot go on; the first reason counts … */
    char lack[MESH_LACK_TEXT]; /* … and this is its sentence */
    uint32_t *left;            /* by rank: see mesh_departure */
    uint32_t departures;
    bool ended;
} mesh_trouble;

struct mesh {
    boot_meeting meeting;
    mesh_owner owner;
    mesh_late late; /* open is NULL: nothing is opened late */
    logger log;
    uint32_t rank;
    bool shares_memory; /* with the ranks of our host */
    uint64_t limit_ns;  /* for a connection to be made */
    int epoll;
    mesh_stream *streams;
    uint32_t connecting; /* streams that wait for their link */
    uint64_t look_ns;    /* when to look for streams that broke while nobody used them; 0: not */
    bool told_no_call;   /* the system refused a call, and the log has it */
    mesh_trouble trouble;
};

/* mesh.c */
void mesh_watch(mesh *m, const mesh_stream *s);
/* For a link that is open now: what came with the last event may have been left unread. */
void mesh_watch_again(mesh *m, const mesh_stream *s);

/* streams.c */
rueda_status streams_call(const mesh *m, const mesh_purpose *wanted, uint64_t limit_ns,
                          net_link **link); /* *link: NULL if it fails */
bool streams_progress(mesh *m, uint64_t now_ns);
bool streams_adopt(mesh *m, net_link *link); /* false: nobody waits for it */
bool streams_is_connecting(const mesh_stream *s);
void streams_find_broken(
    mesh *m); /* data streams that are there, and that the other end has reset */

/* trouble.c */
void trouble_settle(mesh *m, uint64_t now_ns); /* a suspicion whose time has come */
void trouble_close(mesh *m);

#endif
