/* job_run.c: from the name of a file to a running job. Everything that can be known to fail is said
 * before anything starts. */
#include "cli/job_file/job_run.h"

#include "cli/commands.h"
#include "cli/job_file/job_file.h"
#include "cli/job_file/layout.h"
#include "cli/job_file/machine.h"
#include "cli/job_file/python.h"
#include "cli/job_file/read.h"
#include "cli/job_file/start.h"
#include "cli/launch/hosts.h"
#include "cli/launch/losses.h"
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_SHOWN 4 /* in a message about what hosts have */
#define WHY_MAX 512

/* ---- The file ---------------------------------------------------------------------------------- */

bool job_read(const char *command, const char *path, job_file *job)
{
    size_t bytes;
    char *text = job_read_whole(path, &bytes);
    if (text == NULL) {
        options_complain(command, "cannot read %s: %s", path, strerror(errno));
        return false;
    }
    job_complaints complaints = {0};
    *job = job_parse(text, bytes, &complaints);
    free(text);
    job_complaints_print(&complaints, path, stderr);
    return complaints.count == 0;
}

/* ---- Its hosts --------------------------------------------------------------------------------- */

static int64_t given_or(job_number number, int64_t otherwise)
{
    return number.at.line > 0 ? number.value : otherwise;
}

/* What is declared counts more than what is found here. */
static job_capacity capacity_of(const job_host *host, const job_capacity *here)
{
    const bool local = hosts_is_here(host->name.text);
    const job_capacity unknown = {
        .slots = JOB_UNKNOWN, .cpus = JOB_UNKNOWN, .mem_mib = JOB_UNKNOWN, .gpus = JOB_UNKNOWN};
    const job_capacity *known = local ? here : &unknown;
    return (job_capacity){.host = host->name.text,
                          .local = local,
                          .slots = given_or(host->slots, known->slots),
                          .cpus = given_or(host->has.cpus, known->cpus),
                          .mem_mib = given_or(host->has.mem_mib, known->mem_mib),
                          .gpus = given_or(host->has.gpus, known->gpus)};
}

/* Those of the command line, or else of the file, or else this machine. */
static job_capacity *find_hosts(job_file *job, const launch_options *base, const job_capacity *here,
                                size_t *count)
{
    const size_t max = base->host_count + job->host_count + 1;
    job_capacity *hosts = job_tree_take(&job->tree, max * sizeof *hosts);
    *count = 0;
    for (size_t i = 0; i < base->host_count; i++) {
        const job_host host = {.name = {base->hosts[i].name, {0}},
                               .slots = {base->hosts[i].slots, {1, 1}}};
        hosts[(*count)++] = capacity_of(&host, here);
    }
    for (size_t i = 0; i < job->host_count && base->host_count == 0; i++)
        hosts[(*count)++] = capacity_of(&job->hosts[i], here);
    if (*count == 0)
        hosts[(*count)++] = *here;
    return hosts;
}

/* What this machine has is shared out once. */
static bool is_named_once(const job_plan *plan)
{
    const char *name = NULL;
    for (size_t i = 0; i < plan->host_count; i++) {
        if (!plan->hosts[i].local)
            continue;
        if (name != NULL) {
            options_complain("run", "%s: the hosts %s and %s are both this machine; name it once",
                             plan->path, name, plan->hosts[i].host);
            return false;
        }
        name = plan->hosts[i].host;
    }
    return true;
}

static job_want want_of(const job_file *job)
{
    return (job_want){.workers = job_worker_count(job),
                      .processes = job_processes_of_worker(job),
                      .cpus = job->resources.cpus.value,
                      .mem_mib = job->resources.mem_mib.value,
                      .gpus = job->resources.gpus.value};
}

/* ---- Whether it fits --------------------------------------------------------------------------- */

typedef struct amount {
    const char *unit;
    int64_t wanted, has;
} amount;

#define AMOUNTS 4

static void amounts_of(const job_want *want, const job_capacity *host, amount amounts[AMOUNTS])
{
    amounts[0] = (amount){"gpus", want->gpus, host->gpus};
    amounts[1] = (amount){"cpus", want->cpus, host->cpus};
    amounts[2] = (amount){"MiB", want->mem_mib, host->mem_mib};
    amounts[3] = (amount){"slots", want->processes, host->slots};
}

/* Whether any host has a number for it. */
static bool is_counted(const job_plan *plan, int index)
{
    amount amounts[AMOUNTS];
    for (size_t i = 0; i < plan->host_count; i++) {
        amounts_of(&plan->want, &plan->hosts[i], amounts);
        if (amounts[index].wanted > 0 && amounts[index].has != JOB_UNKNOWN)
            return true;
    }
    return false;
}

/* "4 gpus, 12 cpus": of `times` workers. */
static void print_wanted(const job_plan *plan, int64_t times)
{
    amount amounts[AMOUNTS];
    amounts_of(&plan->want, &plan->hosts[0], amounts);
    const char *comma = "";
    for (int i = 0; i < AMOUNTS; i++) {
        if (!is_counted(plan, i))
            continue;
        fprintf(stderr, "%s%lld %s", comma, (long long)times * amounts[i].wanted, amounts[i].unit);
        comma = ", ";
    }
}

/* "localhost has 0 gpus, 2 cpus": what is known of what is wanted. */
static void print_known(const job_want *want, const job_capacity *host)
{
    amount amounts[AMOUNTS];
    amounts_of(want, host, amounts);
    fprintf(stderr, "; %s has", host->host);
    const char *comma = "";
    for (int i = 0; i < AMOUNTS; i++) {
        if (amounts[i].wanted == 0 || amounts[i].has == JOB_UNKNOWN)
            continue;
        fprintf(stderr, "%s %lld %s", comma, (long long)amounts[i].has, amounts[i].unit);
        comma = ",";
    }
}

/* One line: "job.yaml:8:3: no host has room …". Returns how many workers have found none. */
static int say_no_room(const job_file *job, const job_plan *plan)
{
    int placed = 0;
    for (size_t i = 0; i < plan->host_count; i++)
        placed += plan->workers[i];
    const job_place at = job->workers.at.line > 0 ? job->workers.at : job->run[0].at;
    fprintf(stderr, "%s:%d:%d: ", plan->path, at.line, at.column);
    if (placed == 0)
        fputs("a worker fits on no host; it wants ", stderr);
    else
        fprintf(stderr, "only %d of %d workers find a host; each wants ", placed,
                plan->want.workers);
    print_wanted(plan, 1);
    for (size_t i = 0; i < plan->host_count && i < HOSTS_SHOWN; i++)
        print_known(&plan->want, &plan->hosts[i]);
    if (plan->host_count > HOSTS_SHOWN)
        fprintf(stderr, "; and %zu more hosts", plan->host_count - HOSTS_SHOWN);
    fputc('\n', stderr);
    return plan->want.workers - placed;
}

static void warn_tight(const job_plan *plan)
{
    for (size_t i = 0; i < plan->host_count; i++) {
        if (!plan->hosts[i].local || plan->workers[i] == 0)
            continue;
        fprintf(stderr, "rueda run: the workers here will have to share: together they want ");
        print_wanted(plan, plan->workers[i]);
        print_known(&plan->want, &plan->hosts[i]);
        fputc('\n', stderr);
        return;
    }
}

/* Gives every worker a host. A dry run goes on after a complaint, with the rest on the first host. */
static bool place_workers(job_file *job, job_plan *plan, bool dry)
{
    int *workers = job_tree_take(&job->tree, plan->host_count * sizeof *workers);
    const job_fit fit = job_layout(&plan->want, plan->hosts, plan->host_count, workers);
    plan->workers = workers;
    if (fit == JOB_FITS_TIGHTLY)
        warn_tight(plan);
    if (fit == JOB_FITS_NOT)
        workers[0] += say_no_room(job, plan);
    return fit != JOB_FITS_NOT || dry;
}

/* ---- Running ----------------------------------------------------------------------------------- */

static bool uses_this_machine(const job_plan *plan)
{
    for (size_t i = 0; i < plan->host_count; i++) {
        if (plan->hosts[i].local && plan->workers[i] > 0)
            return true;
    }
    return false;
}

/* Finds the Python environment, and makes it for the workers here; those elsewhere make their own.
 * Returns the exit code. */
static int prepare_python(const job_file *job, job_plan *plan, job_python *python, bool with_gpus,
                          bool dry)
{
    char why[WHY_MAX];
    if (job->version.text == NULL)
        return 0;
    if (!job_python_find(job, with_gpus, python, why, sizeof why)) {
        fprintf(stderr, "%s:%d:%d: %s\n", plan->path, job->version.at.line, job->version.at.column,
                why);
        return dry ? 0 : EXIT_FAILURE;
    }
    plan->python = python;
    return dry || !uses_this_machine(plan) ? 0 : job_python_prepare(python);
}

static int run_job(const char *path, job_file *job, const launch_options *base, bool dry)
{
    const job_capacity here = job_machine();
    launch_options options = *base;
    char why[LOSSES_WHY_MAX];
    job_python python;
    job_plan plan = {.path = path, .want = want_of(job)};
    plan.hosts = find_hosts(job, base, &here, &plan.host_count);
    if (!is_named_once(&plan) || !place_workers(job, &plan, dry))
        return EXIT_USAGE;
    job_start_place(job, &plan, &options);
    if (!losses_allowed(&options, why))
        return options_complain("run", "%s: %s", path, why);
    const int code = prepare_python(job, &plan, &python, plan.want.gpus > 0 || here.gpus > 0, dry);
    if (code != 0)
        return code;
    job_start_fill(job, &plan, &options);
    return dry ? launch_dry_run(&options) : launch_job(&options);
}

int job_run(const char *path, const launch_options *base, bool dry)
{
    job_file job = {0};
    const int code = job_read("run", path, &job) ? run_job(path, &job, base, dry) : EXIT_USAGE;
    job_free(&job);
    return code;
}

/* `rueda environment INTERPRETER DIRECTORY PACKAGE...`, a step of the job on other hosts: one process of
 * each makes the environment while the others wait for the next step. */
int environment_command(int argc, char **argv)
{
    job_python python = {0};
    if (argc < 4)
        return options_complain("environment", "is for the launcher alone; see rueda run --help");
    const char *local_rank = getenv("RUEDA_LOCAL_RANK");
    if (local_rank != NULL && strcmp(local_rank, "0") != 0)
        return EXIT_SUCCESS;
    snprintf(python.interpreter, sizeof python.interpreter, "%s", argv[1]);
    snprintf(python.directory, sizeof python.directory, "%s", argv[2]);
    for (int i = 3; i < argc; i++)
        job_python_add(&python, argv[i]);
    return job_python_prepare(&python);
}
