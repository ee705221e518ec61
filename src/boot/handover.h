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

/* The giver: serves each rank r with takes[r] (`size` entries). Blocks until all have it or time is
 * up. Strangers (another user, another greeting) are refused, logged once, and don't end the wait. */
rueda_status handover_give(const handover *h, const bool *takes, int size,
                           const handover_gift *gift, const logger *log);

/* A taker, of a job of `size` ranks. */
rueda_status handover_take(const handover *h, int rank, int size, handover_gift *gift);

#endif
