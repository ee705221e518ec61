/* handover.c: a greeting, an answer, and descriptors (SCM_RIGHTS) over a Unix socket. */
#include "boot/handover.h"
#include "world/sockets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GREETING_MAGIC 0x72756564u
#define GREETING_VERSION 3
#define GREETING_LIMIT_NS UINT64_C(1000000000) /* who says nothing for so long is dropped */
#define CONNECT_FIRST_NS 100000  /* pause before the second try, doubled each time … */
#define CONNECT_LAST_NS 20000000 /* … up to this */
#define LOOK_SHARE 20            /* a pause is so many times what looking took … */
#define PAUSE_MOST_NS 200000000  /* … up to this */
#define ACCEPT_PAUSE_NS 10000000
#define SERVED_AT_ONCE 256
#define FDS_AT_ONCE 250      /* in one message; the system takes 253 */
#define SEND_PAUSE_NS 500000 /* while too many descriptors are on their way to others */

typedef struct greeting {
    uint32_t magic, version;
    uint32_t rank, size;
} greeting;

enum verdict { WELCOME = 1, OTHER_VERSION, OTHER_SIZE, OTHER_PROCESS };

typedef struct answer {
    uint32_t verdict, bytes;
    uint8_t data[HANDOVER_BYTES];
} answer;

static bool is_readable(int fd, int ms)
{
    return world_poll(&(struct pollfd){fd, POLLIN, 0}, 1, ms) > 0;
}

/* False: time is up. */
static bool readable_before(int fd, uint64_t deadline)
{
    for (uint64_t now; (now = world_now_ns()) < deadline;) {
        if (is_readable(fd, (int)((deadline - now) / 1000000) + 1))
            return true;
    }
    return false;
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

typedef union fd_space {
    char space[CMSG_SPACE(FDS_AT_ONCE * sizeof(int))];
    struct cmsghdr align;
} fd_space;

/* The system bounds how many descriptors of a user are sent and not received yet. */
static bool send_message(int connection, const struct iovec *body, const int *fds, int count,
                         uint64_t deadline)
{
    fd_space control;
    const size_t bytes = (size_t)count * sizeof *fds;
    struct msghdr message = {.msg_iov = (struct iovec *)body, .msg_iovlen = 1};
    if (count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), fds, bytes);
    }
    while (world_sendmsg(connection, &message, MSG_NOSIGNAL) != (ssize_t)body->iov_len) {
        if ((errno != ETOOMANYREFS && errno != EINTR) || world_now_ns() > deadline)
            return false;
        world_rest(SEND_PAUSE_NS);
    }
    return true;
}

bool handover_send(int line, const int *fds, int count)
{
    const uint64_t deadline = world_now_ns() + GREETING_LIMIT_NS;
    const struct iovec body = {(char[]){0}, 1};
    for (int done = 0; done < count; done += FDS_AT_ONCE) {
        const int rest = count - done;
        if (!send_message(line, &body, fds + done, rest < FDS_AT_ONCE ? rest : FDS_AT_ONCE,
                          deadline))
            return false;
    }
    return true;
}

/* What came with one message. */
typedef struct received {
    int fds;       /* how many */
    bool too_many; /* more than this process may open */
} received;

/* False: the connection ended, or not all of the body has come. */
static bool receive_message(int connection, const struct iovec *body, int flags, int *fds,
                            int count, received *came)
{
    fd_space control;
    struct msghdr message = {.msg_iov = (struct iovec *)body,
                             .msg_iovlen = 1,
                             .msg_control = count > 0 ? control.space : NULL,
                             .msg_controllen = CMSG_SPACE((size_t)count * sizeof *fds)};
    ssize_t got;
    if (count == 0)
        message.msg_controllen = 0;
    do
        got = world_recvmsg(connection, &message, flags | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    *came = (received){0, got >= 0 && (message.msg_flags & MSG_CTRUNC) != 0};
    const struct cmsghdr *header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        const size_t bytes = header->cmsg_len - CMSG_LEN(0);
        memcpy(fds, CMSG_DATA(header), bytes);
        came->fds = (int)(bytes / sizeof *fds);
    }
    return got == (ssize_t)body->iov_len;
}

static void close_fds(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        world_close(fds[i]);
}

/* ---- The giver ------------------------------------------------------------------------------- */

static enum verdict judge(const greeting *hello, const bool *missing, int size)
{
    if (hello->magic != GREETING_MAGIC || hello->version != GREETING_VERSION)
        return OTHER_VERSION;
    if (hello->size != (uint32_t)size || hello->rank >= (uint32_t)size)
        return OTHER_SIZE;
    return missing[hello->rank] ? WELCOME : OTHER_PROCESS;
}

static bool send_answer(int connection, enum verdict verdict, const handover_gift *gift)
{
    answer a = {.verdict = (uint32_t)verdict};
    if (verdict == WELCOME) {
        a.bytes = gift->bytes;
        memcpy(a.data, gift->data, sizeof a.data);
    }
    const bool sent = world_send(connection, &a, sizeof a, MSG_NOSIGNAL) == (ssize_t)sizeof a;
    explicit_bzero(&a, sizeof a);
    return sent;
}

/* The greeting of a rank that is still missing, and what it brings. What comes with any other is closed. */
static bool hear_greeting(int connection, const bool *missing, int size, greeting *hello,
                          handover_brought *brought, bool *too_many)
{
    spot_stranger peer;
    received came = {0, false};
    int fds[HANDOVER_BROUGHT];
    *too_many = false;
    if (!spot_is_own_user(connection, &peer) ||
        !readable_before(connection, world_now_ns() + GREETING_LIMIT_NS))
        return false;
    const bool whole = receive_message(connection, &(struct iovec){hello, sizeof *hello},
                                       MSG_WAITALL | MSG_DONTWAIT, fds, HANDOVER_BROUGHT, &came);
    enum verdict verdict = whole ? judge(hello, missing, size) : OTHER_VERSION;
    *too_many = verdict == WELCOME && came.too_many;
    if (verdict == WELCOME && brought != NULL && came.fds < HANDOVER_BROUGHT)
        verdict = OTHER_VERSION;
    if (verdict == WELCOME && brought != NULL) {
        memcpy(brought[hello->rank].fds, fds, sizeof fds);
        return true;
    }
    close_fds(fds, came.fds);
    if (verdict != WELCOME && whole && !*too_many)
        send_answer(connection, verdict, NULL);
    return verdict == WELCOME;
}

/* After a send that failed: whether it is because the other side is gone. */
static bool is_gone(void)
{
    return errno == EPIPE || errno == ECONNRESET;
}

static rueda_status fail_crowded(const handover *h)
{
    errno = EMFILE;
    return status_fail_errno(RUEDA_ERR_SYSTEM,
                             "rank %d cannot take in the other ranks; raise `ulimit -n`",
                             h->spot.giver);
}

/* One newcomer, whose connection is then ours no more; *served: a rank that was still missing now has the
 * gift. */
static rueda_status serve(const handover *h, int connection, bool *missing, int size,
                          const handover_gift *gift, handover_brought *brought, bool *served)
{
    greeting hello;
    bool too_many;
    rueda_status status = RUEDA_OK;
    *served = false;
    if (hear_greeting(connection, missing, size, &hello, brought, &too_many)) {
        *served = send_answer(connection, WELCOME, gift) &&
                  handover_send(connection, gift->fds, gift->fd_count);
        if (!*served && !is_gone())
            status =
                status_fail_errno(RUEDA_ERR_SYSTEM, "rank %d cannot hand descriptors to rank %u",
                                  h->spot.giver, hello.rank);
        if (!*served && brought != NULL) {
            close_fds(brought[hello.rank].fds, HANDOVER_BROUGHT);
            memset(&brought[hello.rank], -1, sizeof *brought);
        }
    }
    if (*served)
        missing[hello.rank] = false;
    if (*served && h->spot.giver == 0 && !attendance_is_seated(h->there, (int)hello.rank))
        attendance_seat_socket(h->there, (int)hello.rank, connection);
    else
        world_close(connection);
    return too_many ? fail_crowded(h) : status;
}

static rueda_status fail_missing(const handover *h, const bool *missing, int size)
{
    rank_list list = {.count = 0};
    for (int r = 0; r < size; r++) {
        if (missing[r])
            rank_list_add(&list, (uint32_t)r);
    }
    return attendance_fail_missing(h->settings, h->spot.giver, &list, NULL);
}

static int count_missing(const bool *missing, int size)
{
    int count = 0;
    for (int r = 0; r < size; r++)
        count += missing[r];
    return count;
}

/* Those who have come by now; not more at once, since strangers may come without end. */
static rueda_status serve_some(const handover *h, int listener, bool *missing, int size,
                               const handover_gift *gift, handover_brought *brought,
                               const logger *log, bool *complained)
{
    for (int i = 0; i < SERVED_AT_ONCE; i++) {
        if (count_missing(missing, size) == 0 || !is_readable(listener, 0))
            break;
        const int connection = world_accept(listener, NULL, NULL, true);
        h->there->met = true;
        if (connection < 0 && errno == EMFILE)
            return fail_crowded(h);
        if (connection < 0) {
            world_rest(ACCEPT_PAUSE_NS);
            break;
        }
        bool served;
        const rueda_status status = serve(h, connection, missing, size, gift, brought, &served);
        if (status != RUEDA_OK)
            return status;
        if (served || *complained ||
            attendance_look(h->there) != RUEDA_OK) /* a rank of ours that gives up, too */
            continue;
        *complained = true;
        log_line(log, LOG_WARN, "refused a process that wanted to join the job; the job goes on");
    }
    return RUEDA_OK;
}

/* Rank 0 cannot go on. All others hear it, also those who come only now: one that did not would wait for a
 * rank 0 that is there no more. */
static void end_all(const handover *h, rueda_status status)
{
    attendance_fail(h->there, status);
    world_rest(ACCEPT_PAUSE_NS);
}

static rueda_status serve_all(const handover *h, int listener, bool *missing, int size,
                              const handover_gift *gift, handover_brought *brought,
                              const logger *log)
{
    const uint64_t deadline = attendance_deadline(h->settings);
    uint64_t until = 0; /* rank 0 also serves those who are to hear that a rank is lost */
    bool complained = false;
    while (count_missing(missing, size) > 0) {
        const rueda_status status = attendance_wait(h->there, listener);
        const uint64_t now = world_now_ns();
        if (status != RUEDA_OK && until == 0)
            until = h->spot.giver == 0 ? attendance_late_until_ns(h->there) : now;
        const rueda_status served =
            serve_some(h, listener, missing, size, gift, brought, log, &complained);
        if (served != RUEDA_OK && h->spot.giver != 0)
            return served;
        if (served != RUEDA_OK)
            end_all(h, served);
        if (status != RUEDA_OK && now >= until)
            break;
        if (status != RUEDA_OK)
            is_readable(listener, ATTENDANCE_LOOK_MS);
        else if (now > deadline)
            return fail_missing(h, missing, size);
    }
    return attendance_look(h->there);
}

rueda_status handover_give(const handover *h, const bool *takes, int size,
                           const handover_gift *gift, handover_brought *brought, const logger *log)
{
    int listener = -1;
    bool *missing = malloc((size_t)size * sizeof *missing);
    if (missing == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", h->spot.giver);
    memcpy(missing, takes, (size_t)size * sizeof *missing);
    rueda_status status = spot_listen(&h->spot, &listener);
    if (status == RUEDA_OK) {
        status = serve_all(h, listener, missing, size, gift, brought, log);
        world_close(listener);
    }
    free(missing);
    return status;
}

/* ---- A taker --------------------------------------------------------------------------------- */

static rueda_status fail_late(const handover *h, int rank, const spot_stranger *met)
{
    char beside[160] = "";
    if (met->pid != 0)
        snprintf(beside, sizeof beside, " (process %d of user %u listens in its place)", met->pid,
                 met->user);
    return status_fail(RUEDA_ERR_TIMEOUT,
                       "rank %d waited %lld s in rueda_init for rank %d%s; see why it did not "
                       "start, or raise RUEDA_START_TIMEOUT",
                       rank, (long long)h->settings->start_timeout, h->spot.giver, beside);
}

/* A little longer each time, and so that looking, which takes its time where the machine has thousands of
 * sockets, leaves the cores to others. */
static long next_pause(long pause_ns, uint64_t look_ns)
{
    const uint64_t rest = LOOK_SHARE * look_ns;
    pause_ns = 2 * pause_ns > CONNECT_LAST_NS ? CONNECT_LAST_NS : 2 * pause_ns;
    if (rest <= (uint64_t)pause_ns)
        return pause_ns;
    return rest > PAUSE_MOST_NS ? PAUSE_MOST_NS : (long)rest;
}

/* The giver may not listen yet: try again. */
static rueda_status connect_before(const handover *h, int rank, uint64_t deadline, int *connected)
{
    spot_stranger met = {0};
    for (long pause_ns = CONNECT_FIRST_NS;;) {
        const uint64_t start = world_now_ns();
        const int connection = spot_connect(&h->spot, &met);
        if (connection >= 0)
            return *connected = connection, RUEDA_OK;
        if (errno == EMFILE)
            return status_fail_errno(RUEDA_ERR_SYSTEM,
                                     "rank %d cannot connect to rank %d; raise `ulimit -n`", rank,
                                     h->spot.giver);
        const rueda_status status = attendance_look(h->there);
        const uint64_t now = world_now_ns();
        if (status != RUEDA_OK)
            return status;
        if (now > deadline)
            return fail_late(h, rank, &met);
        world_rest(pause_ns);
        pause_ns = next_pause(pause_ns, now - start);
    }
}

/* The giver has ended it. Why is told by our seat, or the seat ends, too. */
static rueda_status await_reason(const handover *h, int rank, uint64_t deadline)
{
    rueda_status status = attendance_look(h->there);
    while (status == RUEDA_OK && world_now_ns() < deadline)
        status = attendance_wait(h->there, -1);
    return status == RUEDA_OK ? fail_late(h, rank, &(spot_stranger){0}) : status;
}

/* The giver is gone: if it is rank 0, with whom we have no seat yet, we say so; of another rank 0 will tell. */
static rueda_status fail_gone(const handover *h, int rank, uint64_t deadline)
{
    if (h->spot.giver == 0 && attendance_look(h->there) == RUEDA_OK)
        return attendance_lose(h->there, 0);
    return await_reason(h, rank, deadline);
}

static rueda_status fail_refused(const handover *h, int rank, int size, uint32_t verdict)
{
    if (verdict == OTHER_PROCESS)
        return status_fail(RUEDA_ERR_SYSTEM,
                           "rank %d: another process has come to rank %d as rank %d already: is "
                           "RUEDA_RANK=%d given to two?",
                           rank, h->spot.giver, rank, rank);
    if (verdict == OTHER_SIZE)
        return status_fail(RUEDA_ERR_CONFIG,
                           "rank %d has RUEDA_SIZE=%d, and rank %d another: set it alike on all "
                           "ranks",
                           rank, size, h->spot.giver);
    return status_fail(RUEDA_ERR_STATE,
                       "rank %d: rank %d has another version of rueda: use the same on all ranks",
                       rank, h->spot.giver);
}

/* Until something comes from the giver. */
static rueda_status await(const handover *h, int rank, uint64_t deadline, int connection)
{
    while (!is_readable(connection, 0)) {
        const rueda_status status = attendance_wait(h->there, connection);
        if (status != RUEDA_OK)
            return status;
        if (world_now_ns() > deadline)
            return fail_late(h, rank, &(spot_stranger){0});
    }
    return RUEDA_OK;
}

/* *ended: the connection did. */
static rueda_status receive_fds(const handover *h, int rank, int connection, uint64_t deadline,
                                int *fds, int count, bool *ended)
{
    char byte;
    int done = 0;
    *ended = false;
    while (done < count && !*ended) {
        const int rest = count - done, wanted = rest < FDS_AT_ONCE ? rest : FDS_AT_ONCE;
        received came = {0, false};
        rueda_status status = await(h, rank, deadline, connection);
        if (status == RUEDA_OK)
            *ended = !receive_message(connection, &(struct iovec){&byte, 1}, 0, fds + done, wanted,
                                      &came);
        if (status == RUEDA_OK && !*ended && came.fds < wanted)
            status = status_fail(RUEDA_ERR_SYSTEM,
                                 "rank %d may open too few files: it needs %d for the memory and "
                                 "the ranks of its host alone; raise `ulimit -n`",
                                 rank, count);
        done += came.fds;
        if (status != RUEDA_OK)
            return close_fds(fds, done), status;
    }
    if (*ended)
        close_fds(fds, done);
    return RUEDA_OK;
}

rueda_status handover_receive(const handover *h, int rank, int line, uint64_t deadline_ns, int *fds,
                              int count)
{
    bool ended;
    const rueda_status status = receive_fds(h, rank, line, deadline_ns, fds, count, &ended);
    return ended ? await_reason(h, rank, deadline_ns) : status;
}

static rueda_status take_fds(const handover *h, int rank, uint64_t deadline, int connection,
                             const handover_gift *gift)
{
    bool ended;
    const rueda_status status =
        receive_fds(h, rank, connection, deadline, gift->fds, gift->fd_count, &ended);
    return ended ? fail_gone(h, rank, deadline) : status;
}

static rueda_status greet(const handover *h, int rank, int size, const handover_brought *brings,
                          int connection, uint64_t deadline)
{
    greeting hello = {GREETING_MAGIC, GREETING_VERSION, (uint32_t)rank, (uint32_t)size};
    if (send_message(connection, &(struct iovec){&hello, sizeof hello},
                     brings == NULL ? NULL : brings->fds, brings == NULL ? 0 : HANDOVER_BROUGHT,
                     world_now_ns() + GREETING_LIMIT_NS))
        return RUEDA_OK;
    if (is_gone())
        return fail_gone(h, rank, deadline);
    return status_fail_errno(RUEDA_ERR_SYSTEM, "rank %d cannot hand its memory to rank %d", rank,
                             h->spot.giver);
}

static rueda_status take_answer(const handover *h, int rank, int size, uint64_t deadline,
                                int connection, handover_gift *gift)
{
    answer a;
    const rueda_status status = await(h, rank, deadline, connection);
    if (status != RUEDA_OK)
        return status;
    if (world_recv(connection, &a, sizeof a, MSG_WAITALL) != (ssize_t)sizeof a ||
        a.bytes > sizeof a.data)
        return fail_gone(h, rank, deadline);
    if (a.verdict != WELCOME)
        return fail_refused(h, rank, size, a.verdict);
    gift->bytes = a.bytes;
    memcpy(gift->data, a.data, sizeof gift->data);
    explicit_bzero(&a, sizeof a);
    return RUEDA_OK;
}

rueda_status handover_take(const handover *h, int rank, int size, const handover_brought *brings,
                           handover_gift *gift)
{
    const uint64_t deadline = attendance_deadline(h->settings);
    int connection = -1;
    rueda_status status = connect_before(h, rank, deadline, &connection);
    if (status != RUEDA_OK)
        return status;
    status = greet(h, rank, size, brings, connection, deadline);
    if (status != RUEDA_OK)
        return world_close(connection), status;
    h->there->met = true;
    status = take_answer(h, rank, size, deadline, connection, gift);
    const bool answered = status == RUEDA_OK;
    if (answered)
        status = take_fds(h, rank, deadline, connection, gift);
    /* also where it failed on our side: rank 0 is to hear of it */
    if (answered && h->spot.giver == 0 && !attendance_is_seated(h->there, 0))
        attendance_seat_socket(h->there, 0, connection);
    else
        world_close(connection);
    return status;
}
