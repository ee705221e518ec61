/* handover.h: passes the segment's descriptor from rank 0 to the other ranks of the host. */
#ifndef RUEDA_BOOT_HANDOVER_H
#define RUEDA_BOOT_HANDOVER_H

#include "base/config.h"
#include "observe/log.h"

/* Rank 0: gives `fd` to each of the ranks 1 … size−1. Blocks until all have it or time is up.
 * Strangers (another user, another greeting) are refused, logged once, and don't end the wait. */
rueda_status handover_give(const config *settings, int size, uint64_t generation, int fd,
                           const logger *log);

/* Another rank: gets the descriptor, which the caller then owns. */
rueda_status handover_receive(const config *settings, int rank, uint64_t generation, int *fd);

#endif
