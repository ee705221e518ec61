/* stream.c: the bytes of an open link: by its seal, or, where there is no key, one system call on the
 * caller's own memory. */
#include "net/link.h"
#include "world/sockets.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static ssize_t break_link(net_link *link, const char *why)
{
    if (link->state == NET_OPEN)
        snprintf(link->why, sizeof link->why, "%s", why);
    link->state = NET_BROKEN;
    return -1;
}

/* As errno says. */
static ssize_t fail_link(net_link *link)
{
    char from[NET_TEXT], why[LINK_WHY];
    if (errno != EBADMSG)
        return break_link(link, strerror(errno));
    link->altered = true;
    snprintf(why, sizeof why,
             "what arrived from %s is not what was sent: it was altered on the way",
             net_format(&link->peer, from));
    return break_link(link, why);
}

bool net_link_altered(const net_link *link)
{
    return link->altered;
}

ssize_t net_link_send(net_link *link, const struct iovec *parts, int count)
{
    if (link->state != NET_OPEN)
        return link->state == NET_WAITS ? 0 : -1;
    if (count > IOV_MAX)
        count = IOV_MAX;
    if (link->seal != NULL) {
        const ssize_t sent = seal_send(link->seal, link->fd, parts, count);
        return sent >= 0 ? sent : fail_link(link);
    }
    const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    for (;;) {
        const ssize_t sent = world_sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            return sent;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return fail_link(link);
    }
}

static ssize_t receive_plain(net_link *link, void *to, size_t bytes, bool *ended)
{
    for (;;) {
        const ssize_t received = world_recv(link->fd, to, bytes, MSG_DONTWAIT);
        *ended = received == 0;
        if (received >= 0)
            return received;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -1;
    }
}

void link_push(net_link *link)
{
    if (link->state == NET_OPEN && link->seal != NULL && !seal_push(link->seal, link->fd))
        fail_link(link);
}

static ssize_t receive_sealed(net_link *link, void *to, size_t bytes, bool *ended)
{
    link_push(link); /* who only receives must not keep the last envelope that was sent waiting */
    return seal_receive(link->seal, link->fd, to, bytes, ended);
}

ssize_t net_link_receive(net_link *link, void *to, size_t bytes)
{
    if (link->state == NET_WAITS)
        return 0;
    /* a link that a send found broken still has what arrived before */
    if (link->state == NET_REFUSED || link->ended)
        return -1;
    if (bytes == 0)
        return 0;
    bool ended;
    const ssize_t received = link->seal != NULL ? receive_sealed(link, to, bytes, &ended)
                                                : receive_plain(link, to, bytes, &ended);
    if (received >= 0 && !ended)
        return received;
    link->ended = true;
    return received < 0 ? fail_link(link) : break_link(link, "the other end closed it");
}

bool net_link_is_reset(const net_link *link)
{
    struct pollfd p = {link->fd, 0, 0};
    return world_poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

bool net_link_flushed(net_link *link)
{
    link_push(link);
    if (link->state != NET_OPEN)
        return true;
    if (link->seal != NULL && seal_waits(link->seal))
        return false;
    if (world_unsent(link->fd) <= 0)
        return true;
    /* what a connection that was reset did not get counts as waiting for ever */
    return net_link_is_reset(link);
}
