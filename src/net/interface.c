/* interface.c: which of this host's addresses the user means. */
#include "net/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTED 300 /* bytes of the list of interfaces in a sentence */

/* "10.0.0.0/8": an address matches when the first `bits` agree. */
typedef struct network {
    net_address base;
    unsigned bits;
} network;

static bool parse_network(const char *text, network *n)
{
    char host[ADDRESS_HOST];
    const size_t length = strcspn(text, "/");
    if (length >= sizeof host)
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    if (!address_parse(host, &n->base))
        return false;
    const unsigned most = n->base.family == 4 ? 32 : 128;
    n->bits = most;
    if (text[length] == '\0')
        return true;
    char *end;
    const unsigned long bits = strtoul(text + length + 1, &end, 10);
    const char first = text[length + 1];
    n->bits = (unsigned)bits;
    return first >= '0' && first <= '9' && *end == '\0' && bits <= most;
}

static bool is_within(const net_address *address, const network *n)
{
    if (address->family != n->base.family)
        return false;
    const unsigned whole = n->bits / 8, rest = n->bits % 8;
    if (memcmp(address->ip, n->base.ip, whole) != 0)
        return false;
    return rest == 0 || ((address->ip[whole] ^ n->base.ip[whole]) >> (8 - rest)) == 0;
}

static bool is_link_local(const net_address *address)
{
    return address->family == 6 && address->ip[0] == 0xfe && (address->ip[1] & 0xc0) == 0x80;
}

/* IPv4 is what most fabrics use; a link-local address is the last resort, it needs its scope. */
static int preference(const net_address *address)
{
    if (address->family == 4)
        return 3;
    return is_link_local(address) ? 1 : 2;
}

static bool usable(const struct ifaddrs *one, net_address *address)
{
    return one->ifa_addr != NULL && (one->ifa_flags & IFF_UP) != 0 &&
           address_from_socket(one->ifa_addr, address);
}

static bool find_by_name(const struct ifaddrs *list, const char *name, net_address *address)
{
    int best = 0;
    net_address here;
    for (const struct ifaddrs *one = list; one != NULL; one = one->ifa_next) {
        if (strcmp(one->ifa_name, name) == 0 && usable(one, &here) && preference(&here) > best) {
            best = preference(&here);
            *address = here;
        }
    }
    return best > 0;
}

static bool leads_out(const struct ifaddrs *one, const net_address *address)
{
    return (one->ifa_flags & IFF_LOOPBACK) == 0 && !is_link_local(address);
}

/* The first that fits; of several, one that other hosts can reach. */
static bool find_by_network(const struct ifaddrs *list, const network *n, net_address *address)
{
    net_address here;
    bool found = false;
    for (const struct ifaddrs *one = list; one != NULL; one = one->ifa_next) {
        if (!usable(one, &here) || !is_within(&here, n))
            continue;
        if (leads_out(one, &here))
            return *address = here, true;
        if (!found)
            *address = here;
        found = true;
    }
    return found;
}

static void list_interfaces(const struct ifaddrs *list, char text[LISTED])
{
    size_t used = 0;
    text[0] = '\0';
    net_address here;
    for (const struct ifaddrs *one = list; one != NULL && used < LISTED; one = one->ifa_next) {
        char shown[NET_TEXT];
        if (!usable(one, &here))
            continue;
        used += (size_t)snprintf(text + used, LISTED - used, "%s%s %s", used > 0 ? ", " : "",
                                 one->ifa_name, address_format_host(&here, shown));
    }
}

/* `wanted` is written over. */
static bool find_first(const struct ifaddrs *list, char *wanted, net_address *address,
                       const char **bad)
{
    char *rest = wanted;
    for (const char *one; (one = strsep(&rest, ",")) != NULL;) {
        network n;
        if (parse_network(one, &n)) {
            if (find_by_network(list, &n, address))
                return true;
        } else if (strchr(one, '/') != NULL) {
            *bad = one;
            return false;
        } else if (find_by_name(list, one, address)) {
            return true;
        }
    }
    return false;
}

static rueda_status search(const struct ifaddrs *list, const char *wanted, char *copy,
                           net_address *address)
{
    const char *bad = NULL;
    net_address found;
    if (find_first(list, copy, &found, &bad)) {
        found.port = 0;
        *address = found;
        return RUEDA_OK;
    }
    if (bad != NULL)
        return status_fail(RUEDA_ERR_CONFIG,
                           "\"%.100s\" is no network; write it like 10.0.0.0/8 or fd00::/8", bad);
    char listed[LISTED];
    list_interfaces(list, listed);
    return status_fail(RUEDA_ERR_CONFIG, "no interface matches \"%.100s\"; there are: %s", wanted,
                       listed);
}

rueda_status net_interface(const char *wanted, net_address *address)
{
    struct ifaddrs *list;
    char *copy = strdup(wanted);
    if (copy == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a list of interfaces");
    if (getifaddrs(&list) != 0) {
        free(copy);
        return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot list the interfaces");
    }
    const rueda_status status = search(list, wanted, copy, address);
    freeifaddrs(list);
    free(copy);
    return status;
}
