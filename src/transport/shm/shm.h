/* shm.h: the transport of members that share our memory; those between hosts use it inside of a host. */
#ifndef RUEDA_TRANSPORT_SHM_H
#define RUEDA_TRANSPORT_SHM_H

#include "transport/transport.h"

extern const transport_table transport_shm;

#endif
