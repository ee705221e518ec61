/* sendrecv.c: sends and receives of a process set, between its callers and p2p/. What belongs to them is made
 * with the first call on the set, or when another member calls us: sets that use none have nothing of it. */
#include "engine/engine.h"

#include <stdio.h>

#define LIST_MAX 1200  /* bytes of a report */
#define LISTED_MAX 400 /* bytes of a call in it, at least */
#define SECOND_NS UINT64_C(1000000000)

/* ---- Handing over ---------------------------------------------------------------------------- */

/* The caller holds the queue's lock. NULL: out of memory. */
static p2p *find_or_make(process_set *s)
{
    p2p *p = s->p2p;
    if (p == NULL) {
        p = p2p_new(&s->members, &s->queue.lock);
        s->p2p = p;
    }
    return p;
}

rueda_status engine_submit_call(engine *e, process_set *s, p2p_call *call, bool will_wait)
{
    const uint64_t bytes = call->tensor.bytes;
    const transport_table *table = e->transports.table;
    rueda_status status = RUEDA_OK;
    if (table->keeps_unread && s != &e->sets[RUEDA_GLOBAL_SET])
        return transport_fail_send_in_set(table, p2p_shown(call));
    notes_call_submitted(e, call);
    atomic_fetch_add(&e->outstanding, 1);
    world_lock_take(&s->queue.lock);
    if (s->queue.closed != RUEDA_OK)
        status = status_restore(s->queue.closed, s->queue.closed_text);
    else if (find_or_make(s) == NULL)
        status = status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory to send or receive '%s'",
                             e->who.rank, p2p_shown(call));
    else
        p2p_submit(s->p2p, call);
    world_lock_release(&s->queue.lock);
    if (status != RUEDA_OK)
        atomic_fetch_sub(&e->outstanding, 1);
    else
        busy_call(e, s);
    if (status == RUEDA_OK && !will_wait)
        engine_call_driver(e, bytes);
    return status;
}

/* ---- The channel ----------------------------------------------------------------------------- */

static rueda_status open_channel(engine *e, process_set *s)
{
    transport_channel *channel;
    const rueda_status status = e->transports.table->open(
        e->transports.job, &s->members, segment_message_channel(&e->segment), &channel);
    if (status == RUEDA_OK)
        p2p_set_channel(s->p2p, channel);
    return status;
}

/* A member that has something for us calls; until somebody here receives, it is enough that it gets through. */
static bool open_late(void *context, uint32_t set, uint32_t channel, uint64_t epoch)
{
    engine *e = context;
    process_set *s = set < SEGMENT_SETS ? &e->sets[set] : NULL;
    if (s == NULL || channel != segment_message_channel(&e->segment) || !s->exists || !s->member ||
        s->members.epoch != epoch || e->broken != RUEDA_OK)
        return false;
    world_lock_take(&s->queue.lock);
    const bool made = find_or_make(s) != NULL;
    world_lock_release(&s->queue.lock);
    if (made && p2p_channel(s->p2p) != NULL)
        return false;
    const rueda_status status =
        made ? open_channel(e, s)
             : status_fail(RUEDA_ERR_MEMORY, "out of memory for messages of another rank");
    if (status != RUEDA_OK)
        control_fail(&e->control, status);
    return status == RUEDA_OK;
}

void sendrecv_listen(engine *e)
{
    if (e->control.mesh != NULL)
        mesh_set_late(e->control.mesh, (mesh_late){open_late, e});
}

/* ---- A pass ---------------------------------------------------------------------------------- */

static void end_call(engine *e, p2p_call *call, rueda_status status, const char *text)
{
    if (status == RUEDA_OK && call->request->status == RUEDA_OK) {
        atomic_fetch_add_explicit(&e->counters.operations, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&e->counters.bytes, call->tensor.bytes, memory_order_relaxed);
    }
    request_end(call->request, status, text);
    p2p_call_free(call);
    atomic_fetch_sub(&e->outstanding, 1);
}

static bool end_calls(engine *e, const process_set *s, rueda_status status, const char *text)
{
    bool some = false;
    for (p2p_call *call; (call = p2p_take_ended(s->p2p)) != NULL; some = true) {
        notes_call_ended(e, s, call, status);
        end_call(e, call, status, text);
    }
    if (some)
        engine_tell_waiters(e);
    return some;
}

bool sendrecv_step(engine *e, process_set *s)
{
    bool moved = false;
    p2p *p = s->p2p;
    rueda_status status = RUEDA_OK;
    if (p2p_channel(p) == NULL && p2p_has_mail(p))
        status = open_channel(e, s);
    if (status == RUEDA_OK)
        status = p2p_step(p, &moved);
    end_calls(e, s, RUEDA_OK, "");
    if (status != RUEDA_OK)
        engine_break_all(e, status);
    return moved || status != RUEDA_OK;
}

void sendrecv_end(engine *e, process_set *s, rueda_status status, const char *text)
{
    if (s->p2p == NULL)
        return;
    p2p_abandon(s->p2p);
    end_calls(e, s, status, text);
}

/* ---- Questions ------------------------------------------------------------------------------- */

static bool is_pending(const process_set *s)
{
    return s->p2p != NULL && p2p_pending(s->p2p) > 0;
}

bool sendrecv_is_pending(const engine *e)
{
    for (const process_set *s = NULL; (s = busy_next(e, s)) != NULL;) {
        if (is_pending(s))
            return true;
    }
    return false;
}

static bool is_alone(const engine *e, const process_set *s)
{
    for (uint16_t m = 0; m < s->size; m++) {
        if (m != s->index && control_departure(&e->control, s->ranks[m]) == 0)
            return false;
    }
    return true;
}

bool sendrecv_is_stuck_on(const engine *e, const process_set *s, uint16_t index)
{
    return s->p2p != NULL && p2p_is_stuck_on(s->p2p, index, is_alone(e, s));
}

/* ---- The report of stalls -------------------------------------------------------------------- */

/* "send 'x' to rank 2: rank 2 has not called rueda_recv" */
static size_t describe(const process_set *s, const p2p_call *call, char *text, size_t room)
{
    const char *name = p2p_shown(call);
    int used;
    if (call->member == P2P_ANYONE)
        used = snprintf(text, room, "receive '%s' from any rank: none has called rueda_send", name);
    else if (call->sends)
        used = snprintf(text, room, "send '%s' to rank %u: rank %u has not called rueda_recv", name,
                        s->ranks[call->member], s->ranks[call->member]);
    else
        used = snprintf(text, room, "receive '%s' from rank %u: rank %u has not called rueda_send",
                        name, s->ranks[call->member], s->ranks[call->member]);
    return (size_t)used < room ? (size_t)used : room - 1;
}

static bool is_due(const p2p_call *call, uint64_t since, int64_t seconds, uint64_t now)
{
    return p2p_waits(call) && seconds > 0 && now >= since + (uint64_t)seconds * SECOND_NS;
}

/* Calls that have waited so long; 0: none. *oldest: when the first was handed over. */
static uint32_t list_due(const process_set *s, bool ends, int64_t seconds, uint64_t now,
                         char list[LIST_MAX], uint64_t *oldest)
{
    uint32_t count = 0, listed = 0;
    size_t used = 0;
    for (p2p_call *call = p2p_first(s->p2p); call != NULL; call = call->after) {
        const uint64_t since =
            !ends && call->told_ns > call->submitted_ns ? call->told_ns : call->submitted_ns;
        if (!is_due(call, since, seconds, now))
            continue;
        call->told_ns = now;
        *oldest = count++ == 0 || call->submitted_ns < *oldest ? call->submitted_ns : *oldest;
        if (used + LISTED_MAX > LIST_MAX)
            continue;
        if (listed++ > 0)
            used += (size_t)snprintf(list + used, LIST_MAX - used, "; ");
        used += describe(s, call, list + used, LIST_MAX - used);
    }
    if (count > listed)
        snprintf(list + used, LIST_MAX - used, "; and %u more", count - listed);
    return count;
}

/* Both ends know it by themselves, so nobody is asked. */
static void report(engine *e, const process_set *s, uint64_t now)
{
    char list[LIST_MAX];
    uint64_t oldest = now;
    if (list_due(s, true, e->settings.stall_end, now, list, &oldest) > 0) {
        status_fail(RUEDA_ERR_STALLED, "the job ends: after %lld s rank %d still waits: %.300s",
                    (long long)((now - oldest) / SECOND_NS), e->who.rank, list);
        control_abort(&e->control, RUEDA_ERR_STALLED, e->who.rank, status_text());
        return;
    }
    if (list_due(s, false, e->settings.stall_warn, now, list, &oldest) > 0)
        log_line(&e->log, LOG_WARN,
                 "Sends or receives have been waiting for more than %lld seconds: %s",
                 (long long)((now - oldest) / SECOND_NS), list);
}

void sendrecv_report(engine *e, uint64_t now)
{
    for (const process_set *s = NULL; (s = busy_next(e, s)) != NULL;) {
        if (is_pending(s))
            report(e, s, now);
    }
}
