/* boot.h: who are we, and the shared memory of our host.
 *
 * Rank 0 makes the segment and hands its descriptor to every rank of the same user that names the
 * same job and generation, over an abstract Unix socket (nothing in the file system, nothing left
 * behind). Then all ranks wait for each other in the segment and compare their settings.
 */
#ifndef RUEDA_BOOT_H
#define RUEDA_BOOT_H

#include "memory/segment.h"
#include "observe/log.h"

typedef struct boot_identity {
    int rank, size;
    int local_rank, local_size;
    int cross_rank, cross_size;
} boot_identity;

/* From the settings; ERR_CONFIG if they contradict each other. */
rueda_status boot_identify(const config *settings, boot_identity *who);

/* Joins generation `generation` of the job. Blocks, at most settings->start_timeout seconds; the
 * error then names the ranks that are missing. On success the segment has this rank's part of the
 * global set committed and all ranks are present. */
rueda_status boot_join(const config *settings, const boot_identity *who, uint64_t generation,
                       const logger *log, segment *s);

#endif
