/* door.c: who may come in. Guests wait in fixed places until they have proved themselves. Strangers give
 * way to newcomers at once; who has shown a credible hello only after a while, so neither a crowd of
 * strangers nor a rush of callers pushes callers out. */
#include "net/door.h"
#include "net/address.h"
#include "world/sockets.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>

#define ACCEPT_BATCH 16                     /* connections accepted by one call */
#define ACCEPT_PAUSE_NS UINT64_C(100000000) /* without accepting, when descriptors ran out */
#define GRACE_NS UINT64_C(1000000000)       /* a credible guest stays so long, however many come */
#define LISTENER NET_GUESTS                 /* its number in the epoll; others are places */

static_assert(sizeof(door_refusals) == DOOR_KINDS * sizeof(uint64_t), "one counter for each kind");

rueda_status net_door_open(const net_identity *me, int listener, const logger *log, net_door **door)
{
    if (sodium_init() < 0)
        return status_fail(RUEDA_ERR_SYSTEM, "libsodium cannot be used");
    net_door *made = os_secret_alloc(sizeof *made);
    if (made == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for accepting connections");
    made->me = *me;
    made->log = *log;
    made->listener = listener;
    made->resume_ns = UINT64_MAX;
    made->epoll = world_epoll_create();
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = LISTENER};
    if (made->epoll < 0 || world_epoll_ctl(made->epoll, EPOLL_CTL_ADD, listener, &event) != 0) {
        status_fail_errno(RUEDA_ERR_SYSTEM, "cannot wait for connections");
        if (made->epoll >= 0)
            world_close(made->epoll);
        os_secret_free(made, sizeof *made);
        return RUEDA_ERR_SYSTEM;
    }
    *door = made;
    return RUEDA_OK;
}

void net_door_set_identity(net_door *door, const net_identity *me)
{
    door->me = *me;
    heard_clear(&door->heard); /* what was said to the old one proves nothing to this */
}

/* ---- Interruptions --------------------------------------------------------------------------- */

/* A listener that cannot be served would stay readable and keep everybody busy. */
static void pause_accepting(net_door *door, uint64_t resume_ns)
{
    world_epoll_ctl(door->epoll, EPOLL_CTL_DEL, door->listener, NULL);
    door->resume_ns = resume_ns;
}

static void resume_accepting(net_door *door)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = LISTENER};
    if (world_epoll_ctl(door->epoll, EPOLL_CTL_ADD, door->listener, &event) != 0)
        return; /* and try again */
    door->resume_ns = UINT64_MAX;
    door->full = false;
}

/* ---- Refusing -------------------------------------------------------------------------------- */

static void count_refusal(net_door *door, proof_verdict kind, const net_address *peer,
                          const char *why)
{
    char from[NET_TEXT];
    ((uint64_t *)&door->refusals)[kind]++;
    if (door->told[kind])
        return;
    door->told[kind] = true;
    log_line(&door->log, LOG_WARN,
             "refused a connection from %s: %s; more of this kind are only counted",
             net_format(peer, from), why);
}

/* The explicit removal matters: a forked child may hold a copy of the descriptor, and then closing
 * ours would not take it out of the epoll. */
static net_link *take_out(net_door *door, guest *g)
{
    net_link *link = g->link;
    world_epoll_ctl(door->epoll, EPOLL_CTL_DEL, link->fd, NULL);
    g->link = NULL;
    door->guest_count--;
    if (door->full)
        resume_accepting(door);
    return link;
}

static void dismiss(net_door *door, guest *g, proof_verdict kind, const char *why)
{
    net_link *link = take_out(door, g);
    count_refusal(door, kind, &link->peer, why);
    net_link_close(link);
}

/* ---- Guests ---------------------------------------------------------------------------------- */

/* Moves one proof on; returns the link when it is complete. */
static net_link *attend(net_door *door, guest *g, uint64_t now_ns)
{
    const net_state state = net_link_progress(g->link, now_ns);
    if (state == NET_OPEN)
        return take_out(door, g);
    if (state == NET_REFUSED) {
        door->ran_short |= g->link->verdict == PROOF_CROWDED;
        dismiss(door, g, g->link->verdict, g->link->why);
        return NULL;
    }
    const bool writes = net_link_wants_write(g->link);
    struct epoll_event event = {.events = writes ? EPOLLOUT : EPOLLIN,
                                .data.u32 = (uint32_t)(g - door->guests)};
    if (writes != g->writes)
        world_epoll_ctl(door->epoll, EPOLL_CTL_MOD, g->link->fd, &event);
    g->writes = writes;
    return NULL;
}

/* Whether `a` gives way to a newcomer before `b`. */
static bool goes_first(const guest *a, const guest *b)
{
    const bool a_credible = link_is_credible(a->link), b_credible = link_is_credible(b->link);
    return a_credible != b_credible ? b_credible : a->arrival < b->arrival;
}

/* A free place, or that of the guest who gives way first. */
static guest *find_place(net_door *door)
{
    guest *first = NULL;
    for (guest *g = door->guests; g < door->guests + NET_GUESTS; g++) {
        if (g->link == NULL)
            return g;
        if (first == NULL || goes_first(g, first))
            first = g;
    }
    return first;
}

/* From when on the place can be given to somebody else. */
static uint64_t free_from(const guest *g)
{
    if (g->link == NULL || !link_is_credible(g->link))
        return 0;
    return g->link->deadline_ns - NET_GUEST_LIMIT_NS + GRACE_NS;
}

/* Takes the descriptor over. The hello may already be there and a fast caller's finish follow at once, so
 * this too may return a link. */
static net_link *take_in(net_door *door, guest *g, int fd, const net_address *peer, uint64_t now_ns)
{
    if (g->link != NULL)
        dismiss(door, g, PROOF_CROWDED, "too many others came before it had proved itself");
    /* without a key everybody could fill what was heard */
    heard *all = sodium_is_zero(door->me.key, sizeof door->me.key) ? NULL : &door->heard;
    g->link = link_host(&door->me, all, fd, peer, now_ns + NET_GUEST_LIMIT_NS);
    if (g->link == NULL) {
        door->trouble = ENOMEM;
        count_refusal(door, PROOF_CROWDED, peer, "out of memory");
        world_close(fd);
        return NULL;
    }
    door->guest_count++;
    g->arrival = door->arrivals++;
    g->writes = false;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)(g - door->guests)};
    if (world_epoll_ctl(door->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return attend(door, g, now_ns);
    door->trouble = errno;
    dismiss(door, g, PROOF_CROWDED, "it cannot be waited for");
    return NULL;
}

/* ---- Accepting ------------------------------------------------------------------------------- */

/* Errors of one connection; all others are ours. */
static bool is_passing(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == EPERM ||
           error == ENETDOWN || error == ENETUNREACH || error == EHOSTDOWN ||
           error == EHOSTUNREACH || error == ENONET || error == ENOPROTOOPT || error == EOPNOTSUPP;
}

static void tell_trouble(net_door *door)
{
    door->trouble = errno;
    if (!door->pause_told)
        log_line(&door->log, LOG_WARN, "cannot accept connections for now: %s", strerror(errno));
    door->pause_told = true;
}

/* Returns the descriptor, or -1 with errno. */
static int accept_one(const net_door *door, net_address *peer)
{
    struct sockaddr_storage system;
    socklen_t bytes = sizeof system;
    const int fd = world_accept(door->listener, (struct sockaddr *)&system, &bytes, false);
    *peer = (net_address){.family = 0};
    if (fd >= 0)
        address_from_socket((struct sockaddr *)&system, peer);
    return fd;
}

/* Returns a link that is complete, if it comes to that. */
static net_link *accept_some(net_door *door, uint64_t now_ns)
{
    net_link *link = NULL;
    for (int i = 0; i < ACCEPT_BATCH && link == NULL; i++) {
        guest *place = find_place(door);
        net_address peer;
        if (free_from(place) > now_ns) {
            door->full = true;
            pause_accepting(door, free_from(place));
            return NULL;
        }
        const int fd = accept_one(door, &peer);
        if (fd >= 0) {
            door->trouble = 0;
            link = take_in(door, place, fd, &peer, now_ns);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return NULL;
        } else if (!is_passing(errno)) {
            tell_trouble(door);
            pause_accepting(door, now_ns + ACCEPT_PAUSE_NS);
            return NULL;
        }
    }
    return link;
}

/* ---- The door -------------------------------------------------------------------------------- */

static net_link *expire_guests(net_door *door, uint64_t now_ns)
{
    for (guest *g = door->guests; g < door->guests + NET_GUESTS; g++) {
        if (g->link == NULL || g->link->deadline_ns > now_ns)
            continue;
        net_link *link = attend(door, g, now_ns);
        if (link != NULL)
            return link;
    }
    return NULL;
}

net_link *net_door_progress(net_door *door, uint64_t now_ns)
{
    struct epoll_event events[NET_GUESTS + 1];
    if (now_ns >= door->resume_ns)
        resume_accepting(door);
    net_link *link = expire_guests(door, now_ns);
    if (link != NULL)
        return link;
    const int count = world_epoll_wait(door->epoll, events, NET_GUESTS + 1, 0);
    bool knocks = false;
    for (int i = 0; i < count; i++) {
        const uint32_t place = events[i].data.u32;
        knocks = knocks || place == LISTENER;
        if (place == LISTENER || door->guests[place].link == NULL)
            continue;
        link = attend(door, &door->guests[place], now_ns);
        if (link != NULL)
            return link; /* the other events come again */
    }
    /* guests first: those who have just spoken must not give way to newcomers */
    return knocks ? accept_some(door, now_ns) : NULL;
}

int net_door_fd(const net_door *door)
{
    return door->epoll;
}

uint64_t net_door_deadline(const net_door *door)
{
    uint64_t deadline = door->resume_ns;
    for (const guest *g = door->guests; door->guest_count > 0 && g < door->guests + NET_GUESTS;
         g++) {
        if (g->link != NULL && g->link->deadline_ns < deadline)
            deadline = g->link->deadline_ns;
    }
    return deadline;
}

void net_door_refuse(net_door *door, net_link *link)
{
    count_refusal(door, PROOF_WRONG_PURPOSE, &link->peer, "nothing here waits for its purpose");
    net_link_close(link);
}

int net_door_trouble(const net_door *door)
{
    return door->trouble;
}

bool net_door_ran_short(const net_door *door)
{
    return door->ran_short;
}

void net_door_close(net_door *door)
{
    if (door == NULL)
        return;
    for (guest *g = door->guests; g < door->guests + NET_GUESTS; g++) {
        if (g->link != NULL)
            net_link_close(take_out(door, g));
    }
    world_close(door->listener);
    world_close(door->epoll);
    heard_clear(&door->heard);
    os_secret_free(door, sizeof *door);
}

void net_door_forget(net_door *door)
{
    for (guest *g = door->guests; g < door->guests + NET_GUESTS; g++) {
        if (g->link != NULL)
            net_link_forget(g->link);
    }
    world_close(door->listener);
    world_close(door->epoll);
    door->listener = door->epoll = -1;
}
