/* listen.c: a listening socket on the first free port of a range. */
#include "net/address.h"
#include "world/sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

/* Returns the descriptor, or -1 with errno. */
static int listen_at(const net_address *where, uint16_t port)
{
    net_address at = *where;
    at.port = port;
    struct sockaddr_storage system;
    const socklen_t bytes = address_to_socket(&at, &system);
    const int fd = world_socket(system.ss_family, false);
    if (fd < 0)
        return -1;
    const int on = 1, off = 0;
    /* what an ended job left in TIME_WAIT is no hindrance */
    world_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (system.ss_family == AF_INET6)
        world_setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (world_bind(fd, (struct sockaddr *)&system, bytes) == 0 && world_listen(fd) == 0)
        return fd;
    const int saved = errno;
    world_close(fd);
    errno = saved;
    return -1;
}

static bool is_taken(int error)
{
    return error == EADDRINUSE;
}

static int listen_in_range(const net_address *where, uint16_t first, uint16_t last)
{
    int fd = listen_at(where, first);
    for (uint32_t port = first + 1u; fd < 0 && port <= last && is_taken(errno); port++)
        fd = listen_at(where, (uint16_t)port);
    return fd;
}

static rueda_status fail_listen(const net_address *where, uint16_t first, uint16_t last)
{
    const int saved = errno;
    char at[NET_TEXT] = "all interfaces";
    if (where != NULL)
        address_format_host(where, at);
    errno = saved;
    if (first == last)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot listen on %s, port %u", at, first);
    return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot listen on %s, ports %u to %u", at, first,
                             last);
}

rueda_status net_listen(const net_address *where, uint16_t first, uint16_t last, int *fd,
                        uint16_t *port)
{
    static const net_address any6 = {.family = 6}, any4 = {.family = 4};
    if (first > last)
        return status_fail(RUEDA_ERR_CONFIG, "the range of ports %u to %u runs backwards", first,
                           last);
    int made = listen_in_range(where != NULL ? where : &any6, first, last);
    if (made < 0 && where == NULL && !is_taken(errno))
        made = listen_in_range(&any4, first, last);
    if (made < 0)
        return fail_listen(where, first, last);
    struct sockaddr_storage system;
    socklen_t bytes = sizeof system;
    net_address bound;
    world_getsockname(made, (struct sockaddr *)&system, &bytes);
    address_from_socket((struct sockaddr *)&system, &bound);
    *fd = made;
    *port = bound.port;
    return RUEDA_OK;
}
