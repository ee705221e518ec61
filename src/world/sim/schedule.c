/* schedule.c: the events of the world in their order, and who runs. */
#include "world/sim/sim_parts.h"

#include "world/sim/wrapped.h"

#include <errno.h>
#include <string.h>

/* A fiber that only calls the world lets others go first after so much time. */
#define SLICE_LEAST_NS 200
#define SLICE_MOST_NS 4000
#define CLEAN_LEAST 64 /* events before it is worth while to look for those that are stale */

sim *sim_world;

void *sim_allocate(size_t bytes)
{
    void *made = __real_calloc(1, bytes);
    if (made == NULL)
        __builtin_trap(); /* the machine has no memory: no finding of the simulation */
    return made;
}

void sim_release(void *memory)
{
    __real_free(memory);
}

void *sim_grow(void *array, size_t count, size_t *room, size_t each)
{
    if (count < *room)
        return array;
    *room = *room == 0 ? 16 : 2 * *room;
    void *grown = __real_realloc(array, *room * each);
    if (grown == NULL)
        __builtin_trap();
    return grown;
}

/* ---- Events ------------------------------------------------------------------------------------- */

static bool is_before(const sim_event *a, const sim_event *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

/* Of two events of the same time the seed decides. */
static uint64_t draw_order(sim *s)
{
    return sim_next(&s->schedule) >> 32 << 32 | s->event_sequence++;
}

/* A run of a fiber that has since been woken otherwise, or has ended. */
static bool is_stale(const sim_event *e)
{
    const sim_fiber *f = e->target;
    return e->run == NULL && (f->ended || f->generation != e->number);
}

static void heap_place(sim *s, size_t at, sim_event e)
{
    for (; at > 0 && is_before(&e, &s->events[(at - 1) / 2]); at = (at - 1) / 2)
        s->events[at] = s->events[(at - 1) / 2];
    s->events[at] = e;
}

/* Most sleepers are woken before their time: without this their limits would pile up. */
static void heap_clean(sim *s)
{
    const size_t count = s->event_count;
    s->event_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_stale(&s->events[i]))
            heap_place(s, s->event_count++, s->events[i]);
    }
    s->clean_at = 2 * s->event_count + CLEAN_LEAST;
}

static void heap_add(sim *s, sim_event e)
{
    if (s->event_count >= s->clean_at)
        heap_clean(s);
    s->events = sim_grow(s->events, s->event_count, &s->event_room, sizeof e);
    heap_place(s, s->event_count++, e);
}

static sim_event heap_take(sim *s)
{
    const sim_event first = s->events[0], moved = s->events[--s->event_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < s->event_count; at = child) {
        if (child + 1 < s->event_count && is_before(&s->events[child + 1], &s->events[child]))
            child++;
        if (!is_before(&s->events[child], &moved))
            break;
        s->events[at] = s->events[child];
    }
    if (s->event_count > 0)
        s->events[at] = moved;
    return first;
}

void sim_push(sim *s, uint64_t time_ns, void (*run)(void *, uint64_t), void *target,
              uint64_t number)
{
    heap_add(s, (sim_event){time_ns < s->now_ns ? s->now_ns : time_ns, draw_order(s), run, target,
                            number});
}

static void note_event(sim *s, uint64_t what)
{
    s->statistics.events++;
    s->statistics.trace = (sim_rotate(s->statistics.trace, 5) ^ s->now_ns ^ what << 48) *
                          UINT64_C(0x9e3779b97f4a7c15);
}

/* ---- Switching ---------------------------------------------------------------------------------- */

static uint64_t preemption(sim *s)
{
    if (!sim_happens(&s->schedule, s->settings.preempt_chance))
        return 0;
    return sim_below(&s->schedule, s->settings.preempt_most_ns + 1);
}

static void require_no_lock(const sim_fiber *f)
{
    if (f->locks != 0)
        sim_fail("a fiber waits or lets others go first while it holds %u locks", f->locks);
}

static void switch_to_scheduler(sim *s, sim_fiber *f)
{
    f->saved_errno = errno;
    s->running = NULL;
    fiber_switch(&f->context, &s->scheduler, 0);
    errno = f->saved_errno;
}

_Noreturn void sim_leave(void)
{
    sim *s = sim_world;
    sim_fiber *f = s->running;
    f->ended = true;
    f->generation++;
    s->running = NULL;
    fiber_switch(&f->context, &s->scheduler, 1);
    __builtin_unreachable();
}

/* What has happened to the process of the running fiber, perhaps by its own doing, holds from here. */
static void obey(sim *s, sim_fiber *f)
{
    while (f->process->life == SIM_STOPPED && f->locks == 0) {
        f->held = true;
        f->generation++;
        switch_to_scheduler(s, f);
    }
    if (f->process->life > SIM_STOPPED)
        sim_leave();
}

static void give_way(sim *s, sim_fiber *f)
{
    const uint64_t time = s->now_ns + f->debt_ns + preemption(s);
    f->debt_ns = 0;
    f->slice_ns = sim_between(&s->schedule, SLICE_LEAST_NS, SLICE_MOST_NS);
    const sim_event e = {time, draw_order(s), NULL, f, ++f->generation};
    /* who is next anyway need not switch: this saves most of the time while only one of many has work */
    if (time <= s->until_ns && !s->halted &&
        (s->event_count == 0 || is_before(&e, &s->events[0]))) {
        s->now_ns = time;
        note_event(s, f->id);
        return;
    }
    heap_add(s, e);
    switch_to_scheduler(s, f);
}

static void pay(sim *s, sim_fiber *f)
{
    const uint64_t cost =
        sim_between(&s->schedule, s->settings.call_least_ns, s->settings.call_most_ns);
    f->debt_ns += cost * f->process->slowness / 100;
}

void sim_spend(void)
{
    sim *s = sim_world;
    sim_fiber *f = sim_running();
    if (f == NULL)
        return;
    pay(s, f);
    if (f->debt_ns >= f->slice_ns && f->locks == 0)
        give_way(s, f);
    if (f->process->life != SIM_RUNS)
        obey(s, f);
}

void sim_let_others(void)
{
    sim *s = sim_world;
    sim_fiber *f = sim_running();
    if (f == NULL)
        return;
    require_no_lock(f);
    pay(s, f);
    give_way(s, f);
    if (f->process->life != SIM_RUNS)
        obey(s, f);
}

uint64_t sim_deadline(uint64_t timeout_ns)
{
    const sim *s = sim_world;
    const uint64_t start = s->now_ns + (s->running == NULL ? 0 : s->running->debt_ns);
    return timeout_ns > SIM_NEVER - 1 - start ? SIM_NEVER : start + timeout_ns;
}

bool sim_wait(sim_wait_kind kind, uint64_t deadline_ns, const char *what)
{
    sim *s = sim_world;
    sim_fiber *f = s->running;
    SIM_ASSERT(f != NULL);
    require_no_lock(f);
    f->wait.kind = kind;
    f->wait.deadline_ns = deadline_ns;
    f->wait.what = what;
    f->waits = true;
    f->woken = false;
    f->earliest_ns = s->now_ns + f->debt_ns;
    f->debt_ns = 0;
    f->generation++;
    if (deadline_ns != SIM_NEVER)
        sim_push(s, deadline_ns + preemption(s), NULL, f, f->generation);
    switch_to_scheduler(s, f);
    f->waits = false;
    f->wait.kind = WAIT_NOTHING;
    if (f->process->life != SIM_RUNS)
        obey(s, f);
    return f->woken;
}

void sim_wake(sim_fiber *f)
{
    sim *s = sim_world;
    if (!f->waits || f->woken || f->ended)
        return;
    f->woken = true;
    uint64_t time =
        s->now_ns + sim_between(&s->schedule, s->settings.wake_least_ns, s->settings.wake_most_ns);
    if (time < f->earliest_ns)
        time = f->earliest_ns;
    sim_push(s, time + preemption(s), NULL, f, ++f->generation);
}

/* ---- Running ------------------------------------------------------------------------------------- */

static void run_fiber(sim *s, sim_fiber *f)
{
    if (f->process->life == SIM_STOPPED) {
        f->held = true;
        return;
    }
    note_event(s, f->id);
    s->statistics.switches++;
    s->running = f;
    fiber_switch(&s->scheduler, &f->context, 0);
    s->running = NULL;
    if (f->ended)
        fiber_close(&f->context);
}

static void run_event(sim *s, const sim_event *e)
{
    if (e->time > s->now_ns)
        s->now_ns = e->time;
    if (e->run == NULL) {
        run_fiber(s, e->target);
        return;
    }
    note_event(s, 0);
    e->run(e->target, e->number);
}

sim_end sim_run(sim *s, uint64_t until_ns)
{
    const int saved = errno;
    SIM_ASSERT(s == sim_world && s->running == NULL);
    s->until_ns = until_ns;
    s->halted = s->failed;
    while (!s->halted && s->event_count > 0) {
        if (is_stale(&s->events[0])) {
            heap_take(s);
            continue;
        }
        if (s->events[0].time > until_ns) {
            s->now_ns = until_ns > s->now_ns ? until_ns : s->now_ns;
            break;
        }
        const sim_event e = heap_take(s);
        run_event(s, &e);
    }
    errno = saved;
    if (s->halted)
        return SIM_HALTED;
    return s->event_count == 0 ? SIM_NOTHING_LEFT : SIM_TIME_IS_UP;
}

void sim_halt(sim *s)
{
    s->halted = true;
}

uint64_t sim_now(const sim *s)
{
    return s->now_ns;
}

/* A callback of the harness has no number: its argument is the number. */
typedef struct timed_call {
    void (*run)(void *);
    void *argument;
} timed_call;

static void run_timed_call(void *target, uint64_t number)
{
    (void)number;
    const timed_call call = *(timed_call *)target;
    sim_release(target);
    call.run(call.argument);
}

void sim_at(sim *s, uint64_t time_ns, void (*run)(void *), void *argument)
{
    timed_call *call = sim_allocate(sizeof *call);
    *call = (timed_call){run, argument};
    sim_push(s, time_ns, run_timed_call, call, 0);
}

/* Calls that never came to run. */
static void free_timed_calls(sim *s)
{
    for (size_t i = 0; i < s->event_count; i++) {
        if (s->events[i].run == run_timed_call)
            sim_release(s->events[i].target);
    }
}

/* ---- Opening and closing --------------------------------------------------------------------------- */

enum stream_purpose {
    STREAM_SETTINGS,
    STREAM_SCHEDULE,
    STREAM_NETWORK,
    STREAM_HARNESS,
    STREAM_HOSTS
};

/* Some worlds are calm, some are not. */
static void draw_settings(sim *s)
{
    sim_stream r = sim_stream_open(s->seed, STREAM_SETTINGS);
    const bool far = sim_happens(&r, 256), rough = sim_happens(&r, 512);
    s->settings = (sim_settings){
        .call_least_ns = 20,
        .call_most_ns = 400,
        .wake_least_ns = 200,
        .wake_most_ns = sim_between(&r, 2000, 50000),
        .local_least_ns = 2000,
        .local_most_ns = 30000,
        .latency_least_ns = far ? 200000 : 10000,
        .latency_most_ns = far ? 5000000 : 100000,
        .preempt_chance = (uint32_t)sim_below(&r, rough ? 8 : 2),
        .preempt_most_ns = sim_between(&r, 100000, 5000000),
        .switch_chance = (uint32_t)sim_between(&r, 64, 768),
        .piece_chance = (uint32_t)sim_below(&r, rough ? 512 : 64),
        .spurious_chance = (uint32_t)sim_below(&r, 64),
        .interrupt_chance = (uint32_t)sim_below(&r, rough ? 32 : 4),
        .torn_chance = (uint32_t)sim_below(&r, 256),
        .death_reset_chance = 256,
        .buffer_least_bytes = 4096,
        .buffer_most_bytes = UINT64_C(4096) << sim_below(&r, 5),
        .cores_per_host = 16,
        .strict_descriptors = true,
    };
}

static void set_clocks(sim *s)
{
    sim_stream r = sim_stream_open(s->seed, STREAM_HOSTS);
    for (int h = 0; h < SIM_HOSTS_MAX; h++) {
        s->hosts[h].clock_offset_ns =
            sim_between(&r, UINT64_C(1000000000000), UINT64_C(10000000000000));
        s->hosts[h].next_port = (uint16_t)sim_between(&r, 32768, 60999);
    }
}

sim *sim_open(uint64_t seed)
{
    SIM_ASSERT(sim_world == NULL);
    sim *s = sim_allocate(sizeof *s);
    s->seed = seed;
    s->schedule = sim_stream_open(seed, STREAM_SCHEDULE);
    s->network = sim_stream_open(seed, STREAM_NETWORK);
    s->harness = sim_stream_open(seed, STREAM_HARNESS);
    draw_settings(s);
    set_clocks(s);
    sim_world = s;
    return s;
}

static void free_process(sim_process *p)
{
    sim_memory_free(p);
    for (sim_fiber *f = p->fibers, *next; f != NULL; f = next) {
        next = f->next;
        fiber_close(&f->context);
        sim_release(f->watching);
        sim_release(f);
    }
    sim_release(p);
}

static void free_object(sim_object *o)
{
    if (o->kind == KIND_SOCKET)
        sim_socket_free((sim_socket *)o);
    if (o->kind == KIND_POLL)
        sim_poll_free(o);
    sim_release(o);
}

void sim_close(sim *s)
{
    SIM_ASSERT(s == sim_world && s->running == NULL);
    free_timed_calls(s);
    sim_testimonies_free(s);
    for (int i = 0; i < s->process_count; i++)
        sim_kill(s, i);
    for (int i = 0; i < s->process_count; i++)
        free_process(s->processes[i]);
    for (sim_object *o = s->objects, *next; o != NULL; o = next) {
        next = o->next_made;
        free_object(o);
    }
    sim_release(s->processes);
    sim_release(s->events);
    sim_release(s->slots);
    sim_release(s->real);
    sim_release(s);
    sim_world = NULL;
}
