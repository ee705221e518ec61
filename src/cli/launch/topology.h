/* topology.h: the cores of this host. */
#ifndef RUEDA_CLI_LAUNCH_TOPOLOGY_H
#define RUEDA_CLI_LAUNCH_TOPOLOGY_H

#include <sched.h>
#include <stdbool.h>

typedef struct topology_core {
    cpu_set_t set; /* the processors of the core that we may use, at least one */
    int socket;    /* */
} topology_core;

/* The cores that have a processor in `allowed`, neighbours side by side, in memory that the caller
 * frees; returns their number. Without knowledge of cores every processor is one, on socket 0. */
int topology_cores(const cpu_set_t *allowed, topology_core **cores);
/* Whether the build found hwloc. */
bool topology_knows_cores(void);

#endif
