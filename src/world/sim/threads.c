/* threads.c: threads, locks, processors and processes of world.h in the simulated world. */
#include "world/world.h"

#include "world/sim/sim_parts.h"

#include <errno.h>
#include <stdio.h>

/* ---- Threads --------------------------------------------------------------------------------------- */

bool world_thread_start(world_thread *t, void *(*run)(void *), void *argument)
{
    sim_spend();
    sim_fiber *f = sim_running();
    SIM_ASSERT(f != NULL);
    t->fiber = sim_refuses() ? NULL : sim_fiber_make(f->process, run, argument);
    return t->fiber != NULL;
}

void world_thread_join(world_thread *t)
{
    sim_fiber *f = sim_running(), *other = t->fiber;
    SIM_ASSERT(f != NULL && other != NULL && other->process == f->process && !other->joined);
    while (!other->ended) {
        other->joiner = f;
        sim_wait(WAIT_JOIN, SIM_NEVER, NULL);
    }
    other->joined = true;
}

void world_prefer_short_turns(void)
{
    sim_spend();
}

void world_lower_priority(void)
{
    sim_spend();
}

/* ---- Locks ------------------------------------------------------------------------------------------ */

/* Who holds it lies in the place of the mutex, which is zero at first: the fiber's number, or OUTSIDE. */
#define OUTSIDE UINT32_MAX

static uint32_t *holder(world_lock *lock)
{
    return (uint32_t *)(void *)&lock->mutex;
}

static uint32_t own_number(void)
{
    const sim_fiber *f = sim_running();
    return f == NULL ? OUTSIDE : f->id;
}

void world_lock_init(world_lock *lock)
{
    *holder(lock) = 0;
}

void world_lock_destroy(world_lock *lock)
{
    if (*holder(lock) != 0)
        sim_fail("a lock is destroyed that fiber %u holds", *holder(lock));
}

/* Since nobody switches with a lock held, a lock that is held is held by ourselves. */
void world_lock_take(world_lock *lock)
{
    sim_spend();
    sim_fiber *f = sim_running();
    if (*holder(lock) != 0)
        sim_fail("a lock is taken that fiber %u holds", *holder(lock));
    *holder(lock) = own_number();
    if (f != NULL)
        f->locks++;
}

void world_lock_release(world_lock *lock)
{
    sim_fiber *f = sim_running();
    if (*holder(lock) != own_number())
        sim_fail("a lock is released that its holder, fiber %u, has not released", *holder(lock));
    *holder(lock) = 0;
    if (f != NULL)
        f->locks--;
    sim_spend();
}

/* ---- Processors --------------------------------------------------------------------------------------- */

static int core_count(void)
{
    const int cores = sim_world == NULL ? 1 : sim_world->settings.cores_per_host;
    return cores < 1 ? 1 : cores > OS_CPU_WORDS * 64 ? OS_CPU_WORDS * 64 : cores;
}

int world_cpu_count(void)
{
    return core_count();
}

void world_cpus_allowed(os_cpus *cpus)
{
    *cpus = (os_cpus){{0}};
    for (int i = 0; i < core_count(); i++)
        cpus->words[i / 64] |= UINT64_C(1) << i % 64;
}

int world_cpu_now(void)
{
    const sim_fiber *f = sim_running();
    return f == NULL ? 0 : f->process->place % core_count();
}

/* ---- Processes ------------------------------------------------------------------------------------------ */

void world_machine_name(char *name, size_t size)
{
    const sim_fiber *f = sim_running();
    snprintf(name, size, "host%d", f == NULL ? 0 : f->process->host);
}

int world_process(void)
{
    return SIM_FIRST_PROCESS + (sim_process_now() < 0 ? -1 : sim_process_now());
}

int world_process_open(int process)
{
    sim *s = sim_world;
    const int number = process - SIM_FIRST_PROCESS;
    sim_spend();
    const sim_fiber *f = sim_running();
    if (f == NULL)
        return WORLD_PROCESS_UNKNOWN;
    if (number < 0 || number >= s->process_count ||
        s->processes[number]->host != f->process->host || s->processes[number]->life > SIM_STOPPED)
        return WORLD_PROCESS_GONE;
    sim_object *o = sim_allocate(sizeof *o);
    sim_object_begin(o, KIND_PROCESS);
    o->process = number;
    o->next_observer = s->processes[number]->observers;
    s->processes[number]->observers = o;
    const int fd = sim_descriptor_give(o);
    return fd < 0 ? WORLD_PROCESS_UNKNOWN : fd;
}

bool world_process_dead(int process_fd)
{
    sim_spend();
    if (process_fd < 0)
        return process_fd == WORLD_PROCESS_GONE;
    const sim_object *o = sim_descriptor_object(process_fd);
    return o != NULL && o->kind == KIND_PROCESS &&
           sim_world->processes[o->process]->life > SIM_STOPPED;
}

void world_process_kill(int process_fd)
{
    sim_spend();
    const sim_object *o = process_fd < 0 ? NULL : sim_descriptor_object(process_fd);
    if (o != NULL && o->kind == KIND_PROCESS)
        sim_kill(sim_world, o->process);
}

uint64_t world_process_space(void)
{
    const sim_fiber *f = sim_running();
    return f == NULL ? 0 : (uint64_t)f->process->host + 1;
}

void world_die(void)
{
    const int process = sim_process_now();
    SIM_ASSERT(process >= 0);
    sim_kill(sim_world, process);
    sim_leave();
}

void world_stop(void)
{
    const int process = sim_process_now();
    SIM_ASSERT(process >= 0);
    sim_stop(sim_world, process);
    sim_spend();
}
