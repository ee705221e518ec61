/* network_parts.h: between the files that make control by the mesh: network.c, tree*.c and clock.c. */
#ifndef RUEDA_CONTROL_NETWORK_PARTS_H
#define RUEDA_CONTROL_NETWORK_PARTS_H

#include "base/byte_queue.h"
#include "base/heartbeat.h"
#include "base/rank_list.h"
#include "control/network.h"

#include <sys/socket.h>

enum tree_kind {
    TREE_CONTRIBUTION = 1,
    TREE_ABORT,
    TREE_LEFT,
    TREE_BEAT,
    TREE_TIME,
    TREE_QUESTION,
    TREE_ANSWER,
    TREE_LEFT_SET
};

typedef struct tree_header {
    uint32_t bytes; /* of the whole message */
    uint32_t kind;
} tree_header;

/* The control link to one other rank, whatever sets need it. */
typedef struct tree_link {
    mesh_stream *stream; /* NULL: closed for good */
    uint32_t rank;
    byte_queue in, out;
    bool spoke;          /* we have sent something since the last beat */
    uint64_t silence_ns; /* since something last came, as far as we were awake */
} tree_link;

/* News that came with a member's part in a round. */
typedef struct network_newsroom {
    uint8_t *bytes;
    uint64_t room;
} network_newsroom;

typedef struct network_set {
    bool used;
    uint64_t epoch;
    uint16_t size;
    const uint16_t *ranks;
    uint8_t *parts;                  /* two of contribution_bytes for each member */
    network_newsroom *news;          /* likewise two for each */
    bool *left;                      /* by index: nothing more comes from it in this tree */
    uint32_t neighbours[BOOT_LINKS]; /* numbers of links */
    int neighbour_count;
} network_set;

/* See clock.c. */
typedef struct network_clock {
    int64_t offset_ns; /* rank 0's clock is ours and this */
    uint64_t trip_ns;  /* of the sample that counts; 0: none yet */
    uint64_t next_ns;
    uint32_t answers;
} network_clock;

#define SILENCE_TEXT (RANK_LIST_TEXT + 80) /* bytes of a reason, with the terminating zero */

struct network {
    mesh *mesh;
    control_terms terms;
    const segment *segment;
    uint32_t rank, size;

    tree_link *links; /* their numbers are those of their streams */
    uint32_t link_count;
    network_set sets[SEGMENT_SETS];
    heartbeat heartbeat;
    uint64_t next_beat_ns;
    network_clock clock;

    control_answerer answer; /* how questions are answered */
    segment_answer *answers; /* by rank, to our own questions */

    segment_abort heard; /* an abort that came in */
    bool has_heard;
    char silence[SILENCE_TEXT]; /* why the silent one is lost */
};

/* tree.c */
bool tree_read(network *n, tree_link *l); /* all that has come; true: something */
/* One message as it came from link `from`; false: it is not understood. For the fuzzer, too. */
bool tree_take(network *n, const uint8_t *bytes, size_t size, tree_link *from);

/* tree_links.c */
tree_link *tree_link_to(network *n, uint32_t rank); /* made if need be; NULL: out of memory */
net_link *tree_open_link(const tree_link *l);       /* NULL: not yet, or not any more */
bool tree_write(network *n, tree_link *l);          /* what waits, as far as it goes */
void tree_close_link(tree_link *l);                 /* for good */
void tree_lose_link(network *n, tree_link *l);      /* its connection broke */
bool tree_adopt_again(network *n, net_link *link);  /* false: it is something else */
void tree_say(network *n, tree_link *l, const struct iovec *parts, int count);
void tree_say_to_all(network *n, const struct iovec *parts, int count, const tree_link *but);
/* To the neighbours in the set's tree, but one. */
void tree_say_to_set(network *n, const network_set *s, const struct iovec *parts, int count,
                     const tree_link *but);

/* tree_rounds.c */
bool tree_take_contribution(network *n, const uint8_t *bytes, size_t size, const tree_link *from);
size_t tree_longest_message(const network *n);
int tree_index(const network_set *s, uint32_t rank); /* -1: it is no member */

/* tree_ends.c */
void tree_tell_left(network *n);
bool tree_take_abort(network *n, const uint8_t *bytes, size_t size);
bool tree_take_left(network *n, const uint8_t *bytes, size_t size, const tree_link *from);
/* A rank that has left says nothing more on this link: it may have had no memory to say so in each tree. */
void tree_note_end(network *n, const tree_link *l);
bool tree_take_left_set(network *n, const uint8_t *bytes, size_t size, const tree_link *from);

/* tree_beats.c */
void tree_beat(network *n, uint64_t now_ns);

/* tree_question.c */
bool tree_take_question(network *n, const uint8_t *bytes, size_t size, const tree_link *from);
bool tree_take_answer(network *n, const uint8_t *bytes, size_t size, const tree_link *from);

/* clock.c */
void tree_ask_time(network *n, uint64_t now_ns); /* if it is wanted, and time to */
bool tree_take_time(network *n, const uint8_t *bytes, size_t size, tree_link *from);

#endif
