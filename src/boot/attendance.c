/* attendance.c: see attendance.h. */
#include "boot/attendance.h"
#include "world/sockets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_AT_ONCE 64
#define WORD_NS UINT64_C(500000000)  /* for rank 0 to tell what the board says, too */
#define TELL_NS UINT64_C(1000000000) /* for the last words to arrive */
#define TELL_PAUSE_NS 1000000
#define LATE_NS UINT64_C(1000000000)  /* for those who come late, to hear that all is over */
#define BOARD_NS UINT64_C(1000000000) /* for the board to tell who is missing */
#define BOARD_PAUSE_NS 1000000

enum notice_kind { NOTICE_READY = 1, NOTICE_GO, NOTICE_END };

void attendance_pass(const attendance *a, boot_phase phase)
{
    if (a->ends.dies_at == phase)
        world_die();
}

/* ---- Seats ----------------------------------------------------------------------------------- */

rueda_status attendance_open(attendance *a, const config *settings, int rank, uint64_t generation,
                             const attendance_ends *ends)
{
    const int size = (int)settings->size;
    *a = (attendance){.settings = settings,
                      .rank = rank,
                      .size = size,
                      .generation = generation,
                      .ends = *ends,
                      .epoll = world_epoll_create()};
    if (a->epoll < 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "rank %d: rueda_init needs a descriptor", rank);
    a->seats = calloc(rank == 0 ? (size_t)size : 1, sizeof *a->seats);
    if (a->seats == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", rank);
    attendance_pass(a, BOOT_PHASE_START);
    return RUEDA_OK;
}

static int seat_count(const attendance *a)
{
    return a->seats == NULL ? 0 : a->rank == 0 ? a->size : 1;
}

static void seat_clear(attendance *a, seat *s)
{
    const int fd = s->link != NULL ? net_link_fd(s->link) : s->fd;
    if (!s->taken)
        return;
    world_epoll_ctl(a->epoll, EPOLL_CTL_DEL, fd, NULL);
    if (s->link == NULL)
        world_close(s->fd);
    else if (s->owned)
        net_link_close(s->link);
    s->taken = false;
}

void attendance_close(attendance *a)
{
    for (int i = 0; i < seat_count(a); i++)
        seat_clear(a, &a->seats[i]);
    free(a->seats);
    if (a->epoll >= 0)
        world_close(a->epoll);
    *a = (attendance){.epoll = -1};
}

static seat *seat_of(const attendance *a, int rank)
{
    return &a->seats[a->rank == 0 ? rank : 0];
}

bool attendance_is_seated(const attendance *a, int rank)
{
    return seat_of(a, rank)->taken;
}

/* ---- Saying and hearing ---------------------------------------------------------------------- */

/* The notice fits into the buffer of any socket that has nothing else to send. */
static void seat_tell(const seat *s, const notice *n)
{
    if (!s->taken)
        return;
    if (s->link != NULL)
        net_link_send(s->link, &(struct iovec){(void *)n, sizeof *n}, 1);
    else if (world_send(s->fd, n, sizeof *n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* its end will be seen */
}

static ssize_t seat_hear(const seat *s, void *to, size_t bytes)
{
    if (s->link != NULL)
        return net_link_receive(s->link, to, bytes);
    const ssize_t got = world_recv(s->fd, to, bytes, MSG_DONTWAIT);
    if (got > 0)
        return got;
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static void tell_all(attendance *a, const notice *n)
{
    for (int i = 0; i < seat_count(a); i++)
        seat_tell(&a->seats[i], n);
}

/* Rank 0 tells all others at once, and later those who come later. */
static void end_with(attendance *a, rueda_status status, int culprit, const char *text)
{
    if (a->over)
        return;
    a->over = true;
    a->end = (notice){.kind = NOTICE_END, .status = (uint32_t)status, .culprit = culprit};
    snprintf(a->end.text, sizeof a->end.text, "%s", text);
    board_name(a->ends.board, a->rank, culprit);
    if (a->rank == 0)
        tell_all(a, &a->end);
}

rueda_status attendance_end(attendance *a, rueda_status status, int culprit, const char *text)
{
    end_with(a, status, culprit, text);
    return status_restore((rueda_status)a->end.status, a->end.text);
}

int attendance_culprit(const attendance *a)
{
    return a->over ? a->end.culprit : -1;
}

/* Rank 0 is gone and has not said why, to us: it may have ended because of another rank before we were ready to hear
 * of it. The board knows soon. */
static int await_board(const attendance *a)
{
    const uint64_t deadline = world_now_ns() + BOARD_NS;
    int missing = board_missing(a->ends.board, a->generation);
    while (missing < 0 && a->ends.board != NULL && world_now_ns() < deadline) {
        world_rest(BOARD_PAUSE_NS);
        missing = board_missing(a->ends.board, a->generation);
    }
    return missing;
}

/* The same words whoever notices, and however it ended. Whoever has left because of a rank that the board
 * knows is not the reason. */
rueda_status attendance_lose(attendance *a, int rank)
{
    char text[STATUS_TEXT_MAX];
    const int missing = rank == 0 ? await_board(a) : board_missing(a->ends.board, a->generation);
    rank = missing >= 0 && missing != a->rank ? missing : rank;
    snprintf(text, sizeof text,
             "rank %d is lost: it ended before rueda_init was done on all ranks; all ranks must be "
             "started again",
             rank);
    end_with(a, RUEDA_ERR_PEER, rank, text);
    return status_restore((rueda_status)a->end.status, a->end.text);
}

static void take_notice(attendance *a, seat *s)
{
    s->in.text[sizeof s->in.text - 1] = '\0';
    if (s->in.kind == NOTICE_READY && a->rank == 0) {
        a->ready += !s->ready;
        s->ready = true;
    } else if (s->in.kind == NOTICE_GO && a->rank != 0) {
        a->go = true;
    } else if (s->in.kind == NOTICE_END && s->in.status > RUEDA_OK &&
               s->in.status <= RUEDA_ERR_INTERNAL) {
        end_with(a, (rueda_status)s->in.status, s->in.culprit, s->in.text);
    }
}

/* False: the rank is gone. What follows after "go" is not for us. */
static bool take_seat(attendance *a, seat *s)
{
    while (!a->over && !a->go) {
        const ssize_t got = seat_hear(s, (uint8_t *)&s->in + s->got, sizeof s->in - s->got);
        if (got <= 0)
            return got == 0;
        s->got += (size_t)got;
        if (s->got < sizeof s->in)
            continue;
        s->got = 0;
        take_notice(a, s);
    }
    return true;
}

/* Of several that are gone the lowest is named. */
static void hear(attendance *a)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    const int count = world_epoll_wait(a->epoll, events, EVENTS_AT_ONCE, 0);
    int lost = -1;
    for (int i = 0; i < count && !a->over && !a->go; i++) {
        const int index = (int)events[i].data.u32;
        if (!take_seat(a, &a->seats[index]) && (lost < 0 || index < lost))
            lost = index; /* for others than rank 0 it is the only seat, and rank 0's */
    }
    if (lost >= 0)
        attendance_lose(a, lost);
}

/* The others hear it from rank 0, in the same words as all; who left before would be taken for dead. */
static void consult_board(attendance *a)
{
    const int missing = board_missing(a->ends.board, a->generation);
    if (missing < 0 || missing == a->rank)
        return;
    const uint64_t now = world_now_ns();
    a->told_ns = a->told_ns == 0 ? now : a->told_ns;
    if (a->rank == 0 || missing == 0 || now - a->told_ns > WORD_NS)
        attendance_lose(a, missing);
}

/* Asking may take long, and we look far more often than anybody wants to give up. */
static bool is_interrupted(attendance *a)
{
    const uint64_t now = world_now_ns();
    if (a->ends.interrupted == NULL || now < a->ask_ns)
        return false;
    a->ask_ns = now + ATTENDANCE_LOOK_MS * UINT64_C(1000000);
    return a->ends.interrupted(a->ends.interrupted_argument) != 0;
}

/* For all others this rank is one that was lost. */
static void leave(attendance *a)
{
    char text[STATUS_TEXT_MAX];
    snprintf(text, sizeof text,
             "rank %d was interrupted in rueda_init: all ranks must call it again", a->rank);
    a->left = true;
    end_with(a, RUEDA_ERR_PEER, a->rank, text);
    if (a->rank != 0)
        seat_tell(&a->seats[0], &a->end);
}

rueda_status attendance_look(attendance *a)
{
    if (!a->over && !a->go)
        hear(a);
    if (!a->over && !a->go)
        consult_board(a);
    if (!a->over && !a->go && is_interrupted(a))
        leave(a);
    return a->over ? status_restore((rueda_status)a->end.status, a->end.text) : RUEDA_OK;
}

int attendance_fd(const attendance *a)
{
    return a->over ? -1 : a->epoll;
}

rueda_status attendance_wait(attendance *a, int fd)
{
    const rueda_status status = attendance_look(a);
    if (status != RUEDA_OK || a->go)
        return status;
    struct pollfd fds[] = {{a->epoll, POLLIN, 0}, {fd, POLLIN, 0}};
    world_poll(fds, 2, ATTENDANCE_LOOK_MS);
    return RUEDA_OK;
}

/* ---- Sitting down ----------------------------------------------------------------------------- */

/* Who cannot be heard would be waited for without end. */
static void fail_deaf(attendance *a, const seat *s)
{
    const rueda_status status = status_fail_errno(
        RUEDA_ERR_SYSTEM, "rank %d: rueda_init cannot wait for a connection", a->rank);
    end_with(a, status, a->rank, status_text());
    if (a->rank != 0)
        seat_tell(s, &a->end);
}

static void sit_down(attendance *a, int rank, const seat *new)
{
    seat *s = seat_of(a, rank);
    *s = *new;
    a->met = true;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)(s - a->seats)};
    const int fd = s->link != NULL ? net_link_fd(s->link) : s->fd;
    if (a->rank == 0 && a->over)
        seat_tell(s, &a->end);
    else if (world_epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        fail_deaf(a, s);
}

void attendance_seat_socket(attendance *a, int rank, int fd)
{
    sit_down(a, rank, &(seat){.fd = fd, .taken = true});
}

void attendance_seat_link(attendance *a, int rank, net_link *link, bool owned)
{
    sit_down(a, rank, &(seat){.fd = -1, .link = link, .owned = owned, .taken = true});
}

/* ---- The end --------------------------------------------------------------------------------- */

/* What is said by a link that we close with something unread may be lost on its way. */
static void await_arrival(const attendance *a)
{
    const uint64_t deadline = world_now_ns() + TELL_NS;
    bool arrived;
    do {
        arrived = true;
        for (int i = 0; i < seat_count(a); i++) {
            const seat *s = &a->seats[i];
            arrived = arrived && (!s->taken || s->link == NULL || net_link_flushed(s->link));
        }
        if (!arrived)
            world_rest(TELL_PAUSE_NS);
    } while (!arrived && world_now_ns() < deadline);
}

void attendance_fail(attendance *a, rueda_status status)
{
    if (a->epoll < 0 || a->seats == NULL || a->go)
        return;
    const bool ours = !a->over;
    const int lost = status == RUEDA_ERR_PEER ? board_missing(a->ends.board, a->generation) : -1;
    const bool others = status == RUEDA_ERR_PEER || status == RUEDA_ERR_TIMEOUT;
    end_with(a, status, others ? lost : a->rank, status_text());
    if (ours && a->rank != 0)
        seat_tell(&a->seats[0], &a->end);
    await_arrival(a);
}

uint64_t attendance_late_until_ns(const attendance *a)
{
    return world_now_ns() + (a->ends.board != NULL ? 0 : LATE_NS);
}

static rueda_status fail_late(const attendance *a)
{
    rank_list missing = {.count = 0};
    for (int r = a->rank == 0 ? 1 : 0; r < seat_count(a); r++) {
        if (!a->seats[r].ready)
            rank_list_add(&missing, (uint32_t)r);
    }
    return attendance_fail_missing(a->settings, a->rank, &missing, NULL);
}

rueda_status attendance_fail_missing(const config *settings, int rank, const rank_list *missing,
                                     const char *why)
{
    return status_fail(RUEDA_ERR_TIMEOUT, "rank %d waited %lld s in rueda_init for rank%s; %s",
                       rank, (long long)settings->start_timeout, missing->text,
                       why != NULL ? why
                                   : "see why they did not start or cannot reach it, or raise "
                                     "RUEDA_START_TIMEOUT");
}

rueda_status attendance_complete(attendance *a, uint64_t deadline_ns)
{
    if (a->rank != 0) {
        seat_tell(&a->seats[0], &(notice){.kind = NOTICE_READY});
        attendance_pass(a, BOOT_PHASE_READY);
    }
    while (a->rank == 0 ? a->ready < a->size - 1 : !a->go) {
        const rueda_status status = attendance_wait(a, -1);
        if (status != RUEDA_OK)
            return status;
        if (world_now_ns() > deadline_ns)
            return fail_late(a);
    }
    if (a->rank == 0) {
        attendance_pass(a, BOOT_PHASE_READY);
        tell_all(a, &(notice){.kind = NOTICE_GO});
        a->go = true;
    }
    return RUEDA_OK;
}
