/* mesh.c: the poll over all sockets of a rank, its bell and its door. */
#include "mesh/mesh_parts.h"
#include "world/sockets.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_AT_ONCE 64
#define ADMITTED_AT_ONCE 16           /* at the door, before something else gets its turn */
#define CALLING_NS UINT64_C(10000000) /* the longest sleep while connections are being made */
/* A stream that broke and that we do not read is looked at so much later. What was sent on it may be lost, and who
 * waits for it need not see that it broke. By then we know of a rank that has left, or has ended the set. */
#define UNUSED_NS UINT64_C(1000000000)

/* What an event of the poll is about; from EVENT_NUMBER on, a stream whose number is the rest. */
enum mesh_event { EVENT_DOOR = 1, EVENT_BELL, EVENT_STREAM, EVENT_NUMBER };

/* ---- Opening and closing --------------------------------------------------------------------- */

static void watch(mesh *m, int fd, uint32_t events, uint64_t about)
{
    struct epoll_event event = {.events = events, .data.u64 = about};
    if (world_epoll_ctl(m->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        mesh_fail(m, status_fail_errno(RUEDA_ERR_SYSTEM, "a connection cannot be waited for"));
}

/* A number, not an address: the stream may be closed before its event is looked at. */
static uint64_t about(const mesh_stream *s)
{
    const uint32_t number = s->purpose.number;
    return number == MESH_NO_NUMBER ? EVENT_STREAM : EVENT_NUMBER + (uint64_t)number;
}

void mesh_watch(mesh *m, const mesh_stream *s)
{
    watch(m, net_link_fd(s->link), EPOLLIN | EPOLLOUT | EPOLLET, about(s));
}

void mesh_watch_again(mesh *m, const mesh_stream *s)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u64 = about(s)};
    world_epoll_ctl(m->epoll, EPOLL_CTL_MOD, net_link_fd(s->link), &event);
}

static rueda_status open_poll(mesh *m)
{
    m->epoll = world_epoll_create();
    if (m->epoll < 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "rank %u: cannot wait for its connections",
                                 m->rank);
    watch(m, m->meeting.bells[m->rank], EPOLLIN, EVENT_BELL);
    watch(m, net_door_fd(m->meeting.door), EPOLLIN, EVENT_DOOR);
    return RUEDA_OK;
}

rueda_status mesh_open(boot_meeting *meeting, const boot_identity *who, uint64_t limit_ns,
                       const logger *log, mesh **opened)
{
    mesh *m = os_secret_alloc(sizeof *m); /* the meeting has the job's key */
    if (m == NULL) {
        boot_meeting_close(meeting);
        return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", who->rank);
    }
    m->meeting = *meeting;
    explicit_bzero(meeting, sizeof *meeting);
    m->log = *log;
    m->rank = (uint32_t)who->rank;
    m->shares_memory = who->shares_memory;
    m->limit_ns = limit_ns;
    m->epoll = m->trouble.lost = m->trouble.suspect = -1;
    m->trouble.left = calloc((size_t)who->size, sizeof *m->trouble.left);
    const rueda_status status = m->trouble.left == NULL
                                    ? status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init")
                                    : open_poll(m);
    if (status != RUEDA_OK)
        return mesh_close(m), status;
    *opened = m;
    return RUEDA_OK;
}

void mesh_set_owner(mesh *m, mesh_owner owner)
{
    m->owner = owner;
}

void mesh_set_late(mesh *m, mesh_late late)
{
    m->late = late;
}

net_link *mesh_take_link(mesh *m, uint32_t *rank)
{
    if (m->meeting.link_count == 0)
        return NULL;
    net_link *link = m->meeting.links[--m->meeting.link_count];
    const net_purpose *p = net_link_purpose(link);
    *rank = p->from == m->rank ? p->to : p->from;
    return link;
}

void mesh_close(mesh *m)
{
    if (m == NULL)
        return;
    while (m->streams != NULL)
        mesh_stream_close(m->streams);
    boot_meeting_close(&m->meeting);
    if (m->epoll >= 0)
        world_close(m->epoll);
    trouble_close(m);
    os_secret_free(m, sizeof *m);
}

void mesh_forget(mesh *m)
{
    for (mesh_stream *s = m->streams; s != NULL; s = s->next) {
        if (s->link != NULL)
            net_link_forget(s->link);
    }
    if (m->trouble.probe != NULL)
        net_link_forget(m->trouble.probe);
    net_door_forget(m->meeting.door);
    boot_bells_close(&m->meeting);
    world_close(m->epoll);
}

/* ---- Moving on ------------------------------------------------------------------------------- */

/* Of two ranks the higher one calls; a lower one only looks whether we are there. */
static bool adopt_late(mesh *m, net_link *link)
{
    const net_purpose *p = net_link_purpose(link);
    return m->late.open != NULL && p->role == BOOT_DATA && p->from > m->rank &&
           m->late.open(m->late.context, p->set, p->channel, p->epoch) && streams_adopt(m, link);
}

static bool answer_door(mesh *m, uint64_t now_ns)
{
    bool moved = false;
    for (int i = 0; i < ADMITTED_AT_ONCE; i++) {
        net_link *link = net_door_progress(m->meeting.door, now_ns);
        if (link == NULL)
            break;
        const uint32_t role = net_link_purpose(link)->role;
        if (streams_adopt(m, link) || adopt_late(m, link) || m->owner.adopt(m->owner.context, link))
            moved = true;
        else if (role == BOOT_TREE || role == BOOT_DATA)
            net_link_close(link); /* too early, or too late */
        else
            net_door_refuse(m->meeting.door, link);
    }
    return moved;
}

static void still_bell(const mesh *m)
{
    world_bell_still(m->meeting.bells[m->rank]);
}

static bool handle(mesh *m, const struct epoll_event *events, int count, uint64_t now_ns)
{
    bool moved = false;
    for (int i = 0; i < count; i++) {
        const uint64_t what = events[i].data.u64;
        if (what == EVENT_DOOR)
            moved |= answer_door(m, now_ns);
        else if (what == EVENT_BELL)
            still_bell(m);
        else if (what == EVENT_STREAM && (events[i].events & (EPOLLERR | EPOLLHUP)) != 0)
            m->look_ns = now_ns + UNUSED_NS;
        else if (what >= EVENT_NUMBER)
            moved |= m->owner.arrived(m->owner.context, (uint32_t)(what - EVENT_NUMBER));
    }
    return moved;
}

/* An envelope that the socket did not take whole is the link's to send on; an event tells that there is room
 * again. */
static void push_records(mesh *m)
{
    for (mesh_stream *s = m->streams; s != NULL; s = s->next) {
        if (s->open && !s->broken && net_link_wants_write(s->link))
            net_link_flushed(s->link);
    }
}

static bool pump(mesh *m, const struct epoll_event *events, int count, uint64_t now_ns)
{
    bool moved = count > 0 && handle(m, events, count, now_ns);
    if (m->connecting > 0)
        moved |= streams_progress(m, now_ns);
    if (now_ns >= net_door_deadline(m->meeting.door))
        moved |= answer_door(m, now_ns);
    if (count > 0)
        push_records(m);
    if (m->look_ns != 0 && now_ns >= m->look_ns) {
        m->look_ns = 0;
        streams_find_broken(m);
    }
    trouble_settle(m, now_ns);
    return moved;
}

bool mesh_pump(mesh *m, uint64_t now_ns)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    const int count = world_epoll_wait(m->epoll, events, EVENTS_AT_ONCE, 0);
    return pump(m, events, count, now_ns);
}

uint64_t mesh_sleep(mesh *m, uint64_t timeout_ns)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    if (m->connecting > 0 && timeout_ns > CALLING_NS)
        timeout_ns = CALLING_NS;
    const int count = world_epoll_wait(m->epoll, events, EVENTS_AT_ONCE, timeout_ns);
    const uint64_t now = world_now_ns();
    pump(m, events, count, now);
    return now;
}

void mesh_ring(const mesh *m, uint32_t rank)
{
    world_bell_ring(m->meeting.bells[rank]);
}

bool mesh_is_local(const mesh *m, uint32_t rank)
{
    return mesh_host(m, rank) == mesh_host(m, m->rank);
}

uint32_t mesh_host(const mesh *m, uint32_t rank)
{
    return m->shares_memory ? m->meeting.places[rank].host : rank;
}
