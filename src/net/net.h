/* net.h: sockets between ranks: addresses, proof of the job's key, and links.
 *
 * A link is a TCP connection whose two ends have proved to each other that they know the key of the
 * job, and for what (purpose) the connection is. Until then nothing else of it is read. Everything
 * after the proof travels in envelopes that are authenticated, and with `encrypt` encrypted: what was
 * altered, repeated, left out or put elsewhere on the way is never delivered, and breaks the link. A job
 * without a key (`insecure`) has neither.
 * The proof: the connecting side (caller) sends a fixed-size hello with its purpose, a random nonce
 * and a MAC; the other side (host) answers with a nonce of its own and a MAC over both; the caller
 * checks it and sends its own MAC over all. The MACs are keyed with the job's key and bound to job
 * name, instance, generation, version, both ranks, purpose and direction. A host says no word to a hello whose
 * MAC is wrong. See proof.h.
 *
 * Contract: no call blocks except net_resolve (it may ask a name server). Calls on one object come
 * from one thread at a time. Descriptors are close-on-exec and non-blocking. Nothing raises SIGPIPE.
 * Secrets are wiped when their owner is closed and appear in no message.
 */
#ifndef RUEDA_NET_H
#define RUEDA_NET_H

#include "base/status.h"
#include "observe/log.h"
#include "world/world.h"

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* ---- Addresses ------------------------------------------------------------------------------- */

#define NET_TEXT 80 /* bytes of an address as text, with the terminating zero */

/* An IPv4 or IPv6 address with port, as it travels: fixed size, network byte order inside `ip`. */
typedef struct net_address {
    uint8_t family; /* 4, 6; 0: none */
    uint8_t zero;
    uint16_t port;  /* as a number */
    uint32_t scope; /* of a link-local IPv6 address */
    uint8_t ip[16]; /* the first 4 for IPv4 */
} net_address;

/* "host", "host:port", "1.2.3.4:5", "[::1]:5", "::1" (no port) → the first usable address. Prefers
 * what the name server lists first. ERR_CONFIG names the text and what is wrong. May block. */
rueda_status net_resolve(const char *text, uint16_t default_port, net_address *address);
/* "1.2.3.4:5", "[fe80::1%2]:5"; the string lies in `buffer`. */
const char *net_format(const net_address *address, char buffer[NET_TEXT]);

/* The address of an interface ("eth0") or of a network ("10.0.0.0/8", "fd00::/8"); several separated
 * by commas are tried in order. "0.0.0.0/0" and "::/0" leave out loopback and link-local addresses.
 * ERR_CONFIG lists the interfaces that there are. Port is 0. */
rueda_status net_interface(const char *wanted, net_address *address);
#define NET_INTERFACE_ANY "0.0.0.0/0,::/0,127.0.0.0/8,::1/128" /* where nothing is said */

/* Listens. `where` NULL: all interfaces, IPv6 and IPv4 (IPv4 alone where there is no IPv6). Ports
 * first … last are tried in turn; 0, 0: any; the port inside `where` does not count. ERR_SYSTEM names
 * address, range and reason. */
rueda_status net_listen(const net_address *where, uint16_t first, uint16_t last, int *fd,
                        uint16_t *port);

/* ---- Links ----------------------------------------------------------------------------------- */

#define NET_KEY_BYTES 32
#define NET_INSTANCE_BYTES 16

/* Who we are towards all links and doors of a generation. Copied by those who take it. */
typedef struct net_identity {
    uint8_t key[NET_KEY_BYTES]; /* all zero: the user said `insecure` */
    char job[64];
    /* which of the jobs that may have this name and key: all zero until the ranks have met */
    uint8_t instance[NET_INSTANCE_BYTES];
    uint64_t generation;
    uint32_t rank;
    bool encrypt; /* the same on all ranks: a differing caller is refused */
} net_identity;

/* Draws an instance, as one rank does for all. */
void net_instance_make(net_identity *me);

/* A key of random bytes, and a key from its text: NULL, or why it is none (64 hexadecimal digits, not all
 * of them zero). */
void net_key_make(char text[2 * NET_KEY_BYTES + 1]);
const char *net_key_parse(const char *text, uint8_t key[NET_KEY_BYTES]);
/* Reads a key file: mode 600 or stricter, owned by us, the 64 digits (white space around them does not
 * matter) of a key that is not zero; else ERR_CONFIG in one line. */
rueda_status net_key_read(const char *path, uint8_t key[NET_KEY_BYTES]);
/* Why an open file must not hold a key (others may use it, it is another user's), or NULL. */
const char *net_key_distrust(int fd);

/* What a connection is for; the upper layers give the numbers their meaning. */
typedef struct net_purpose {
    uint32_t role;
    uint32_t from, to; /* ranks; a host refuses what is not `to` it */
    uint32_t set, channel;
    uint64_t epoch;
} net_purpose;

typedef enum net_state {
    NET_WAITS, /* connecting or proving; call net_link_progress again when the socket is ready */
    NET_OPEN,
    NET_REFUSED, /* not reached, refused, or the proof failed: close it, perhaps try again */
    NET_BROKEN   /* was open; the other end closed it or the connection broke */
} net_state;

typedef struct net_link net_link;

/* Starts a connection; `from` is the local address to use (its port does not count), or NULL. It is
 * refused by itself after `limit_ns`, by the clock of world_now_ns. An unreachable address is not an
 * error here: the link is refused. ERR_SYSTEM, ERR_MEMORY: nothing was started. The caller's link is
 * open as soon as it has sent its part of the proof; a host that then has no use for it closes it. */
rueda_status net_link_call(const net_identity *me, const net_purpose *purpose,
                           const net_address *to, const net_address *from, uint64_t limit_ns,
                           net_link **link);
net_state net_link_progress(net_link *link, uint64_t now_ns);
/* Why it was refused or broke; static text or owned by the link. */
const char *net_link_why(const net_link *link);

/* Of a refused call: whether somebody was there, though not whom it was for. */
bool net_link_met_stranger(const net_link *link);
/* Whether it broke because something else arrived than was sent. */
bool net_link_altered(const net_link *link);

int net_link_fd(const net_link *link); /* for polling; never read or write it */
/* Whether the link itself waits for room in the socket (else, while NET_WAITS, for bytes). Who polls
 * edge-triggered for both needs not ask. */
bool net_link_wants_write(const net_link *link);
const net_purpose *net_link_purpose(const net_link *link);
bool net_link_local(const net_link *link, net_address *address); /* our end */
bool net_link_peer(const net_link *link, net_address *address);  /* the other end */

/* Gathered write on an open link. Returns the bytes taken (the caller's memory is free), 0 when there
 * is no room now, -1 when the link is broken. Some of what was taken may wait in the
 * link: any call on it when the socket has room again (net_link_wants_write) moves it on. */
ssize_t net_link_send(net_link *link, const struct iovec *parts, int count);
/* Up to `bytes` bytes; 0: none now; -1: broken, and all that had arrived was delivered before. What lies
 * behind the bytes delivered may have been written to. The link may hold bytes while its descriptor is not
 * readable: receive until 0 comes. */
ssize_t net_link_receive(net_link *link, void *to, size_t bytes);
/* Whether all that was sent has been acknowledged by the other host: closing loses nothing. Moves
 * sealed envelopes that still wait in the link on. A broken link has nothing to wait for: true. */
bool net_link_flushed(net_link *link);
/* Whether the connection is over in both directions, as far as the system knows, which a link that nobody reads does
 * not tell otherwise. */
bool net_link_is_reset(const net_link *link);

/* Does not wait: ask net_link_flushed first where what was sent must arrive. NULL is allowed. */
void net_link_close(net_link *link);
/* In a forked child: closes the child's copy of the descriptor and frees nothing. */
void net_link_forget(net_link *link);

/* ---- The door -------------------------------------------------------------------------------- */

#define NET_GUESTS 64 /* connections whose proof is under way */
#define NET_GUEST_LIMIT_NS                                                                         \
    UINT64_C(5000000000) /* a guest that has not proved itself by then goes */

typedef struct net_door net_door;

/* Takes the listening descriptor over; when it fails, that stays the caller's. The first refusal of
 * each kind is logged, later ones only counted. `log` is copied. */
rueda_status net_door_open(const net_identity *me, int listener, const logger *log,
                           net_door **door);
/* Newcomers from now on have to prove themselves to this identity; who is inside already stays. */
void net_door_set_identity(net_door *door, const net_identity *me);
/* Accepts and moves proofs on; returns an admitted link (then the caller's; call again), or NULL when
 * there is none now. A bounded number of steps: hostile callers cannot hold it. When all NET_GUESTS
 * places are taken the oldest guest without a credible hello goes; when all have shown one, newcomers
 * wait outside, for a second at most. Where descriptors run out it pauses. */
net_link *net_door_progress(net_door *door, uint64_t now_ns);
/* One descriptor (an epoll of its own) that becomes readable when net_door_progress should be called. */
int net_door_fd(const net_door *door);
/* When net_door_progress should be called even if the descriptor is not readable; UINT64_MAX: never. */
uint64_t net_door_deadline(const net_door *door);
/* The caller found an admitted link to be of no use (its purpose): closes it and counts it. */
void net_door_refuse(net_door *door, net_link *link);
/* Why it could not accept whoever came last (EMFILE, …); 0: it could. */
int net_door_trouble(const net_door *door);
/* Whether it had no memory for a caller that had proved itself, and so takes its link for open. */
bool net_door_ran_short(const net_door *door);
void net_door_close(net_door *door);  /* NULL is allowed */
void net_door_forget(net_door *door); /* as net_link_forget */

#endif
