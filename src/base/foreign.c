/* foreign.c: the variables of other launchers, one function for each. */
#include "base/foreign.h"

#include "base/os.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT_FIRST 20000 /* where the meeting place is made up from a job number … */
#define PORT_COUNT 9000  /* … it is one of these */
#define HOST_MAX 200

typedef struct place {
    const char *job;     /* what is unique to the job among those of this user; NULL: not known */
    char host[HOST_MAX]; /* of rank 0; "": not known */
    unsigned port;
} place;

static rueda_status read_number(const char *name, int64_t otherwise, int64_t *number)
{
    const char *text = config_variable(name);
    *number = otherwise;
    if (text == NULL)
        return RUEDA_OK;
    char *end;
    const long long value = strtoll(text, &end, 10);
    if (*end != '\0' || value < 0 || value > 1000000)
        return status_fail(RUEDA_ERR_CONFIG,
                           "%s=%s is not a number; the launcher that set it is not understood: set "
                           "RUEDA_RANK and RUEDA_SIZE instead",
                           name, text);
    *number = value;
    return RUEDA_OK;
}

typedef struct names {
    const char *launcher, *rank, *size, *local_rank, *local_size;
} names;

static rueda_status read_identity(config *c, const names *n)
{
    rueda_status status = read_number(n->rank, 0, &c->rank);
    if (status == RUEDA_OK)
        status = read_number(n->size, 1, &c->size);
    if (status == RUEDA_OK && c->local_rank < 0)
        status = read_number(n->local_rank, -1, &c->local_rank);
    if (status == RUEDA_OK && c->local_size < 0 && n->local_size != NULL)
        status = read_number(n->local_size, -1, &c->local_size);
    if (status == RUEDA_OK && c->rank >= c->size)
        status = status_fail(RUEDA_ERR_CONFIG, "%s says rank %lld of %lld: check %s and %s",
                             n->launcher, (long long)c->rank, (long long)c->size, n->rank, n->size);
    return status;
}

/* Letters, digits, '-' and '.' of a text: what a job's name may hold. */
static void append_plain(char *to, size_t room, const char *text)
{
    size_t used = strlen(to);
    for (; *text != '\0' && used + 1 < room; text++)
        to[used++] = isalnum((unsigned char)*text) || *text == '.' ? *text : '-';
    to[used] = '\0';
}

/* Without a name from the launcher the process that has started all ranks stands for the job: on one
 * host only, since each host has one of its own. */
static void settle(config *c, const char *launcher, const place *p)
{
    char parent[64];
    const bool one_host = c->local_size == c->size;
    snprintf(parent, sizeof parent, "parent-%llx-%d", (unsigned long long)os_process_space(),
             (int)getppid());
    if (c->job.text[0] == '\0' && (p->job != NULL || one_host)) {
        snprintf(c->job.text, 32, "%s-", launcher);
        append_plain(c->job.text, 64, p->job == NULL ? parent : p->job);
    }
    if (!one_host && c->meet.text[0] == '\0' && p->host[0] != '\0')
        snprintf(c->meet.text, sizeof c->meet.text,
                 strchr(p->host, ':') != NULL ? "[%s]:%u" : "%s:%u", p->host, p->port);
}

static unsigned port_from(const char *text)
{
    unsigned long sum = 5381;
    for (; text != NULL && *text != '\0'; text++)
        sum = sum * 33 + (unsigned char)*text;
    return PORT_FIRST + (unsigned)(sum % PORT_COUNT);
}

/* The port that torchrun names may be in use by its own store: we meet behind it. */
static rueda_status adopt_torchrun(config *c)
{
    static const names torch = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
    int64_t port;
    char job[HOST_MAX];
    rueda_status status = read_identity(c, &torch);
    if (status == RUEDA_OK)
        status = read_number("MASTER_PORT", 29500, &port);
    if (status != RUEDA_OK)
        return status;
    const char *host = config_variable("MASTER_ADDR"),
               *run = config_variable("TORCHELASTIC_RUN_ID");
    const char *again = config_variable("TORCHELASTIC_RESTART_COUNT");
    place p = {.job = run == NULL ? NULL : job, .port = (unsigned)port + 1};
    snprintf(p.host, sizeof p.host, "%s", host);
    /* the run comes last: it may be long, and is cut */
    snprintf(job, sizeof job, "%u-%s-%s", (unsigned)port, again == NULL ? "0" : again,
             run == NULL ? "" : run);
    settle(c, "torchrun", &p);
    return RUEDA_OK;
}

/* "123.0;tcp://10.0.0.1,10.1.0.1:4567;…": the host of mpirun, where rank 0 mostly is, too. */
static void host_of_mpirun(place *p)
{
    const char *uri = config_variable("OMPI_MCA_orte_hnp_uri");
    const char *start = uri == NULL ? NULL : strstr(uri, "tcp://");
    if (start == NULL)
        return;
    start += strlen("tcp://");
    const size_t length = strcspn(start, ",:;");
    snprintf(p->host, sizeof p->host, "%.*s", (int)length, start);
}

static rueda_status adopt_openmpi(config *c)
{
    static const names ompi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                               "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
    const rueda_status status = read_identity(c, &ompi);
    if (status != RUEDA_OK)
        return status;
    place p = {.job = config_variable("PMIX_NAMESPACE")};
    if (p.job == NULL)
        p.job = config_variable("OMPI_MCA_ess_base_jobid");
    p.port = port_from(p.job);
    host_of_mpirun(&p);
    settle(c, "openmpi", &p);
    return RUEDA_OK;
}

static rueda_status adopt_pmi(config *c)
{
    static const names pmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
    const rueda_status status = read_identity(c, &pmi);
    if (status == RUEDA_OK)
        settle(c, "pmi", &(place){.job = config_variable("PMI_JOBID")});
    return status;
}

/* "node[07-12,15],other" → "node07". */
static void first_node(const char *list, place *p)
{
    const size_t stem = strcspn(list, "[,");
    const char *rest = list + stem;
    const size_t digits = *rest == '[' ? strcspn(rest + 1, "-,]") : 0;
    snprintf(p->host, sizeof p->host, "%.*s%.*s", (int)stem, list, (int)digits, rest + 1);
}

static bool has_key(const config *c)
{
    return c->key.text[0] != '\0' || c->key_file.text[0] != '\0' || c->insecure;
}

/* Slurm gives the tasks of a step no secret of their own, but the nodes of a cluster share the home
 * folder: there rank 0 leaves its address and a key. */
static void meet_at_home(config *c, const char *job)
{
    const char *home = config_variable("HOME");
    char path[sizeof c->meet.text];
    if (home == NULL || c->meet.text[0] != '\0')
        return;
    const int length = snprintf(path, sizeof path, "file:%s/.rueda-slurm-%s", home, job);
    if (length > 0 && (size_t)length < sizeof path)
        memcpy(c->meet.text, path, (size_t)length + 1);
}

static rueda_status adopt_slurm(config *c)
{
    static const names slurm = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                                NULL};
    int64_t nodes;
    char job[HOST_MAX];
    rueda_status status = read_identity(c, &slurm);
    if (status == RUEDA_OK)
        status = read_number("SLURM_STEP_NUM_NODES", 1, &nodes);
    if (status != RUEDA_OK)
        return status;
    const char *id = config_variable("SLURM_JOB_ID"),
               *nodelist = config_variable("SLURM_STEP_NODELIST"),
               *again = config_variable("SLURM_RESTART_COUNT");
    snprintf(job, sizeof job, "%s.%s.%s", id == NULL ? "0" : id, config_variable("SLURM_STEP_ID"),
             again == NULL ? "0" : again);
    if (nodes == 1)
        c->local_size = c->size;
    place p = {.job = job, .port = port_from(job)};
    if (nodelist != NULL)
        first_node(nodelist, &p);
    if (nodes > 1 && !has_key(c))
        meet_at_home(c, job);
    settle(c, "slurm", &p);
    return RUEDA_OK;
}

/* `srun --mpi=pmi2` leaves the variables of PMI as well. An mpirun that starts its helpers by srun does
 * so with other numbers than those of the step. */
static bool is_slurm_step(void)
{
    /* not the batch script around the steps, which has the other variables, too */
    const char *rank = config_variable("SLURM_PROCID"),
               *size = config_variable("SLURM_STEP_NUM_TASKS"),
               *pmi_rank = config_variable("PMI_RANK"), *pmi_size = config_variable("PMI_SIZE");
    if (config_variable("SLURM_STEP_ID") == NULL || rank == NULL || size == NULL)
        return false;
    return pmi_rank == NULL || pmi_size == NULL ||
           (strcmp(rank, pmi_rank) == 0 && strcmp(size, pmi_size) == 0);
}

rueda_status foreign_adopt(config *c)
{
    if (config_variable("RANK") != NULL && config_variable("WORLD_SIZE") != NULL &&
        config_variable("MASTER_ADDR") != NULL)
        return adopt_torchrun(c);
    if (config_variable("OMPI_COMM_WORLD_RANK") != NULL)
        return adopt_openmpi(c);
    if (is_slurm_step())
        return adopt_slurm(c);
    if (config_variable("PMI_RANK") != NULL && config_variable("PMI_SIZE") != NULL)
        return adopt_pmi(c);
    return RUEDA_OK;
}

const char *foreign_mpi(void)
{
    if (config_variable("RUEDA_RANK") != NULL &&
        (config_variable("RUEDA_JOB") != NULL || config_variable("RUEDA_MEET") != NULL))
        return NULL;
    if (config_variable("OMPI_COMM_WORLD_RANK") != NULL)
        return "openmpi";
    return config_variable("PMI_RANK") != NULL && config_variable("PMI_SIZE") != NULL ? "mpich"
                                                                                      : NULL;
}

bool foreign_has_pmi(void)
{
    return config_variable("OMPI_COMM_WORLD_RANK") != NULL || config_variable("PMI_RANK") != NULL ||
           config_variable("PMI_FD") != NULL || config_variable("PMIX_RANK") != NULL;
}
