/* watch.c: what a driver looks for when nothing moves: dead peers, silent ones, and peers that
 * left. */
#include "engine/engine.h"
#include "world/sockets.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK_EVERY_NS UINT64_C(25000000)

rueda_status watch_open(engine *e)
{
    e->process_fds = malloc((size_t)e->who.size * sizeof *e->process_fds);
    e->silences = calloc((size_t)e->who.size, sizeof *e->silences);
    for (int r = 0; e->process_fds != NULL && r < e->who.size; r++)
        e->process_fds[r] = WORLD_PROCESS_UNKNOWN;
    if (e->process_fds == NULL || e->silences == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
    if (e->control.network == NULL) /* the control tree has beats of its own */
        e->heartbeat.limit_ns = (uint64_t)e->settings.heartbeat * 1000000000u;
    const uint64_t space = os_process_space();
    for (int r = 0; r < e->who.size; r++) {
        const segment_rank *rank = segment_rank_at(&e->segment, (uint32_t)r);
        const bool known = r != e->who.rank && control_is_local(&e->control, (uint32_t)r) &&
                           rank->process_space == space;
        if (known)
            e->process_fds[r] = world_process_open(rank->pid);
    }
    return RUEDA_OK;
}

void watch_forget(engine *e)
{
    for (int r = 0; e->process_fds != NULL && r < e->who.size; r++) {
        if (e->process_fds[r] >= 0)
            world_close(e->process_fds[r]);
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
    if (e->heartbeat.limit_ns == 0)
        return UINT64_MAX;
    atomic_fetch_add_explicit(&segment_rank_at(&e->segment, (uint32_t)e->who.rank)->beats, 1,
                              memory_order_relaxed);
    return heartbeat_period(&e->heartbeat);
}

/* The same words for all who notice, each in its own way. */
static void lose(engine *e, int rank, const char *why)
{
    const rueda_status status =
        e->members != NULL
            ? view_fail_lost(rank, why)
            : status_fail(RUEDA_ERR_PEER, "rank %d is lost: %s; all ranks must be started again",
                          rank, why);
    control_abort(&e->control, status, rank, status_text());
}

static bool has_left(const engine *e, int rank)
{
    return atomic_load(&segment_rank_at(&e->segment, (uint32_t)rank)->state) == SEGMENT_LEFT;
}

/* A peer may have died after it left in good order: that is no failure. */
static void look_for_dead(engine *e)
{
    for (int r = 0; r < e->who.size; r++) {
        if (has_left(e, r) || !world_process_dead(e->process_fds[r]) || has_left(e, r))
            continue;
        lose(e, r, e->control.network == NULL ? RANK_ENDED : RANK_ENDED_OR_CUT_OFF);
        return;
    }
}

static void look_for_silent(engine *e, uint64_t now)
{
    watch_beat(e);
    const uint64_t counts = heartbeat_look(&e->heartbeat, now);
    for (int r = 0; e->heartbeat.limit_ns != 0 && r < e->who.size; r++) {
        watch_silence *s = &e->silences[r];
        const uint64_t beats = atomic_load_explicit(
            &segment_rank_at(&e->segment, (uint32_t)r)->beats, memory_order_relaxed);
        if (beats != s->beats)
            *s = (watch_silence){.beats = beats};
        else if (r != e->who.rank && heartbeat_is_lost(&e->heartbeat, &s->ns, counts) &&
                 !has_left(e, r)) {
            lose(e, r, HEARTBEAT_LOST);
            return;
        }
    }
}

static bool needs(const process_set *s)
{
    return s->negotiation.waiting > 0 || s->flight[LANE_SMALL].count > 0 ||
           s->flight[LANE_LARGE].count > 0 || (s->p2p != NULL && p2p_pending(s->p2p) > 0);
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
    while (engine_step(e, engine_now(e)))
        ;
    const negotiation *n = &s->negotiation;
    if (n->waiting > 0 && !n->retired && control_has_left(&s->members, index) &&
        !control_contributed(&s->members, n->round, index))
        return true;
    for (int l = 0; l < LANE_COUNT; l++) {
        for (const operation *o = s->flight[l].first; o != NULL; o = o->next) {
            if (waits_for_nothing(s, o, index))
                return true;
        }
    }
    return sendrecv_is_stuck_on(e, s, index);
}

/* The member that we wait for and that has left, or -1. Of several it is the first to go: the others may
 * have left because of it. */
static int find_left(engine *e, const process_set *s)
{
    int found = -1;
    uint32_t earliest = UINT32_MAX;
    for (uint16_t m = 0; m < s->size; m++) {
        const uint32_t departure = control_departure(&e->control, s->ranks[m]);
        if (m == s->index || departure == 0 || departure > earliest || !is_stuck_on(e, s, m))
            continue;
        earliest = departure;
        found = s->ranks[m];
    }
    return found;
}

/* The others may not need it: this rank ends alone, or in an elastic job calls for another view. */
static void miss(engine *e, int left)
{
    const rueda_status status = e->members != NULL ? RUEDA_ERR_MEMBERS : RUEDA_ERR_SHUTDOWN;
    status_fail(status, "rank %d has shut down while rank %d still waits for it%s%s", left,
                e->who.rank, e->members != NULL ? "; " : "",
                e->members != NULL ? VIEW_GOES_ON : "");
    if (e->members == NULL)
        board_name(e->board, e->who.rank, left);
    view_miss(e);
    engine_break(e, status, status_text());
}

static void look_for_left(engine *e)
{
    for (int32_t i = 0; i < e->set_limit; i++) {
        const process_set *s = &e->sets[i];
        const int left = s->exists && s->member && needs(s) ? find_left(e, s) : -1;
        if (left < 0)
            continue;
        miss(e, left);
        return;
    }
}

void watch_peers(engine *e, uint64_t now)
{
    if (now < e->next_check_ns)
        return;
    e->next_check_ns = now + CHECK_EVERY_NS;
    if (e->broken != RUEDA_OK) {
        linger_watch(e, now);
        return;
    }
    if (e->transports.table->attend != NULL)
        e->transports.table->attend(e->transports.job);
    look_for_dead(e);
    look_for_silent(e, now);
    notes_clock(e);
    look_for_left(e);
    notes_waiting(e, now);
    if (e->broken == RUEDA_OK)
        stall_watch(e, now);
}
