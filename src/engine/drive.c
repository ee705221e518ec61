/* drive.c: waiting. Who waits, works; who finds nothing to do spins a little, yields, then sleeps. */
#include "engine/engine.h"

#define POLLS_BEFORE_CLOCK 64   /* passes before the first look at the clock */
#define PASSES_BEFORE_LOOK 1024 /* in which something moved, before the next look for dead peers */
#define BACKGROUND_SPIN_NS 3000 /* the background thread must not take a core from compute */
#define SLEEP_MOST_NS UINT64_C(100000000)    /* then look for stalls; sockets tell of deaths … */
#define SLEEP_ALONE_NS UINT64_C(30000000)    /* … and memory does not: look for dead peers */
#define ASK_NS 30000                         /* nobody rings when data comes: look again soon … */
#define ASK_SPIN_NS UINT64_C(5000000)        /* … on a core of our own … */
#define ASK_YIELD_NS UINT64_C(100000000)     /* … and then among others */
#define LOOK_AGAIN_NS 50000                  /* a background driver looks again once by itself */
#define DEAR_YIELD_NS 500000                 /* someone else has the core, and none of us … */
#define PAUSE_AFTER_YIELD 32                 /* … so many times as long we sleep instead, … */
#define PAUSE_MOST_NS UINT64_C(2000000000)   /* … at most so long */
#define FORK_PATIENCE_NS UINT64_C(200000000) /* for a driver to make room */
#define FOLLOW_MOST_NS UINT64_C(20000000)    /* a waiter that does not drive looks again */

static bool become_driver(engine *e)
{
    uint32_t nobody = 0;
    return atomic_load_explicit(&e->driving, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_strong(&e->driving, &nobody, 1);
}

bool drive_try(engine *e)
{
    return atomic_load_explicit(&e->forking, memory_order_relaxed) == 0 && become_driver(e);
}

/* Someone else must go on if there is work left. */
void drive_leave(engine *e)
{
    atomic_store(&e->driving, 0);
    world_point();
    engine_tell_waiters(e);
    if (atomic_load(&e->outstanding) > 0)
        background_call(e, true);
}

typedef struct patience {
    uint32_t polls;
    uint64_t since_ns; /* 0: the clock has not been read yet */
    bool shares_core;  /* with another rank of the job */
    bool napped;       /* once; next it sleeps until it is woken */
} patience;

/* Whether the background thread is to leave the driving to a waiter, or because all is done. */
static bool background_done(const engine *e)
{
    /* with a network it stays: others may count on us to pass on what they say */
    return atomic_load_explicit(&e->waiters, memory_order_relaxed) > 0 ||
           (atomic_load_explicit(&e->outstanding, memory_order_relaxed) == 0 &&
            e->control.network == NULL) ||
           atomic_load_explicit(&e->stopping, memory_order_relaxed) != 0;
}

/* A broken job has none: nobody takes it any more, and who waited for that would never sleep. */
static bool has_mail(engine *e)
{
    process_set *all = &e->sets[RUEDA_GLOBAL_SET];
    return e->broken == RUEDA_OK &&
           (queue_has_mail(&all->queue) || atomic_load(&e->called) != NULL ||
            (all->p2p != NULL && p2p_has_mail(all->p2p)));
}

/* Whether data may come that only asking shows, and that moves only while we ask. */
static bool must_ask(const engine *e)
{
    return e->transports.table->attend != NULL && (engine_has_flight(e) || sendrecv_is_pending(e));
}

static uint64_t sleep_ns(const engine *e, uint64_t deadline_ns, bool nap)
{
    const uint64_t longest = e->control.network == NULL ? SLEEP_ALONE_NS : SLEEP_MOST_NS;
    const uint64_t now = world_now_ns(), most = must_ask(e) ? ASK_NS
                                                : nap       ? LOOK_AGAIN_NS
                                                            : longest;
    if (deadline_ns >= now + most)
        return most;
    return deadline_ns > now ? deadline_ns - now : 0;
}

/* Announce, look once more, sleep: a peer that changes something after the look rings the bell. */
static void sleep_once(engine *e, patience *p, const rueda_request *until, uint64_t deadline_ns,
                       bool background)
{
    const bool nap = background && !p->napped;
    p->napped = true;
    atomic_store(&e->napping, nap);
    const uint32_t seen = control_sleep_announce(&e->control);
    const bool awake = engine_step(e, engine_now(e)) || has_mail(e) ||
                       (until != NULL && request_ended(until)) ||
                       (background && background_done(e)) || atomic_load(&e->forking) != 0;
    if (!awake) {
        atomic_fetch_add_explicit(&e->counters.sleeps, 1, memory_order_relaxed);
        control_sleep(&e->control, seen, sleep_ns(e, deadline_ns, nap));
    }
    control_sleep_end(&e->control);
    watch_peers(e, world_now_ns());
}

/* A kernel may charge a whole turn to a thread that yields, so that whoever never does gets the core for
 * milliseconds, every time. Among our own ranks, which all yield, that evens out; where a yield took long
 * it is not tried again until its time has become small. */
static void yield_once(engine *e, uint64_t now)
{
    world_yield();
    const uint64_t away = world_now_ns() - now;
    if (away < DEAR_YIELD_NS)
        return;
    const uint64_t pause = away * PAUSE_AFTER_YIELD;
    e->yield_from_ns = now + (pause < PAUSE_MOST_NS ? pause : PAUSE_MOST_NS);
}

/* How long to spin before the core is given away. */
static uint64_t spin_ns(const engine *e, const patience *p, bool background)
{
    if (background)
        return BACKGROUND_SPIN_NS;
    if (e->crowded || p->shares_core)
        return 0;
    return must_ask(e) ? ASK_SPIN_NS : (uint64_t)e->settings.spin_us * 1000;
}

static void be_patient(engine *e, patience *p, const rueda_request *until, uint64_t deadline_ns,
                       bool background)
{
    if (p->polls++ < POLLS_BEFORE_CLOCK && !e->crowded) {
        world_pause();
        return;
    }
    const uint64_t now = world_now_ns();
    if (p->since_ns == 0) {
        p->since_ns = now;
        p->shares_core = control_shares_core(&e->control);
    }
    watch_peers(e, now);
    const uint64_t spin = spin_ns(e, p, background);
    const bool yields = !background && now >= e->yield_from_ns;
    const uint64_t patient = must_ask(e) ? ASK_YIELD_NS : (uint64_t)e->settings.yield_us * 1000;
    const uint64_t yield = yields ? patient : 0;
    const uint64_t idle = now - p->since_ns;
    if (idle < spin)
        world_pause();
    else if (idle < spin + yield)
        yield_once(e, now);
    else
        sleep_once(e, p, until, deadline_ns, background);
}

void drive(engine *e, const rueda_request *until, uint64_t deadline_ns, bool background)
{
    patience p = {0};
    for (uint32_t busy = 1;; busy++) {
        if ((until != NULL && request_ended(until)) ||
            atomic_load_explicit(&e->forking, memory_order_relaxed) != 0)
            return;
        if (engine_step(e, engine_now(e))) {
            p = (patience){0};
            if (busy % PASSES_BEFORE_LOOK == 0)
                watch_peers(e, world_now_ns());
            if (deadline_ns != UINT64_MAX && world_now_ns() >= deadline_ns)
                return;
            continue;
        }
        if (background && background_done(e))
            return;
        be_patient(e, &p, until, deadline_ns, background);
        if (deadline_ns != UINT64_MAX && p.polls > POLLS_BEFORE_CLOCK &&
            world_now_ns() >= deadline_ns)
            return;
    }
}

/* Another thread drives: sleep until something has happened. */
static void follow(engine *e, const rueda_request *r, uint64_t deadline_ns)
{
    atomic_fetch_add(&e->sleepers, 1);
    const uint32_t seen = atomic_load(&e->events);
    world_point();
    /* the driver may sleep, and may be the background thread, which makes room for a waiter */
    control_notify_rank(&e->control, (uint32_t)e->who.rank);
    if (!request_ended(r) && atomic_load(&e->driving) != 0) {
        const uint64_t now = world_now_ns();
        const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
        world_sleep_on(&e->events, seen, left < FOLLOW_MOST_NS ? left : FOLLOW_MOST_NS, false);
    }
    atomic_fetch_sub(&e->sleepers, 1);
}

bool engine_wait(engine *e, const rueda_request *r, uint64_t deadline_ns)
{
    if (request_ended(r))
        return true;
    atomic_fetch_add(&e->waiters, 1);
    while (!request_ended(r) && (deadline_ns == UINT64_MAX || world_now_ns() < deadline_ns)) {
        if (drive_try(e)) {
            drive(e, r, deadline_ns, false);
            drive_leave(e);
        } else {
            follow(e, r, deadline_ns);
        }
    }
    atomic_fetch_sub(&e->waiters, 1);
    if (atomic_load(&e->outstanding) > 0 && atomic_load(&e->driving) == 0)
        background_call(e, true);
    return request_ended(r);
}

bool engine_before_fork(engine *e)
{
    const uint64_t deadline = world_now_ns() + FORK_PATIENCE_NS;
    atomic_store(&e->forking, 1);
    bool taken;
    while (!(taken = become_driver(e)) && world_now_ns() < deadline) {
        control_notify_rank(&e->control, (uint32_t)e->who.rank); /* the driver may sleep */
        world_yield();
    }
    return taken;
}

void engine_after_fork(engine *e, bool paused)
{
    atomic_store(&e->forking, 0);
    if (paused)
        drive_leave(e);
}
