/* slurm.c: a job as a script for sbatch. Each line of the job is a step, so that the next begins when
 * all processes have ended it. */
#include "cli/job_file/python.h"
#include "cli/launch/subprocess.h"
#include "cli/submit/submit.h"
#include "cli/submit/templates.h"
#include "cli/submit/tools.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FOLLOW_PAUSE_NS 500000000 /* between two looks at a job that is waited for */
#define MISSES_MAX 60             /* looks in vain, one after the other */
#define TEXT_MAX 256
#define NEVER_FITS "Requested node configuration is not available"
#define WHY_MAX 512

static const submit_option options[] = {
    {"--nodes", "N", "slurm: nodes to share the workers out to (one each)"},
    {"--partition", "NAME", "slurm: where it waits"},
    {"--account", "NAME", "slurm: who pays"},
    {"--time", "TIME", "slurm: limit, as in 2:30:00"},
    {"--mpi", "TYPE",
     "slurm: with --engine mpi, that of srun: pmix for Open MPI, pmi2 for MPICH (pmix)"},
    {"--sbatch", "OPTION", "slurm: one more option of sbatch, as in --sbatch=--qos=high"},
    {NULL, NULL, NULL},
};

/* ---- The script -------------------------------------------------------------------------------- */

/* Nodes, of which each takes as many workers. 0: complained. */
static int find_nodes(const submit_request *r)
{
    const char *text = submit_value(r, "--nodes");
    char *end;
    const long nodes = text == NULL ? r->workers : strtol(text, &end, 10);
    if (text != NULL && (*end != '\0' || end == text || nodes < 1 || nodes > r->workers)) {
        submit_complain("--nodes %s is not valid; give a number from 1 to the %d workers", text,
                        r->workers);
        return 0;
    }
    if (r->workers % nodes != 0) {
        submit_complain("%d workers cannot be shared out evenly to --nodes %ld", r->workers, nodes);
        return 0;
    }
    return (int)nodes;
}

static bool are_plain(const submit_request *r)
{
    static const char *const names[] = {"--partition", "--account", "--time", "--mpi", "--sbatch"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (const char *const *v = submit_values_of(r, names[i]); *v != NULL; v++) {
            if (!submit_is_plain(names[i], *v))
                return false;
        }
    }
    return true;
}

/* What makes the Python environment on a node; all NULL: the job wants none. */
typedef struct environment {
    job_python python;
    const char *interpreter, *directory, *packages[JOB_PYTHON_PACKAGES_MAX + 1];
    char program[PATH_MAX];
} environment;

/* False: there is no such Python, and that was said. */
static bool find_environment(const submit_request *r, environment *e)
{
    char why[WHY_MAX];
    job_python *p = &e->python;
    *e = (environment){.program = ""};
    if (readlink("/proc/self/exe", e->program, sizeof e->program - 1) <= 0)
        strcpy(e->program, "rueda");
    if (r->file->version.text == NULL)
        return true;
    if (!job_python_find(r->file, r->gpus > 0, p, why, sizeof why))
        return submit_complain_at(r, r->file->version.at, "%s", why);
    e->interpreter = p->interpreter;
    e->directory = p->directory;
    for (int i = 0; i < p->package_count; i++)
        e->packages[i] = p->packages[i];
    return true;
}

/* srun does not take from sbatch what a task gets, so each step says it again. */
static bool fill(const submit_request *r, FILE *to, int nodes, const environment *e)
{
    const int64_t shared = r->workers / nodes; /* workers of each node */
    const bool own_gpus = r->gpus % r->processes == 0;
    const bool by_mpi = r->engine == SUBMIT_MPI;
    const char *mpi = submit_value(r, "--mpi");
    const char *ranks_of_node = submit_number(r, shared * r->processes);
    const submit_starter srun = {.rank = "SLURM_PROCID",
                                 .size = "SLURM_STEP_NUM_TASKS",
                                 .local_rank = "SLURM_LOCALID",
                                 .local_size = ranks_of_node,
                                 .cross_rank = "$SLURM_NODEID",
                                 .shares_gpus = true};
    const sheet_field fields[] = {
        {.name = "name", .value = r->name},
        {.name = "nodes", .value = submit_number(r, nodes)},
        {.name = "ranks", .value = submit_number(r, r->ranks)},
        {.name = "ranks_of_node", .value = ranks_of_node},
        {.name = "cpus", .value = submit_number(r, (r->cpus + r->processes - 1) / r->processes)},
        {.name = "mem", .value = submit_number(r, shared * r->mem_mib)},
        {.name = "gpus", .value = submit_number(r, shared * r->gpus)},
        {.name = "gpus_of_rank", .value = submit_number(r, own_gpus ? r->gpus / r->processes : 0)},
        {.name = "partition", .value = submit_value(r, "--partition")},
        {.name = "account", .value = submit_value(r, "--account")},
        {.name = "time", .value = submit_value(r, "--time")},
        {.name = "option", .values = submit_values_of(r, "--sbatch")},
        {.name = "variable", .values = submit_names(r)},
        {.name = "value", .values = submit_texts(r, NULL)},
        {.name = "transport", .value = by_mpi ? "mpi" : NULL},
        {.name = "mpi", .value = by_mpi && mpi == NULL ? "pmix" : mpi},
        {.name = "program", .value = e->program},
        {.name = "interpreter", .value = e->interpreter},
        {.name = "directory", .value = e->directory},
        {.name = "package", .values = e->packages},
        {.name = "line", .values = submit_lines(r, &srun, NULL)},
        {.name = NULL}};
    return sheet_write_shell(to, template_slurm_sh, fields);
}

static bool write_script(const submit_request *r, FILE *to)
{
    environment e;
    const int nodes = find_nodes(r);
    if (nodes == 0 || !are_plain(r))
        return false;
    if (submit_value(r, "--mpi") != NULL && r->engine != SUBMIT_MPI)
        return submit_complain("--mpi goes with --engine mpi");
    return find_environment(r, &e) && fill(r, to, nodes, &e);
}

/* ---- Following --------------------------------------------------------------------------------- */

/* What scontrol says of a job. */
typedef struct state {
    char state[TEXT_MAX], reason[TEXT_MAX], output[PATH_MAX], exit_code[TEXT_MAX];
} state;

/* The word after "NAME=", up to white space; a path may have spaces, and ends with its line. */
static void find_word(const char *said, const char *name, const char *end, char *to, size_t room)
{
    const char *at = strstr(said, name);
    to[0] = '\0';
    if (at != NULL)
        snprintf(to, room, "%.*s", (int)strcspn(at + strlen(name), end), at + strlen(name));
}

/* False: Slurm does not know the job; what it said is then in `reason`. */
static bool look(const char *id, state *s)
{
    char *said, *const command[] = {"scontrol", "show", "job", (char *)id, NULL};
    const int code = subprocess_ask(command, &said);
    find_word(said, "JobState=", " \n", s->state, sizeof s->state);
    find_word(said, " Reason=", " \n", s->reason, sizeof s->reason);
    find_word(said, "ExitCode=", " \n", s->exit_code, sizeof s->exit_code);
    find_word(said, "StdOut=", "\n", s->output, sizeof s->output);
    if (code != 0 || s->state[0] == '\0')
        snprintf(s->reason, sizeof s->reason, "%s", tool_last_line(said));
    const bool known = code == 0 && s->state[0] != '\0';
    free(said);
    return known;
}

static void pause_between(void)
{
    nanosleep(&(struct timespec){0, FOLLOW_PAUSE_NS}, NULL);
}

/* A busy slurmctld may leave a question unanswered; that it knows no such job is an answer. */
static bool look_patiently(const char *id, state *s)
{
    int misses = 0;
    while (!look(id, s)) {
        if (strstr(s->reason, "Invalid job id") != NULL || ++misses > MISSES_MAX)
            return false;
        pause_between();
    }
    return true;
}

static bool has_ended(const char *state)
{
    static const char *const going[] = {"PENDING",   "CONFIGURING", "RUNNING",  "COMPLETING",
                                        "SUSPENDED", "STAGE_OUT",   "REQUEUED", "STOPPED",
                                        "RESIZING",  "SIGNALING"};
    for (size_t i = 0; i < sizeof going / sizeof going[0]; i++) {
        if (strcmp(state, going[i]) == 0)
            return false;
    }
    return true;
}

/* Shows what the file has got since the last time. */
static void show_more(const char *path, FILE **file)
{
    char bytes[4096];
    size_t count;
    if (*file == NULL && (*file = fopen(path, "re")) == NULL)
        return;
    clearerr(*file); /* there may be more behind the end of the last time */
    while ((count = fread(bytes, 1, sizeof bytes, *file)) > 0)
        fwrite(bytes, 1, count, stdout);
    fflush(stdout);
}

static void tell_waiting(const state *s, char *told, size_t room)
{
    if (strcmp(s->state, "PENDING") != 0 || strcmp(s->reason, told) == 0 ||
        strcmp(s->reason, "None") == 0)
        return;
    snprintf(told, room, "%s", s->reason);
    fprintf(stderr, "rueda submit: it waits for its nodes: %s\n", s->reason);
}

/* "7:0" → 7, "0:9" → 128 + 9. A job that ended badly never counts as good. */
static int exit_code_of(const state *s)
{
    int code = 0, signal = 0;
    sscanf(s->exit_code, "%d:%d", &code, &signal);
    code = signal > 0 ? 128 + signal : code;
    return code != 0 || strcmp(s->state, "COMPLETED") == 0 ? code : EXIT_FAILURE;
}

static int follow(const char *id)
{
    state s;
    char told[TEXT_MAX] = "";
    FILE *output = NULL;
    bool known;
    while ((known = look_patiently(id, &s)) && !has_ended(s.state)) {
        tell_waiting(&s, told, sizeof told);
        if (s.output[0] != '\0')
            show_more(s.output, &output);
        pause_between();
    }
    if (known)
        show_more(s.output, &output);
    if (output != NULL)
        fclose(output);
    if (!known)
        submit_complain("lost sight of job %s: scontrol says: %s", id, s.reason);
    else if (exit_code_of(&s) != 0)
        submit_complain("job %s ended as %s with exit code %d; its output is in %s", id, s.state,
                        exit_code_of(&s), s.output);
    return known ? exit_code_of(&s) : EXIT_FAILURE;
}

/* What no nodes of the cluster can give would wait for ever. Nodes that are down now may come back. */
static bool fits_cluster(const submit_request *r, const char *file)
{
    char *said, *const command[] = {"sbatch", "--test-only", (char *)file, NULL};
    const bool fits = subprocess_ask(command, &said) == 0 || strstr(said, NEVER_FITS) == NULL;
    if (!fits)
        submit_complain("the cluster cannot give what the job wants, %d workers of %d processes; "
                        "ask for less, or for another --partition; sbatch says: %s",
                        r->workers, r->processes, tool_last_line(said));
    free(said);
    return fits;
}

static int send_script(const submit_request *r, const char *file)
{
    char *said, *const command[] = {"sbatch", "--parsable", (char *)file, NULL};
    if (!fits_cluster(r, file))
        return EXIT_USAGE;
    const int code = subprocess_ask(command, &said);
    char id[TEXT_MAX];
    const char *last = tool_last_line(said);
    snprintf(id, sizeof id, "%.*s", (int)strcspn(last, ";"), last);
    const bool taken = code == 0 && id[0] != '\0' && strspn(id, "0123456789") == strlen(id);
    if (!taken)
        submit_complain("Slurm refused the job; nothing was started; sbatch says: %s", last);
    else
        fprintf(stderr,
                "rueda submit: job %s is in the queue, its output goes to %s-%s.out; scancel %s "
                "ends it\n",
                id, r->name, id, id);
    free(said);
    if (!taken)
        return EXIT_USAGE;
    unlink(file); /* sbatch has a copy */
    return r->wait ? follow(id) : submit_tell(id);
}

const submit_platform submit_slurm = {
    .name = "slurm",
    .suffix = ".sh",
    .program = "sbatch",
    .install = "log in where the cluster's jobs are submitted",
    .options = options,
    .write = write_script,
    .send = send_script,
};
