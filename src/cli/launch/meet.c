/* meet.c: see meet.h. */
#include "cli/launch/meet.h"

#include "cli/launch/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define HOST_NAME_BYTES 256

static bool parse_port(const char *text, int *port)
{
    char *end;
    const long number = strtol(text, &end, 10);
    *port = (int)number;
    return end != text && *end == '\0' && number >= 1 && number <= UINT16_MAX;
}

bool meet_parse(const char *text, char *host, size_t size, int *port)
{
    const char *start = text, *end = text + strlen(text), *colon = strchr(text, ':');
    *port = 0;
    if (text[0] == '[') {
        start++;
        end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return false;
        colon = end[1] == ':' ? end + 1 : NULL;
    } else if (colon != NULL && strchr(colon + 1, ':') != NULL) {
        colon = NULL; /* an IPv6 address */
    } else if (colon != NULL) {
        end = colon;
    }
    if (end == start || (size_t)(end - start) >= size)
        return false;
    snprintf(host, size, "%.*s", (int)(end - start), start);
    return colon == NULL || parse_port(colon + 1, port);
}

/* All the ports after it must be below the last, too. */
static int random_port(void)
{
    unsigned number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (unsigned)getpid();
    return MEET_PORT_FIRST + (int)(number % (MEET_PORT_LAST - MEET_PORT_FIRST - MEET_PORTS + 2));
}

static const char *without_user(const char *host)
{
    const char *at = strrchr(host, '@');
    return at != NULL ? at + 1 : host;
}

/* This machine, as the other sees it: what its sshd says, if that is ours (a gateway's is not); else
 * by the route there; else by name. */
static void address_here(const meet_host *other, char *host, size_t size)
{
    char route[HOST_ADDRESS_MAX];
    if (other == NULL) /* all hosts are this machine */
        snprintf(host, size, "127.0.0.1");
    else if (other->answer != NULL && address_is_ours(other->answer->ssh_there))
        snprintf(host, size, "%s", other->answer->ssh_there);
    else if (address_of_route(without_user(other->name), route))
        snprintf(host, size, "%s", route);
    else if (gethostname(host, size) != 0)
        snprintf(host, size, "localhost");
}

/* Another host: by the address that ssh reached it at, which needs no name server there. */
static void address_there(const meet_host *there, char *host, size_t size)
{
    const bool known = there->answer != NULL && there->answer->ssh_here[0] != '\0';
    snprintf(host, size, "%s", known ? there->answer->ssh_here : without_user(there->name));
}

bool meet_choose(const launch_options *options, const meet_host *first, const meet_host *other,
                 char to[MEET_MAX])
{
    char host[HOST_NAME_BYTES];
    int port = 0;
    if (options->meet != NULL) {
        if (!meet_parse(options->meet, host, sizeof host, &port))
            return false;
    } else if (options->interfaces != NULL && first->answer != NULL) {
        if (first->answer->interface[0] == '\0')
            return false;
        snprintf(host, sizeof host, "%s", first->answer->interface);
    } else if (first->here) {
        address_here(other, host, sizeof host);
    } else {
        address_there(first, host, sizeof host);
    }
    address_with_port(host, port > 0 ? port : random_port(), to, MEET_MAX);
    return true;
}
