/* spot.h: the Unix socket by which ranks of one host find each other: nothing in the file system, nothing
 * left behind.
 *
 * Other users of the machine can take any name that they can guess, and see all that are in use. Where the
 * job has a key, the name is a hash that needs it. Elsewhere rank 0 takes a name with a random end, and
 * the others look for it in the system's list, among those of whoever else may have put some there: who
 * listens there is asked for, and counts only if it is the same user.
 */
#ifndef RUEDA_BOOT_SPOT_H
#define RUEDA_BOOT_SPOT_H

#include "net/net.h"

typedef struct spot {
    const net_identity *me;
    const char *topic; /* several spots of a generation don't meet each other */
    int giver;         /* the rank that listens */
} spot;

/* Somebody of another user who listens in its place. */
typedef struct spot_stranger {
    int pid; /* 0: there was none */
    unsigned user;
} spot_stranger;

/* ERR_SYSTEM names who is there already. */
rueda_status spot_listen(const spot *s, int *listener);

/* A connection with the giver; -1: it is not there (yet), or errno says which means are missing (EMFILE,
 * ENFILE, ENOMEM, ENOBUFS). Does not block. `met` is set if a stranger was. */
int spot_connect(const spot *s, spot_stranger *met);

/* Whether the other end of a Unix socket is a process of ours. */
bool spot_is_own_user(int connection, spot_stranger *peer);

#endif
