/* sockets.c: the system's own sockets. */
#include "world/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define UNIX_NAMES "/proc/net/unix"

int world_socket(int family, bool blocks)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | (blocks ? 0 : SOCK_NONBLOCK), 0);
}

int world_socketpair(int fds[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
}

int world_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return bind(fd, address, bytes);
}

int world_listen(int fd)
{
    return listen(fd, SOMAXCONN);
}

int world_accept(int listener, struct sockaddr *peer, socklen_t *bytes, bool blocks)
{
    return accept4(listener, peer, bytes, SOCK_CLOEXEC | (blocks ? 0 : SOCK_NONBLOCK));
}

int world_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return connect(fd, address, bytes);
}

int world_let_block(int fd)
{
    return fcntl(fd, F_SETFL, 0);
}

ssize_t world_send(int fd, const void *from, size_t bytes, int flags)
{
    return send(fd, from, bytes, flags);
}

ssize_t world_recv(int fd, void *to, size_t bytes, int flags)
{
    return recv(fd, to, bytes, flags);
}

ssize_t world_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return sendmsg(fd, message, flags);
}

ssize_t world_recvmsg(int fd, struct msghdr *message, int flags)
{
    return recvmsg(fd, message, flags);
}

int world_unsent(int fd)
{
    int waiting = 0;
    return ioctl(fd, SIOCOUTQ, &waiting) == 0 ? waiting : -1;
}

int world_shutdown(int fd, int how)
{
    return shutdown(fd, how);
}

int world_close(int fd)
{
    return close(fd);
}

int world_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
    return setsockopt(fd, level, name, value, bytes);
}

int world_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
    return getsockopt(fd, level, name, value, bytes);
}

int world_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    return getsockname(fd, address, bytes);
}

int world_getpeername(int fd, struct sockaddr *address, socklen_t *bytes)
{
    return getpeername(fd, address, bytes);
}

int world_bell_make(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void world_bell_ring(int bell)
{
    const uint64_t once = 1;
    /* one that has no room rings already */
    (void)!write(bell, &once, sizeof once);
}

void world_bell_still(int bell)
{
    uint64_t rings;
    (void)!read(bell, &rings, sizeof rings);
}

int world_poll(struct pollfd *fds, int count, int timeout_ms)
{
    return poll(fds, (nfds_t)count, timeout_ms);
}

int world_epoll_create(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

int world_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    return epoll_ctl(epoll, what, fd, event);
}

/* Kernels before 5.11 know milliseconds only. */
int world_epoll_wait(int epoll, struct epoll_event *events, int count, uint64_t timeout_ns)
{
    if (timeout_ns == 0)
        return epoll_wait(epoll, events, count, 0);
    const struct timespec limit = {(time_t)(timeout_ns / 1000000000u),
                                   (long)(timeout_ns % 1000000000u)};
    const int found = epoll_pwait2(epoll, events, count, &limit, NULL);
    if (found >= 0 || errno != ENOSYS)
        return found;
    return epoll_wait(epoll, events, count, (int)(timeout_ns / 1000000u) + 1);
}

FILE *world_unix_names(void)
{
    return fopen(UNIX_NAMES, "re");
}

bool world_lists_unix_names(void)
{
    return access(UNIX_NAMES, R_OK) == 0;
}
