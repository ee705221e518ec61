/* parcels.h: tensors that tests send from one rank to another, and check. */
#ifndef RUEDA_TESTS_PARCELS_H
#define RUEDA_TESTS_PARCELS_H

#include "tensors.h"

/* A tensor on its way from one rank to another; its values depend on the sender and the seed. */
typedef struct parcel {
    rueda_dtype dtype;
    size_t count;
    uint64_t seed;
    const char *name;
    int32_t set;
    /* while it is on its way */
    uint8_t *data;
    rueda_request *request;
} parcel;

size_t parcel_bytes(const parcel *p);
void parcel_start_send(parcel *p, int to);
/* `in_place`: into the tensor's input. */
void parcel_start_receive(parcel *p, int from, bool in_place);
/* Wait, check, and free the memory; finish_receive: who sent it, as the output tells. */
void parcel_finish_send(parcel *p);
int parcel_finish_receive(parcel *p);

#endif
