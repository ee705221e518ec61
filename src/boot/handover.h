/* handover.h: passes descriptors and a few bytes from one rank to others of its host.
 *
 * They find each other by a spot (spot.h). Only processes of the same user get anything.
 */
#ifndef RUEDA_BOOT_HANDOVER_H
#define RUEDA_BOOT_HANDOVER_H

#include "boot/attendance.h"
#include "boot/spot.h"
#include "observe/log.h"

#define HANDOVER_BYTES 128 /* the most that travels beside the descriptors */
#define HANDOVER_BROUGHT 2 /* descriptors that a taker may bring */

typedef struct handover {
    const config *settings;
    spot spot;
    attendance
        *there; /* ends the wait when a rank dies; where rank 0 gives, its sockets are seats */
} handover;

/* What is given. */
typedef struct handover_gift {
    int *fds;     /* the giver's own; a taker's room for as many, which are then its own */
    int fd_count; /* both know it */
    uint32_t bytes;
    uint8_t data[HANDOVER_BYTES];
} handover_gift;

/* What a taker brings; -1: nothing. */
typedef struct handover_brought {
    int fds[HANDOVER_BROUGHT];
} handover_brought;

/* The giver: serves each rank r with takes[r] (`size` entries). Blocks until all have it or time is
 * up. Strangers (another user, another greeting) are refused, logged once, and don't end the wait.
 * What the ranks bring is put into `brought`, by rank, all -1 before, and is the caller's, also on failure;
 * NULL: they bring nothing. */
rueda_status handover_give(const handover *h, const bool *takes, int size,
                           const handover_gift *gift, handover_brought *brought, const logger *log);

/* A taker, of a job of `size` ranks. What it brings (NULL: nothing) stays its own. */
rueda_status handover_take(const handover *h, int rank, int size, const handover_brought *brings,
                           handover_gift *gift);

/* Descriptors over a Unix socket that both ends have for nothing else. The sender does not wait for the
 * receiver: false: it is gone, or the system does not let so many travel. */
bool handover_send(int line, const int *fds, int count);
/* All `count`, which are then the receiver's. Blocks at most until the deadline. */
rueda_status handover_receive(const handover *h, int rank, int line, uint64_t deadline_ns, int *fds,
                              int count);

#endif
