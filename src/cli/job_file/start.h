/* start.h: a job that has found its hosts, as what the launcher starts. */
#ifndef RUEDA_CLI_JOB_FILE_START_H
#define RUEDA_CLI_JOB_FILE_START_H

#include "cli/job_file/job_file.h"
#include "cli/job_file/layout.h"
#include "cli/job_file/python.h"
#include "cli/launcher.h"

typedef struct job_plan {
    const char *path; /* of the file, for messages */
    job_want want;
    const job_capacity *hosts;
    size_t host_count;
    const int *workers;       /* of each host */
    const job_python *python; /* NULL: none is needed */
} job_plan;

/* Whether some workers are on other hosts. */
bool job_leaves_here(const job_plan *plan);

/* Fills hosts and ranks, and how many of them are enough; the other options stay. What it makes lives as
 * long as the job. */
void job_start_place(job_file *job, const job_plan *plan, launch_options *options);
/* The same for steps, environment and limits. */
void job_start_fill(job_file *job, const job_plan *plan, launch_options *options);

#endif
