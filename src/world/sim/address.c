/* address.c: host h has the address 10.0.0.(h + 1), and 127.0.0.1 for itself. IPv6 is known only as far as programs
 * use it to reach IPv4: the empty address, the loopback, and IPv4 addresses inside of IPv6 ones. */
#include "world/sim/sim_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

#define NETWORK UINT32_C(0x0a000000)
#define LOOPBACK UINT32_C(0x7f000001)
#define NOWHERE UINT32_C(0xf0000000) /* an IPv6 address that nobody has */

uint32_t sim_host_ip(int host)
{
    return NETWORK + (uint32_t)host + 1;
}

bool sim_is_loopback(uint32_t ip)
{
    return ip >> 24 == LOOPBACK >> 24;
}

int sim_address_host(uint32_t ip, int from_host)
{
    if (sim_is_loopback(ip) || ip == 0)
        return from_host;
    return ip > NETWORK && ip <= NETWORK + SIM_HOSTS_MAX ? (int)(ip - NETWORK - 1) : -1;
}

static bool read_unix(const struct sockaddr *system, socklen_t bytes, sim_address *a)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)system;
    const size_t start = offsetof(struct sockaddr_un, sun_path);
    if (bytes <= start || bytes - start > sizeof a->name) {
        errno = EINVAL;
        return false;
    }
    a->name_bytes = bytes - start;
    memcpy(a->name, un->sun_path, a->name_bytes);
    return true;
}

static uint32_t read_v6(const struct in6_addr *v6)
{
    uint32_t ip;
    if (IN6_IS_ADDR_UNSPECIFIED(v6))
        return 0;
    if (IN6_IS_ADDR_LOOPBACK(v6))
        return LOOPBACK;
    if (!IN6_IS_ADDR_V4MAPPED(v6))
        return NOWHERE;
    memcpy(&ip, v6->s6_addr + 12, sizeof ip);
    return ntohl(ip);
}

bool sim_address_read(const struct sockaddr *system, socklen_t bytes, sim_address *a)
{
    *a = (sim_address){.family = system->sa_family};
    if (system->sa_family == AF_UNIX)
        return read_unix(system, bytes, a);
    if (system->sa_family == AF_INET && bytes >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)system;
        a->ip = ntohl(v4->sin_addr.s_addr);
        a->port = ntohs(v4->sin_port);
        return true;
    }
    if (system->sa_family == AF_INET6 && bytes >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)system;
        a->ip = read_v6(&v6->sin6_addr);
        a->port = ntohs(v6->sin6_port);
        return true;
    }
    errno = EAFNOSUPPORT;
    return false;
}

static void write_bytes(const void *from, socklen_t bytes, struct sockaddr *system, socklen_t *room)
{
    memcpy(system, from, bytes < *room ? bytes : *room);
    *room = bytes;
}

void sim_address_write(int family, uint32_t ip, uint16_t port, struct sockaddr *system,
                       socklen_t *bytes)
{
    if (family == AF_UNIX) {
        const struct sockaddr_un un = {.sun_family = AF_UNIX};
        write_bytes(&un, offsetof(struct sockaddr_un, sun_path), system, bytes);
        return;
    }
    if (family == AF_INET) {
        const struct sockaddr_in v4 = {
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};
        write_bytes(&v4, sizeof v4, system, bytes);
        return;
    }
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const uint32_t inside = htonl(ip);
    if (ip != 0) {
        memset(v6.sin6_addr.s6_addr + 10, 0xff, 2);
        memcpy(v6.sin6_addr.s6_addr + 12, &inside, sizeof inside);
    }
    write_bytes(&v6, sizeof v6, system, bytes);
}
