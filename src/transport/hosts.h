/* hosts.h: what transports between hosts share. Members that share our memory are reached by it, through a
 * channel of transport_shm; of the others only our copies of their sums are there. */
#ifndef RUEDA_TRANSPORT_HOSTS_H
#define RUEDA_TRANSPORT_HOSTS_H

#include "transport/shm/shm.h"

/* Embedded first. */
typedef struct hosts_channel {
    transport_channel common;
    transport_channel *memory; /* of our host's members; of the others it is not to be used */
    double *sums;              /* our copies of those of members elsewhere */
} hosts_channel;

/* `c` is zeroed. ERR_MEMORY; hosts_close then, too. */
rueda_status hosts_open(hosts_channel *c, const transport_table *table,
                        const control_members *members, uint32_t number);
void hosts_close(hosts_channel *c);

/* Whether a member is reached by memory. */
static inline bool hosts_is_here(const hosts_channel *c, uint16_t peer)
{
    return c->common.peers[peer].flag != NULL;
}

#endif
