/* layout.h: which host takes how many workers, and which GPUs each of their processes sees. Pure: what
 * hosts have is told by the caller.
 *
 * All workers want the same. Hosts are filled in order, each as far as what is known of it allows;
 * hosts of which nothing is known share the rest evenly. On this machine workers may together want
 * more cores and memory than there is, but never more GPUs, and none may alone want more than all.
 */
#ifndef RUEDA_CLI_JOB_FILE_LAYOUT_H
#define RUEDA_CLI_JOB_FILE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOB_UNKNOWN (-1)

typedef struct job_capacity {
    const char *host;
    bool local;                         /* this machine */
    int64_t slots, cpus, mem_mib, gpus; /* JOB_UNKNOWN: nobody has said */
} job_capacity;

/* What each worker wants; 0: does not matter. */
typedef struct job_want {
    int workers, processes;
    int64_t cpus, mem_mib, gpus;
} job_want;

typedef enum job_fit {
    JOB_FITS,
    JOB_FITS_TIGHTLY, /* more cores or memory than this machine has */
    JOB_FITS_NOT,
} job_fit;

/* workers[i] receives how many host i takes; on JOB_FITS_NOT how many would have found a place. */
job_fit job_layout(const job_want *want, const job_capacity *hosts, size_t host_count,
                   int *workers);

/* Whether one worker has enough of everything on the host, were it alone there. */
bool job_fits_alone(const job_want *want, const job_capacity *host);

/* The GPUs of process `process` of its host's worker `worker`, by their index on the host: as many
 * for each process of the worker, or shared where there are more processes. */
void job_gpus_of(const job_want *want, int worker, int process, int *first, int *count);

#endif
