/* job_file.c: parses, and checks what no single key can show. */
#include "cli/job_file/job_file.h"

#include "cli/job_file/keys.h"

#include <string.h>

const job_framework job_frameworks[] = {
    {"plain", NULL, NULL, NULL},
    {"tensorflow", "tensorflow", "tensorflow-cpu", NULL},
    {"pytorch", "torch", NULL, "numpy"},
    {"jax", "jax", NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

const job_framework *job_framework_of(const char *name)
{
    const job_framework *f = job_frameworks;
    while (name != NULL && f->name != NULL && strcmp(f->name, name) != 0)
        f++;
    return f->name != NULL ? f : NULL;
}

int job_worker_count(const job_file *job)
{
    return job->workers.at.line > 0 ? (int)job->workers.value : 1;
}

int job_processes_of_worker(const job_file *job)
{
    if (job->processes.at.line > 0)
        return (int)job->processes.value;
    return job->resources.gpus.value > 0 ? (int)job->resources.gpus.value : 1;
}

static void check_size(const job_file *job, job_complaints *complaints)
{
    const int workers = job_worker_count(job), processes = job_processes_of_worker(job);
    const int all = workers * processes, least = (int)job->min_processes.value;
    if (all > JOB_PROCESSES_MAX)
        job_complain(complaints, job->workers.at, "%d workers of %d processes are %d; at most %d",
                     workers, processes, all, JOB_PROCESSES_MAX);
    else if (least > all)
        job_complain(complaints, job->min_processes.at, "min is %d, but all processes are %d",
                     least, all);
}

static void check_python(const job_file *job, job_complaints *complaints)
{
    const job_framework *framework = job_framework_of(job->framework.text);
    if (framework == NULL)
        return; /* complained about already */
    const bool plain = framework->package == NULL;
    if (job->version.at.line > 0 && plain)
        job_complain(complaints, job->version.at,
                     "a version of what? write 'framework: pytorch', or remove it");
    if (job->python.at.line > 0 && job->version.at.line == 0)
        job_complain(complaints, job->python.at,
                     "python is for the environment of a framework; say its 'version:' too");
}

job_file job_parse(const char *text, size_t bytes, job_complaints *complaints)
{
    job_file job = {.tree = job_tree_read(text, bytes, complaints)};
    if (job.tree.root == NULL)
        return job;
    job_keys_read(&job, complaints);
    check_size(&job, complaints);
    check_python(&job, complaints);
    if (job.run_count == 0 && complaints->count == 0)
        job_complain(complaints, job.tree.root->at,
                     "nothing to run; write 'run:' and below it '- COMMAND'");
    return job;
}

void job_free(job_file *job)
{
    job_tree_free(&job->tree);
    *job = (job_file){0};
}
