/* host_job.h: what an agent must know of a job to run its host's ranks, and what it answers. */
#ifndef RUEDA_CLI_LAUNCH_HOST_JOB_H
#define RUEDA_CLI_LAUNCH_HOST_JOB_H

#include "cli/launch/bytes.h"
#include "cli/launcher.h"

#define HOST_JOB_STEPS_MAX 65536
#define HOST_ADDRESS_MAX 80 /* bytes of an address as text */

/* One rank of this host. */
typedef struct host_rank {
    int cross_rank, cross_size;
    char **environment; /* for it alone */
} host_rank;

typedef struct host_job {
    const char *host;       /* as the user named it */
    const char *name;       /* of the job */
    const char *key;        /* secret: never in a message or on a command line */
    const char *directory;  /* "": where the agent is */
    const char *interfaces; /* "": the answer needs no address of one */
    int size;               /* ranks of the job */
    int first, count;       /* those here: first … first + count − 1 */
    host_rank *ranks;       /* [count] */
    char **environment;     /* for all ranks */
    int step_count;
    char ***steps; /* [step_count] commands */
    launch_bind bind;
    launch_worker worker;
    int silence_s; /* without a frame for this time the launcher is lost; 0: its end is always seen */
    bool plain;    /* hand output on without waiting for the end of a line */
    bool results; /* ranks have a descriptor for results */

    bytes memory; /* what the texts lie in, for an unpacked one */
} host_job;

/* Texts of an unpacked job lie in memory of its own. False: it is no such thing. Free it also then. */
void host_job_pack(const host_job *job, bytes *to);
bool host_job_unpack(host_job *job, const void *body, size_t length);
void host_job_free(host_job *job);

/* Where this host can be reached; "" where unknown. */
typedef struct host_answer {
    char interface[HOST_ADDRESS_MAX]; /* address of the first of the wanted interfaces */
    char ssh_here[HOST_ADDRESS_MAX];  /* the address that ssh was connected to */
    char ssh_there[HOST_ADDRESS_MAX]; /* the launcher's, as this host sees it */
} host_answer;

void host_answer_pack(const host_answer *answer, bytes *to);
bool host_answer_unpack(host_answer *answer, const void *body, size_t length);

#endif
