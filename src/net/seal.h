/* seal.h: a stream of envelopes over a socket, both ways: authenticated, and encrypted where it is wanted. */
#ifndef RUEDA_NET_SEAL_H
#define RUEDA_NET_SEAL_H

#include "net/proof.h"

typedef struct seal seal;

/* After `key_bytes` each way comes the next key; both ends say the same. NULL: out of memory. */
seal *seal_make(const proof_session *session, bool is_host, uint64_t key_bytes);
void seal_free(seal *s); /* wipes; NULL is allowed */

/* Like net_link_send and net_link_receive, but -1 comes with errno; a receive that finds the end gives
 * 0 for "none now" and sets *ended. EBADMSG: what arrived is not genuine. */
ssize_t seal_send(seal *s, int fd, const struct iovec *parts, int count);
ssize_t seal_receive(seal *s, int fd, uint8_t *to, size_t bytes, bool *ended);

/* Gives the socket what waits to be sent; false with errno when the connection is broken. */
bool seal_push(seal *s, int fd);
bool seal_waits(const seal *s); /* whether something still waits */

#endif
