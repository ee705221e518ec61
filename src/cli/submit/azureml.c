/* azureml.c: a job as a command job of the Azure ML CLI (version 2), which starts the processes of all
 * instances by Open MPI's mpirun. A worker is an instance. Where to, a small JSON file says. */
#include "cli/submit/sheet.h"
#include "cli/submit/submit.h"
#include "cli/submit/tools.h"

#include "base/text.h"
#include "cli/job_file/values.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_NAME "config_aml.json"

static const submit_option options[] = {
    {"--config", "FILE", "azureml: the workspace (" CONFIG_NAME " beside the job file, or here)"},
    {"--code", "DIR", "azureml: the folder to upload (that of the job file)"},
    {"--docker", "DIR", "azureml: make the image of this folder's Dockerfile (docker)"},
    {"--image", "IMAGE", "azureml: or take this one"},
    {"--input", "NAME=PATH", "azureml: data; its folder there is in the variable NAME"},
    {NULL, NULL, NULL},
};

static const char head[] = //
    "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\n"
    "type: command\n"
    "display_name: {name}\n"
    "experiment_name: {name}\n"
    "code: {code}\n"
    "command: {command}\n"
    "environment:\n"
    "  image: {image}\n"
    "  build:{=build}\n"
    "    path: {docker}\n"
    "    dockerfile_path: Dockerfile{=build}\n"
    "compute: {compute}\n"
    "resources:\n"
    "  instance_count: {=workers}\n"
    "distribution:\n"
    "  type: mpi\n"
    "  process_count_per_instance: {=processes}\n";

static const char input[] = //
    "  {variable}:\n"
    "    type: uri_folder\n"
    "    path: {value}\n";

static const char variable[] = "  {variable}: {value}\n";

/* ---- The workspace ----------------------------------------------------------------------------- */

typedef struct workspace {
    char path[PATH_MAX];
    job_tree tree;
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

static void take_key(workspace *w, const job_node *name, job_complaints *complaints)
{
    text_nearest nearest = text_nearest_to(name->text);
    for (int i = 0; i < KEYS; i++) {
        job_text value = {0};
        text_nearest_offer(&nearest, keys[i]);
        if (strcmp(name->text, keys[i]) != 0)
            continue;
        if (job_take_text(complaints, keys[i], name->next, &value))
            w->values[i] = value.text;
        return;
    }
    if (nearest.best != NULL)
        job_complain(complaints, name->at, "'%.60s' is no key here; did you mean '%s'?", name->text,
                     nearest.best);
    else
        job_complain(complaints, name->at,
                     "'%.60s' is no key here; there are subscription_id, resource_group, "
                     "workspace_name and compute_target",
                     name->text);
}

static void take_keys(workspace *w, job_complaints *complaints)
{
    const job_node *root = w->tree.root;
    if (root->kind != JOB_MAP) {
        job_complain(complaints, root->at, "a JSON object with \"%s\" and so on is wanted here",
                     keys[0]);
        return;
    }
    for (const job_node *name = root->first; name != NULL; name = name->next->next)
        take_key(w, name, complaints);
    char missing[200] = "";
    size_t used = 0;
    for (int i = 0; i < KEYS; i++) {
        if (w->values[i] == NULL || w->values[i][0] == '\0')
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s\"%s\"",
                                     used > 0 ? ", " : "", keys[i]);
    }
    if (used > 0 && complaints->count == 0)
        job_complain(complaints, root->at, "%s missing or empty: fill in a value for each",
                     missing);
}

/* JSON is YAML, but for tabs between its words. */
static bool read_workspace(const submit_request *r, workspace *w)
{
    char text[JOB_BYTES_MAX / 16];
    find_config(r, w);
    FILE *file = fopen(w->path, "re");
    const size_t bytes = file == NULL ? 0 : fread(text, 1, sizeof text, file);
    const bool read = file != NULL && !ferror(file);
    const int reason = errno;
    if (file != NULL)
        fclose(file);
    if (!read)
        return submit_complain(
            "cannot read %s: %s; it says where the job goes: {\"%s\": …, \"%s\": "
            "…, \"%s\": …, \"%s\": …}",
            w->path, strerror(reason), keys[0], keys[1], keys[2], keys[3]);
    for (size_t i = 0; i < bytes; i++)
        text[i] = text[i] == '\t' ? ' ' : text[i];
    job_complaints complaints = {0};
    w->tree = job_tree_read(text, bytes, &complaints);
    if (w->tree.root != NULL)
        take_keys(w, &complaints);
    job_complaints_print(&complaints, w->path, stderr);
    for (int i = 0; i < KEYS && complaints.count == 0; i++) {
        if (!submit_is_plain(keys[i], w->values[i]))
            return false;
    }
    return complaints.count == 0;
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

static bool is_input(const submit_request *r, const char *name)
{
    const size_t length = strlen(name);
    for (const char *const *i = submit_values_of(r, "--input"); *i != NULL; i++) {
        if (strncmp(*i, name, length) == 0 && (*i)[length] == '=')
            return true;
    }
    return false;
}

/* Inputs are known as variables: Azure ML writes their folders into the command. */
static const char *command_of(const submit_request *r)
{
    const char *text = "";
    for (const char *const *i = submit_values_of(r, "--input"); *i != NULL; i++) {
        submit_variable v;
        if (!split_input(r, *i, &v))
            return NULL;
        text = job_tree_text(&r->file->tree, "%sexport %s=\"${{inputs.%s}}\" && ", text, v.name,
                             v.name);
    }
    return job_tree_text(&r->file->tree, "%s%s", text, submit_line(r, 0, &submit_mpirun));
}

static void write_inputs(const submit_request *r, FILE *to)
{
    const char *const *inputs = submit_values_of(r, "--input");
    if (*inputs != NULL)
        fputs("inputs:\n", to);
    for (submit_variable v; *inputs != NULL; inputs++) {
        split_input(r, *inputs, &v);
        const sheet_field fields[] = {{"variable", v.name}, {"value", v.value}, {NULL, NULL}};
        sheet_write(to, SHEET_YAML, input, fields);
    }
}

static void write_variables(const submit_request *r, FILE *to)
{
    bool any = false;
    for (size_t i = 0; i < r->variable_count; i++) {
        if (is_input(r, r->variables[i].name))
            continue;
        if (!any)
            fputs("environment_variables:\n", to);
        any = true;
        const sheet_field fields[] = {
            {"variable", r->variables[i].name}, {"value", r->variables[i].value}, {NULL, NULL}};
        sheet_write(to, SHEET_YAML, variable, fields);
    }
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
    snprintf(dockerfile, sizeof dockerfile, "%s/Dockerfile", docker);
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

static bool write_job(const submit_request *r, FILE *to)
{
    workspace w = {.path = ""};
    const char *command = NULL, *image = submit_value(r, "--image"),
               *docker = submit_value(r, "--docker"), *code = code_of(r);
    if (image == NULL && docker == NULL)
        docker = "docker";
    const bool good = check(r) && read_workspace(r, &w) && check_folders(code, docker) &&
                      (command = command_of(r)) != NULL;
    if (good) {
        const sheet_field fields[] = {
            {"name", r->name},
            {"code", code},
            {"command", command},
            {"image", image},
            {"docker", docker},
            {"build", image != NULL ? NULL : ""},
            {"compute", job_tree_text(&r->file->tree, "azureml:%s", w.values[COMPUTE])},
            {"workers", submit_number(r, r->workers)},
            {"processes", submit_number(r, r->processes)},
            {NULL, NULL}};
        sheet_write(to, SHEET_YAML, head, fields);
        write_inputs(r, to);
        write_variables(r, to);
    }
    job_tree_free(&w.tree);
    return good;
}

static int send_job(const submit_request *r, const char *file)
{
    workspace w = {.path = ""};
    if (!read_workspace(r, &w)) {
        job_tree_free(&w.tree);
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
    job_tree_free(&w.tree);
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
