/* azureml.c: a job as a command job of the Azure ML CLI (version 2), which starts the processes of all
 * instances by Open MPI's mpirun. A worker is an instance. Where to, a small JSON file says. */
#include "cli/submit/submit.h"
#include "cli/submit/templates.h"
#include "cli/submit/tools.h"

#include "base/text.h"
#include "cli/job_file/values.h"

#include <errno.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_NAME "config_aml.json"
#define DOCKERFILE "Dockerfile"

static const submit_option options[] = {
    {"--config", "FILE", "azureml: the workspace (" CONFIG_NAME " beside the job file, or here)"},
    {"--code", "DIR", "azureml: the folder to upload (that of the job file)"},
    {"--docker", "DIR", "azureml: make the image of this folder's Dockerfile (docker)"},
    {"--image", "IMAGE", "azureml: or take this one"},
    {"--input", "NAME=PATH", "azureml: data; its folder there is in the variable NAME"},
    {NULL, NULL, NULL},
};

/* ---- The workspace ----------------------------------------------------------------------------- */

typedef struct workspace {
    char path[PATH_MAX];
    json_t *object; /* what the values lie in */
    const char *values[4];
} workspace;

enum { SUBSCRIPTION, GROUP, WORKSPACE, COMPUTE, KEYS };
static const char *const keys[KEYS] = {"subscription_id", "resource_group", "workspace_name",
                                       "compute_target"};

/* Beside the job file, or else here. */
static void find_config(const submit_request *r, workspace *w)
{
    const char *given = submit_value(r, "--config");
    char *job = job_tree_text(&r->file->tree, "%s", r->path);
    snprintf(w->path, sizeof w->path, "%s/" CONFIG_NAME, dirname(job));
    if (given != NULL)
        snprintf(w->path, sizeof w->path, "%s", given);
    else if (access(w->path, F_OK) != 0)
        snprintf(w->path, sizeof w->path, CONFIG_NAME);
}

/* One line that starts with the file's name. */
__attribute__((format(printf, 2, 3))) static bool complain(const workspace *w, const char *format,
                                                           ...)
{
    va_list args;
    fprintf(stderr, "%s: ", w->path);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return false;
}

static bool take_key(workspace *w, const char *name, const json_t *value)
{
    text_nearest nearest = text_nearest_to(name);
    for (int i = 0; i < KEYS; i++) {
        text_nearest_offer(&nearest, keys[i]);
        if (strcmp(name, keys[i]) != 0)
            continue;
        w->values[i] = json_string_value(value);
        return w->values[i] != NULL || complain(w, "\"%s\" is not a text in quotes", name);
    }
    return nearest.best != NULL
               ? complain(w, "'%.60s' is no key here; did you mean '%s'?", name, nearest.best)
               : complain(w,
                          "'%.60s' is no key here; there are subscription_id, resource_group, "
                          "workspace_name and compute_target",
                          name);
}

static bool take_keys(workspace *w)
{
    if (!json_is_object(w->object))
        return complain(w, "a JSON object with \"%s\" and so on is wanted here", keys[0]);
    const char *name;
    json_t *value;
    json_object_foreach(w->object, name, value)
    {
        if (!take_key(w, name, value))
            return false;
    }
    char missing[200] = "";
    size_t used = 0;
    for (int i = 0; i < KEYS; i++) {
        if (w->values[i] == NULL || w->values[i][0] == '\0')
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s\"%s\"",
                                     used > 0 ? ", " : "", keys[i]);
    }
    return used == 0 || complain(w, "%s missing or empty: fill in a value for each", missing);
}

/* False: what is wrong was said. What was read is to be freed in both cases. */
static bool read_workspace(const submit_request *r, workspace *w)
{
    find_config(r, w);
    FILE *file = fopen(w->path, "re");
    if (file == NULL)
        return submit_complain(
            "cannot read %s: %s; it says where the job goes: {\"%s\": …, \"%s\": "
            "…, \"%s\": …, \"%s\": …}",
            w->path, strerror(errno), keys[0], keys[1], keys[2], keys[3]);
    json_error_t error;
    w->object = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (w->object == NULL) {
        fprintf(stderr, "%s:%d:%d: this is no JSON: %s\n", w->path, error.line, error.column,
                error.text);
        return false;
    }
    bool good = take_keys(w);
    for (int i = 0; i < KEYS && good; i++)
        good = submit_is_plain(keys[i], w->values[i]);
    return good;
}

/* ---- The job ----------------------------------------------------------------------------------- */

/* "NAME=PATH". */
static bool split_input(const submit_request *r, const char *text, submit_variable *v)
{
    const char *equals = strchr(text, '=');
    v->name =
        job_tree_text(&r->file->tree, "%.*s", equals == NULL ? 0 : (int)(equals - text), text);
    v->value = equals == NULL ? "" : equals + 1;
    return (job_is_variable(v->name) && v->value[0] != '\0') ||
           submit_complain("--input %s is not valid; write --input NAME=PATH", text);
}

/* What is known as an input is set by the command. */
static bool is_input(const submit_request *r, const char *name)
{
    const size_t length = strlen(name);
    for (const char *const *i = submit_values_of(r, "--input"); *i != NULL; i++) {
        if (strncmp(*i, name, length) == 0 && (*i)[length] == '=')
            return true;
    }
    return false;
}

/* Names and values side by side; both end with NULL. */
typedef struct pairs {
    const char **names, **values;
    size_t count;
} pairs;

static pairs new_pairs(const submit_request *r, size_t count)
{
    const size_t bytes = (count + 1) * sizeof(char *);
    return (pairs){job_tree_take(&r->file->tree, bytes), job_tree_take(&r->file->tree, bytes), 0};
}

static void add_pair(pairs *p, submit_variable v)
{
    p->names[p->count] = v.name;
    p->values[p->count++] = v.value;
}

/* False: one is not right, and that was said. */
static bool take_inputs(const submit_request *r, pairs *inputs)
{
    size_t count = 0;
    const char *const *given = submit_values_of(r, "--input");
    while (given[count] != NULL)
        count++;
    *inputs = new_pairs(r, count);
    for (; *given != NULL; given++) {
        submit_variable v;
        if (!split_input(r, *given, &v))
            return false;
        add_pair(inputs, v);
    }
    return true;
}

static pairs variables_of(const submit_request *r)
{
    pairs found = new_pairs(r, r->variable_count);
    for (size_t i = 0; i < r->variable_count; i++) {
        if (!is_input(r, r->variables[i].name))
            add_pair(&found, r->variables[i]);
    }
    return found;
}

/* Inputs are known as variables: Azure ML writes their folders into the command. */
static const char *command_of(const submit_request *r, const pairs *inputs)
{
    const sheet_field fields[] = {{.name = "input", .values = inputs->names}, {.name = NULL}};
    return job_tree_text(&r->file->tree, "%s%s", submit_shell(r, template_inputs_sh, fields, true),
                         submit_line(r, 0, &submit_mpirun));
}

static bool check(const submit_request *r)
{
    const char *image = submit_value(r, "--image");
    if (r->engine == SUBMIT_TCP)
        return submit_complain("Azure ML starts processes by MPI; leave --engine tcp out");
    if (r->file->run_count > 1)
        return submit_complain_at(
            r, r->file->run[1].at,
            "Azure ML starts all processes once, for one line; join the lines "
            "with '&&', or put them into a script");
    if (image != NULL && submit_value(r, "--docker") != NULL)
        return submit_complain("the image comes from --image or from --docker, not from both");
    return image == NULL || submit_is_plain("--image", image);
}

/* az would find out later, and say it in more words. */
static bool check_folders(const char *code, const char *docker)
{
    char dockerfile[PATH_MAX];
    if (access(code, R_OK | X_OK) != 0)
        return submit_complain("no folder %s to upload; write --code DIR", code);
    if (docker == NULL)
        return true;
    snprintf(dockerfile, sizeof dockerfile, "%s/" DOCKERFILE, docker);
    return access(dockerfile, R_OK) == 0 ||
           submit_complain("no %s to make an image of; write --docker DIR or --image IMAGE",
                           dockerfile);
}

/* "." for the job file's own folder: az looks from the file that it is given, which is here. */
static const char *code_of(const submit_request *r)
{
    const char *given = submit_value(r, "--code");
    char *job = job_tree_text(&r->file->tree, "%s", r->path);
    return given != NULL ? given : dirname(job);
}

static bool fill(const submit_request *r, FILE *to, const workspace *w, const char *code,
                 const char *docker)
{
    pairs inputs;
    if (!take_inputs(r, &inputs))
        return false;
    const pairs variables = variables_of(r);
    const sheet_field fields[] = {
        {.name = "name", .value = r->name},
        {.name = "code", .value = code},
        {.name = "command", .value = command_of(r, &inputs)},
        {.name = "image", .value = submit_value(r, "--image")},
        {.name = "docker", .value = docker},
        {.name = "dockerfile", .value = docker == NULL ? NULL : DOCKERFILE},
        {.name = "compute", .value = w->values[COMPUTE]},
        {.name = "workers", .value = submit_number(r, r->workers)},
        {.name = "processes", .value = submit_number(r, r->processes)},
        {.name = "input", .values = inputs.names},
        {.name = "folder", .values = inputs.values},
        {.name = "variable", .values = variables.names},
        {.name = "value", .values = variables.values},
        {.name = NULL}};
    return sheet_write_yaml(to, template_azureml_yaml, fields);
}

static bool write_job(const submit_request *r, FILE *to)
{
    workspace w = {.path = ""};
    const char *docker = submit_value(r, "--docker"), *code = code_of(r);
    if (submit_value(r, "--image") == NULL && docker == NULL)
        docker = "docker";
    const bool good = check(r) && read_workspace(r, &w) && check_folders(code, docker) &&
                      fill(r, to, &w, code, docker);
    json_decref(w.object);
    return good;
}

static int send_job(const submit_request *r, const char *file)
{
    workspace w = {.path = ""};
    if (!read_workspace(r, &w)) {
        json_decref(w.object);
        return EXIT_USAGE;
    }
    const char *command[] = {"az",
                             "ml",
                             "job",
                             "create",
                             "--file",
                             file,
                             "--subscription",
                             w.values[SUBSCRIPTION],
                             "--resource-group",
                             w.values[GROUP],
                             "--workspace-name",
                             w.values[WORKSPACE],
                             r->wait ? "--stream" : NULL,
                             NULL};
    const int code = tool_show((char *const *)command);
    if (code != 0)
        submit_complain("az ml job create ended with %d; what it says stands above", code);
    json_decref(w.object);
    return code;
}

const submit_platform submit_azureml = {
    .name = "azureml",
    .suffix = ".yaml",
    .program = "az",
    .install = "install the Azure CLI and its extension ml, and log in with az login",
    .options = options,
    .write = write_job,
    .send = send_job,
};
