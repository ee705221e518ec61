/* meet.h: where the ranks of several hosts meet: an address of rank 0's host as the others reach it,
 * and the first of a few ports that rank 0 tries. */
#ifndef RUEDA_CLI_LAUNCH_MEET_H
#define RUEDA_CLI_LAUNCH_MEET_H

#include "cli/launch/host_job.h"

#define MEET_PORT_FIRST 20000
#define MEET_PORT_LAST 29999
#define MEET_PORTS 16 /* rank 0 listens on the first free one of so many */
#define MEET_MAX 512  /* bytes of "HOST:PORT" */

/* What a host is to this choice. */
typedef struct meet_host {
    const char *name;
    bool here; /* is this machine */
    const host_answer *answer;
} meet_host;

/* Chooses for hosts[0], which has rank 0. `other`: a host that is not this machine, NULL if all are.
 * False: an interface was asked for that rank 0's host does not have. May ask a name server. */
bool meet_choose(const launch_options *options, const meet_host *first, const meet_host *other,
                 char to[MEET_MAX]);

/* "HOST" or "HOST:PORT" or "[IPv6]:PORT"; port 0 if none is there. False: it is neither. */
bool meet_parse(const char *text, char *host, size_t size, int *port);

#endif
