/* process.c: the lives of simulated processes, and of their fibers. */
#include "world/sim/sim_parts.h"

#include <errno.h>

#define STREAM_PROCESSES 1000 /* the stream of process 0 */
#define START_MOST_NS 50000   /* until a new fiber runs */

/* ---- Fibers --------------------------------------------------------------------------------------- */

static void fiber_main(void *argument)
{
    sim_fiber *f = argument;
    fiber_begin(&sim_world->scheduler);
    errno = 0;
    f->run(f->argument);
    sim *s = sim_world;
    if (f->locks != 0)
        sim_fail("a fiber ends while it holds %u locks", f->locks);
    if (f->joiner != NULL)
        sim_wake(f->joiner);
    if (f->number == 0 && f->process->life <= SIM_STOPPED)
        sim_process_finish(s, f->process, SIM_ENDED);
    sim_leave();
}

sim_fiber *sim_fiber_make(sim_process *p, void *(*run)(void *), void *argument)
{
    sim *s = sim_world;
    sim_fiber *f = sim_allocate(sizeof *f);
    if (!fiber_open(&f->context, fiber_main, f)) {
        sim_release(f);
        return NULL;
    }
    f->process = p;
    f->number = p->fiber_count++;
    f->id = ++s->fiber_count;
    f->run = run;
    f->argument = argument;
    sim_fiber **end = &p->fibers;
    while (*end != NULL)
        end = &(*end)->next;
    *end = f;
    sim_push(s, s->now_ns + sim_below(&s->schedule, START_MOST_NS), NULL, f, f->generation);
    return f;
}

/* ---- Processes ------------------------------------------------------------------------------------ */

typedef struct first_call {
    void (*run)(void *);
    void *argument;
} first_call;

static void *run_first(void *argument)
{
    const first_call call = *(first_call *)argument;
    sim_release(argument);
    call.run(call.argument);
    return NULL;
}

static sim_process *find(const sim *s, int process)
{
    SIM_ASSERT(process >= 0 && process < s->process_count);
    return s->processes[process];
}

int sim_process_start(sim *s, int host, void (*run)(void *), void *argument)
{
    SIM_ASSERT(host >= 0 && host < SIM_HOSTS_MAX);
    size_t room = (size_t)s->process_room;
    s->processes = sim_grow(s->processes, (size_t)s->process_count, &room, sizeof *s->processes);
    s->process_room = (int)room;
    sim_process *p = sim_allocate(sizeof *p);
    p->number = s->process_count++;
    s->processes[p->number] = p;
    p->host = host;
    p->place = s->hosts[host].processes++;
    p->slowness = 100;
    p->random = sim_stream_open(s->seed, STREAM_PROCESSES + (uint64_t)p->number);
    first_call *call = sim_allocate(sizeof *call);
    *call = (first_call){run, argument};
    if (sim_fiber_make(p, run_first, call) == NULL)
        __builtin_trap(); /* the machine has no memory */
    return p->number;
}

static sim_leaks count_held(const sim_process *p)
{
    sim_leaks l = {.blocks = p->block_count,
                   .block_bytes = p->block_bytes,
                   .mappings = p->mapping_count,
                   .descriptors = p->descriptors};
    for (size_t i = 0; i < p->mapping_count; i++)
        l.mapping_bytes += p->mappings[i].end - p->mappings[i].start;
    for (const sim_fiber *f = p->fibers; f != NULL; f = f->next)
        l.threads += f->number != 0 && !f->joined;
    return l;
}

void sim_process_finish(sim *s, sim_process *p, sim_life life)
{
    p->at_end = count_held(p);
    p->life = life;
    for (sim_fiber *f = p->fibers; f != NULL; f = f->next) {
        f->generation++;
        sim_unwatch_all(f);
        if (f->wait.kind == WAIT_WORD)
            sim_sleeper_remove(s, f);
        if (f == s->running || f->ended)
            continue;
        f->ended = true;
        fiber_close(&f->context);
    }
    sim_descriptors_close_all(s, p);
    for (sim_object *o = p->observers; o != NULL; o = o->next_observer)
        sim_object_changed(o, UINT32_MAX);
}

void sim_kill(sim *s, int process)
{
    sim_process *p = find(s, process);
    if (p->life <= SIM_STOPPED)
        sim_process_finish(s, p, SIM_KILLED);
}

void sim_stop(sim *s, int process)
{
    sim_process *p = find(s, process);
    if (p->life == SIM_RUNS)
        p->life = SIM_STOPPED;
}

void sim_continue(sim *s, int process)
{
    sim_process *p = find(s, process);
    if (p->life != SIM_STOPPED)
        return;
    p->life = SIM_RUNS;
    for (sim_fiber *f = p->fibers; f != NULL; f = f->next) {
        if (f->held)
            sim_push(s, s->now_ns + sim_below(&s->schedule, START_MOST_NS), NULL, f, f->generation);
        f->held = false;
    }
}

sim_life sim_process_life(const sim *s, int process)
{
    return find(s, process)->life;
}

int sim_process_now(void)
{
    const sim_fiber *f = sim_running();
    return f == NULL ? -1 : f->process->number;
}

void sim_set_slowness(sim *s, int process, uint32_t percent)
{
    find(s, process)->slowness = percent;
}

void sim_jump_clock(sim *s, int host, uint64_t ns)
{
    s->hosts[host].clock_offset_ns += ns;
}

/* ---- Refusals ------------------------------------------------------------------------------------- */

void sim_fail_nth(sim *s, int process, uint64_t n, bool onwards)
{
    sim_process *p = find(s, process);
    p->fail_at = n == 0 ? 0 : p->asked + n;
    p->fail_onwards = onwards;
}

uint64_t sim_asked(const sim *s, int process)
{
    return find(s, process)->asked;
}

sim_refusals sim_refusals_of(const sim *s, int process)
{
    return find(s, process)->refusals;
}

static bool is_refused(const sim_process *p)
{
    return p->fail_at != 0 &&
           (p->asked == p->fail_at || (p->fail_onwards && p->asked > p->fail_at));
}

bool sim_refuses(const char *call)
{
    sim_fiber *f = sim_running();
    if (f == NULL)
        return false;
    sim_process *p = f->process;
    p->asked++;
    if (!is_refused(p))
        return false;
    if (p->refusals.count++ == 0) {
        p->refusals.first_ns = sim_world->now_ns;
        p->refusals.first_call = call;
    }
    return true;
}

/* ---- What became of it ----------------------------------------------------------------------------- */

sim_leaks sim_leaks_of(const sim *s, int process)
{
    const sim_process *p = find(s, process);
    return p->life <= SIM_STOPPED ? count_held(p) : p->at_end;
}
