/* address.h: between the text, our form and the system's form of an address. */
#ifndef RUEDA_NET_ADDRESS_H
#define RUEDA_NET_ADDRESS_H

#include "net/net.h"

#include <sys/socket.h>

#define ADDRESS_HOST 256 /* bytes of a host's name or number, with the terminating zero */

/* Takes "host", "host:port", "[address]:port" or an IPv6 address apart; pure. Without a port `port`
 * stays as it is. Returns NULL, or what is wrong with the text: then the outputs are not set. */
const char *address_split(const char *text, char host[ADDRESS_HOST], uint16_t *port);

/* An address in figures, without a port: never asks a name server. */
bool address_parse(const char *host, net_address *address);

/* Without port and brackets: "1.2.3.4", "fe80::1%2"; the string lies in `buffer`. */
const char *address_format_host(const net_address *address, char buffer[NET_TEXT]);

/* The family must be 4 or 6. Returns the bytes used. */
socklen_t address_to_socket(const net_address *address, struct sockaddr_storage *system);
/* An IPv4 address inside an IPv6 one becomes IPv4. False: another family. */
bool address_from_socket(const struct sockaddr *system, net_address *address);

#endif
