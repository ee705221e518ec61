/* thread.c: the thread that watches the other workers of the host and takes part in the agreement. */
#include "members/members_parts.h"

#define LOOK_NS                                                                                    \
    (20 * MEMBERS_MS) /* between two looks for dead workers: memory does not tell of them */
#define LOOK_BUSY_NS (1 * MEMBERS_MS)   /* the same while members change */
#define PATIENCE_NS (3000 * MEMBERS_MS) /* who does not vote for so long is not waited for */
/* After another ballot had a higher number; times one more than our own number. */
#define LEAD_AGAIN_NS (10 * MEMBERS_MS)

/* ---- What the thread shares with the program ------------------------------------------------------- */

static void tell_program(members *m)
{
    atomic_fetch_add(&m->events, 1);
    world_wake(&m->events, false);
}

/* The engine, which stays until it is given back. False: there is none, and there will be none before the next view
 * is decided. */
static bool borrow_engine(members *m, members_engine *engine, bool *is_ended)
{
    world_lock_take(&m->lock);
    *engine = m->engine;
    *is_ended = m->engine_is_ended;
    m->engine_is_used = engine->engine != NULL;
    m->is_voting = m->is_voting || engine->engine == NULL;
    world_lock_release(&m->lock);
    return engine->engine != NULL;
}

/* `withdrawn`: from now on it may vote, and no other engine may begin before the next view is decided. */
static void give_engine_back(members *m, bool withdrawn)
{
    world_lock_take(&m->lock);
    m->engine_is_used = false;
    m->engine_is_ended = true;
    m->is_voting = m->is_voting || withdrawn;
    world_lock_release(&m->lock);
    tell_program(m);
}

static bool note_called(members *m, bool called)
{
    world_lock_take(&m->lock);
    m->is_called = called;
    world_lock_release(&m->lock);
    return called;
}

/* ---- The thread: who is there ---------------------------------------------------------------------- */

static int process_of(members *m, uint32_t worker)
{
    world_lock_take(&m->lock);
    const int fd = m->process_fds[worker];
    world_lock_release(&m->lock);
    return fd;
}

static void hear(members *m, uint32_t worker)
{
    statement said;
    if (worker != m->worker && roster_read(&m->roster, worker, &said))
        agreement_hear(&m->agreement, worker, &said);
}

/* First seen dead, then read: that was its last word. */
static void look_at(members *m, uint32_t worker)
{
    agreement *a = &m->agreement;
    const bool dead = !members_has(&a->dead, worker) && world_process_dead(process_of(m, worker));
    hear(m, worker);
    if (dead)
        members_add(&a->dead, worker);
}

static bool has_left(const agreement *a, uint32_t worker)
{
    return (a->heard[worker].flags & STATEMENT_LEFT) != 0;
}

/* Ends the engine of the last view, because a worker is lost (MEMBERS_MOST: others know which). True: nothing of that view
 * is touched here any more. */
static bool end_engine(members *m, uint32_t lost, const char *why)
{
    const members_list *view = agreement_members(&m->agreement);
    members_engine engine;
    bool is_ended;
    if (!borrow_engine(m, &engine, &is_ended))
        return true;
    if (!is_ended)
        engine.end(engine.engine, lost == MEMBERS_MOST ? -1 : (int)members_before(view, lost), why);
    const bool withdrawn = engine.has_withdrawn(engine.engine);
    give_engine_back(m, withdrawn);
    return withdrawn;
}

/* It may be stopped in the midst of a copy into our memory, so it would be killed before the next view begins. Killed at
 * once its death is certain, and the others need not be more than half of the view to go on without it. First all hear
 * why: they would only see that it is dead. */
static void give_up(members *m, uint32_t worker)
{
    members_add(&m->agreement.suspected, worker);
    end_engine(m, worker, HEARTBEAT_LOST);
    world_process_kill(process_of(m, worker));
}

static void beat(members *m)
{
    atomic_fetch_add_explicit(&m->roster.places[m->worker].beats, 1, memory_order_relaxed);
}

/* Also while no engine runs, and nobody else would notice. */
static void look_for_silent(members *m, uint64_t now)
{
    const uint64_t counts = heartbeat_look(&m->heartbeat, now);
    beat(m);
    MEMBERS_EACH(worker, agreement_members(&m->agreement))
    {
        silence *s = &m->silences[worker];
        const uint64_t beats =
            atomic_load_explicit(&m->roster.places[worker].beats, memory_order_relaxed);
        if (beats != s->beats)
            *s = (silence){.beats = beats};
        else if (worker != m->worker && heartbeat_is_lost(&m->heartbeat, &s->ns, counts) &&
                 !has_left(&m->agreement, worker))
            give_up(m, worker);
    }
}

/* Where a view begins all wait for all of its members: one that has left will not come. */
static bool waits_for_left(members *m)
{
    MEMBERS_EACH(worker, agreement_members(&m->agreement))
    {
        if (has_left(&m->agreement, worker))
            return true;
    }
    return false;
}

static void take_reports(members *m)
{
    agreement *a = &m->agreement;
    world_lock_take(&m->lock);
    const members_list reported = m->reported;
    const bool calls = m->calls, begins = m->engine.engine == NULL;
    m->reported = (members_list){{0}};
    m->calls = false;
    world_lock_release(&m->lock);
    MEMBERS_EACH(worker, &reported)
    {
        if (members_has(agreement_members(a), worker) && worker != m->worker)
            members_add(&a->suspected, worker);
    }
    if (calls || (begins && atomic_load(&m->leaving) == 0 && waits_for_left(m)))
        agreement_call(a);
}

static void look_around(members *m)
{
    for (uint32_t w = 0; w < m->roster.workers; w++) {
        if (w != m->worker)
            look_at(m, w);
    }
    take_reports(m);
}

/* ---- The thread: voting ---------------------------------------------------------------------------- */

/* The first worker that is lost; MEMBERS_MOST: only others know one. */
static uint32_t first_lost(const agreement *a)
{
    MEMBERS_EACH(worker, agreement_members(a))
    {
        if (members_has(&a->dead, worker) || members_has(&a->suspected, worker))
            return worker;
    }
    return MEMBERS_MOST;
}

/* Somebody does not vote although it lives: whoever leads a ballot does not wait for it any longer; and who should lead
 * and does not is not waited for by the others. */
static void lose_patience(members *m, uint64_t since_last_ns)
{
    agreement *a = &m->agreement;
    const bool leads = agreement_own(a)->leads != 0;
    m->waited_ns += since_last_ns;
    if (m->waited_ns < PATIENCE_NS)
        return;
    m->waited_ns = 0;
    const members_list missing = agreement_missing(a);
    MEMBERS_EACH(worker, &missing)
    {
        if (worker != m->worker && (leads || a->heard[worker].leads == 0))
            members_add(&a->suspected, worker);
        if (!leads)
            return; /* the first one should */
    }
}

/* A clock that jumps, or a stop of our own, is nobody's fault: a pass counts for little. */
static uint64_t since_last(members *m, uint64_t now)
{
    const uint64_t since = m->last_ns == 0 ? 0 : now - m->last_ns;
    m->last_ns = now;
    return since < LOOK_NS ? since : LOOK_NS;
}

static void prepare_vote(members *m, uint64_t now)
{
    agreement *a = &m->agreement;
    const uint64_t since_last_ns = since_last(m, now);
    if (!note_called(m, agreement_is_called(a))) {
        m->waited_ns = 0;
        return;
    }
    if (!a->may_vote && atomic_load(&m->leaving) == 0)
        a->may_vote = end_engine(m, first_lost(a), NULL);
    a->may_lead_again = now >= m->led_ns + (m->worker + 1) * LEAD_AGAIN_NS;
    lose_patience(m, since_last_ns);
}

/* ---- The thread: what was decided ------------------------------------------------------------------ */

/* Workers of our host that are in no view any more: what they still do must be over before the next view begins. */
static void end_others(members *m, const members_list *before)
{
    const members_list gone = members_without(before, agreement_members(&m->agreement));
    MEMBERS_EACH(worker, &gone)
    {
        const int process = process_of(m, worker);
        hear(m, worker); /* it may have left meanwhile */
        if (worker == m->worker || has_left(&m->agreement, worker))
            continue;
        while (!world_process_dead(process) && atomic_load(&m->stopping) == 0) {
            world_process_kill(process);
            beat(m);
            world_rest(LOOK_BUSY_NS);
        }
    }
}

static void take_decision(members *m, const members_list *before)
{
    const agreement *a = &m->agreement;
    if (members_has(agreement_members(a), m->worker))
        end_others(m, before);
    m->waited_ns = m->led_ns = 0;
    world_lock_take(&m->lock);
    m->decided = (members_view){agreement_number(a), *agreement_members(a)};
    m->is_called = m->is_voting = false;
    world_lock_release(&m->lock);
    tell_program(m);
}

void members_tell_others(members *m)
{
    roster_say(&m->roster, m->worker, agreement_own(&m->agreement));
    for (uint32_t w = 0; w < m->roster.workers; w++) {
        if (w != m->worker)
            roster_ring(&m->roster, w);
    }
}

/* True: something has moved. */
static bool pass(members *m)
{
    agreement *a = &m->agreement;
    const uint64_t now = world_now_ns(), before = agreement_number(a);
    const uint64_t led = agreement_own(a)->leads;
    const members_list members_before_it = *agreement_members(a);
    look_around(m);
    look_for_silent(m, now);
    prepare_vote(m, now);
    if (!agreement_step(a))
        return false;
    members_tell_others(m);
    if (agreement_number(a) != before)
        take_decision(m, &members_before_it);
    else if (agreement_own(a)->leads != led)
        m->led_ns = now;
    return true;
}

void *members_run_thread(void *argument)
{
    members *m = argument;
    _Atomic uint32_t *rings = &m->roster.places[m->worker].rings;
    world_prefer_short_turns();
    while (atomic_load(&m->stopping) == 0) {
        const uint32_t seen = atomic_load(rings);
        while (pass(m))
            ;
        if (atomic_load(&m->stopping) == 0)
            world_sleep_on(rings, seen, m->is_called ? LOOK_BUSY_NS : LOOK_NS, true);
    }
    return NULL;
}
