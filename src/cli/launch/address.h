/* address.h: by which addresses hosts can be reached. Addresses are texts, "10.0.0.1" or "fe80::1%eth0",
 * of at most HOST_ADDRESS_MAX bytes. */
#ifndef RUEDA_CLI_LAUNCH_ADDRESS_H
#define RUEDA_CLI_LAUNCH_ADDRESS_H

#include "cli/launch/host_job.h"

/* The address of the first of these interfaces ("eth0,eth1") that has one, IPv4 before IPv6. */
bool address_of_interface(const char *names, char to[HOST_ADDRESS_MAX]);
/* Our own address on the way to a host. Sends nothing, but may ask a name server. */
bool address_of_route(const char *host, char to[HOST_ADDRESS_MAX]);
/* Whether this is an address (not a name) of this machine. */
bool address_is_ours(const char *address);
/* "host:port", with brackets around an IPv6 address. */
void address_with_port(const char *host, int port, char *to, size_t size);
/* What sshd tells about the connection we came by. */
void address_of_ssh(host_answer *answer);

#endif
