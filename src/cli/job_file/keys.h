/* keys.h: the keys of a job file, block by block. */
#ifndef RUEDA_CLI_JOB_FILE_KEYS_H
#define RUEDA_CLI_JOB_FILE_KEYS_H

#include "base/text.h"
#include "cli/job_file/job_file.h"

/* Fills the job from its tree. What is wrong is complained about, and the rest is still read. */
void job_keys_read(job_file *job, job_complaints *complaints);

/* Offers every key of every block. */
void job_keys_offer(text_nearest *nearest);

#endif
