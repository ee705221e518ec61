/* poll.c: bells, poll and epoll. An epoll has a list of entries that may be ready, and looks at them only when it is
 * asked, as the kernel does: from this follow both kinds of events, and an epoll inside of another. */
#include "world/sim/sim_parts.h"

#include "world/sockets.h"

#include <errno.h>

typedef struct sim_poll sim_poll;

typedef struct sim_poll_item {
    sim_watcher watcher; /* its target NULL: nobody has the descriptor any more */
    sim_poll *owner;
    struct sim_poll_item *next;                        /* all of the epoll */
    struct sim_poll_item *ready_next, *ready_previous; /* those that may be ready */
    bool is_listed;
    int fd;
    struct epoll_event event;
} sim_poll_item;

struct sim_poll {
    sim_object object;
    sim_poll_item *items;
    sim_poll_item *ready, *last_ready;
};

#define ALWAYS (EPOLLERR | EPOLLHUP)

/* ---- The list of those that may be ready ---------------------------------------------------------------- */

static void list_item(sim_poll *p, sim_poll_item *i)
{
    if (i->is_listed)
        return;
    i->is_listed = true;
    i->ready_next = NULL;
    i->ready_previous = p->last_ready;
    if (p->last_ready != NULL)
        p->last_ready->ready_next = i;
    else
        p->ready = i;
    p->last_ready = i;
}

static void unlist_item(sim_poll *p, sim_poll_item *i)
{
    if (!i->is_listed)
        return;
    i->is_listed = false;
    if (i->ready_previous != NULL)
        i->ready_previous->ready_next = i->ready_next;
    else
        p->ready = i->ready_next;
    if (i->ready_next != NULL)
        i->ready_next->ready_previous = i->ready_previous;
    else
        p->last_ready = i->ready_previous;
}

static uint32_t item_ready(const sim_poll_item *i)
{
    sim_object *o = i->watcher.target;
    return o == NULL ? 0 : sim_object_ready(o) & (i->event.events | ALWAYS);
}

uint32_t sim_poll_ready(sim_object *o)
{
    sim_poll *p = (sim_poll *)o;
    for (sim_poll_item *i = p->ready, *next; i != NULL; i = next) {
        next = i->ready_next;
        if (item_ready(i) != 0)
            return POLLIN;
        unlist_item(p, i);
    }
    return 0;
}

void sim_object_changed(sim_object *o, uint32_t events)
{
    for (sim_watcher *w = o->watchers, *next; w != NULL; w = next) {
        next = w->next;
        if ((events & (w->mask | ALWAYS)) == 0)
            continue;
        if (w->fiber != NULL) {
            sim_wake(w->fiber);
        } else {
            list_item(w->item->owner, w->item);
            sim_object_changed(&w->item->owner->object, POLLIN);
        }
    }
}

/* ---- Bells ------------------------------------------------------------------------------------------------- */

int world_bell_make(void)
{
    sim_spend();
    sim_object *o = sim_allocate(sizeof *o);
    sim_object_begin(o, KIND_BELL);
    return sim_descriptor_give(o);
}

/* NULL: no bell. */
static sim_object *find_bell(int fd)
{
    sim_spend();
    sim_object *o = sim_descriptor_object(fd);
    return o != NULL && o->kind == KIND_BELL ? o : NULL;
}

void world_bell_ring(int bell)
{
    sim_object *o = find_bell(bell);
    if (o == NULL)
        return;
    o->rung = true;
    sim_object_changed(o, POLLIN);
}

void world_bell_still(int bell)
{
    sim_object *o = find_bell(bell);
    if (o != NULL)
        o->rung = false;
}

/* ---- poll --------------------------------------------------------------------------------------------------- */

static int look(struct pollfd *fds, int count)
{
    int ready = 0;
    for (int i = 0; i < count; i++) {
        fds[i].revents = 0;
        if (fds[i].fd < 0)
            continue;
        sim_object *o = sim_descriptor_object(fds[i].fd);
        const uint32_t wanted = (uint32_t)(uint16_t)fds[i].events | POLLERR | POLLHUP;
        fds[i].revents = o == NULL ? POLLNVAL : (short)(sim_object_ready(o) & wanted);
        ready += fds[i].revents != 0;
    }
    return ready;
}

static bool wait_for_any(sim_fiber *f, const struct pollfd *fds, int count, uint64_t deadline)
{
    while (f->watching_room < (size_t)count)
        f->watching =
            sim_grow(f->watching, f->watching_room, &f->watching_room, sizeof *f->watching);
    for (int i = 0; i < count; i++) {
        sim_object *o = fds[i].fd < 0 ? NULL : sim_descriptor_object(fds[i].fd);
        if (o == NULL)
            continue;
        sim_watcher *w = &f->watching[f->watching_count++];
        *w = (sim_watcher){.fiber = f};
        sim_watch(w, o, (uint32_t)(uint16_t)fds[i].events);
    }
    const bool woken = sim_wait(WAIT_OBJECTS, deadline, "poll");
    sim_unwatch_all(f);
    return woken;
}

int world_poll(struct pollfd *fds, int count, int timeout_ms)
{
    sim *s = sim_world;
    sim_spend();
    sim_fiber *f = sim_running();
    const uint64_t deadline =
        timeout_ms < 0 ? SIM_NEVER : sim_deadline((uint64_t)timeout_ms * UINT64_C(1000000));
    int ready = look(fds, count);
    while (ready == 0 && timeout_ms != 0 && f != NULL) {
        if (sim_happens(&s->schedule, s->settings.interrupt_chance)) {
            errno = EINTR;
            return -1;
        }
        const bool woken = wait_for_any(f, fds, count, deadline);
        ready = look(fds, count);
        if (!woken)
            break;
    }
    return ready;
}

/* ---- epoll ---------------------------------------------------------------------------------------------------- */

int world_epoll_create(void)
{
    sim_spend();
    sim_poll *p = sim_allocate(sizeof *p);
    sim_object_begin(&p->object, KIND_POLL);
    return sim_descriptor_give(&p->object);
}

/* NULL: errno. */
static sim_poll *find_poll(int fd)
{
    sim_object *o = sim_descriptor_object(fd);
    if (o != NULL && o->kind == KIND_POLL)
        return (sim_poll *)o;
    if (o != NULL)
        errno = EINVAL;
    return NULL;
}

static sim_poll_item **find_item(sim_poll *p, int fd, const sim_object *o)
{
    sim_poll_item **at = &p->items;
    while (*at != NULL && ((*at)->fd != fd || (*at)->watcher.target != o))
        at = &(*at)->next;
    return at;
}

static void remove_item(sim_poll *p, sim_poll_item **at)
{
    sim_poll_item *i = *at;
    unlist_item(p, i);
    sim_unwatch(&i->watcher);
    *at = i->next;
    sim_release(i);
}

static void arm(sim_poll *p, sim_poll_item *i, const struct epoll_event *event)
{
    i->event = *event;
    i->watcher.mask = event->events;
    if (item_ready(i) == 0)
        return;
    list_item(p, i);
    sim_object_changed(&p->object, POLLIN);
}

static int add_item(sim_poll *p, int fd, sim_object *o, const struct epoll_event *event)
{
    if (sim_refuses("epoll_ctl")) {
        errno = ENOMEM;
        return -1;
    }
    sim_poll_item *i = sim_allocate(sizeof *i);
    i->owner = p;
    i->fd = fd;
    i->watcher.item = i;
    i->next = p->items;
    p->items = i;
    sim_watch(&i->watcher, o, event->events);
    arm(p, i, event);
    return 0;
}

int world_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    sim_spend();
    sim_poll *p = find_poll(epoll);
    sim_object *o = p == NULL ? NULL : sim_descriptor_object(fd);
    if (o == NULL)
        return -1;
    if (o == &p->object) {
        errno = EINVAL;
        return -1;
    }
    sim_poll_item **at = find_item(p, fd, o);
    if ((what == EPOLL_CTL_ADD) != (*at == NULL)) {
        errno = *at == NULL ? ENOENT : EEXIST;
        return -1;
    }
    if (what == EPOLL_CTL_ADD)
        return add_item(p, fd, o, event);
    if (what == EPOLL_CTL_DEL)
        remove_item(p, at);
    else
        arm(p, *at, event);
    return 0;
}

/* Each entry of the list at the beginning is looked at once: one that stays ready goes to the end. */
static int collect(sim_poll *p, struct epoll_event *events, int count)
{
    int found = 0;
    sim_poll_item *const last = p->last_ready;
    for (sim_poll_item *i = p->ready, *next; i != NULL && found < count; i = next) {
        next = i == last ? NULL : i->ready_next;
        const uint32_t ready = item_ready(i);
        unlist_item(p, i);
        if (ready == 0)
            continue;
        events[found].events = ready;
        events[found++].data = i->event.data;
        if ((i->event.events & EPOLLONESHOT) != 0)
            i->event.events = i->watcher.mask = 0;
        else if ((i->event.events & EPOLLET) == 0)
            list_item(p, i);
    }
    return found;
}

int world_epoll_wait(int epoll, struct epoll_event *events, int count, uint64_t timeout_ns)
{
    sim_spend();
    sim_poll *p = find_poll(epoll);
    if (p == NULL)
        return -1;
    const uint64_t deadline = sim_deadline(timeout_ns);
    int found = collect(p, events, count);
    while (found == 0 && timeout_ns != 0 && sim_running() != NULL) {
        const sim_waited how = sim_object_wait(&p->object, POLLIN, deadline, "epoll_wait");
        if (how == WAITED_INTERRUPT)
            return -1;
        found = collect(p, events, count);
        if (how == WAITED_TIME)
            break;
    }
    return found;
}

void sim_poll_close(sim_object *o)
{
    sim_poll *p = (sim_poll *)o;
    while (p->items != NULL)
        remove_item(p, &p->items);
}

void sim_poll_free(sim_object *o)
{
    sim_poll_close(o);
}
