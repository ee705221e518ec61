/* registry.c: see registry.h. A transport is a folder with `const transport_table transport_NAME`, and one
 * row here. Without a name given, the first that can is taken: of those between hosts MPI, where mpirun has
 * started the ranks, before tcp, which always works. */
#include "transport/registry.h"

#include <stdio.h>
#include <string.h>

#ifndef TRANSPORT_MORE /* rows of folders outside of src/: see cmake/RuedaTransports.cmake */
#define TRANSPORT_MORE
#endif
/* clang-format off */
#define TRANSPORT_ROWS \
    X(shm) \
    X(mpi) \
    X(tcp) \
    TRANSPORT_MORE

#define X(name) extern const transport_table transport_##name;
TRANSPORT_ROWS
#undef X
#define X(name) &transport_##name,
static const transport_table *const rows[] = {TRANSPORT_ROWS};
#undef X
/* clang-format on */
#define ROWS (sizeof rows / sizeof rows[0])

_Static_assert(ROWS <= TRANSPORTS_MAX, "a job has room for all of them");

const transport_table *transport_at(size_t number)
{
    return number < ROWS ? rows[number] : NULL;
}

const transport_table *transport_named(const char *name)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    }
    return NULL;
}

void transport_list(char text[TRANSPORT_LIST_TEXT])
{
    size_t used = (size_t)snprintf(text, TRANSPORT_LIST_TEXT, "auto");
    for (size_t i = 0; i < ROWS && used < TRANSPORT_LIST_TEXT; i++)
        used += (size_t)snprintf(text + used, TRANSPORT_LIST_TEXT - used, "%s%s",
                                 i + 1 < ROWS ? ", " : " or ", rows[i]->name);
}

rueda_status transports_check(const config *settings)
{
    const char *name = settings->transport.text;
    char list[TRANSPORT_LIST_TEXT];
    if (strcmp(name, "auto") == 0 || transport_named(name) != NULL)
        return RUEDA_OK;
    transport_list(list);
    return status_fail(RUEDA_ERR_CONFIG, "RUEDA_TRANSPORT=%s is not %s", name, list);
}

bool transports_share_memory(const config *settings)
{
    const transport_table *named = transport_named(settings->transport.text);
    return named == NULL || !named->between_hosts;
}

rueda_status transports_join(transports *t, const transport_terms *terms)
{
    *t = (transports){.table = NULL};
    for (size_t i = 0; i < ROWS; i++) {
        const rueda_status status =
            rows[i]->join == NULL ? RUEDA_OK : rows[i]->join(terms, &t->joined[i]);
        if (status != RUEDA_OK)
            return transports_leave(t, false), status;
    }
    return RUEDA_OK;
}

void transports_leave(transports *t, bool whole)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (t->joined[i] != NULL)
            rows[i]->leave(t->joined[i], whole);
    }
    *t = (transports){.table = NULL};
}

/* ---- Choosing -------------------------------------------------------------------------------- */

rueda_status transport_fail_encryption(const transport_table *t)
{
    size_t i = 0; /* tcp at the latest */
    while (!rows[i]->between_hosts || !rows[i]->encrypts)
        i++;
    return status_fail(RUEDA_ERR_CONFIG,
                       "RUEDA_ENCRYPT=1, and %s moves the data, which rueda cannot encrypt: set "
                       "RUEDA_TRANSPORT=%s, or take RUEDA_ENCRYPT away",
                       t->name, rows[i]->name);
}

rueda_status transports_fail_native(const transports *t)
{
    size_t i = 0;
    while (i < ROWS - 1 && rows[i]->collect == NULL)
        i++;
    return status_fail(RUEDA_ERR_CONFIG,
                       "RUEDA_ALGORITHM=native means collectives of the transport's own, and %s, "
                       "which moves the data of this job, has none: set RUEDA_TRANSPORT=%s%s, or "
                       "take RUEDA_ALGORITHM away",
                       t->table->name, rows[i]->name,
                       rows[i]->by_mpirun ? " and start it with mpirun" : "");
}

rueda_status transport_fail_send_in_set(const transport_table *t, const char *name)
{
    size_t i = 0; /* tcp at the latest */
    while (!rows[i]->between_hosts || rows[i]->keeps_unread)
        i++;
    return status_fail(RUEDA_ERR_ARGUMENT,
                       "'%s' cannot be sent or received in a process set: the transport %s does "
                       "it between all ranks of the job only; give no set, or RUEDA_TRANSPORT=%s",
                       name, t->name, rows[i]->name);
}

static bool is_able(const transports *t, size_t i, bool networked)
{
    return rows[i]->between_hosts == networked && (rows[i]->join == NULL || t->joined[i] != NULL);
}

/* Without a network there is nobody else: a single rank, or all share memory. */
rueda_status transports_choose(transports *t, const config *settings, bool networked, bool spread)
{
    const transport_table *named = transport_named(settings->transport.text);
    if (named != NULL && named->between_hosts && !networked)
        named = NULL;
    size_t i = 0;
    while (named != NULL ? rows[i] != named : !is_able(t, i, networked))
        i++;
    if (spread && !rows[i]->between_hosts)
        return status_fail(RUEDA_ERR_CONFIG,
                           "RUEDA_TRANSPORT=%s, and the ranks are on several hosts, which share no "
                           "memory: set RUEDA_TRANSPORT=auto",
                           rows[i]->name);
    if (settings->encrypt && !rows[i]->encrypts)
        return transport_fail_encryption(rows[i]);
    t->table = rows[i];
    t->job = t->joined[i];
    return RUEDA_OK;
}
