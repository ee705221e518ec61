/* submit_command.c: `rueda submit`: from the command line to a request, and from there to a file. */
#include "base/text.h"
#include "cli/commands.h"
#include "cli/job_file/job_run.h"
#include "cli/job_file/values.h"
#include "cli/launch/bytes.h"
#include "cli/launch/child.h"
#include "cli/submit/submit.h"
#include "cli/submit/tools.h"

#include <ctype.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTIONS_MAX 40  /* of this command and all platforms */
#define OWN_VARIABLES 2 /* that resources come to */

static const char usage[] = "rueda submit [options] --to PLATFORM JOB.yaml";
static const char about[] =
    "Hands a job file (docs/job-files.md) to a cluster: writes what slurm, kubernetes or azureml needs\n"
    "and gives it to sbatch, kubectl or az. Each worker becomes a node, a pod or an instance. See\n"
    "docs/start/ for a page on each.";

/* What the command line says. */
typedef struct words {
    const char *file, *to, *output, *name, *engine;
    const char **variables; /* -x */
    bool dry_run, wait;
    submit_values values[OPTIONS_MAX];
    size_t value_count;
} words;

/* ---- The command line -------------------------------------------------------------------------- */

static bool has_option(const words *w, const char *name)
{
    for (size_t i = 0; i < w->value_count; i++) {
        if (strcmp(w->values[i].name, name) == 0)
            return true;
    }
    return false;
}

/* One that several platforms have is listed once. */
static size_t add_platform_options(words *w, int argc, option *rows)
{
    size_t count = 0;
    for (const submit_platform *const *p = submit_platforms; *p != NULL; p++) {
        for (const submit_option *o = (*p)->options; o->name != NULL; o++) {
            if (has_option(w, o->name))
                continue;
            const char **values = bytes_new((size_t)argc + 1, sizeof *values);
            w->values[w->value_count++] = (submit_values){*p, o->name, values};
            rows[count++] = (option){o->name, o->value, o->help, OPTION_LIST, values, 0, 0};
        }
    }
    return count;
}

static options_result parse(words *w, int argc, char **argv, int *next)
{
    w->variables = bytes_new((size_t)argc + 1, sizeof *w->variables);
    const option own[] = {
        {"--to", "PLATFORM", "slurm, kubernetes or azureml", OPTION_TEXT, &w->to, 0, 0},
        {"--dry-run", NULL, "print what would be submitted, keys hidden", OPTION_FLAG, &w->dry_run,
         0, 0},
        {"--output", "FILE", "write it to a file, and submit nothing", OPTION_TEXT, &w->output, 0,
         0},
        {"--wait", NULL, "show the job's output and return its exit code", OPTION_FLAG, &w->wait, 0,
         0},
        {"--name", "NAME", "of the job (the project, or the file's name)", OPTION_TEXT, &w->name, 0,
         0},
        {"--engine", "ENGINE", "mpi or tcp (kubernetes, azureml: mpi; slurm: tcp)", OPTION_TEXT,
         &w->engine, 0, 0},
        {"-x", "NAME=VALUE", "set a variable for all processes; again for more", OPTION_LIST,
         w->variables, 0, 0},
    };
    option rows[OPTIONS_MAX];
    memcpy(rows, own, sizeof own);
    const size_t own_count = sizeof own / sizeof own[0];
    const command_line line = {.usage = usage,
                               .about = about,
                               .options = rows,
                               .option_count =
                                   own_count + add_platform_options(w, argc, rows + own_count),
                               .operand = &w->file};
    return options_parse(&line, argc, argv, next);
}

static void free_words(words *w)
{
    for (size_t i = 0; i < w->value_count; i++)
        free(w->values[i].values);
    free(w->variables);
}

static const submit_platform *find_platform(const char *name)
{
    text_nearest nearest = text_nearest_to(name == NULL ? "" : name);
    for (const submit_platform *const *p = submit_platforms; *p != NULL; p++) {
        if (name != NULL && strcmp((*p)->name, name) == 0)
            return *p;
        text_nearest_offer(&nearest, (*p)->name);
    }
    if (name == NULL)
        submit_complain("to whom? write --to slurm, --to kubernetes or --to azureml");
    else if (nearest.best != NULL)
        submit_complain("no platform %s; did you mean --to %s?", name, nearest.best);
    else
        submit_complain("no platform %s; there are slurm, kubernetes and azureml", name);
    return NULL;
}

/* An option of one platform says nothing to another. */
static bool check_owners(const words *w, const submit_platform *platform)
{
    for (const submit_values *v = w->values; v->name != NULL; v++) {
        bool known = v->owner == platform || v->values[0] == NULL;
        for (const submit_option *o = platform->options; !known && o->name != NULL; o++)
            known = strcmp(o->name, v->name) == 0;
        if (!known)
            return submit_complain("%s is for --to %s, not for %s", v->name, v->owner->name,
                                   platform->name);
    }
    return true;
}

static bool take_engine(const words *w, submit_request *r)
{
    if (w->engine == NULL)
        return true;
    r->engine = strcmp(w->engine, "mpi") == 0   ? SUBMIT_MPI
                : strcmp(w->engine, "tcp") == 0 ? SUBMIT_TCP
                                                : SUBMIT_DEFAULT;
    return r->engine != SUBMIT_DEFAULT ||
           submit_complain("--engine %s is not valid; write mpi or tcp", w->engine);
}

/* ---- The request ------------------------------------------------------------------------------- */

/* From "My Project_2": "my-project-2". */
static bool take_name(const words *w, submit_request *r)
{
    char *path = job_tree_text(&r->file->tree, "%s", r->path);
    const char *text = w->name != NULL                 ? w->name
                       : r->file->project.text != NULL ? r->file->project.text
                                                       : basename(path);
    size_t length =
        w->name == NULL && r->file->project.text == NULL ? strcspn(text, ".") : strlen(text);
    size_t used = 0;
    if (length > 0 && !isalpha((unsigned char)text[0]))
        used = (size_t)snprintf(r->name, sizeof r->name, "job-");
    for (; length > 0 && used < SUBMIT_NAME_MAX; text++, length--) {
        const bool good = isalnum((unsigned char)*text);
        if (good || (used > 0 && r->name[used - 1] != '-'))
            r->name[used++] = good ? (char)tolower((unsigned char)*text) : '-';
    }
    while (used > 0 && r->name[used - 1] == '-')
        used--;
    r->name[used] = '\0';
    return used > 0 || submit_complain("the job has no name; write --name NAME");
}

static void set_variable(submit_request *r, const char *name, const char *value)
{
    size_t i = 0;
    while (i < r->variable_count && strcmp(r->variables[i].name, name) != 0)
        i++;
    r->variables[i] = (submit_variable){name, value};
    r->variable_count += i == r->variable_count;
}

/* What the resources mean, then the file's variables, then those of the command line: later ones win. */
static bool take_variables(const words *w, submit_request *r)
{
    size_t count = r->file->env_count + OWN_VARIABLES;
    for (const char **v = w->variables; *v != NULL; v++)
        count++;
    r->variables = job_tree_take(&r->file->tree, count * sizeof *r->variables);
    if (r->file->resources.gpus.at.line > 0 && r->gpus == 0)
        set_variable(r, "CUDA_VISIBLE_DEVICES", "");
    if (r->cpus > 0)
        set_variable(r, "OMP_NUM_THREADS",
                     submit_number(r, r->cpus < r->processes ? 1 : r->cpus / r->processes));
    for (size_t i = 0; i < r->file->env_count; i++)
        set_variable(r, r->file->env[i].name.text, r->file->env[i].value.text);
    for (const char **v = w->variables; *v != NULL; v++) {
        const char *equals = strchr(*v, '=');
        char *name =
            job_tree_text(&r->file->tree, "%.*s", equals == NULL ? 0 : (int)(equals - *v), *v);
        if (!job_is_variable(name))
            return submit_complain("-x %s is not valid; write -x NAME=VALUE", *v);
        set_variable(r, name, equals + 1);
    }
    return true;
}

static bool make_request(const words *w, submit_request *r)
{
    const job_file *f = r->file;
    r->workers = job_worker_count(f);
    r->processes = job_processes_of_worker(f);
    r->ranks = r->workers * r->processes;
    r->gpus = f->resources.gpus.value;
    r->cpus = f->resources.cpus.value;
    r->mem_mib = f->resources.mem_mib.value;
    r->wait = w->wait;
    if (w->dry_run)
        snprintf(r->key, sizeof r->key, SUBMIT_HIDDEN);
    else
        net_key_make(r->key);
    if (f->host_count > 0)
        fprintf(stderr, "%s:%d:%d: note: hosts are not used: %s chooses them\n", r->path,
                f->hosts[0].name.at.line, f->hosts[0].name.at.column, r->platform->name);
    if (f->min_processes.at.line > 0) {
        fprintf(stderr, "%s:%d:%d: elastic jobs are on one host so far, by rueda run\n", r->path,
                f->min_processes.at.line, f->min_processes.at.column);
        return false;
    }
    return take_name(w, r) && take_variables(w, r);
}

/* ---- The file ---------------------------------------------------------------------------------- */

static int send_text(const submit_request *r, const char *text, size_t bytes)
{
    char path[TOOL_PATH_MAX];
    if (!child_exists(r->platform->program)) {
        submit_complain("there is no %s here: %s, or write the file with --output FILE",
                        r->platform->program, r->platform->install);
        return EXIT_USAGE;
    }
    if (!tool_write_new(r->platform->suffix, text, bytes, path))
        return EXIT_FAILURE;
    const int code = r->platform->send(r, path);
    unlink(path);
    return code;
}

static int hand_over(const words *w, const submit_request *r)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (to == NULL)
        return EXIT_FAILURE;
    const bool written = r->platform->write(r, to);
    fclose(to);
    int code = EXIT_USAGE;
    if (written && w->dry_run)
        code = fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0 ? 0 : EXIT_FAILURE;
    else if (written && w->output != NULL)
        code = tool_write(w->output, text, bytes) ? 0 : EXIT_FAILURE;
    else if (written)
        code = send_text(r, text, bytes);
    explicit_bzero(text, bytes);
    free(text);
    return code;
}

static int submit(const words *w, const submit_platform *platform)
{
    job_file file = {0};
    submit_request r = {.path = w->file, .file = &file, .platform = platform, .values = w->values};
    int code = EXIT_USAGE;
    if (check_owners(w, platform) && take_engine(w, &r) && job_read("submit", w->file, &file) &&
        make_request(w, &r))
        code = hand_over(w, &r);
    explicit_bzero(r.key, sizeof r.key);
    job_free(&file);
    return code;
}

int submit_command(int argc, char **argv)
{
    words w = {0};
    int next;
    const options_result parsed = parse(&w, argc, argv, &next);
    int code = options_exit_code(parsed);
    const submit_platform *platform = NULL;
    if (parsed == OPTIONS_GO && w.file == NULL)
        code = options_complain("submit", "which job file? write: %s", usage);
    else if (parsed == OPTIONS_GO && next < argc)
        code = options_complain("submit", "one job file at a time: what is %s?", argv[next]);
    else if (parsed == OPTIONS_GO && (platform = find_platform(w.to)) != NULL)
        code = submit(&w, platform);
    else if (parsed == OPTIONS_GO)
        code = EXIT_USAGE;
    free_words(&w);
    return code;
}
