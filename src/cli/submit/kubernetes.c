/* kubernetes.c: a job as an MPIJob of Kubeflow's operator or, with --engine tcp, as an Indexed Job of
 * Kubernetes alone, whose pods find each other by a headless service and know each other by a Secret.
 * A worker is a pod. */
#include "cli/launch/subprocess.h"
#include "cli/submit/submit.h"
#include "cli/submit/templates.h"
#include "cli/submit/tools.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEET_PORT "23000" /* where rank 0 is met, or one of the ports after it */
#define FOLLOW_PAUSE_S 2  /* between two looks at a job that is waited for */
#define MISSES_MAX 15     /* looks in vain, one after the other */
#define COMMAND_MAX 16    /* words of a command */

static const submit_option options[] = {
    {"--image", "IMAGE", "kubernetes, azureml: the container's image"},
    {"--namespace", "NAME", "kubernetes: where it runs (kubectl's own)"},
    {NULL, NULL, NULL},
};

/* ---- Writing ----------------------------------------------------------------------------------- */

/* Kubernetes replaces $(NAME) in arguments and values, and takes $$ for a dollar. */
static const char *without_expansion(const submit_request *r, const char *text)
{
    char *to = job_tree_take(&r->file->tree, 2 * strlen(text) + 1), *end = to;
    for (; *text != '\0'; text++) {
        if (*text == '$' && (text[1] == '(' || text[1] == '$' || (end > to && end[-1] == '$')))
            *end++ = '$';
        *end++ = *text;
    }
    return to;
}

/* What the launcher runs: each line by all processes, one line after the other. The launcher may start
 * before its workers, and nothing is tried twice, so it waits for them first. */
static const char *mpi_script(const submit_request *r)
{
    const sheet_field fields[] = {{.name = "ranks", .value = submit_number(r, r->ranks)},
                                  {.name = "variable", .values = submit_names(r)},
                                  {.name = "line", .values = submit_lines(r, &submit_mpirun, NULL)},
                                  {.name = NULL}};
    return submit_shell(r, template_mpijob_sh, fields, false);
}

/* `rueda part` in each pod. */
static const submit_starter part = {.local_rank = "RUEDA_LOCAL_RANK"};

static bool fill(const submit_request *r, FILE *to, const char *image)
{
    const bool tcp = r->engine == SUBMIT_TCP;
    const char *script = tcp ? NULL : without_expansion(r, mpi_script(r));
    const char *const *lines = tcp ? submit_lines(r, &part, without_expansion) : NULL;
    const sheet_field fields[] = {{.name = "name", .value = r->name},
                                  {.name = "namespace", .value = submit_value(r, "--namespace")},
                                  {.name = "image", .value = image},
                                  {.name = "key", .value = r->key},
                                  {.name = "meet_port", .value = MEET_PORT},
                                  {.name = "processes", .value = submit_number(r, r->processes)},
                                  {.name = "workers", .value = submit_number(r, r->workers)},
                                  {.name = "cpus", .value = submit_number(r, r->cpus)},
                                  {.name = "mem", .value = submit_number(r, r->mem_mib)},
                                  {.name = "gpus", .value = submit_number(r, r->gpus)},
                                  {.name = "variable", .values = submit_names(r)},
                                  {.name = "value", .values = submit_texts(r, without_expansion)},
                                  {.name = "script", .value = script},
                                  {.name = "line", .values = lines},
                                  {.name = NULL}};
    return sheet_write_yaml(to, tcp ? template_indexed_job_yaml : template_mpijob_yaml, fields);
}

static bool write_job(const submit_request *r, FILE *to)
{
    const char *image = submit_value(r, "--image"), *space = submit_value(r, "--namespace");
    if (image == NULL)
        return submit_complain("a container needs an image: write --image IMAGE; docker/README.md "
                               "tells how to make one");
    if (!submit_is_plain("--image", image) ||
        (space != NULL && !submit_is_plain("--namespace", space)))
        return false;
    return fill(r, to, image);
}

/* ---- Sending and following --------------------------------------------------------------------- */

typedef struct command {
    char *words[COMMAND_MAX];
    int count;
} command;

/* kubectl in the job's namespace, with these words. */
static command kubectl(const submit_request *r, const char *const *words)
{
    command c = {.words = {"kubectl"}, .count = 1};
    const char *space = submit_value(r, "--namespace");
    if (space != NULL) {
        c.words[c.count++] = "--namespace";
        c.words[c.count++] = (char *)space;
    }
    for (; *words != NULL && c.count < COMMAND_MAX - 1; words++)
        c.words[c.count++] = (char *)*words;
    return c;
}

typedef enum phase { PHASE_GOES_ON, PHASE_GOOD, PHASE_BAD, PHASE_LOST } phase;

/* The conditions that hold, of an MPIJob or a Job. A server that does not answer is asked again. */
static phase look(const submit_request *r, int *misses)
{
    const char *kind = r->engine == SUBMIT_TCP ? "job" : "mpijob";
    char *said;
    const command c = kubectl(
        r,
        (const char *const[]){"get", kind, r->name, "-o",
                              "jsonpath={.status.conditions[?(@.status==\"True\")].type}", NULL});
    const int code = subprocess_ask(c.words, &said);
    phase found = PHASE_GOES_ON;
    *misses = code != 0 ? *misses + 1 : 0;
    if (code != 0 && (*misses > MISSES_MAX || strstr(said, "NotFound") != NULL)) {
        submit_complain("lost sight of %s; kubectl says: %s", r->name, tool_last_line(said));
        found = PHASE_LOST;
    } else if (code == 0 &&
               (strstr(said, "Complete") != NULL || strstr(said, "Succeeded") != NULL)) {
        found = PHASE_GOOD;
    } else if (code == 0 && strstr(said, "Failed") != NULL) {
        found = PHASE_BAD;
    }
    free(said);
    return found;
}

/* As long as a pod has no container that runs there is no log of it, and kubectl says so. */
static bool has_logs(const submit_request *r, const char *most, const char *selector)
{
    char *said;
    const command c = kubectl(r, (const char *const[]){"logs", "--tail=1", most, selector, NULL});
    const bool some =
        subprocess_ask(c.words, &said) == 0 && strstr(said, "No resources found") == NULL;
    free(said);
    return some;
}

static int follow(const submit_request *r)
{
    const char *selector = job_tree_text(&r->file->tree, "--selector=rueda.job=%s%s", r->name,
                                         r->engine == SUBMIT_TCP ? "" : ",rueda.role=launcher");
    const char *most = job_tree_text(&r->file->tree, "--max-log-requests=%d", r->workers);
    const command logs = kubectl(r, (const char *const[]){"logs", "--follow", "--tail=-1",
                                                          "--prefix", most, selector, NULL});
    bool shown = false;
    int misses = 0;
    phase p;
    while ((p = look(r, &misses)) == PHASE_GOES_ON) {
        if (!shown && has_logs(r, most, selector))
            shown = tool_show(logs.words) == 0;
        else
            nanosleep(&(struct timespec){FOLLOW_PAUSE_S, 0}, NULL);
    }
    if (!shown && (p == PHASE_GOOD || p == PHASE_BAD))
        tool_show(logs.words);
    if (p == PHASE_BAD)
        submit_complain("%s has failed; kubectl describe pods %s tells more", r->name, selector);
    return p == PHASE_GOOD ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* First on the server's paper: of several objects all are created, or none. */
static int send_job(const submit_request *r, const char *file)
{
    char *said;
    command c = kubectl(r, (const char *const[]){"create", "--dry-run=server", "-f", file, NULL});
    int code = subprocess_ask(c.words, &said);
    if (code == 0) {
        free(said);
        c = kubectl(r, (const char *const[]){"create", "-f", file, NULL});
        code = subprocess_ask(c.words, &said);
    }
    if (code != 0)
        submit_complain("Kubernetes refused the job; kubectl says: %s", tool_last_line(said));
    free(said);
    if (code != 0)
        return EXIT_USAGE;
    fprintf(stderr,
            "rueda submit: %s is submitted; kubectl delete mpijob,job,service,secret -l "
            "rueda.job=%s ends it and removes all of it\n",
            r->name, r->name);
    return r->wait ? follow(r) : submit_tell(r->name);
}

const submit_platform submit_kubernetes = {
    .name = "kubernetes",
    .suffix = ".yaml",
    .program = "kubectl",
    .install = "install it and point it at the cluster",
    .options = options,
    .write = write_job,
    .send = send_job,
};
