/* address.c: see address.h. */
#include "cli/launch/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANY_PORT "9" /* discard: nothing is sent there */

static bool to_text(const struct sockaddr *address, char to[HOST_ADDRESS_MAX])
{
    const socklen_t length =
        address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    return getnameinfo(address, length, to, HOST_ADDRESS_MAX, NULL, 0, NI_NUMERICHOST) == 0;
}

static bool is_internet(const struct ifaddrs *i)
{
    return i->ifa_addr != NULL &&
           (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6);
}

static bool find_interface(const struct ifaddrs *all, const char *name, size_t length, int family,
                           char to[HOST_ADDRESS_MAX])
{
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        if (is_internet(i) && i->ifa_addr->sa_family == family && strlen(i->ifa_name) == length &&
            strncmp(i->ifa_name, name, length) == 0 && to_text(i->ifa_addr, to))
            return true;
    }
    return false;
}

bool address_of_interface(const char *names, char to[HOST_ADDRESS_MAX])
{
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) != 0)
        return false;
    while (!found && *names != '\0') {
        const size_t length = strcspn(names, ",");
        found = find_interface(all, names, length, AF_INET, to) ||
                find_interface(all, names, length, AF_INET6, to);
        names += length + (names[length] == ',');
    }
    freeifaddrs(all);
    return found;
}

/* A datagram socket that is "connected" has been given the address of the route. */
static bool try_route(const struct addrinfo *to_host, char to[HOST_ADDRESS_MAX])
{
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    const int fd = socket(to_host->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool known = fd >= 0 && connect(fd, to_host->ai_addr, to_host->ai_addrlen) == 0 &&
                       getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
                       to_text((struct sockaddr *)&own, to);
    if (fd >= 0)
        close(fd);
    return known;
}

bool address_of_route(const char *host, char to[HOST_ADDRESS_MAX])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *all;
    bool found = false;
    if (getaddrinfo(host, ANY_PORT, &hints, &all) != 0)
        return false;
    for (const struct addrinfo *i = all; i != NULL && !found; i = i->ai_next)
        found = try_route(i, to);
    freeaddrinfo(all);
    return found;
}

bool address_is_ours(const char *address)
{
    unsigned char number[sizeof(struct in6_addr)];
    char bare[HOST_ADDRESS_MAX], own[HOST_ADDRESS_MAX];
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(address, "%"), address);
    const bool is_v4 = inet_pton(AF_INET, bare, number) == 1;
    if (is_v4 && number[0] == IN_LOOPBACKNET)
        return true;
    struct ifaddrs *all;
    if ((!is_v4 && inet_pton(AF_INET6, bare, number) != 1) || getifaddrs(&all) != 0)
        return false;
    bool ours = false;
    for (const struct ifaddrs *i = all; i != NULL && !ours; i = i->ifa_next) {
        if (is_internet(i) && to_text(i->ifa_addr, own)) {
            own[strcspn(own, "%")] = '\0';
            ours = strcmp(own, bare) == 0;
        }
    }
    freeifaddrs(all);
    return ours;
}

void address_with_port(const char *host, int port, char *to, size_t size)
{
    const bool brackets = strchr(host, ':') != NULL;
    snprintf(to, size, "%s%s%s:%d", brackets ? "[" : "", host, brackets ? "]" : "", port);
}

void address_of_ssh(host_answer *answer)
{
    const char *connection = getenv("SSH_CONNECTION"); /* client, its port, server, its port */
    if (connection == NULL ||
        sscanf(connection, "%79s %*s %79s", answer->ssh_there, answer->ssh_here) != 2)
        answer->ssh_there[0] = answer->ssh_here[0] = '\0';
}
