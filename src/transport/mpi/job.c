/* job.c: see mpi.h. */
#include "transport/mpi/mpi.h"

#include "base/foreign.h"
#include "net/net.h"
#include "transport/mpi/load.h"
#include "transport/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_FIRST 20000 /* rank 0 is met on one of these, or the next free ones */
#define PORT_COUNT 9000

_Static_assert((int)MPI_PLUGIN_SUM == KERNEL_SUM && (int)MPI_PLUGIN_MIN == KERNEL_MIN &&
                   (int)MPI_PLUGIN_MAX == KERNEL_MAX && (int)MPI_PLUGIN_PRODUCT == KERNEL_PRODUCT &&
                   (int)MPI_PLUGIN_OPS == KERNEL_OP_COUNT,
               "a plug-in's operations are ours");

/* What rank 0 tells all others. */
typedef struct announcement {
    char why[STATUS_TEXT_MAX]; /* not "": rank 0 has failed */
    char job[64], key[2 * NET_KEY_BYTES + 1], meet[CONFIG_TEXT_MAX];
} announcement;

static bool is_transport(const config *settings, const char *name)
{
    return strcmp(settings->transport.text, name) == 0;
}

/* Ranks on several hosts, or that are made to look so. */
static bool spans_hosts(const config *settings)
{
    return settings->size > 1 &&
           (settings->local_size != settings->size || settings->host.text[0] != '\0');
}

/* Whether to use MPI; without it being asked for, a missing plug-in is no error. */
static bool is_wanted(const config *settings, const void *communicator, const char *flavour)
{
    char path[MPI_PATH_MAX];
    if (communicator != NULL || is_transport(settings, "mpi"))
        return communicator != NULL || settings->size > 1;
    return is_transport(settings, "auto") && foreign_mpi() != NULL && spans_hosts(settings) &&
           mpi_find(settings, flavour, path);
}

static uint64_t limit_ns(const config *settings)
{
    return (uint64_t)settings->start_timeout * 1000000000u;
}

static rueda_status fail_late(void)
{
    return status_fail(RUEDA_ERR_TIMEOUT, "the other ranks did not answer by MPI in time: see why "
                                          "they did not start, or raise RUEDA_START_TIMEOUT");
}

/* ---- Who we are ------------------------------------------------------------------------------ */

static rueda_status take_identity(config *settings, bool given, int rank, int size)
{
    if (!given && (rank != settings->rank || size != settings->size))
        return status_fail(
            RUEDA_ERR_CONFIG,
            "MPI says rank %d of %d and the launcher %lld of %lld: they do not belong "
            "together; use the mpirun of the MPI that the plug-in was made for",
            rank, size, (long long)settings->rank, (long long)settings->size);
    if (!given)
        return RUEDA_OK;
    settings->rank = rank;
    settings->size = size;
    settings->local_rank = settings->local_size = -1;
    settings->cross_rank = settings->cross_size = -1;
    settings->job.text[0] = '\0'; /* a communicator may have only some of the launcher's ranks */
    if (config_variable("RUEDA_MEET") == NULL)
        settings->meet.text[0] = '\0';
    return RUEDA_OK;
}

static uint64_t hash(const char *text)
{
    uint64_t sum = 5381;
    for (; *text != '\0'; text++)
        sum = sum * 33 + (unsigned char)*text;
    return sum;
}

static rueda_status find_one_host(const mpi_job *j, config *settings, bool *one_host)
{
    char machine[64];
    world_machine_name(machine, sizeof machine);
    if (!j->plugin->compare(j->world, hash(machine), one_host, limit_ns(settings)))
        return fail_late();
    if (*one_host) { /* whatever was said: a launcher's nodes may be one machine */
        settings->local_rank = settings->rank;
        settings->local_size = settings->size;
    }
    return RUEDA_OK;
}

/* ---- What rank 0 says ------------------------------------------------------------------------ */

static rueda_status choose_place(const config *settings, const char *job, char meet[NET_TEXT])
{
    net_address own;
    unsigned first = 0;
    const bool told = settings->interface.text[0] != '\0';
    const rueda_status status =
        net_interface(told ? settings->interface.text : NET_INTERFACE_ANY, &own);
    if (status != RUEDA_OK)
        return status;
    if (sscanf(settings->ports.text, "%u", &first) != 1 || first == 0 || first > UINT16_MAX)
        first = PORT_FIRST + (unsigned)(hash(job) % PORT_COUNT);
    own.port = (uint16_t)first;
    net_format(&own, meet);
    return RUEDA_OK;
}

/* What the user has said stays. The name is a random one: those of mpirun may be the same on two hosts.
 * On one host the ranks find each other by the job's name. */
static rueda_status compose(const config *settings, bool one_host, announcement *a)
{
    char place[NET_TEXT] = "";
    const bool has_key = settings->key.text[0] != '\0' || settings->key_file.text[0] != '\0';
    net_key_make(a->key);
    snprintf(a->job, sizeof a->job, "mpi-%.24s", a->key);
    if (settings->job.text[0] != '\0' && config_variable("RUEDA_JOB") != NULL)
        snprintf(a->job, sizeof a->job, "%.63s", settings->job.text);
    net_key_make(a->key);
    if (has_key)
        snprintf(a->key, sizeof a->key, "%.64s", settings->key.text);
    if (config_variable("RUEDA_MEET") != NULL) {
        snprintf(a->meet, sizeof a->meet, "%s", settings->meet.text);
        return RUEDA_OK;
    }
    const rueda_status status = one_host ? RUEDA_OK : choose_place(settings, a->job, place);
    snprintf(a->meet, sizeof a->meet, "%s", place);
    return status;
}

static rueda_status announce(const mpi_job *j, config *settings, bool one_host)
{
    announcement a = {.why = ""};
    if (settings->rank == 0 && compose(settings, one_host, &a) != RUEDA_OK)
        snprintf(a.why, sizeof a.why, "%s", status_text());
    if (!j->plugin->broadcast(j->world, &a, sizeof a, limit_ns(settings)))
        return fail_late();
    if (a.why[0] != '\0')
        return status_fail(RUEDA_ERR_CONFIG, "rank 0: %.300s", a.why);
    snprintf(settings->job.text, sizeof settings->job.text, "%s", a.job);
    snprintf(settings->meet.text, sizeof settings->meet.text, "%s", a.meet);
    if (settings->key_file.text[0] == '\0')
        snprintf(settings->key.text, sizeof settings->key.text, "%s", a.key);
    explicit_bzero(&a, sizeof a);
    return RUEDA_OK;
}

/* ---- All together ---------------------------------------------------------------------------- */

static rueda_status check_launcher(const config *settings, const void *communicator)
{
    if (communicator != NULL || foreign_has_pmi())
        return RUEDA_OK;
    return status_fail(
        RUEDA_ERR_CONFIG,
        "RUEDA_TRANSPORT=mpi, and these %lld ranks were not started by mpirun: start "
        "them with mpirun or `rueda run --mpi`",
        (long long)settings->size);
}

/* Before MPI starts, where it is certain that it will move the data; transports_choose knows the other cases. */
static rueda_status check_encryption(const config *settings, const void *communicator)
{
    return settings->encrypt && communicator == NULL ? transport_fail_encryption(&transport_mpi)
                                                     : RUEDA_OK;
}

static rueda_status open_world(mpi_job *j, config *settings, const void *communicator,
                               const kernel_table *kernel)
{
    char why[MPI_PLUGIN_WHY];
    int rank, size;
    const mpi_terms terms = {.communicator = communicator,
                             .lanes = (uint32_t)settings->channels,
                             .limit_ns = limit_ns(settings),
                             .reduce = kernel->reduce};
    if (!j->plugin->open(&terms, &j->world, &rank, &size, why))
        return status_fail(RUEDA_ERR_CONFIG, "%s", why);
    bool one_host = false;
    rueda_status status = take_identity(settings, communicator != NULL, rank, size);
    if (status == RUEDA_OK)
        status = find_one_host(j, settings, &one_host);
    return status == RUEDA_OK ? announce(j, settings, one_host) : status;
}

rueda_status mpi_join(const transport_terms *terms, transport_job **job)
{
    config *settings = terms->settings;
    const void *communicator = terms->options->mpi_communicator;
    const char *flavour = NULL;
    if (communicator == NULL && !is_transport(settings, "mpi") && !is_transport(settings, "auto"))
        return RUEDA_OK;
    const bool asked = communicator != NULL || is_transport(settings, "mpi");
    rueda_status status = asked || foreign_mpi() != NULL ? mpi_flavour(&flavour) : RUEDA_OK;
    if (!is_wanted(settings, communicator, flavour))
        return RUEDA_OK;
    if (status == RUEDA_OK)
        status = check_launcher(settings, communicator);
    if (status == RUEDA_OK)
        status = check_encryption(settings, communicator);
    mpi_job *j = calloc(1, sizeof *j);
    if (j == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
    if (status == RUEDA_OK)
        status = mpi_load(settings, flavour, &j->plugin);
    if (status == RUEDA_OK)
        status = open_world(j, settings, communicator, terms->kernel);
    if (status != RUEDA_OK) {
        mpi_leave((transport_job *)j, false);
        return status;
    }
    const char *library = j->plugin->library();
    log_line(terms->log, LOG_INFO, "MPI: %.*s", (int)strcspn(library, ",\n"), library);
    *job = (transport_job *)j;
    return RUEDA_OK;
}

void mpi_leave(transport_job *job, bool whole)
{
    mpi_job *j = (mpi_job *)job;
    if (j->world != NULL)
        j->plugin->close(j->world, whole);
    free(j);
}
