/* sockets.h: connections, and waiting for several things at once. Each function does what the system call of its
 * name does, in the ways in which Rueda uses it: what it returns, errno, and flags (MSG_DONTWAIT, MSG_NOSIGNAL,
 * MSG_MORE, MSG_TRUNC, MSG_WAITALL, MSG_CMSG_CLOEXEC) included. All descriptors are close-on-exec.
 */
#ifndef RUEDA_WORLD_SOCKETS_H
#define RUEDA_WORLD_SOCKETS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* A stream socket: AF_INET, AF_INET6 or AF_UNIX. */
int world_socket(int family, bool blocks);
int world_socketpair(int fds[2]); /* Unix sockets that block */
int world_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int world_listen(int fd);
int world_accept(int listener, struct sockaddr *peer, socklen_t *bytes, bool blocks);
int world_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int world_let_block(int fd); /* from now on */

ssize_t world_send(int fd, const void *from, size_t bytes, int flags);
ssize_t world_recv(int fd, void *to, size_t bytes, int flags);
/* With descriptors (SCM_RIGHTS) on Unix sockets. */
ssize_t world_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t world_recvmsg(int fd, struct msghdr *message, int flags);
/* Bytes that were sent and that the other end's system has not confirmed; -1: it is not known. */
int world_unsent(int fd);

int world_shutdown(int fd, int how);
/* Also of what is no socket: descriptors of this header, and all others of the process. */
int world_close(int fd);
int world_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int world_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int world_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int world_getpeername(int fd, struct sockaddr *address, socklen_t *bytes);

/* A bell is readable from when it is rung until it is stilled. Both may be done by any process that has it. */
int world_bell_make(void);
void world_bell_ring(int bell);
void world_bell_still(int bell);

int world_poll(struct pollfd *fds, int count, int timeout_ms);
int world_epoll_create(void);
int world_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
/* At most so long; 0: looks only. */
int world_epoll_wait(int epoll, struct epoll_event *events, int count, uint64_t timeout_ns);

/* The abstract names at which somebody of this host listens, a line each; the caller closes it. NULL: errno. */
FILE *world_unix_names(void);
bool world_lists_unix_names(void); /* whether there is such a list */

#endif
