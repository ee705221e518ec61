/* registry.h: all transports there are, and those of a job. Nobody else knows any by name. */
#ifndef RUEDA_TRANSPORT_REGISTRY_H
#define RUEDA_TRANSPORT_REGISTRY_H

#include "transport/transport.h"

#define TRANSPORTS_MAX 16

/* What a job has of them. */
typedef struct transports {
    const transport_table *table;          /* moves the data; NULL before transports_choose */
    transport_job *job;                    /* of that one, or NULL */
    transport_job *joined[TRANSPORTS_MAX]; /* by their numbers; NULL: takes no part */
} transports;

const transport_table *transport_at(size_t number);       /* NULL: there are no more */
const transport_table *transport_named(const char *name); /* NULL: there is none, or `auto` */
/* "auto, shm, mpi or tcp" */
#define TRANSPORT_LIST_TEXT 160
void transport_list(char text[TRANSPORT_LIST_TEXT]);

/* That RUEDA_TRANSPORT names one. ERR_CONFIG. */
rueda_status transports_check(const config *settings);
/* Whether ranks of one host share memory: not where one between hosts is asked for by name. */
bool transports_share_memory(const config *settings);

/* Before the ranks meet. On failure those that have joined have left again. */
rueda_status transports_join(transports *t, const transport_terms *terms);
/* When they have met, `networked`: by TCP; `spread`: on several hosts. That which is asked for by name, else
 * the first that can. ERR_CONFIG: it can never do what the settings say; all ranks say the same. */
rueda_status transports_choose(transports *t, const config *settings, bool networked, bool spread);
/* After all channels. `whole`: the job is not broken. */
void transports_leave(transports *t, bool whole);

/* What is said where the transport's own collectives are asked for and it has none: ERR_CONFIG. */
rueda_status transports_fail_native(const transports *t);
/* What is said where it cannot send `name` in a process set (keeps_unread): ERR_ARGUMENT. */
rueda_status transport_fail_send_in_set(const transport_table *t, const char *name);
/* What is said where data cannot be encrypted and the user wants it: ERR_CONFIG. */
rueda_status transport_fail_encryption(const transport_table *t);

#endif
