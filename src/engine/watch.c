/* watch.c: what a driver looks for when nothing moves: dead peers, silent ones, peers that left,
 * stalls. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK_EVERY_NS UINT64_C(25000000)
#define STALL_LOOK_NS UINT64_C(1000000000)
#define BEATS_IN_LIMIT 4    /* beats in the time that makes silence a death */
#define STALL_LIST_MAX 1200 /* bytes of the list of missing ranks and tensors */

rueda_status watch_open(engine *e)
{
    e->process_fds = malloc((size_t)e->who.size * sizeof *e->process_fds);
    e->silences = calloc((size_t)e->who.size, sizeof *e->silences);
    if (e->process_fds == NULL || e->silences == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
    const uint64_t space = os_process_space();
    for (int r = 0; r < e->who.size; r++) {
        const segment_rank *rank = segment_rank_at(&e->segment, (uint32_t)r);
        const bool known = r != e->who.rank && control_is_local(&e->control, (uint32_t)r) &&
                           rank->process_space == space;
        e->process_fds[r] = known ? os_process_open(rank->pid) : OS_PROCESS_UNKNOWN;
    }
    return RUEDA_OK;
}

void watch_forget(engine *e)
{
    for (int r = 0; e->process_fds != NULL && r < e->who.size; r++) {
        if (e->process_fds[r] >= 0)
            close(e->process_fds[r]);
    }
}

void watch_close(engine *e)
{
    watch_forget(e);
    free(e->process_fds);
    free(e->silences);
    e->process_fds = NULL;
    e->silences = NULL;
}

uint64_t watch_beat(engine *e)
{
    if (e->settings.heartbeat == 0 || e->control.network != NULL)
        return UINT64_MAX; /* the control tree has beats of its own */
    atomic_fetch_add_explicit(&segment_rank_at(&e->segment, (uint32_t)e->who.rank)->beats, 1,
                              memory_order_relaxed);
    return (uint64_t)e->settings.heartbeat * 1000000000u / BEATS_IN_LIMIT;
}

/* The same words for all who notice, each in its own way. */
static void lose(engine *e, int rank, const char *why)
{
    status_fail(RUEDA_ERR_PEER, "rank %d is lost: %s; all ranks must be started again", rank, why);
    control_abort(&e->control, RUEDA_ERR_PEER, rank, status_text());
}

static bool has_left(const engine *e, int rank)
{
    return atomic_load(&segment_rank_at(&e->segment, (uint32_t)rank)->state) == SEGMENT_LEFT;
}

/* A peer may have died after it left in good order: that is no failure. */
static void look_for_dead(engine *e)
{
    for (int r = 0; r < e->who.size; r++) {
        if (has_left(e, r) || !os_process_dead(e->process_fds[r]) || has_left(e, r))
            continue;
        lose(e, r, e->control.network == NULL ? "it died" : "it died or was cut off");
        return;
    }
}

/* Silence is counted only as far as we looked ourselves: after the machine has slept, or we were
 * stopped, nobody is accused. */
static void look_for_silent(engine *e, uint64_t now)
{
    const uint64_t period = watch_beat(e), limit = BEATS_IN_LIMIT * period;
    const uint64_t since = e->last_look_ns == 0 ? 0 : now - e->last_look_ns;
    e->last_look_ns = now;
    for (int r = 0; period != UINT64_MAX && r < e->who.size; r++) {
        watch_silence *s = &e->silences[r];
        const uint64_t beats = atomic_load_explicit(
            &segment_rank_at(&e->segment, (uint32_t)r)->beats, memory_order_relaxed);
        s->ns = beats == s->beats ? s->ns + (since < period ? since : period) : 0;
        s->beats = beats;
        if (r != e->who.rank && s->ns > limit && !has_left(e, r)) {
            lose(e, r, "it has not answered for RUEDA_HEARTBEAT seconds");
            return;
        }
    }
}

static bool needs(const process_set *s)
{
    return s->negotiation.waiting > 0 || s->flight[LANE_SMALL].count > 0 ||
           s->flight[LANE_LARGE].count > 0;
}

/* Whether a plan waits for this member, and nothing more can come from it. */
static bool waits_for_nothing(const process_set *s, const operation *o, uint16_t index)
{
    transport_channel *channel = s->channels[o->channel];
    return o->exec.waiting_for == index && channel->table->ended(channel, index);
}

/* A member that left takes part in no more rounds; a plan that waits for it can never end. What it
 * did before it left is visible by now: take all of that in before judging. */
static bool is_stuck_on(engine *e, const process_set *s, uint16_t index)
{
    while (engine_step(e))
        ;
    const negotiation *n = &s->negotiation;
    if (n->waiting > 0 && !control_contributed(&s->group, n->round, index))
        return true;
    for (int l = 0; l < LANE_COUNT; l++) {
        for (const operation *o = s->flight[l].first; o != NULL; o = o->next) {
            if (waits_for_nothing(s, o, index))
                return true;
        }
    }
    return false;
}

static void look_for_left(engine *e)
{
    for (int32_t i = 0; i < RUEDA_MAX_SETS; i++) {
        const process_set *s = &e->sets[i];
        if (!s->exists || !s->member || !needs(s))
            continue;
        for (uint16_t m = 0; m < s->size; m++) {
            if (m == s->index || !control_left(&e->control, s->ranks[m]) || !is_stuck_on(e, s, m))
                continue;
            status_fail(RUEDA_ERR_SHUTDOWN,
                        "rank %d has shut down while rank %d still waits for it", s->ranks[m],
                        e->who.rank);
            engine_break(e, RUEDA_ERR_SHUTDOWN, status_text());
            return;
        }
    }
}

/* "tensor (missing ranks 1 2); …" for what has waited since before `before`; returns how many. */
static int list_stalled(const process_set *s, uint64_t before, char *text, bool *missing,
                        bool *speaker)
{
    int count = 0;
    size_t used = 0;
    queue *q = (queue *)&s->queue;
    pthread_mutex_lock(&q->lock);
    for (size_t b = 0; b < q->bucket_count; b++) {
        for (record *r = q->buckets[b]; r != NULL; r = r->chain) {
            if (!r->waits || r->entry->submitted_ns > before ||
                r->entry->signature.kind == SIGNATURE_JOIN)
                continue;
            negotiation_missing(&s->negotiation, r, missing);
            bool lowest = true;
            for (uint16_t i = 0; i < s->index; i++)
                lowest = lowest && missing[i];
            *speaker = *speaker || lowest;
            count++;
            if (used + 400 > STALL_LIST_MAX)
                continue;
            used += (size_t)snprintf(text + used, STALL_LIST_MAX - used,
                                     "%s'%s' (Missing ranks:", used > 0 ? "; " : "", r->name);
            for (uint16_t i = 0; i < s->size && used + 32 < STALL_LIST_MAX; i++) {
                if (missing[i])
                    used +=
                        (size_t)snprintf(text + used, STALL_LIST_MAX - used, " %u", s->ranks[i]);
            }
            used += (size_t)snprintf(text + used, STALL_LIST_MAX - used, ")");
        }
    }
    pthread_mutex_unlock(&q->lock);
    return count;
}

static uint64_t seconds_ago(uint64_t now, int64_t seconds)
{
    const uint64_t ns = (uint64_t)seconds * 1000000000u;
    return now > ns ? now - ns : 0;
}

/* Returns whether it had something to say. */
static bool look_for_stalls_in(engine *e, const process_set *s, uint64_t now)
{
    char text[STALL_LIST_MAX] = "";
    bool speaker = false, said = false;
    bool *missing = malloc(s->size * sizeof *missing);
    if (missing == NULL)
        return false;
    if (e->settings.stall_end > 0 &&
        list_stalled(s, seconds_ago(now, e->settings.stall_end), text, missing, &speaker) > 0) {
        status_fail(RUEDA_ERR_STALLED,
                    "the job ends: after %lld s some ranks have not submitted %.300s",
                    (long long)e->settings.stall_end, text);
        control_abort(&e->control, RUEDA_ERR_STALLED, e->who.rank, status_text());
    } else if (e->settings.stall_warn > 0 && now >= e->next_warning_ns &&
               list_stalled(s, seconds_ago(now, e->settings.stall_warn), text, missing, &speaker) >
                   0 &&
               speaker) {
        log_line(
            &e->log, LOG_WARN,
            "One or more tensors were submitted to be reduced, gathered or broadcasted by subset "
            "of ranks and are waiting for remainder of ranks for more than %lld seconds: %s",
            (long long)e->settings.stall_warn, text);
        said = true;
    }
    free(missing);
    return said;
}

/* Looked at once a second, said once a period. */
static void look_for_stalls(engine *e, uint64_t now)
{
    if ((e->settings.stall_warn == 0 && e->settings.stall_end == 0) || now < e->next_stall_ns)
        return;
    bool said = false;
    for (int32_t i = 0; i < RUEDA_MAX_SETS; i++) {
        const process_set *s = &e->sets[i];
        if (s->exists && s->member && s->negotiation.waiting > 0)
            said |= look_for_stalls_in(e, s, now);
    }
    e->next_stall_ns = now + STALL_LOOK_NS;
    if (said)
        e->next_warning_ns = now + (uint64_t)e->settings.stall_warn * 1000000000u;
}

void watch_peers(engine *e, uint64_t now)
{
    if (now < e->next_check_ns)
        return;
    e->next_check_ns = now + CHECK_EVERY_NS;
    if (e->broken != RUEDA_OK) {
        held_watch(e, now);
        return;
    }
    if (e->transport->attend != NULL)
        e->transport->attend(&e->control);
    look_for_dead(e);
    look_for_silent(e, now);
    if (e->control.network != NULL)
        timeline_set_offset(&e->timeline, network_clock_offset(e->control.network));
    look_for_left(e);
    witness_waiting(e, now);
    if (e->broken == RUEDA_OK)
        look_for_stalls(e, now);
}
