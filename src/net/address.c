/* address.c: addresses as text, as they travel, and as the system wants them. */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define TEXT_SHOWN 200 /* of a bad text in a sentence */

socklen_t address_to_socket(const net_address *address, struct sockaddr_storage *system)
{
    memset(system, 0, sizeof *system);
    if (address->family == 4) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)system;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address->port);
        memcpy(&v4->sin_addr, address->ip, 4);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)system;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address->port);
    v6->sin6_scope_id = address->scope;
    memcpy(&v6->sin6_addr, address->ip, 16);
    return sizeof *v6;
}

bool address_from_socket(const struct sockaddr *system, net_address *address)
{
    if (system->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)system;
        *address = (net_address){.family = 4, .port = ntohs(v4->sin_port)};
        memcpy(address->ip, &v4->sin_addr, 4);
        return true;
    }
    if (system->sa_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)system;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        *address = (net_address){.family = 4, .port = ntohs(v6->sin6_port)};
        memcpy(address->ip, v6->sin6_addr.s6_addr + 12, 4);
        return true;
    }
    *address = (net_address){.family = 6, .port = ntohs(v6->sin6_port), .scope = v6->sin6_scope_id};
    memcpy(address->ip, &v6->sin6_addr, 16);
    return true;
}

static bool parse_port(const char *text, uint16_t *port)
{
    uint32_t value = 0;
    const char *digit = text;
    for (; *digit >= '0' && *digit <= '9' && value <= UINT16_MAX; digit++)
        value = value * 10 + (uint32_t)(*digit - '0');
    if (digit == text || *digit != '\0' || value > UINT16_MAX)
        return false;
    *port = (uint16_t)value;
    return true;
}

/* Where the host ends, and where the text of the port begins (NULL: there is none). */
static const char *find_parts(const char *text, const char **start, size_t *length,
                              const char **port)
{
    const char *colon = strchr(text, ':');
    *start = text;
    *port = NULL;
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return "an IPv6 address with a port is written [address]:port";
        if (colon == NULL || colon > end)
            return "only an IPv6 address stands in brackets";
        *start = text + 1;
        *length = (size_t)(end - *start);
        if (end[1] == ':')
            *port = end + 2;
    } else if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        *length = (size_t)(colon - text);
        *port = colon + 1;
    } else {
        *length = strlen(text);
    }
    return NULL;
}

const char *address_split(const char *text, char host[ADDRESS_HOST], uint16_t *port)
{
    const char *start, *port_text;
    size_t length;
    const char *wrong = find_parts(text, &start, &length, &port_text);
    if (wrong != NULL)
        return wrong;
    if (length == 0)
        return "there is no host";
    if (length >= ADDRESS_HOST)
        return "the host's name is too long";
    if (port_text != NULL && !parse_port(port_text, port))
        return "the port must be a number from 0 to 65535";
    memcpy(host, start, length);
    host[length] = '\0';
    return NULL;
}

/* Returns what getaddrinfo does. */
static int look_up(const char *host, int flags, net_address *address)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *list;
    const int result = getaddrinfo(host, NULL, &hints, &list);
    if (result != 0)
        return result;
    bool found = false;
    for (const struct addrinfo *one = list; one != NULL && !found; one = one->ai_next)
        found = address_from_socket(one->ai_addr, address);
    freeaddrinfo(list);
    return found ? 0 : EAI_NONAME;
}

bool address_parse(const char *host, net_address *address)
{
    return look_up(host, AI_NUMERICHOST, address) == 0;
}

rueda_status net_resolve(const char *text, uint16_t default_port, net_address *address)
{
    char host[ADDRESS_HOST];
    uint16_t port = default_port;
    net_address found;
    const char *wrong = address_split(text, host, &port);
    if (wrong == NULL) {
        /* what has colons is no name, whatever a name server may say */
        const int result = look_up(host, strchr(host, ':') != NULL ? AI_NUMERICHOST : 0, &found);
        if (result == EAI_SYSTEM)
            wrong = strerror(errno);
        else if (result != 0)
            wrong = gai_strerror(result);
    }
    if (wrong != NULL)
        return status_fail(RUEDA_ERR_CONFIG,
                           "no address can be made of \"%.*s\": %s; write host:port, 1.2.3.4:port "
                           "or [IPv6 address]:port",
                           TEXT_SHOWN, text, wrong);
    found.port = port;
    *address = found;
    return RUEDA_OK;
}

const char *address_format_host(const net_address *address, char buffer[NET_TEXT])
{
    char ip[INET6_ADDRSTRLEN];
    if (address->family != 4 && address->family != 6)
        snprintf(buffer, NET_TEXT, "none");
    else if (address->family == 4)
        snprintf(buffer, NET_TEXT, "%s", inet_ntop(AF_INET, address->ip, ip, sizeof ip));
    else if (address->scope == 0)
        snprintf(buffer, NET_TEXT, "%s", inet_ntop(AF_INET6, address->ip, ip, sizeof ip));
    else
        snprintf(buffer, NET_TEXT, "%s%%%u", inet_ntop(AF_INET6, address->ip, ip, sizeof ip),
                 address->scope);
    return buffer;
}

const char *net_format(const net_address *address, char buffer[NET_TEXT])
{
    char host[NET_TEXT];
    address_format_host(address, host);
    snprintf(buffer, NET_TEXT, address->family == 6 ? "[%.60s]:%u" : "%.60s:%u", host,
             address->port);
    return buffer;
}
