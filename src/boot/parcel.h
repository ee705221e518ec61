/* parcel.h: bytes of known number on their way through a link; nothing blocks. */
#ifndef RUEDA_BOOT_PARCEL_H
#define RUEDA_BOOT_PARCEL_H

#include "net/net.h"

typedef struct parcel {
    uint8_t *bytes;
    size_t size, moved;
} parcel;

/* 1: all moved, 0: later, -1: the link broke. */
int parcel_send(parcel *p, net_link *link);
int parcel_receive(parcel *p, net_link *link);

#endif
