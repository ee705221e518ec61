/* strangers.h: connections to the ports of a running job from those who have no business there. */
#ifndef RUEDA_TESTS_STRANGERS_H
#define RUEDA_TESTS_STRANGERS_H

#include "survivors.h"

#include "net/net.h"

#define STRANGERS_MOST 100 /* open at the same time: more than a door has places */

/* How they behave. */
typedef enum stranger_kind {
    STRANGER_SILENT,     /* says nothing and stays */
    STRANGER_LEAVES,     /* closes at once */
    STRANGER_RESETS,     /* … with a reset */
    STRANGER_BABBLES,    /* a few random bytes */
    STRANGER_FLOODS,     /* as many random bytes as are taken */
    STRANGER_SLOW,       /* one byte at a time */
    STRANGER_ASKS,       /* speaks another protocol */
    STRANGER_KEY,        /* a proper hello, another key */
    STRANGER_JOB,        /* the right key, another job */
    STRANGER_GENERATION, /* the right key, another generation of the job */
    STRANGER_RANK,       /* the right key, but for another rank */
    STRANGER_KIND_COUNT
} stranger_kind;

typedef struct stranger {
    stranger_kind kind;
    int fd;         /* -1: a link, or none */
    net_link *link; /* of those who say hello */
} stranger;

typedef struct strangers {
    const int *ports;
    int port_count;
    net_identity member; /* what a member of the job would say */
    dice dice;
    stranger open[STRANGERS_MOST];
    int next;           /* the oldest */
    long came, refused; /* could not even connect */
} strangers;

void strangers_begin(strangers *s, const int *ports, int port_count, const char *key,
                     const char *job, unsigned long long seed);
/* One more of a random kind comes, the oldest goes, all move on; fails the rank if one was let in or
 * was told anything. */
void strangers_step(strangers *s);
void strangers_end(strangers *s);

/* The port a door of this process listens on; fails the rank if there is none. */
int own_port(void);

#endif
