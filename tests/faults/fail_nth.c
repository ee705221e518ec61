/* fail_nth.c: see fail_nth.h. CMakeLists.txt reads the names of the calls from the lines CAN_FAIL(…. */
#include "fail_nth.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic long failing_call; /* 0: none */
static _Atomic long calls;
static bool all_onwards;
static fail_nth_note *noted;

void fail_nth_arm(long n, bool onwards, fail_nth_note *note)
{
    all_onwards = onwards;
    noted = note;
    atomic_store(&calls, 0);
    atomic_store(&failing_call, n);
}

void fail_nth_disarm(void)
{
    atomic_store(&failing_call, 0);
}

extern const char __ehdr_start; /* by the linker, of the program or the shared library */

bool fail_nth_now(const char *call, const void *caller)
{
    const long n = atomic_load(&failing_call);
    if (n == 0)
        return false;
    const long number = atomic_fetch_add(&calls, 1) + 1;
    if (number != n)
        return all_onwards && number > n;
    snprintf(noted->call, sizeof noted->call, "%s", call);
    noted->where = (unsigned long)((const char *)caller - &__ehdr_start) - 1;
    noted->failed = true;
    return true;
}

/* One call: what it returns, its name, parameters and arguments; what it returns and the errno when it
 * fails; and when it counts. */
#define CAN_FAIL_IF(type, name, parameters, arguments, failed, error, counts)                      \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        if (!(counts) || !fail_nth_now(#name, __builtin_return_address(0)))                        \
            return __real_##name arguments;                                                        \
        errno = (error);                                                                           \
        return (failed);                                                                           \
    }
#define CAN_FAIL(type, name, parameters, arguments, failed, error)                                 \
    CAN_FAIL_IF(type, name, parameters, arguments, failed, error, true)

/* ---- Memory ---- */
CAN_FAIL(void *, malloc, (size_t bytes), (bytes), NULL, ENOMEM)
CAN_FAIL(void *, calloc, (size_t count, size_t bytes), (count, bytes), NULL, ENOMEM)
CAN_FAIL(void *, realloc, (void *memory, size_t bytes), (memory, bytes), NULL, ENOMEM)
CAN_FAIL(void *, aligned_alloc, (size_t unit, size_t bytes), (unit, bytes), NULL, ENOMEM)
CAN_FAIL(int, posix_memalign, (void **to, size_t unit, size_t bytes), (to, unit, bytes), ENOMEM, 0)
CAN_FAIL(char *, strdup, (const char *text), (text), NULL, ENOMEM)
CAN_FAIL(char *, realpath, (const char *path, char *to), (path, to), NULL, ENOMEM)
CAN_FAIL(void *, mmap, (void *to, size_t bytes, int access, int flags, int fd, off_t at),
         (to, bytes, access, flags, fd, at), MAP_FAILED, ENOMEM)
CAN_FAIL(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1, EMFILE)
CAN_FAIL(int, ftruncate, (int fd, off_t bytes), (fd, bytes), -1, ENOSPC)
/* a hole can always be made */
CAN_FAIL_IF(int, fallocate, (int fd, int mode, off_t at, off_t bytes), (fd, mode, at, bytes), -1,
            ENOSPC, mode == 0)

/* ---- Threads ---- */
CAN_FAIL(int, pthread_create,
         (pthread_t * to, const pthread_attr_t *how, void *(*main)(void *), void *argument),
         (to, how, main, argument), EAGAIN, 0)
CAN_FAIL(int, pthread_atfork, (void (*before)(void), void (*after)(void), void (*child)(void)),
         (before, after, child), ENOMEM, 0)

/* ---- Descriptors ---- */
CAN_FAIL(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE)
CAN_FAIL(int, accept4, (int fd, struct sockaddr *from, socklen_t *bytes, int flags),
         (fd, from, bytes, flags), -1, EMFILE)
CAN_FAIL(int, socketpair, (int domain, int type, int protocol, int fds[2]),
         (domain, type, protocol, fds), -1, EMFILE)
/* where it hands descriptors on */
CAN_FAIL_IF(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
            (fd, message, flags), -1, ENOBUFS, message->msg_control != NULL)
CAN_FAIL(int, bind, (int fd, const struct sockaddr *to, socklen_t bytes), (fd, to, bytes), -1,
         ENOMEM)
CAN_FAIL(int, listen, (int fd, int backlog), (fd, backlog), -1, ENOBUFS)
CAN_FAIL(int, eventfd, (unsigned value, int flags), (value, flags), -1, EMFILE)
CAN_FAIL(int, epoll_create1, (int flags), (flags), -1, EMFILE)
CAN_FAIL_IF(int, epoll_ctl, (int fd, int change, int about, struct epoll_event *event),
            (fd, change, about, event), -1, ENOMEM, change == EPOLL_CTL_ADD)
CAN_FAIL(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, EMFILE)
CAN_FAIL(int, getifaddrs, (struct ifaddrs * *list), (list), -1, ENOMEM)
CAN_FAIL(int, getaddrinfo,
         (const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **list),
         (host, port, hints, list), EAI_MEMORY, ENOMEM)

/* Those with any number of arguments. */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    if (!fail_nth_now("open", __builtin_return_address(0)))
        return __real_open(path, flags, mode);
    errno = EMFILE;
    return -1;
}

#define SYSCALL_ARGUMENTS 6

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long a[SYSCALL_ARGUMENTS];
    va_list more;
    va_start(more, number);
    for (int i = 0; i < SYSCALL_ARGUMENTS; i++)
        a[i] = va_arg(more, long);
    va_end(more);
    if (number != SYS_pidfd_open || !fail_nth_now("pidfd_open", __builtin_return_address(0)))
        return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    errno = EMFILE;
    return -1;
}
