/* network.c: the poll over all sockets of a rank, its bell and its door. */
#include "control/network_parts.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_AT_ONCE 64
#define ADMITTED_AT_ONCE 16           /* at the door, before something else gets its turn */
#define RINGS_AT_ONCE 64              /* of the bell; who rings on and on does not hold us up */
#define CALLING_NS UINT64_C(10000000) /* the longest sleep while connections are being made */
#define FLUSH_POLL_NS 200000

/* ---- Opening and closing --------------------------------------------------------------------- */

void network_watch(network *n, int fd, uint32_t events, uint64_t about)
{
    struct epoll_event event = {.events = events, .data.u64 = about};
    if (epoll_ctl(n->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        log_line(&n->log, LOG_ERROR, "a connection cannot be waited for: %s", strerror(errno));
}

void network_watch_again(network *n, int fd, uint64_t about)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u64 = about};
    epoll_ctl(n->epoll, EPOLL_CTL_MOD, fd, &event);
}

static socklen_t bell_address(const network *n, uint32_t rank, struct sockaddr_un *address)
{
    *address = n->bell_name;
    char *end = address->sun_path + n->bell_name_length;
    const int more =
        snprintf(end, sizeof address->sun_path - (size_t)n->bell_name_length, "%u", rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
                       (size_t)(n->bell_name_length + more));
}

static rueda_status open_bell(network *n, uint64_t generation)
{
    char name[BOOT_NAME];
    struct sockaddr_un own;
    n->bell_name.sun_family = AF_UNIX;
    n->bell_name_length =
        1 + snprintf(n->bell_name.sun_path + 1, sizeof own.sun_path - 12, "rueda/%s/%llu/bell-",
                     boot_job_name(n->settings, name), (unsigned long long)generation);
    n->epoll = epoll_create1(EPOLL_CLOEXEC);
    n->bell = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const socklen_t length = bell_address(n, n->rank, &own);
    if (n->epoll < 0 || n->bell < 0 || bind(n->bell, (struct sockaddr *)&own, length) != 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "rank %u: cannot make the sockets of the job",
                                 n->rank);
    network_watch(n, n->bell, EPOLLIN, EVENT_BELL);
    network_watch(n, net_door_fd(n->meeting.door), EPOLLIN, EVENT_DOOR);
    return RUEDA_OK;
}

/* The links of the meeting are those of the global set's tree. */
static rueda_status adopt_links(network *n)
{
    while (n->meeting.link_count > 0) {
        net_link *link = n->meeting.links[n->meeting.link_count - 1];
        const net_purpose *p = net_link_purpose(link);
        tree_link *l = tree_link_to(n, p->from == n->rank ? p->to : p->from);
        if (l == NULL)
            return status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
        streams_attach(l->stream, link);
        n->meeting.link_count--;
    }
    return RUEDA_OK;
}

rueda_status network_open(boot_meeting *meeting, const config *settings, const boot_identity *who,
                          uint64_t generation, const logger *log, const segment *s,
                          network **opened)
{
    network *n = calloc(1, sizeof *n);
    if (n == NULL) {
        boot_meeting_close(meeting);
        return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", who->rank);
    }
    n->meeting = *meeting;
    memset(meeting, 0, sizeof *meeting);
    n->settings = settings;
    n->segment = s;
    n->log = *log;
    n->rank = (uint32_t)who->rank;
    n->size = (uint32_t)who->size;
    n->epoll = n->bell = n->lost = n->suspect = -1;
    n->left = calloc(n->size, sizeof *n->left);
    rueda_status status =
        n->left == NULL ? status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init") : RUEDA_OK;
    if (status == RUEDA_OK)
        status = open_bell(n, generation);
    if (status == RUEDA_OK)
        status = adopt_links(n);
    if (status != RUEDA_OK)
        return network_close(n), status;
    *opened = n;
    return RUEDA_OK;
}

void network_leave(network *n)
{
    tree_tell_left(n);
}

static bool is_stream_flushed(const network_stream *s, bool whole)
{
    if (streams_is_connecting(s))
        return !s->again;
    return !s->open || s->broken || (!whole && s->role == BOOT_DATA) || net_link_flushed(s->link);
}

static bool is_flushed(network *n, bool whole)
{
    bool flushed = true;
    for (uint32_t i = 0; i < n->link_count; i++) {
        tree_link *l = &n->links[i];
        tree_write(n, l);
        tree_read(n, l); /* what we do not read would turn closing into a reset */
        flushed = flushed && (l->stream == NULL || !l->stream->open || l->out.start == l->out.end);
    }
    for (network_stream *s = n->streams; s != NULL; s = s->next)
        flushed = flushed && is_stream_flushed(s, whole);
    return flushed;
}

void network_flush(network *n, bool whole, uint64_t limit_ns)
{
    const uint64_t deadline = os_now_ns() + limit_ns;
    while (!is_flushed(n, whole) && os_now_ns() < deadline) {
        if (n->connecting > 0)
            streams_progress(n, os_now_ns());
        nanosleep(&(struct timespec){0, FLUSH_POLL_NS}, NULL);
    }
}

void network_close(network *n)
{
    if (n == NULL)
        return;
    while (n->streams != NULL)
        network_stream_close(n->streams);
    for (uint32_t i = 0; i < n->link_count; i++) {
        free(n->links[i].in.bytes);
        free(n->links[i].out.bytes);
    }
    free(n->links);
    for (uint32_t s = 0; s < RUEDA_MAX_SETS; s++)
        network_set_close(n, s);
    boot_meeting_close(&n->meeting);
    if (n->bell >= 0)
        close(n->bell);
    if (n->epoll >= 0)
        close(n->epoll);
    free(n->left);
    free(n);
}

void network_forget(network *n)
{
    for (network_stream *s = n->streams; s != NULL; s = s->next) {
        if (s->link != NULL)
            net_link_forget(s->link);
    }
    net_door_forget(n->meeting.door);
    close(n->bell);
    close(n->epoll);
}

/* ---- Moving on ------------------------------------------------------------------------------- */

void network_lose(network *n, uint32_t rank, const char *why)
{
    if (n->lost >= 0 || n->told_abort || n->left[rank])
        return;
    n->lost = (int)rank;
    n->lost_why = why;
}

int network_take_lost(network *n, const char **why)
{
    const int lost = n->told_abort ? -1 : n->lost;
    *why = n->lost_why;
    n->lost = -1;
    return lost;
}

static bool answer_door(network *n, uint64_t now_ns)
{
    bool moved = false;
    for (int i = 0; i < ADMITTED_AT_ONCE; i++) {
        net_link *link = net_door_progress(n->meeting.door, now_ns);
        if (link == NULL)
            break;
        const uint32_t role = net_link_purpose(link)->role;
        if (streams_adopt(n, link))
            moved = true;
        else if (role == BOOT_TREE || role == BOOT_DATA)
            net_link_close(link); /* too early, or too late */
        else
            net_door_refuse(n->meeting.door, link);
    }
    return moved;
}

static void still_bell(const network *n)
{
    char bytes[16];
    for (int i = 0; i < RINGS_AT_ONCE && recv(n->bell, bytes, sizeof bytes, 0) >= 0; i++)
        ;
}

static bool handle(network *n, const struct epoll_event *events, int count, uint64_t now_ns)
{
    bool moved = false;
    for (int i = 0; i < count; i++) {
        const uint64_t about = events[i].data.u64;
        if (about == EVENT_DOOR)
            moved |= answer_door(n, now_ns);
        else if (about == EVENT_BELL)
            still_bell(n);
        else if (about >= EVENT_TREE)
            moved |= tree_read(n, &n->links[about - EVENT_TREE]);
    }
    return moved;
}

void network_suspect(network *n, uint32_t rank, uint64_t wait_ns)
{
    n->suspect = (int)rank;
    n->suspect_until_ns = os_now_ns() + wait_ns;
}

static void settle_suspicion(network *n, uint64_t now_ns)
{
    if (n->suspect < 0 || now_ns < n->suspect_until_ns)
        return;
    network_lose(n, (uint32_t)n->suspect, "it died or was cut off");
    n->suspect = -1;
}

/* A sealed record that the socket did not take whole is the link's to send on. */
static void push_sealed(network *n)
{
    for (network_stream *s = n->streams; s != NULL; s = s->next) {
        if (s->open && !s->broken)
            net_link_flushed(s->link);
    }
}

static bool pump(network *n, const struct epoll_event *events, int count, uint64_t now_ns)
{
    bool moved = count > 0 && handle(n, events, count, now_ns);
    if (n->connecting > 0)
        moved |= streams_progress(n, now_ns);
    for (uint32_t i = 0; i < n->link_count; i++) {
        if (n->links[i].out.start < n->links[i].out.end)
            moved |= tree_write(n, &n->links[i]);
    }
    if (now_ns >= net_door_deadline(n->meeting.door))
        moved |= answer_door(n, now_ns);
    if (n->settings->encrypt)
        push_sealed(n);
    tree_beat(n, now_ns);
    if (n->settings->timeline_all && clock_asks(n, now_ns))
        tree_ask_time(n, now_ns);
    settle_suspicion(n, now_ns);
    return moved;
}

bool network_pump(network *n, uint64_t now_ns)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    const int count = epoll_wait(n->epoll, events, EVENTS_AT_ONCE, 0);
    return pump(n, events, count, now_ns);
}

void network_sleep(network *n, uint64_t timeout_ns)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    if (n->connecting > 0 && timeout_ns > CALLING_NS)
        timeout_ns = CALLING_NS;
    const struct timespec limit = {(time_t)(timeout_ns / 1000000000u),
                                   (long)(timeout_ns % 1000000000u)};
    int count = epoll_pwait2(n->epoll, events, EVENTS_AT_ONCE, &limit, NULL);
    if (count < 0 && errno != EINTR)
        count = epoll_wait(n->epoll, events, EVENTS_AT_ONCE, (int)(timeout_ns / 1000000u) + 1);
    pump(n, events, count, os_now_ns());
}

void network_ring(const network *n, uint32_t rank)
{
    struct sockaddr_un address;
    const socklen_t length = bell_address(n, rank, &address);
    /* a full queue is a bell that rings already */
    sendto(n->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, length);
}

bool network_is_local(const network *n, uint32_t rank)
{
    return network_host(n, rank) == network_host(n, n->rank);
}

uint32_t network_host(const network *n, uint32_t rank)
{
    return boot_shares_memory(n->settings) ? n->meeting.places[rank].host : rank;
}

bool network_left(const network *n, uint32_t rank)
{
    return n->left[rank];
}
