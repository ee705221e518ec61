/* slurm.c: a job as a script for sbatch. Each line of the job is a step, so that the next begins when
 * all processes have ended it. */
#include "cli/job_file/python.h"
#include "cli/submit/sheet.h"
#include "cli/submit/submit.h"
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

static const char head[] = //
    "#!/bin/sh\n"
    "#SBATCH --job-name={=name}\n"
    "#SBATCH --nodes={=nodes}\n"
    "#SBATCH --ntasks={=ranks}\n"
    "#SBATCH --ntasks-per-node={=ranks_of_node}\n"
    "#SBATCH --cpus-per-task={=cpus}\n"
    "#SBATCH --mem={=mem}M\n"
    "#SBATCH --gpus-per-node={=gpus}\n"
    "#SBATCH --partition={=partition}\n"
    "#SBATCH --account={=account}\n"
    "#SBATCH --time={=time}\n"
    "#SBATCH --output={=name}-%j.out\n";
static const char more[] = "#SBATCH {=option}\n";

static const char check[] = //
    "\n"
    "if [ \"${SLURM_NTASKS:-0}\" -lt {=ranks} ]; then\n"
    "    echo \"rueda submit: the job wants {=ranks} tasks, the allocation has ${SLURM_NTASKS:-0}:"
    " ask for {=nodes} nodes of {=ranks_of_node}\" >&2\n"
    "    exit 2\n"
    "fi\n"
    "export PYTHONUNBUFFERED=1 # lines appear when they are printed\n";

static const char variable[] = "export {=variable}={value}\n";

static const char python[] = //
    "\n"
    "# the Python environment, once on each node\n"
    "srun --nodes={=nodes} --ntasks={=nodes} --ntasks-per-node=1 {program} environment {interpreter}"
    " {directory}{=packages} || exit\n"
    "export VIRTUAL_ENV={directory}\n"
    "export PATH=\"$VIRTUAL_ENV/bin:$PATH\"\n";

static const char step[] = //
    "\n"
    "srun --nodes={=nodes} --ntasks={=ranks} --ntasks-per-node={=ranks_of_node}{=step_options}"
    " --kill-on-bad-exit=1 --label sh -c {line} || exit\n";

static const submit_starter srun = {.rank = "SLURM_PROCID",
                                    .size = "SLURM_STEP_NUM_TASKS",
                                    .local_rank = "SLURM_LOCALID",
                                    .shares_gpus = true};

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

/* What every step says again: srun does not take it from sbatch. */
static const char *step_options(const submit_request *r, const char *cpus)
{
    const bool own_gpus = r->gpus > 0 && r->gpus % r->processes == 0;
    const char *text = "", *mpi = submit_value(r, "--mpi");
    if (cpus != NULL)
        text = job_tree_text(&r->file->tree, " --cpus-per-task=%s", cpus);
    if (own_gpus)
        text = job_tree_text(&r->file->tree, "%s --gpus-per-task=%lld", text,
                             (long long)(r->gpus / r->processes));
    if (r->engine == SUBMIT_MPI)
        text = job_tree_text(&r->file->tree, "%s --mpi=%s", text, mpi == NULL ? "pmix" : mpi);
    return text;
}

/* False: there is no such Python, and that was said. */
static bool write_python(const submit_request *r, FILE *to, const char *nodes)
{
    job_python p = {0};
    char why[WHY_MAX], program[PATH_MAX] = "rueda", *packages = NULL;
    size_t bytes;
    if (r->file->version.text == NULL)
        return true;
    if (!job_python_find(r->file, r->gpus > 0, &p, why, sizeof why))
        return submit_complain_at(r, r->file->version.at, "%s", why);
    FILE *list = open_memstream(&packages, &bytes);
    for (int i = 0; list != NULL && i < p.package_count; i++) {
        fputc(' ', list);
        sheet_quote_shell(list, p.packages[i]);
    }
    if (list == NULL || fclose(list) != 0)
        return submit_complain("out of memory");
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        strcpy(program, "rueda");
    const sheet_field fields[] = {{"nodes", nodes},           {"program", program},
                                  {"directory", p.directory}, {"interpreter", p.interpreter},
                                  {"packages", packages},     {NULL, NULL}};
    sheet_write(to, SHEET_SHELL, python, fields);
    free(packages);
    return true;
}

static void write_variables(const submit_request *r, FILE *to)
{
    for (size_t i = 0; i < r->variable_count; i++) {
        const sheet_field fields[] = {
            {"variable", r->variables[i].name}, {"value", r->variables[i].value}, {NULL, NULL}};
        sheet_write(to, SHEET_SHELL, variable, fields);
    }
    if (r->engine == SUBMIT_MPI)
        fputs("export RUEDA_TRANSPORT=mpi\n", to);
}

static bool write_script(const submit_request *r, FILE *to)
{
    const int nodes = find_nodes(r);
    if (nodes == 0 || !are_plain(r))
        return false;
    if (submit_value(r, "--mpi") != NULL && r->engine != SUBMIT_MPI)
        return submit_complain("--mpi goes with --engine mpi");
    const int64_t shared = r->workers / nodes; /* workers of each node */
    const char *cpus = submit_number(r, (r->cpus + r->processes - 1) / r->processes);
    const sheet_field fields[] = {{"name", r->name},
                                  {"nodes", submit_number(r, nodes)},
                                  {"ranks", submit_number(r, r->ranks)},
                                  {"ranks_of_node", submit_number(r, shared * r->processes)},
                                  {"cpus", cpus},
                                  {"mem", submit_number(r, shared * r->mem_mib)},
                                  {"gpus", submit_number(r, shared * r->gpus)},
                                  {"partition", submit_value(r, "--partition")},
                                  {"account", submit_value(r, "--account")},
                                  {"time", submit_value(r, "--time")},
                                  {"step_options", step_options(r, cpus)},
                                  {NULL, NULL}};
    sheet_write(to, SHEET_SHELL, head, fields);
    for (const char *const *o = submit_values_of(r, "--sbatch"); *o != NULL; o++)
        sheet_write(to, SHEET_SHELL, more, (sheet_field[]){{"option", *o}, {NULL, NULL}});
    sheet_write(to, SHEET_SHELL, check, fields);
    write_variables(r, to);
    if (!write_python(r, to, fields[1].value))
        return false;
    for (size_t i = 0; i < r->file->run_count; i++) {
        sheet_field line[sizeof fields / sizeof fields[0] + 1];
        line[0] = (sheet_field){"line", submit_line(r, i, &srun)};
        memcpy(line + 1, fields, sizeof fields);
        sheet_write(to, SHEET_SHELL, step, line);
    }
    return true;
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
    const int code = tool_ask(command, &said);
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
    const bool fits = tool_ask(command, &said) == 0 || strstr(said, NEVER_FITS) == NULL;
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
    const int code = tool_ask(command, &said);
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
