/* memory.h: how much memory the workers of a host may use.
 *
 * A control group bounds all processes of a worker together. Where none may be made, every process
 * alone is held to what its worker may have (RLIMIT_DATA: private memory, as malloc gives it; shared
 * memory and the address space that a program reserves do not count).
 */
#ifndef RUEDA_CLI_LAUNCH_MEMORY_H
#define RUEDA_CLI_LAUNCH_MEMORY_H

#include "cli/launch/cgroup.h"
#include "cli/launcher.h"

#define MEMORY_NOTE_MAX 256

typedef struct memory_limits {
    int ranks; /* of each worker */
    int workers;
    int64_t bytes;  /* of each; 0: no limit */
    cgroup *groups; /* one a worker; NULL: each process alone is limited */
    bool *told;     /* of which worker it was said that its memory was full */
} memory_limits;

/* What we may use of this host. */
int64_t memory_here_bytes(void);

/* Limits for `ranks` ranks of this host. True: `note` has a sentence for the user. */
bool memory_plan(memory_limits *m, const launch_worker *worker, int ranks,
                 char note[MEMORY_NOTE_MAX]);
/* Limits the calling process, which will be the host's rank `index`. */
void memory_apply(const memory_limits *m, int index);
/* The rank `index` has failed. True, once a worker: because the worker's memory was used up, and
 * `note` says so. */
bool memory_explains(memory_limits *m, int index, char note[MEMORY_NOTE_MAX]);
/* All ranks have ended. */
void memory_free(memory_limits *m);

#endif
