/* fuzz_job.c: no bytes make the parser of job files crash, hang, leak or break its promise. */
#include "cli/job_file/job_file.h"

#include <stdlib.h>

static void require(bool promise)
{
    if (!promise)
        abort();
}

static void check_job(const job_file *job)
{
    require(job->run_count >= 1 && job->run_count <= JOB_LINES_MAX);
    require(job_worker_count(job) >= 1 && job_processes_of_worker(job) >= 1);
    require(job_worker_count(job) * job_processes_of_worker(job) <= JOB_PROCESSES_MAX);
    require(job->resources.gpus.value >= 0 && job->resources.gpus.value <= JOB_GPUS_MAX);
    require(job_framework_of(job->framework.text) != NULL);
    for (size_t i = 0; i < job->run_count; i++)
        require(job->run[i].text != NULL && job->run[i].at.line > 0);
    for (size_t i = 0; i < job->host_count; i++)
        require(job->hosts[i].name.text != NULL && job->hosts[i].name.text[0] != '-');
    for (size_t i = 0; i < job->env_count; i++)
        require(job->env[i].name.text != NULL && job->env[i].value.text != NULL);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    job_complaints complaints = {0};
    job_file job = job_parse((const char *)data, size, &complaints);
    if (complaints.count == 0)
        check_job(&job);
    for (int i = 0; i < complaints.count; i++)
        require(complaints.list[i].at.line >= 0 && complaints.list[i].text[0] != '\0');
    job_free(&job);
    return 0;
}
