/* object.c: descriptors of simulated processes, what they stand for, and who watches that. A number is never used
 * twice in a world, so that a descriptor used after it was closed is seen. */
#include "world/sim/sim_parts.h"

#include "world/sim/wrapped.h"
#include "world/sockets.h"

#include <errno.h>
#include <fcntl.h>

/* ---- Objects ---------------------------------------------------------------------------------------- */

void sim_object_begin(sim_object *o, sim_kind kind)
{
    sim *s = sim_world;
    o->kind = kind;
    o->next_made = s->objects;
    s->objects = o;
}

uint32_t sim_object_ready(sim_object *o)
{
    switch (o->kind) {
    case KIND_SOCKET:
        return sim_socket_ready((sim_socket *)o);
    case KIND_POLL:
        return sim_poll_ready(o);
    case KIND_BELL:
        return (o->rung ? POLLIN : 0) | POLLOUT;
    case KIND_PROCESS:
        return sim_world->processes[o->process]->life > SIM_STOPPED ? POLLIN : 0;
    }
    return 0;
}

void sim_reference_drop(sim_object *o)
{
    if (--o->references > 0)
        return;
    if (o->kind == KIND_SOCKET)
        sim_socket_close((sim_socket *)o);
    if (o->kind == KIND_POLL)
        sim_poll_close(o);
    /* an epoll does not hear of what nobody has any more */
    while (o->watchers != NULL)
        sim_unwatch(o->watchers);
}

/* ---- Descriptors -------------------------------------------------------------------------------------- */

int sim_descriptor_give(sim_object *o)
{
    sim *s = sim_world;
    sim_fiber *f = sim_running();
    SIM_ASSERT(f != NULL);
    if (sim_refuses("a descriptor")) {
        errno = EMFILE;
        return -1;
    }
    s->slots = sim_grow(s->slots, s->slot_count, &s->slot_room, sizeof *s->slots);
    s->slots[s->slot_count] = (sim_slot){o, f->process->number};
    o->references++;
    f->process->descriptors++;
    return SIM_FIRST_DESCRIPTOR + (int)s->slot_count++;
}

static sim_slot *find_slot(int fd)
{
    sim *s = sim_world;
    const sim_fiber *f = sim_running();
    if (s != NULL && fd >= SIM_FIRST_DESCRIPTOR &&
        (size_t)(fd - SIM_FIRST_DESCRIPTOR) < s->slot_count) {
        sim_slot *slot = &s->slots[fd - SIM_FIRST_DESCRIPTOR];
        if (slot->object != NULL && (f == NULL || slot->owner == f->process->number))
            return slot;
    }
    /* a process that has just been killed may still make a call with what it had */
    if (s != NULL && fd >= SIM_FIRST_DESCRIPTOR && s->settings.strict_descriptors &&
        (f == NULL || f->process->life <= SIM_STOPPED))
        sim_fail("descriptor %d is used, which is closed or another process's",
                 fd - SIM_FIRST_DESCRIPTOR);
    errno = EBADF;
    return NULL;
}

sim_object *sim_descriptor_object(int fd)
{
    const sim_slot *slot = find_slot(fd);
    return slot == NULL ? NULL : slot->object;
}

static void close_slot(sim *s, sim_slot *slot)
{
    sim_object *o = slot->object;
    slot->object = NULL;
    s->processes[slot->owner]->descriptors--;
    sim_reference_drop(o);
}

int world_close(int fd)
{
    sim_spend();
    if (fd < SIM_FIRST_DESCRIPTOR) {
        sim_real_note(fd, -1);
        return __real_close(fd);
    }
    sim_slot *slot = find_slot(fd);
    if (slot == NULL)
        return -1;
    close_slot(sim_world, slot);
    return 0;
}

int __wrap_close(int fd)
{
    return world_close(fd);
}

int __wrap_dup(int fd)
{
    if (fd >= SIM_FIRST_DESCRIPTOR) {
        sim_object *o = sim_descriptor_object(fd);
        return o == NULL ? -1 : sim_descriptor_give(o);
    }
    if (sim_refuses("dup")) {
        errno = EMFILE;
        return -1;
    }
    const int made = __real_dup(fd);
    sim_real_note(made, sim_process_now());
    return made;
}

/* ---- Real descriptors ------------------------------------------------------------------------------------ */

void sim_real_note(int fd, int owner)
{
    sim *s = sim_world;
    if (s == NULL || fd < 0 || (owner < 0 && (size_t)fd >= s->real_count))
        return;
    if ((size_t)fd >= s->real_count) {
        const size_t count = (size_t)fd + 64;
        sim_slot *grown = sim_allocate(count * sizeof *grown);
        for (size_t i = 0; i < count; i++)
            grown[i] = i < s->real_count ? s->real[i] : (sim_slot){NULL, -1};
        sim_release(s->real);
        s->real = grown;
        s->real_count = count;
    }
    if (s->real[fd].owner >= 0)
        s->processes[s->real[fd].owner]->descriptors--;
    s->real[fd].owner = owner;
    if (owner >= 0)
        s->processes[owner]->descriptors++;
}

int sim_real_copy(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

void sim_real_close(int fd)
{
    sim_real_note(fd, -1);
    __real_close(fd);
}

void sim_descriptors_close_all(sim *s, sim_process *p)
{
    for (size_t i = 0; i < s->slot_count && p->descriptors > 0; i++) {
        if (s->slots[i].object != NULL && s->slots[i].owner == p->number)
            close_slot(s, &s->slots[i]);
    }
    for (size_t fd = 0; fd < s->real_count && p->descriptors > 0; fd++) {
        if (s->real[fd].owner == p->number)
            sim_real_close((int)fd);
    }
}

/* ---- Watching ---------------------------------------------------------------------------------------------- */

void sim_watch(sim_watcher *w, sim_object *o, uint32_t mask)
{
    w->target = o;
    w->mask = mask;
    w->next = NULL;
    w->previous = o->last_watcher;
    if (o->last_watcher != NULL)
        o->last_watcher->next = w;
    else
        o->watchers = w;
    o->last_watcher = w;
}

void sim_unwatch(sim_watcher *w)
{
    sim_object *o = w->target;
    if (o == NULL)
        return;
    if (w->previous != NULL)
        w->previous->next = w->next;
    else
        o->watchers = w->next;
    if (w->next != NULL)
        w->next->previous = w->previous;
    else
        o->last_watcher = w->previous;
    w->target = NULL;
}

void sim_unwatch_all(sim_fiber *f)
{
    for (size_t i = 0; i < f->watching_count; i++)
        sim_unwatch(&f->watching[i]);
    f->watching_count = 0;
}

sim_waited sim_object_wait(sim_object *o, uint32_t mask, uint64_t deadline_ns, const char *what)
{
    sim *s = sim_world;
    sim_fiber *f = sim_running();
    SIM_ASSERT(f != NULL);
    if (sim_happens(&s->schedule, s->settings.interrupt_chance)) {
        errno = EINTR;
        return WAITED_INTERRUPT;
    }
    f->watching = sim_grow(f->watching, 0, &f->watching_room, sizeof *f->watching);
    f->watching_count = 1;
    f->watching[0] = (sim_watcher){.fiber = f};
    sim_watch(&f->watching[0], o, mask);
    const bool woken = sim_wait(WAIT_OBJECTS, deadline_ns, what);
    sim_unwatch_all(f);
    return woken ? WAITED_READY : WAITED_TIME;
}
