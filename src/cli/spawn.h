/* spawn.h: starts one rank. */
#ifndef RUEDA_CLI_SPAWN_H
#define RUEDA_CLI_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

#define SPAWN_JOB_BYTES 16 /* random bytes of a job's name */

/* What all ranks of a job share. */
typedef struct spawn_job {
    char **command; /* ends with NULL */
    int size;
    char name[2 * SPAWN_JOB_BYTES + 1];
    char hostname[256];
    sigset_t mask;       /* the signal mask and limit that the launcher was started with */
    struct rlimit files; /* */
    bool give_stdin;     /* rank 0 gets the launcher's stdin, otherwise none */
} spawn_job;

/* Names the job and notes the host. False: no random bytes (errno). */
bool spawn_job_init(spawn_job *job, char **command, int size);

/* Starts a rank in a session of its own, so that a signal to its group reaches all it starts. It
 * dies with the launcher. `out` and `err` receive the read ends of its output, non-blocking. Returns
 * the pid, or −errno: why the command cannot be executed or the process not be made. */
int spawn_rank(const spawn_job *job, int rank, int *out, int *err);

#endif
