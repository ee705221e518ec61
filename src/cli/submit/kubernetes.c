/* kubernetes.c: a job as an MPIJob of Kubeflow's operator or, with --engine tcp, as an Indexed Job of
 * Kubernetes alone, whose pods find each other by a headless service and know each other by a Secret.
 * A worker is a pod. */
#include "cli/submit/sheet.h"
#include "cli/submit/submit.h"
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

/* ---- Templates --------------------------------------------------------------------------------- */

#define METADATA                                                                                   \
    "  namespace: {namespace}\n"                                                                   \
    "  labels:\n"                                                                                  \
    "    app.kubernetes.io/managed-by: rueda\n"                                                    \
    "    rueda.job: {name}\n"

static const char mpi_head[] = //
    "apiVersion: kubeflow.org/v2beta1\n"
    "kind: MPIJob\n"
    "metadata:\n"
    "  name: {name}\n" METADATA //
    "spec:\n"
    "  slotsPerWorker: {=processes}\n"
    "  runPolicy:\n"
    "    cleanPodPolicy: Running\n"
    "    backoffLimit: 0\n"
    "  mpiReplicaSpecs:\n"
    "    Launcher:\n"
    "      replicas: 1\n"
    "      restartPolicy: Never\n"
    "      template:\n"
    "        metadata:\n"
    "          labels:\n"
    "            rueda.job: {name}\n"
    "            rueda.role: launcher\n"
    "        spec:\n"
    "          containers:\n"
    "          - name: launcher\n"
    "            image: {image}\n"
    "            command: [sh, -c]\n"
    "            args:\n"
    "            - {script}\n";

static const char mpi_worker[] = //
    "    Worker:\n"
    "      replicas: {=workers}\n"
    "      restartPolicy: Never\n"
    "      template:\n"
    "        metadata:\n"
    "          labels:\n"
    "            rueda.job: {name}\n"
    "            rueda.role: worker\n"
    "        spec:\n"
    "          containers:\n"
    "          - name: worker\n"
    "            image: {image}\n"
    "            command: [/usr/sbin/sshd, -De]\n";

/* The launcher may start before its workers, and nothing is tried twice. */
static const char mpi_wait[] = //
    "set -e\n"
    "for host in $(cut -d ' ' -f 1 /etc/mpi/hostfile 2>/dev/null); do\n"
    "    tries=300\n"
    "    until ssh -o ConnectTimeout=2 \"$host\" true 2>/dev/null; do\n"
    "        tries=$((tries - 1))\n"
    "        [ $tries -gt 0 ] || { echo \"rueda submit: no answer from $host in 10 minutes\" >&2; exit 1; }\n"
    "        sleep 2\n"
    "    done\n"
    "done\n";

static const char mpi_line[] = //
    "mpirun --allow-run-as-root -np {=ranks} --bind-to none --map-by slot -x PATH{=variables}"
    " sh -c {line}\n";

static const char tcp_head[] = //
    "apiVersion: v1\n"
    "kind: Secret\n"
    "metadata:\n"
    "  name: {name}-key\n" METADATA //
    "type: Opaque\n"
    "stringData:\n"
    "  key: {key}\n"
    "---\n"
    "apiVersion: v1\n"
    "kind: Service\n"
    "metadata:\n"
    "  name: {name}\n" METADATA //
    "spec:\n"
    "  clusterIP: None\n"
    "  publishNotReadyAddresses: true\n"
    "  selector:\n"
    "    rueda.job: {name}\n"
    "  ports:\n"
    "  - name: meet\n"
    "    port: " MEET_PORT "\n"
    "---\n"
    "apiVersion: batch/v1\n"
    "kind: Job\n"
    "metadata:\n"
    "  name: {name}\n" METADATA //
    "spec:\n"
    "  completionMode: Indexed\n"
    "  completions: {=workers}\n"
    "  parallelism: {=workers}\n"
    "  backoffLimit: 0\n"
    "  template:\n"
    "    metadata:\n"
    "      labels:\n"
    "        rueda.job: {name}\n"
    "    spec:\n"
    "      restartPolicy: Never\n"
    "      subdomain: {name}\n"
    "      containers:\n"
    "      - name: worker\n"
    "        image: {image}\n"
    "        command: [rueda, run, -np, \"{=processes}\", --, rueda, part]\n"
    "        args:\n"
    "        - $(JOB_COMPLETION_INDEX)/{=workers}\n"
    "        - {name}-0.{name}:" MEET_PORT "\n";

static const char tcp_line[] = "        - {line}\n";

static const char tcp_env[] = //
    "        env:\n"
    "        - name: RUEDA_PART_KEY\n"
    "          valueFrom:\n"
    "            secretKeyRef:\n"
    "              name: {name}-key\n"
    "              key: key\n"
    "        - name: RUEDA_START_TIMEOUT # pods do not start together\n"
    "          value: \"600\"\n";

static const char variable[] = //
    "{=indent}- name: {variable}\n"
    "{=indent}  value: {value}\n";

/* Data loaders of frameworks need more shared memory than the 64 MiB that a container gets. */
static const char resources[] = //
    "{=indent}resources:\n"
    "{=indent}  limits:\n"
    "{=indent}    cpu: {=cpus}\n"
    "{=indent}    memory: {=mem}Mi\n"
    "{=indent}    nvidia.com/gpu: {=gpus}\n";
static const char memory[] = //
    "{=indent}volumeMounts:\n"
    "{=indent}- name: shm\n"
    "{=indent}  mountPath: /dev/shm\n"
    "{=outdent}volumes:\n"
    "{=outdent}- name: shm\n"
    "{=outdent}  emptyDir:\n"
    "{=outdent}    medium: Memory\n";

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

static void write_variables(const submit_request *r, FILE *to, const char *indent)
{
    for (size_t i = 0; i < r->variable_count; i++) {
        const sheet_field fields[] = {{"indent", indent},
                                      {"variable", r->variables[i].name},
                                      {"value", without_expansion(r, r->variables[i].value)},
                                      {NULL, NULL}};
        sheet_write(to, SHEET_YAML, variable, fields);
    }
}

static void write_resources(const submit_request *r, FILE *to, const char *indent,
                            const char *outdent)
{
    const sheet_field fields[] = {{"indent", indent},
                                  {"outdent", outdent},
                                  {"cpus", submit_number(r, r->cpus)},
                                  {"mem", submit_number(r, r->mem_mib)},
                                  {"gpus", submit_number(r, r->gpus)},
                                  {NULL, NULL}};
    if (r->cpus > 0 || r->mem_mib > 0 || r->gpus > 0)
        sheet_write(to, SHEET_YAML, resources, fields);
    sheet_write(to, SHEET_YAML, memory, fields);
}

/* What the launcher runs: each line by all processes, one line after the other. */
static char *mpi_script(const submit_request *r)
{
    char *script = NULL, *names = NULL;
    size_t bytes;
    FILE *to = open_memstream(&names, &bytes);
    for (size_t i = 0; to != NULL && i < r->variable_count; i++)
        fprintf(to, " -x %s", r->variables[i].name);
    if (to == NULL || fclose(to) != 0 || (to = open_memstream(&script, &bytes)) == NULL)
        abort();
    fputs(mpi_wait, to);
    for (size_t i = 0; i < r->file->run_count; i++) {
        const sheet_field fields[] = {{"ranks", submit_number(r, r->ranks)},
                                      {"variables", names},
                                      {"line", submit_line(r, i, &submit_mpirun)},
                                      {NULL, NULL}};
        sheet_write(to, SHEET_SHELL, mpi_line, fields);
    }
    fclose(to);
    free(names);
    script[bytes - 1] = '\0'; /* without the last end of line a block is shown */
    return script;
}

static void write_mpi(const submit_request *r, FILE *to, const char *image)
{
    char *script = mpi_script(r);
    const sheet_field fields[] = {{"name", r->name},
                                  {"namespace", submit_value(r, "--namespace")},
                                  {"image", image},
                                  {"processes", submit_number(r, r->processes)},
                                  {"workers", submit_number(r, r->workers)},
                                  {"script", without_expansion(r, script)},
                                  {NULL, NULL}};
    sheet_write(to, SHEET_YAML, mpi_head, fields);
    if (r->variable_count > 0)
        fputs("            env:\n", to);
    write_variables(r, to, "            ");
    sheet_write(to, SHEET_YAML, mpi_worker, fields);
    write_resources(r, to, "            ", "          ");
    free(script);
}

/* `rueda part` in each pod. */
static const submit_starter part = {.local_rank = "RUEDA_LOCAL_RANK"};

static void write_tcp(const submit_request *r, FILE *to, const char *image)
{
    const sheet_field fields[] = {{"name", r->name},
                                  {"namespace", submit_value(r, "--namespace")},
                                  {"image", image},
                                  {"key", r->key},
                                  {"processes", submit_number(r, r->processes)},
                                  {"workers", submit_number(r, r->workers)},
                                  {NULL, NULL}};
    sheet_write(to, SHEET_YAML, tcp_head, fields);
    for (size_t i = 0; i < r->file->run_count; i++) {
        const char *line = submit_line(r, i, &part);
        sheet_write(to, SHEET_YAML, tcp_line,
                    (sheet_field[]){{"line", without_expansion(r, line)}, {NULL, NULL}});
    }
    sheet_write(to, SHEET_YAML, tcp_env, fields);
    write_variables(r, to, "        ");
    write_resources(r, to, "        ", "      ");
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
    if (r->engine == SUBMIT_TCP)
        write_tcp(r, to, image);
    else
        write_mpi(r, to, image);
    return true;
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
    const int code = tool_ask(c.words, &said);
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
    const bool some = tool_ask(c.words, &said) == 0 && strstr(said, "No resources found") == NULL;
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
    int code = tool_ask(c.words, &said);
    if (code == 0) {
        free(said);
        c = kubectl(r, (const char *const[]){"create", "-f", file, NULL});
        code = tool_ask(c.words, &said);
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
