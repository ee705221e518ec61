/* handover.c: an abstract Unix socket named by job and generation, with SO_PEERCRED. */
#include "boot/handover.h"
#include "base/os.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define GREETING_MAGIC 0x72756564u
#define GREETING_VERSION 1
#define GREETING_LIMIT_MS 1000   /* a connection that says nothing for so long is dropped */
#define CONNECT_FIRST_NS 100000  /* pause before the second try, doubled each time … */
#define CONNECT_LAST_NS 10000000 /* … up to this */

typedef struct greeting {
    uint32_t magic, version;
    uint64_t generation;
    uint32_t rank, zero;
} greeting;

static socklen_t address_of(const config *settings, uint64_t generation,
                            struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    const int length =
        snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "rueda/%s/%llu",
                 settings->job.text, (unsigned long long)generation);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static uint64_t deadline_of(const config *settings)
{
    return os_now_ns() + (uint64_t)settings->start_timeout * 1000000000u;
}

/* poll() until readable or the deadline; false: time is up. */
static bool readable_before(int fd, uint64_t deadline)
{
    for (;;) {
        const uint64_t now = os_now_ns();
        if (now >= deadline)
            return false;
        struct pollfd p = {fd, POLLIN, 0};
        const int ready = poll(&p, 1, (int)((deadline - now) / 1000000) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

static bool same_user(int connection)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           peer.uid == geteuid();
}

static bool send_descriptor(int connection, int fd)
{
    char byte = 1;
    struct iovec body = {&byte, 1};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(connection, &message, MSG_NOSIGNAL) == 1;
}

static bool receive_descriptor(int connection, int *fd)
{
    char byte;
    struct iovec body = {&byte, 1};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1)
        return false;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == NULL || header->cmsg_type != SCM_RIGHTS)
        return false;
    memcpy(fd, CMSG_DATA(header), sizeof *fd);
    return true;
}

/* One newcomer; true if a rank that was still missing now has the descriptor. */
static bool serve(int connection, int size, uint64_t generation, int fd, bool *has)
{
    greeting hello;
    const uint64_t deadline = os_now_ns() + GREETING_LIMIT_MS * UINT64_C(1000000);
    if (!same_user(connection) || !readable_before(connection, deadline) ||
        recv(connection, &hello, sizeof hello, MSG_WAITALL | MSG_DONTWAIT) != (ssize_t)sizeof hello)
        return false;
    if (hello.magic != GREETING_MAGIC || hello.version != GREETING_VERSION ||
        hello.generation != generation || hello.rank == 0 || hello.rank >= (uint32_t)size ||
        has[hello.rank] || !send_descriptor(connection, fd))
        return false;
    has[hello.rank] = true;
    return true;
}

static rueda_status fail_missing(int size, const bool *has, int64_t seconds)
{
    char missing[200] = "";
    size_t used = 0;
    for (int r = 1; r < size && used + 16 < sizeof missing; r++) {
        if (!has[r])
            used += (size_t)snprintf(missing + used, sizeof missing - used, " %d", r);
    }
    return status_fail(RUEDA_ERR_TIMEOUT,
                       "rank 0 waited %lld s in rueda_init for rank%s; see why they did not start, "
                       "or raise RUEDA_START_TIMEOUT",
                       (long long)seconds, missing);
}

static rueda_status give_to_all(const config *settings, int listener, int size, uint64_t generation,
                                int fd, const logger *log)
{
    bool *has = calloc((size_t)size, sizeof *has);
    if (has == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank 0: out of memory in rueda_init");
    const uint64_t deadline = deadline_of(settings);
    rueda_status status = RUEDA_OK;
    int missing = size - 1;
    bool complained = false;
    while (missing > 0 && status == RUEDA_OK) {
        if (!readable_before(listener, deadline)) {
            status = fail_missing(size, has, settings->start_timeout);
            break;
        }
        const int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0)
            continue;
        if (serve(connection, size, generation, fd, has)) {
            missing--;
        } else if (!complained) {
            complained = true;
            log_line(log, LOG_WARN,
                     "refused a process that wanted to join the job; the job goes on");
        }
        close(connection);
    }
    free(has);
    return status;
}

rueda_status handover_give(const config *settings, int size, uint64_t generation, int fd,
                           const logger *log)
{
    struct sockaddr_un address;
    const socklen_t length = address_of(settings, generation, &address);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "rank 0: cannot make a Unix socket");
    rueda_status status;
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, size) != 0)
        status = status_fail_errno(RUEDA_ERR_SYSTEM,
                                   "rank 0: cannot listen for job '%s' (is it running twice?)",
                                   settings->job.text);
    else
        status = give_to_all(settings, listener, size, generation, fd, log);
    close(listener);
    return status;
}

/* Rank 0 may not listen yet: try again, a little slower each time. */
static int connect_before(const struct sockaddr_un *address, socklen_t length, uint64_t deadline)
{
    long pause_ns = CONNECT_FIRST_NS;
    for (;;) {
        const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connection < 0)
            return -1;
        if (connect(connection, (const struct sockaddr *)address, length) == 0)
            return connection;
        close(connection);
        if (os_now_ns() > deadline)
            return -1;
        nanosleep(&(struct timespec){0, pause_ns}, NULL);
        pause_ns = pause_ns * 2 > CONNECT_LAST_NS ? CONNECT_LAST_NS : pause_ns * 2;
    }
}

rueda_status handover_receive(const config *settings, int rank, uint64_t generation, int *fd)
{
    struct sockaddr_un address;
    const socklen_t length = address_of(settings, generation, &address);
    const uint64_t deadline = deadline_of(settings);
    const int connection = connect_before(&address, length, deadline);
    if (connection < 0)
        return status_fail(RUEDA_ERR_TIMEOUT,
                           "rank %d waited %lld s in rueda_init for rank 0; see why it did not "
                           "start, or raise RUEDA_START_TIMEOUT",
                           rank, (long long)settings->start_timeout);
    const greeting hello = {GREETING_MAGIC, GREETING_VERSION, generation, (uint32_t)rank, 0};
    rueda_status status = RUEDA_OK;
    if (!same_user(connection) ||
        send(connection, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello ||
        !readable_before(connection, deadline) || !receive_descriptor(connection, fd))
        status = status_fail(RUEDA_ERR_SYSTEM,
                             "rank %d: rank 0 refused it; is RUEDA_RANK=%d given to two processes?",
                             rank, rank);
    close(connection);
    return status;
}
