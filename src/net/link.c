/* link.c: one connection, from the call or the door to its end. */
#include "net/link.h"
#include "world/sockets.h"

#include "net/address.h"
#include "net/envelope.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP_ALIVE_IDLE_S 60
#define KEEP_ALIVE_EVERY_S 60
#define KEEP_ALIVE_COUNT 60
#define DISCARD_BYTES (1 << 30) /* more than any receive buffer holds */

/* ---- Beginning ------------------------------------------------------------------------------- */

/* A connection that only the other end knows to be over, since a router or firewall has forgotten it, say, would be
 * waited on for ever. One that merely gets no answer has time: whether a rank is lost is decided above. */
static void keep_alive(int fd)
{
    const int on = 1, idle = KEEP_ALIVE_IDLE_S, every = KEEP_ALIVE_EVERY_S,
              count = KEEP_ALIVE_COUNT;
    world_setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    world_setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    world_setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    world_setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

/* NULL: out of memory, and the descriptor stays the caller's. */
static net_link *make(int fd, const net_address *peer, uint64_t deadline_ns)
{
    net_link *made = calloc(1, sizeof *made);
    handshake *shake = calloc(1, sizeof *shake);
    if (made == NULL || shake == NULL) {
        free(made);
        free(shake);
        return NULL;
    }
    const int on = 1;
    world_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    keep_alive(fd);
    made->fd = fd;
    made->state = NET_WAITS;
    made->verdict = PROOF_GOOD;
    made->deadline_ns = deadline_ns;
    made->peer = *peer;
    made->shake = shake;
    return made;
}

static bool has_aes(void)
{
    return crypto_aead_aes256gcm_is_available() == 1;
}

net_link *link_host(const net_identity *me, heard *all, int fd, const net_address *peer,
                    uint64_t deadline_ns)
{
    net_link *made = make(fd, peer, deadline_ns);
    if (made != NULL)
        handshake_host(made->shake, me, all, has_aes());
    return made;
}

/* A socket bound to the address `from`, if there is one. Returns -1 with errno. */
static int open_socket(const net_address *to, const net_address *from)
{
    const int family = to->family == 4 ? AF_INET : AF_INET6;
    const int fd = world_socket(family, false);
    if (fd < 0 || from == NULL)
        return fd;
    const int on = 1;
    net_address local = *from;
    local.port = 0;
    struct sockaddr_storage system;
    const socklen_t bytes = address_to_socket(&local, &system);
    /* the port is chosen when connecting, then one port serves many destinations */
    world_setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (world_bind(fd, (struct sockaddr *)&system, bytes) == 0)
        return fd;
    const int saved = errno;
    world_close(fd);
    errno = saved;
    return -1;
}

/* Nothing secret stays behind. */
static void end_proof(net_link *link)
{
    if (link->shake == NULL)
        return;
    handshake_wipe(link->shake);
    free(link->shake);
    link->shake = NULL;
}

static void STATUS_PRINTF(3, 4)
    refuse(net_link *link, proof_verdict verdict, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(link->why, sizeof link->why, format, args);
    va_end(args);
    link->state = NET_REFUSED;
    link->verdict = verdict;
    end_proof(link);
}

static rueda_status fail_call(const net_address *to, const net_address *from)
{
    char there[NET_TEXT], here[NET_TEXT] = "any address";
    const int saved = errno;
    net_format(to, there);
    if (from != NULL)
        address_format_host(from, here);
    errno = saved;
    return status_fail_errno(RUEDA_ERR_SYSTEM, "cannot call %s from %s", there, here);
}

static void start_connecting(net_link *link)
{
    struct sockaddr_storage system;
    const socklen_t bytes = address_to_socket(&link->peer, &system);
    int result;
    do
        result = world_connect(link->fd, (struct sockaddr *)&system, bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno != EINPROGRESS && errno != EALREADY && errno != EISCONN)
        refuse(link, PROOF_GARBAGE, "not reached: %s", strerror(errno));
}

rueda_status net_link_call(const net_identity *me, const net_purpose *purpose,
                           const net_address *to, const net_address *from, uint64_t limit_ns,
                           net_link **link)
{
    if (to->family != 4 && to->family != 6)
        return status_fail(RUEDA_ERR_ARGUMENT, "there is no address to call");
    if (sodium_init() < 0)
        return status_fail(RUEDA_ERR_SYSTEM, "libsodium cannot be used");
    const int fd = open_socket(to, from);
    if (fd < 0)
        return fail_call(to, from);
    const uint64_t now = world_now_ns();
    net_link *made = make(fd, to, limit_ns > UINT64_MAX - now ? UINT64_MAX : now + limit_ns);
    if (made == NULL) {
        world_close(fd);
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a connection");
    }
    made->purpose = *purpose;
    handshake_call(made->shake, me, purpose, has_aes());
    start_connecting(made);
    *link = made;
    return RUEDA_OK;
}

/* ---- Proving --------------------------------------------------------------------------------- */

/* What a complete message shows of the other end. */
static const char *describe(proof_verdict verdict)
{
    switch (verdict) {
    case PROOF_WRONG_KEY:
        return "it does not know the job's key";
    case PROOF_WRONG_JOB:
        return "it belongs to another job";
    case PROOF_WRONG_GENERATION:
        return "it belongs to another generation of the job";
    case PROOF_WRONG_VERSION:
        return "it has another version of rueda: use the same on all hosts";
    case PROOF_WRONG_PURPOSE:
        return "it means another rank, or its RUEDA_ENCRYPT differs";
    case PROOF_REPEATED:
        return "it repeats what another connection has said: somebody has recorded that";
    default:
        return "what it sent is not from rueda";
    }
}

static void explain_failure(net_link *link)
{
    const handshake *h = link->shake;
    link->met_stranger = h->left || h->error == 0;
    if (h->left && h->is_host)
        refuse(link, h->verdict, "it left before it had proved that it knows the key");
    else if (h->left)
        refuse(link, h->verdict,
               "turned away: key, job, generation, version, rank or encryption differ, or it has "
               "no room; its log tells");
    else if (h->error != 0)
        refuse(link, h->verdict, "not reached: %s", strerror(h->error));
    else
        refuse(link, h->verdict, "%s", describe(h->verdict));
}

static void expire(net_link *link)
{
    const handshake *h = link->shake;
    struct sockaddr_storage peer;
    link->met_stranger =
        world_getpeername(link->fd, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) == 0;
    if (h->turn == TURN_HELLO && !h->is_host)
        refuse(link, PROOF_SLOW, "not reached within the time limit");
    else if (!h->is_host)
        refuse(link, PROOF_SLOW, "it did not answer within the time limit");
    else
        refuse(link, PROOF_SLOW, "it did not prove within the time limit that it has the key");
}

/* What follows is protected, if there is a key to do it with. */
static proof_verdict start_sealing(net_link *link)
{
    const handshake *h = link->shake;
    proof_session session;
    if (!proof_derive(&h->me, &h->said, &h->chance, h->is_host, &session))
        return PROOF_GARBAGE;
    const bool protects = session.cipher != PROOF_PLAIN;
    if (protects)
        link->seal = seal_make(&session, h->is_host, ENVELOPE_KEY_BYTES);
    sodium_memzero(&session, sizeof session);
    return link->seal != NULL || !protects ? PROOF_GOOD : PROOF_CROWDED;
}

static void open_link(net_link *link)
{
    const proof_verdict verdict = start_sealing(link);
    if (verdict != PROOF_GOOD) {
        refuse(link, verdict, "%s",
               verdict == PROOF_CROWDED ? "out of memory for a connection" : describe(verdict));
        return;
    }
    link->purpose = link->shake->purpose;
    end_proof(link);
    link->state = NET_OPEN;
}

net_state net_link_progress(net_link *link, uint64_t now_ns)
{
    link_push(link);
    if (link->state != NET_WAITS)
        return link->state;
    switch (handshake_step(link->shake, link->fd)) {
    case HANDSHAKE_DONE:
        open_link(link);
        break;
    case HANDSHAKE_FAILED:
        explain_failure(link);
        break;
    case HANDSHAKE_WAITS:
        if (now_ns >= link->deadline_ns)
            expire(link);
        break;
    }
    return link->state;
}

bool link_is_credible(const net_link *link)
{
    return link->shake == NULL || link->shake->turn > TURN_HELLO;
}

/* ---- What it is ------------------------------------------------------------------------------ */

const char *net_link_why(const net_link *link)
{
    return link->why;
}

bool net_link_met_stranger(const net_link *link)
{
    return link->met_stranger;
}

int net_link_fd(const net_link *link)
{
    return link->fd;
}

bool net_link_wants_write(const net_link *link)
{
    if (link->shake != NULL)
        return handshake_sends(link->shake);
    return link->state == NET_OPEN && link->seal != NULL && seal_waits(link->seal);
}

const net_purpose *net_link_purpose(const net_link *link)
{
    return &link->purpose;
}

bool net_link_local(const net_link *link, net_address *address)
{
    struct sockaddr_storage system;
    socklen_t bytes = sizeof system;
    return world_getsockname(link->fd, (struct sockaddr *)&system, &bytes) == 0 &&
           address_from_socket((struct sockaddr *)&system, address);
}

bool net_link_peer(const net_link *link, net_address *address)
{
    *address = link->peer;
    return true;
}

/* ---- End ------------------------------------------------------------------------------------- */

/* A close with unread bytes would reset the connection, and the other end could lose what we sent.
 * An unproved connection is reset on purpose: it leaves nothing behind in the system. Shutting down
 * tells the other end also while a forked child still holds a copy of the descriptor. */
static void close_socket(const net_link *link)
{
    const struct linger reset = {.l_onoff = 1};
    if (link->state == NET_OPEN || link->state == NET_BROKEN)
        (void)!world_recv(link->fd, NULL, DISCARD_BYTES, MSG_TRUNC | MSG_DONTWAIT);
    else
        world_setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    world_shutdown(link->fd, SHUT_WR);
    world_close(link->fd);
}

void net_link_close(net_link *link)
{
    if (link == NULL)
        return;
    if (link->fd >= 0)
        close_socket(link);
    end_proof(link);
    seal_free(link->seal);
    free(link);
}

void net_link_forget(net_link *link)
{
    if (link->fd >= 0)
        world_close(link->fd);
    link->fd = -1;
}
