/* parcel.c: see parcel.h. */
#include "boot/parcel.h"

int parcel_send(parcel *p, net_link *link)
{
    const struct iovec part = {p->bytes + p->moved, p->size - p->moved};
    const ssize_t moved = p->moved < p->size ? net_link_send(link, &part, 1) : 0;
    if (moved < 0)
        return -1;
    p->moved += (size_t)moved;
    return p->moved == p->size;
}

int parcel_receive(parcel *p, net_link *link)
{
    const ssize_t moved =
        p->moved < p->size ? net_link_receive(link, p->bytes + p->moved, p->size - p->moved) : 0;
    if (moved < 0)
        return -1;
    p->moved += (size_t)moved;
    return p->moved == p->size;
}
