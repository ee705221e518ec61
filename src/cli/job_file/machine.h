/* machine.h: what this machine has for the workers of a job. */
#ifndef RUEDA_CLI_JOB_FILE_MACHINE_H
#define RUEDA_CLI_JOB_FILE_MACHINE_H

#include "cli/job_file/layout.h"

/* Processors we may run on, memory, and GPUs: those in CUDA_VISIBLE_DEVICES if that is set. */
job_capacity job_machine(void);

/* The name by which a process is told of the GPU `index`: an entry of CUDA_VISIBLE_DEVICES if that is
 * set, otherwise the number itself. The text lies in `buffer`. */
const char *job_gpu_name(int index, char *buffer, size_t size);

#endif
