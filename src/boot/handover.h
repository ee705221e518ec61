/* handover.h: passes a descriptor and a few bytes from one rank to others of its host.
 *
 * The meeting point is an abstract Unix socket named by job, generation and topic: nothing in the file
 * system, nothing left behind. Only processes of the same user get anything (SO_PEERCRED).
 */
#ifndef RUEDA_BOOT_HANDOVER_H
#define RUEDA_BOOT_HANDOVER_H

#include "base/config.h"
#include "observe/log.h"

#define HANDOVER_BYTES 128 /* the most that travels beside the descriptor */

typedef struct handover {
    const config *settings;
    uint64_t generation;
    const char *topic; /* several handovers of a generation don't meet each other */
    int giver;         /* rank */
} handover;

/* What is given. */
typedef struct handover_gift {
    int fd; /* the giver's own; -1: none */
    uint32_t bytes;
    uint8_t data[HANDOVER_BYTES];
} handover_gift;

/* The giver: serves each rank r with takes[r] (`size` entries). Blocks until all have it or time is
 * up. Strangers (another user, another greeting) are refused, logged once, and don't end the wait. */
rueda_status handover_give(const handover *h, const bool *takes, int size,
                           const handover_gift *gift, const logger *log);

/* A taker: the descriptor, if any, is then its own. */
rueda_status handover_take(const handover *h, int rank, handover_gift *gift);

#endif
