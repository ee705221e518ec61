/* job_file.h: what a job file says, as a plain struct.
 *
 * Two spellings mean the same: everything inside `train:`, with the workers in a block of the
 * framework, or everything at the top. Invariant: a job without complaints has all its numbers within
 * the bounds below, at least one line to run, and at most JOB_PROCESSES_MAX processes.
 */
#ifndef RUEDA_CLI_JOB_FILE_JOB_FILE_H
#define RUEDA_CLI_JOB_FILE_JOB_FILE_H

#include "cli/job_file/complaints.h"
#include "cli/job_file/tree.h"
#include "plan/plan.h"

#include <stdint.h>

#define JOB_PROCESSES_MAX PLAN_MAX_RANKS
#define JOB_GPUS_MAX 64 /* of a worker or host */
#define JOB_CPUS_MAX 4096
#define JOB_MEM_MAX_MIB (INT64_C(1) << 30)
#define JOB_LINES_MAX 256 /* of run */
#define JOB_HOSTS_MAX 4096

/* A value is given where its line is not 0. */
typedef struct job_text {
    const char *text;
    job_place at;
} job_text;

typedef struct job_number {
    int64_t value;
    job_place at;
} job_number;

/* How the word of a framework becomes a Python package. */
typedef struct job_framework {
    const char *name;        /* in a job file */
    const char *package;     /* NULL: plain commands, no Python needed */
    const char *cpu_package; /* smaller, for hosts without a GPU; NULL: the same */
    const char *companion;   /* what it does not bring itself but everyone needs; may be NULL */
} job_framework;

typedef struct job_resources {
    job_number gpus, cpus, mem_mib;
} job_resources;

typedef struct job_host {
    job_text name;
    job_number slots; /* processes it takes */
    job_resources has;
} job_host;

typedef struct job_variable {
    job_text name, value;
} job_variable;

typedef struct job_file {
    job_text project, framework, version, python;
    job_number workers, processes; /* processes of each worker */
    job_number min_processes; /* of all workers; with fewer the job ends. Given: it is elastic */
    job_resources resources;  /* of each worker */
    job_host *hosts;
    size_t host_count; /* 0: this machine */
    job_variable *env;
    size_t env_count;
    job_text *run;
    size_t run_count;
    job_tree tree; /* what everything above lies in */
} job_file;

/* Bytes in, a job or complaints out; no file, environment or clock is looked at. Free the job in both
 * cases. */
job_file job_parse(const char *text, size_t bytes, job_complaints *complaints);
void job_free(job_file *job);

extern const job_framework job_frameworks[]; /* ends with a row without a name */

/* The row of a framework's name; NULL: there is none. Without a name: plain commands. */
const job_framework *job_framework_of(const char *name);

int job_worker_count(const job_file *job);
/* As `processes` says, otherwise one for each GPU, otherwise one. */
int job_processes_of_worker(const job_file *job);

#endif
