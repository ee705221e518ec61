/* start.c: see start.h. */
#include "cli/job_file/start.h"

#include "cli/job_file/machine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_PER_MIB (INT64_C(1) << 20)
#define DEFAULT_PATH "/usr/bin:/bin"
#define SHOWN_MAX 60    /* bytes of a line that its label shows */
#define GPU_NAME_MAX 64 /* bytes of an entry of CUDA_VISIBLE_DEVICES */

bool job_leaves_here(const job_plan *plan)
{
    for (size_t i = 0; i < plan->host_count; i++) {
        if (plan->workers[i] > 0 && !plan->hosts[i].local)
            return true;
    }
    return false;
}

/* ---- Hosts and ranks --------------------------------------------------------------------------- */

static void fill_hosts(job_file *job, const job_plan *plan, launch_options *options)
{
    launch_host *hosts = job_tree_take(&job->tree, plan->host_count * sizeof *hosts);
    options->hosts = hosts;
    options->host_count = 0;
    for (size_t i = 0; i < plan->host_count; i++) {
        if (plan->workers[i] > 0)
            hosts[options->host_count++] =
                (launch_host){plan->hosts[i].host, plan->workers[i] * plan->want.processes};
    }
}

/* The GPUs of a process of its host's worker `worker`, as CUDA_VISIBLE_DEVICES names them. */
static char *gpu_list(job_file *job, const job_plan *plan, const job_capacity *host, int worker,
                      int process)
{
    char name[GPU_NAME_MAX];
    int first, count;
    job_gpus_of(&plan->want, worker, process, &first, &count);
    char *text = job_tree_text(&job->tree, "CUDA_VISIBLE_DEVICES=");
    for (int i = first; i < first + count; i++) {
        if (host->local)
            job_gpu_name(i, name, sizeof name);
        else
            snprintf(name, sizeof name, "%d", i);
        text = job_tree_text(&job->tree, "%s%s%s", text, i > first ? "," : "", name);
    }
    return text;
}

static void fill_ranks(job_file *job, const job_plan *plan, launch_options *options)
{
    const int processes = plan->want.processes, size = plan->want.workers * processes;
    const bool gpus_given = job->resources.gpus.at.line > 0;
    launch_rank *ranks = job_tree_take(&job->tree, (size_t)size * sizeof *ranks);
    int rank = 0;
    for (size_t h = 0; h < plan->host_count; h++) {
        for (int local = 0; local < plan->workers[h] * processes; local++, rank++) {
            if (local % processes == 0)
                ranks[rank].label = job_tree_text(&job->tree, "worker %d", rank / processes);
            else
                ranks[rank].label = ranks[rank - 1].label;
            if (!gpus_given)
                continue;
            char **environment = job_tree_take(&job->tree, 2 * sizeof *environment);
            environment[0] =
                gpu_list(job, plan, &plan->hosts[h], local / processes, local % processes);
            ranks[rank].environment = environment;
        }
    }
    options->ranks = size;
    options->rank_extra = ranks;
}

/* ---- Steps ------------------------------------------------------------------------------------- */

static launch_step step_of_line(job_file *job, const char *path, size_t index)
{
    const job_text *line = &job->run[index];
    const int shown = (int)strcspn(line->text, "\n");
    char **command = job_tree_take(&job->tree, 4 * sizeof *command);
    command[0] = "/bin/sh";
    command[1] = "-c";
    command[2] = (char *)line->text;
    const bool whole = shown <= SHOWN_MAX && line->text[shown] == '\0';
    return (launch_step){command,
                         job_tree_text(&job->tree, "line %zu of run (%s:%d: %.*s%s)", index + 1,
                                       path, line->at.line, shown <= SHOWN_MAX ? shown : SHOWN_MAX,
                                       line->text, whole ? "" : " …")};
}

/* Makes the Python environment on every host; the processes of one wait for each other. */
static launch_step step_of_python(job_file *job, const job_python *python)
{
    char **command =
        job_tree_take(&job->tree, (5 + (size_t)python->package_count) * sizeof *command);
    command[0] = job_tree_take(&job->tree, PATH_MAX);
    if (readlink("/proc/self/exe", command[0], PATH_MAX - 1) <= 0)
        strcpy(command[0], "rueda");
    command[1] = "environment";
    command[2] = (char *)python->interpreter;
    command[3] = (char *)python->directory;
    for (int i = 0; i < python->package_count; i++)
        command[4 + i] = (char *)python->packages[i];
    return (launch_step){command, job_tree_text(&job->tree, "preparing %s", python->packages[0])};
}

static void fill_steps(job_file *job, const job_plan *plan, launch_options *options)
{
    launch_step *steps = job_tree_take(&job->tree, (job->run_count + 1) * sizeof *steps);
    options->steps = steps;
    options->step_count = 0;
    if (plan->python != NULL && job_leaves_here(plan))
        steps[options->step_count++] = step_of_python(job, plan->python);
    for (size_t i = 0; i < job->run_count; i++)
        steps[options->step_count++] = step_of_line(job, plan->path, i);
}

/* ---- Environment ------------------------------------------------------------------------------- */

static size_t count_texts(char *const *list)
{
    size_t count = 0;
    while (list != NULL && list[count] != NULL)
        count++;
    return count;
}

/* What PATH will be: the last that the list sets, otherwise ours. */
static const char *path_in(char *const *list, size_t count)
{
    while (count > 0) {
        if (strncmp(list[--count], "PATH=", 5) == 0)
            return list[count] + 5;
    }
    const char *ours = getenv("PATH");
    return ours != NULL ? ours : DEFAULT_PATH;
}

/* The file's variables, then those of the command line, which win, then the Python environment with
 * its programs before all others. */
static void fill_environment(job_file *job, const job_plan *plan, launch_options *options)
{
    const size_t asked = count_texts(options->environment);
    char **list = job_tree_take(&job->tree, (asked + job->env_count + 3) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < job->env_count; i++)
        list[count++] =
            job_tree_text(&job->tree, "%s=%s", job->env[i].name.text, job->env[i].value.text);
    for (size_t i = 0; i < asked; i++)
        list[count++] = options->environment[i];
    if (plan->python != NULL) {
        const char *directory = plan->python->directory, *path = path_in(list, count);
        list[count++] = job_tree_text(&job->tree, "VIRTUAL_ENV=%s", directory);
        list[count++] = job_tree_text(&job->tree, "PATH=%s/bin:%s", directory, path);
    }
    options->environment = list;
}

void job_start_place(job_file *job, const job_plan *plan, launch_options *options)
{
    fill_hosts(job, plan, options);
    fill_ranks(job, plan, options);
    if (options->min_ranks == 0)
        options->min_ranks = (int)job->min_processes.value;
}

void job_start_fill(job_file *job, const job_plan *plan, launch_options *options)
{
    fill_steps(job, plan, options);
    fill_environment(job, plan, options);
    options->worker = (launch_worker){.ranks = plan->want.processes,
                                      .cpus = (int)plan->want.cpus,
                                      .memory_bytes = plan->want.mem_mib * BYTES_PER_MIB};
}
