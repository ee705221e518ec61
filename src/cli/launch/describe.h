/* describe.h: one host's part of a job, from the job as the caller describes it. */
#ifndef RUEDA_CLI_LAUNCH_DESCRIBE_H
#define RUEDA_CLI_LAUNCH_DESCRIBE_H

#include "cli/launch/host_job.h"
#include "cli/launch/hosts.h"

/* The part of host `at`. Texts belong to the options, lists to the result: describe_free. */
host_job describe_host(const launch_options *options, const host_share *shares, size_t count,
                       size_t at);
void describe_free(host_job *job);

#endif
