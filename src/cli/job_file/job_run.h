/* job_run.h: runs a job file. */
#ifndef RUEDA_CLI_JOB_FILE_JOB_RUN_H
#define RUEDA_CLI_JOB_FILE_JOB_RUN_H

#include "cli/job_file/job_file.h"
#include "cli/launcher.h"

/* Runs the job of the file, or with `dry` prints what would be started. `base` has what the command
 * line says: hosts there replace those of the file; its ranks, steps and cpus are ignored. Returns the
 * exit code: 2 for a file that is wrong or a worker that fits on no host, otherwise as launch_job. */
int job_run(const char *path, const launch_options *base, bool dry);

/* Reads a job file. False: what is wrong was said, in the name of the command. Free the job in both
 * cases. */
bool job_read(const char *command, const char *path, job_file *job);

#endif
