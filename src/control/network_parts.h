/* network_parts.h: between network.c (sockets), tree.c (control messages) and streams.c (data). */
#ifndef RUEDA_CONTROL_NETWORK_PARTS_H
#define RUEDA_CONTROL_NETWORK_PARTS_H

#include "control/network.h"

#include <sys/socket.h>
#include <sys/un.h>

/* What an event of the poll is about; the number is a tree link's. */
enum network_event { EVENT_DOOR = 1, EVENT_BELL, EVENT_STREAM, EVENT_TREE };

/* A growing run of bytes: appended at the end, taken from the start. */
typedef struct byte_queue {
    uint8_t *bytes;
    size_t start, end, capacity;
} byte_queue;

/* The control link to one other rank, whatever sets need it. */
typedef struct tree_link {
    network_stream *stream; /* NULL: closed for good */
    uint32_t rank;
    byte_queue in, out;
    bool spoke;          /* we have sent something since the last beat */
    uint64_t silence_ns; /* since something last came, as far as we were awake */
} tree_link;

typedef struct network_set {
    bool used;
    uint64_t epoch;
    uint16_t size;
    const uint16_t *ranks;
    uint8_t *parts;                  /* two of contribution_bytes for each member */
    uint32_t neighbours[BOOT_LINKS]; /* numbers of links */
    int neighbour_count;
} network_set;

struct network_stream {
    network *network;
    uint64_t about; /* its events */
    uint32_t role, set, channel, peer;
    uint64_t epoch;
    net_link *link;
    bool open, broken;
    bool again;        /* the lower rank calls, once, to say why it has given the higher one up */
    uint64_t again_ns; /* when to call again */
    uint64_t first_call_ns; /* 0: never called */
    network_stream *next;
};

/* See clock.c. */
typedef struct network_clock {
    int64_t offset_ns; /* rank 0's clock is ours and this */
    uint64_t trip_ns;  /* of the sample that counts; 0: none yet */
    uint64_t next_ns;
    uint32_t answers;
} network_clock;

#define SILENCE_TEXT 160 /* bytes of a reason, with the terminating zero */

struct network {
    boot_meeting meeting;
    const config *settings;
    const segment *segment;
    logger log;
    uint32_t rank, size;
    int epoll, bell;
    struct sockaddr_un bell_name; /* without the rank */
    int bell_name_length;

    tree_link *links;
    uint32_t link_count;
    bool *left; /* by rank */
    network_set sets[RUEDA_MAX_SETS];
    uint64_t next_beat_ns, last_pump_ns;
    network_clock clock;

    segment_abort heard; /* an abort that came in */
    bool has_heard, told_abort;
    int lost;
    const char *lost_why;
    char silence[SILENCE_TEXT]; /* where lost_why points to, if it is about that */

    network_stream *streams;
    bool told_no_call;         /* the system refused a call, and the log has it */
    uint32_t connecting;       /* streams that wait for their link */
    int suspect;               /* rank whose connection broke, or -1: it counts as lost … */
    uint64_t suspect_until_ns; /* … then, unless there is a better reason before */
};

void network_watch(network *n, int fd, uint32_t events, uint64_t about);
/* For a link that is open now: what came with the last event may have been left unread. */
void network_watch_again(network *n, int fd, uint64_t about);
void network_lose(network *n, uint32_t rank, const char *why);
void network_suspect(network *n, uint32_t rank, uint64_t wait_ns);

/* tree.c */
tree_link *tree_link_to(network *n, uint32_t rank); /* made if need be; NULL: out of memory */
bool tree_read(network *n, tree_link *l);           /* all that has come; true: something */
bool tree_write(network *n, tree_link *l);          /* what waits, as far as it goes */
void tree_beat(network *n, uint64_t now_ns);
void tree_tell_left(network *n);
bool tree_adopt_again(network *n, net_link *link); /* false: it is something else */
/* One message as it came from link `from`; false: it is not understood. For the fuzzer, too. */
bool tree_take(network *n, const uint8_t *bytes, size_t size, tree_link *from);

/* clock.c */
bool clock_asks(network *n, uint64_t now_ns);
bool clock_is_known(const network *n);
void clock_take(network *n, uint64_t asked_ns, uint64_t root_ns, uint64_t now_ns);
void tree_ask_time(network *n, uint64_t now_ns); /* in tree.c */

/* streams.c */
bool streams_progress(network *n, uint64_t now_ns);
bool streams_adopt(network *n, net_link *link); /* false: nobody waits for it */
network_stream *streams_add(network *n, const network_stream *wanted); /* NULL: out of memory */
void streams_attach(network_stream *s, net_link *link);
bool streams_greet(net_link *link); /* tells a caller that its link has a use */
bool streams_is_connecting(const network_stream *s);

#endif
