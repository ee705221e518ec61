/* handover.c: an abstract Unix socket named by job, generation and topic, with SO_PEERCRED. */
#include "boot/handover.h"
#include "base/os.h"
#include "boot/boot.h"

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

static socklen_t address_of(const handover *h, struct sockaddr_un *address)
{
    char name[BOOT_NAME];
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    const int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1,
                                "rueda/%s/%llu/%s-%d", boot_job_name(h->settings, name),
                                (unsigned long long)h->generation, h->topic, h->giver);
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

static bool send_gift(int connection, const handover_gift *gift)
{
    struct iovec body = {(void *)gift, sizeof *gift};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    if (gift->fd < 0) {
        message.msg_control = NULL;
        message.msg_controllen = 0;
        return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *gift;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &gift->fd, sizeof gift->fd);
    return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *gift;
}

static bool receive_gift(int connection, handover_gift *gift)
{
    struct iovec body = {gift, sizeof *gift};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    const ssize_t got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    const bool brought_fd = header != NULL && header->cmsg_type == SCM_RIGHTS;
    int fd = -1;
    if (brought_fd)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    if (got == (ssize_t)sizeof *gift && brought_fd == (gift->fd >= 0) &&
        gift->bytes <= HANDOVER_BYTES)
        return gift->fd = fd, true;
    if (fd >= 0)
        close(fd);
    return false;
}

/* One newcomer; true if a rank that was still missing now has the descriptor. */
static bool serve(const handover *h, int connection, bool *missing, int size,
                  const handover_gift *gift)
{
    greeting hello;
    const uint64_t deadline = os_now_ns() + GREETING_LIMIT_MS * UINT64_C(1000000);
    if (!same_user(connection) || !readable_before(connection, deadline) ||
        recv(connection, &hello, sizeof hello, MSG_WAITALL | MSG_DONTWAIT) != (ssize_t)sizeof hello)
        return false;
    if (hello.magic != GREETING_MAGIC || hello.version != GREETING_VERSION ||
        hello.generation != h->generation || hello.rank >= (uint32_t)size || !missing[hello.rank] ||
        !send_gift(connection, gift))
        return false;
    missing[hello.rank] = false;
    return true;
}

static rueda_status fail_missing(const handover *h, const bool *missing, int size)
{
    char list[200] = "";
    size_t used = 0;
    for (int r = 0; r < size && used + 16 < sizeof list; r++) {
        if (missing[r])
            used += (size_t)snprintf(list + used, sizeof list - used, " %d", r);
    }
    return status_fail(RUEDA_ERR_TIMEOUT,
                       "rank %d waited %lld s in rueda_init for rank%s; see why they did not "
                       "start, or raise RUEDA_START_TIMEOUT",
                       h->giver, (long long)h->settings->start_timeout, list);
}

static rueda_status serve_all(const handover *h, int listener, bool *missing, int size,
                              const handover_gift *gift, const logger *log)
{
    const uint64_t deadline = deadline_of(h->settings);
    bool complained = false;
    int left = 0;
    for (int r = 0; r < size; r++)
        left += missing[r];
    while (left > 0) {
        if (!readable_before(listener, deadline))
            return fail_missing(h, missing, size);
        const int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) {
            nanosleep(&(struct timespec){0, CONNECT_LAST_NS},
                      NULL); /* out of descriptors, perhaps */
            continue;
        }
        if (serve(h, connection, missing, size, gift)) {
            left--;
        } else if (!complained) {
            complained = true;
            log_line(log, LOG_WARN,
                     "refused a process that wanted to join the job; the job goes on");
        }
        close(connection);
    }
    return RUEDA_OK;
}

static rueda_status listen_for(const handover *h, int size, int *listener)
{
    struct sockaddr_un address;
    const socklen_t length = address_of(h, &address);
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "rank %d: cannot make a Unix socket", h->giver);
    if (bind(made, (struct sockaddr *)&address, length) == 0 && listen(made, size) == 0)
        return *listener = made, RUEDA_OK;
    status_fail_errno(RUEDA_ERR_SYSTEM,
                      "rank %d: cannot listen for job '%s' (is it running twice?)", h->giver,
                      h->settings->job.text);
    close(made);
    return RUEDA_ERR_SYSTEM;
}

rueda_status handover_give(const handover *h, const bool *takes, int size,
                           const handover_gift *gift, const logger *log)
{
    int listener = -1;
    bool *missing = malloc((size_t)size * sizeof *missing);
    if (missing == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", h->giver);
    memcpy(missing, takes, (size_t)size * sizeof *missing);
    rueda_status status = listen_for(h, size, &listener);
    if (status == RUEDA_OK) {
        status = serve_all(h, listener, missing, size, gift, log);
        close(listener);
    }
    free(missing);
    return status;
}

/* The giver may not listen yet: try again, a little slower each time. */
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

rueda_status handover_take(const handover *h, int rank, handover_gift *gift)
{
    struct sockaddr_un address;
    const socklen_t length = address_of(h, &address);
    const uint64_t deadline = deadline_of(h->settings);
    const int connection = connect_before(&address, length, deadline);
    if (connection < 0)
        return status_fail(RUEDA_ERR_TIMEOUT,
                           "rank %d waited %lld s in rueda_init for rank %d; see why it did not "
                           "start, or raise RUEDA_START_TIMEOUT",
                           rank, (long long)h->settings->start_timeout, h->giver);
    const greeting hello = {GREETING_MAGIC, GREETING_VERSION, h->generation, (uint32_t)rank, 0};
    rueda_status status = RUEDA_OK;
    if (!same_user(connection) ||
        send(connection, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello ||
        !readable_before(connection, deadline) || !receive_gift(connection, gift))
        status =
            status_fail(RUEDA_ERR_SYSTEM,
                        "rank %d: rank %d refused it; is RUEDA_RANK=%d given to two processes?",
                        rank, h->giver, rank);
    close(connection);
    return status;
}
