/* hosts.c: see hosts.h. */
#include "transport/hosts.h"

#include <stdlib.h>

#define SUMS_OF_PEER (2 * (size_t)SEGMENT_SUMS * SEGMENT_SUM_PARTS) /* doubles */

rueda_status hosts_open(hosts_channel *c, const transport_table *table,
                        const control_members *members, uint32_t number)
{
    const rueda_status status = transport_shm.open(NULL, members, number, &c->memory);
    if (status != RUEDA_OK)
        return status;
    c->common = *c->memory;
    c->common.table = table;
    c->common.peers = calloc(members->size, sizeof *c->common.peers);
    c->sums = calloc(members->size, SUMS_OF_PEER * sizeof *c->sums);
    if (c->common.peers == NULL || c->sums == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a channel");
    for (uint16_t i = 0; i < members->size; i++)
        c->common.peers[i] = control_is_local(members->job, members->ranks[i])
                                 ? c->memory->peers[i]
                                 : (transport_peer){.sums = c->sums + i * SUMS_OF_PEER};
    return RUEDA_OK;
}

void hosts_close(hosts_channel *c)
{
    free(c->common.peers);
    free(c->sums);
    transport_shm.close(c->memory);
}
