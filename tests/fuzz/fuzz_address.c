/* fuzz_address.c: addresses and interfaces from settings, and addresses as they travel. */
#include "fuzz.h"

#include "net/address.h"

#define TEXT_MAX 512

/* What an address reads as, reads as the same address again. */
static void check_round_trip(const net_address *address)
{
    char text[NET_TEXT], host[ADDRESS_HOST];
    net_address again;
    net_format(address, text);
    must(strlen(text) < NET_TEXT);
    if (address->family != 4 && address->family != 6)
        return;
    uint16_t port = (uint16_t)(address->port + 1);
    must(address_split(text, host, &port) == NULL);
    must(port == address->port);
    struct sockaddr_storage system;
    address_to_socket(address, &system);
    must(address_from_socket((struct sockaddr *)&system, &again));
    /* the system knows scopes of link-local addresses only, and IPv4 inside IPv6 is IPv4 */
    if (address->scope == 0 && again.family == address->family) {
        must(address_parse(host, &again) && again.family == address->family);
        again.port = port;
        must(again.port == address->port && again.scope == address->scope);
        must(memcmp(again.ip, address->ip, address->family == 4 ? 4 : 16) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[TEXT_MAX + 1], host[ADDRESS_HOST];
    fuzz_input in = {data, bytes};
    const uint8_t choice = fuzz_byte(&in);
    net_address address = {.family = 0};
    if (choice == 0) {
        fuzz_bytes(&in, &address, sizeof address);
        check_round_trip(&address);
        return 0;
    }
    fuzz_bytes(&in, text, TEXT_MAX);
    text[TEXT_MAX] = '\0';
    if (choice == 1) {
        (void)net_interface(text, &address);
        return 0;
    }
    uint16_t port = 7;
    const char *wrong = address_split(text, host, &port);
    must(wrong != NULL ? port == 7 : strlen(host) > 0);
    must(port == 7 || strtoull(strrchr(text, ':') + 1, NULL, 10) == port);
    if (wrong == NULL && address_parse(host, &address)) {
        address.port = port;
        check_round_trip(&address);
    }
    return 0;
}
