/* control.c: rounds, bells and the abort record; in the segment, or through the network. */
#include "control/control.h"

#include <stdio.h>

enum { BELL_AWAKE, BELL_ASLEEP, BELL_ASLEEP_IN_POLL };

rueda_status control_members_open(const control_members *g)
{
    if (g->job->network == NULL)
        return RUEDA_OK;
    return network_set_open(g->job->network, g->set, g->epoch, g->ranks, g->size);
}

void control_members_close(const control_members *g)
{
    if (g->job != NULL && g->job->network != NULL)
        network_set_close(g->job->network, g->set);
}

static segment_contribution *part_of(const control_members *g, uint64_t round, uint16_t index)
{
    if (g->job->network != NULL)
        return network_part(g->job->network, g->set, round, index);
    return segment_contribution_at(g->job->segment, g->ranks[index], g->set, round);
}

rueda_status control_draft(const control_members *g, uint64_t round, bool with_news,
                           segment_contribution **draft)
{
    const control *c = g->job;
    rueda_status status = RUEDA_OK;
    if (with_news && c->network != NULL)
        status =
            network_news_room(c->network, g->set, round, g->index, segment_news_bytes(c->segment));
    else if (with_news)
        status = segment_commit_news(c->segment, g->ranks[g->index], g->set);
    if (status == RUEDA_OK)
        *draft = part_of(g, round, g->index);
    return status;
}

uint8_t *control_news(const control_members *g, uint64_t round, uint16_t index)
{
    if (g->job->network != NULL)
        return network_news(g->job->network, g->set, round, index);
    return segment_news_at(g->job->segment, g->ranks[index], g->set, round);
}

void control_want_times(const control *c)
{
    atomic_store(&c->segment->header->timed, 1);
}

void control_contribute(const control_members *g, uint64_t round)
{
    if (g->job->network != NULL) {
        network_contribute(g->job->network, g->set, round, g->index);
        return;
    }
    segment_contribution *c = part_of(g, round, g->index);
    /* its place was last used two rounds ago */
    RUEDA_ASSERT(atomic_load(&c->round) == (round < CONTROL_FIRST_ROUND + 2 ? 0 : round - 2));
    c->told_ns = segment_time(g->job->segment);
    world_point();
    atomic_store_explicit(&c->round, round, memory_order_release);
    control_notify(g);
}

bool control_contributed(const control_members *g, uint64_t round, uint16_t index)
{
    return atomic_load_explicit(&part_of(g, round, index)->round, memory_order_acquire) == round;
}

bool control_opened(const control_members *g, uint64_t round)
{
    for (uint16_t i = 0; i < g->size; i++) {
        if (i != g->index && control_contributed(g, round, i))
            return true;
    }
    return false;
}

bool control_complete(const control_members *g, uint64_t round)
{
    for (uint16_t i = 0; i < g->size; i++) {
        if (!control_contributed(g, round, i))
            return false;
    }
    return true;
}

segment_contribution *control_part(const control_members *g, uint64_t round, uint16_t index)
{
    return part_of(g, round, index);
}

static void ring_if_asleep(const control *c, uint32_t rank)
{
    segment_bell *bell = &segment_rank_at(c->segment, rank)->bell;
    const uint32_t sleeping = atomic_load_explicit(&bell->sleeping, memory_order_relaxed);
    if (sleeping == BELL_AWAKE)
        return;
    atomic_fetch_add(&bell->rings, 1);
    world_point();
    if (sleeping == BELL_ASLEEP_IN_POLL && c->network != NULL)
        mesh_ring(c->mesh, rank);
    else
        world_wake(&bell->rings, true);
}

/* The fence orders our change before the look at `sleeping`; the sleeper's announcement has the
 * same fence between `sleeping` and its last look at the memory: one of the two sees the other. */
void control_notify(const control_members *g)
{
    world_point();
    atomic_thread_fence(memory_order_seq_cst);
    for (uint16_t i = 0; i < g->size; i++) {
        if (i != g->index && control_is_local(g->job, g->ranks[i]))
            ring_if_asleep(g->job, g->ranks[i]);
    }
}

void control_notify_rank(const control *c, uint32_t rank)
{
    world_point();
    atomic_thread_fence(memory_order_seq_cst);
    ring_if_asleep(c, rank);
}

void control_call(const control *c, uint32_t rank)
{
    _Atomic uint32_t *work = &segment_rank_at(c->segment, rank)->work;
    atomic_fetch_add(work, 1);
    world_point();
    world_wake(work, true);
}

static void notify_host(const control *c)
{
    for (uint32_t r = 0; r < c->segment->header->ranks; r++) {
        if (control_is_local(c, r))
            control_notify_rank(c, r);
    }
}

bool control_shares_core(const control *c)
{
    const int32_t core = world_cpu_now() + 1; /* 0: never waited */
    atomic_store_explicit(&segment_rank_at(c->segment, c->rank)->bell.core, core,
                          memory_order_relaxed);
    for (uint32_t r = 0; r < c->segment->header->ranks; r++) {
        if (r == c->rank || !control_is_local(c, r))
            continue;
        const segment_bell *bell = &segment_rank_at(c->segment, r)->bell;
        if (atomic_load_explicit(&bell->core, memory_order_relaxed) == core)
            return true;
    }
    return false;
}

uint32_t control_sleep_announce(const control *c)
{
    segment_bell *bell = &segment_rank_at(c->segment, c->rank)->bell;
    const uint32_t seen = atomic_load(&bell->rings);
    world_point();
    atomic_store(&bell->sleeping, c->network == NULL ? BELL_ASLEEP : BELL_ASLEEP_IN_POLL);
    atomic_thread_fence(memory_order_seq_cst);
    return seen;
}

void control_sleep(const control *c, uint32_t seen, uint64_t timeout_ns)
{
    if (c->network != NULL)
        network_sleep(c->network, timeout_ns);
    else
        world_sleep_on(&segment_rank_at(c->segment, c->rank)->bell.rings, seen, timeout_ns, true);
}

void control_sleep_end(const control *c)
{
    atomic_store_explicit(&segment_rank_at(c->segment, c->rank)->bell.sleeping, BELL_AWAKE,
                          memory_order_relaxed);
}

bool control_pump(const control *c, uint64_t now_ns)
{
    if (c->network == NULL)
        return false;
    const char *why;
    const bool moved = network_pump(c->network, now_ns);
    const int lost = mesh_take_lost(c->mesh, &why);
    const segment_abort *heard = network_heard_abort(c->network);
    const rueda_status failed = mesh_failed(c->mesh);
    if (failed != RUEDA_OK && !control_is_aborted(c)) {
        control_fail(c, failed);
    } else if (heard != NULL && !control_is_aborted(c)) {
        control_abort(c, (rueda_status)heard->status, heard->rank, heard->text);
    } else if (lost >= 0) {
        status_fail(RUEDA_ERR_PEER, "rank %d is lost: %s; all ranks must be started again", lost,
                    why);
        control_abort(c, RUEDA_ERR_PEER, lost, status_text());
    }
    return moved;
}

void control_withdraw(const control *c, uint32_t rank)
{
    if (atomic_exchange(&segment_rank_at(c->segment, rank)->withdrawn, 1) == 0)
        notify_host(c);
}

bool control_has_withdrawn(const control *c, uint32_t rank)
{
    const segment_rank *r = segment_rank_at(c->segment, rank);
    return atomic_load(&r->withdrawn) != 0 || atomic_load(&r->state) == SEGMENT_LEFT;
}

void control_leave(const control *c)
{
    if (c->network != NULL)
        network_leave(c->network);
    segment_rank *me = segment_rank_at(c->segment, c->rank);
    me->departure = atomic_fetch_add(&c->segment->header->departures, 1) + 1;
    world_point();
    atomic_store(&me->state, SEGMENT_LEFT);
    notify_host(c);
}

uint32_t control_departure(const control *c, uint32_t rank)
{
    if (c->network != NULL)
        return mesh_departure(c->mesh, rank);
    const segment_rank *r = segment_rank_at(c->segment, rank);
    return atomic_load(&r->state) == SEGMENT_LEFT ? r->departure : 0;
}

/* Writes a record, which only the calling thread writes. True: it is the one that counts. */
static bool claim_abort(const control *c, segment_abort *a, uint32_t by, const segment_abort *said)
{
    if (control_is_aborted(c))
        return false; /* perhaps by us: what is published must not change */
    *a = *said;
    world_point();
    uint32_t nobody = 0;
    return atomic_compare_exchange_strong(&c->segment->header->aborted_by, &nobody, by);
}

void control_abort(const control *c, rueda_status status, int rank, const char *text)
{
    segment_abort said = {.status = (uint32_t)status, .rank = rank};
    segment_abort *a = &segment_rank_at(c->segment, c->rank)->abort;
    snprintf(said.text, sizeof said.text, "%s", text);
    if (!claim_abort(c, a, c->rank + 1, &said))
        return;
    if (c->network != NULL)
        network_tell_abort(c->network, a);
    notify_host(c);
}

void control_end_view(const control *c, int rank, const char *text)
{
    segment_abort said = {.status = RUEDA_ERR_MEMBERS, .rank = rank};
    snprintf(said.text, sizeof said.text, "%s", text);
    if (claim_abort(c, &segment_rank_at(c->segment, c->rank)->end_of_view,
                    (c->rank + 1) | SEGMENT_END_OF_VIEW, &said))
        notify_host(c);
}

void control_fail(const control *c, rueda_status status)
{
    char why[SEGMENT_ABORT_TEXT - 60];
    snprintf(why, sizeof why, "%s", status_text());
    if (status == RUEDA_ERR_MEMORY)
        status_fail(status, "rank %u has no memory left, which ends the job: %s", c->rank, why);
    else if (status == RUEDA_ERR_SYSTEM)
        status_fail(status, "rank %u cannot go on, which ends the job: %s", c->rank, why);
    control_abort(c, status, (int)c->rank, status_text());
}

rueda_status control_aborted(const control *c, int *rank)
{
    const uint32_t by = atomic_load(&c->segment->header->aborted_by);
    if (by == 0)
        return RUEDA_OK;
    const segment_rank *teller = segment_rank_at(c->segment, (by & ~SEGMENT_END_OF_VIEW) - 1);
    const segment_abort *a =
        (by & SEGMENT_END_OF_VIEW) != 0 ? &teller->end_of_view : &teller->abort;
    if (c->network != NULL)
        network_tell_abort(c->network, a);
    *rank = a->rank;
    return status_restore((rueda_status)a->status, a->text);
}

/* ---- With a network --------------------------------------------------------------------------- */

rueda_status control_open(control *c, boot_meeting *meeting, const boot_identity *who,
                          const control_terms *terms, const logger *log)
{
    rueda_status status = mesh_open(meeting, who, terms->connect_ns, log, &c->mesh);
    if (status == RUEDA_OK)
        status = network_open(c->mesh, who, terms, c->segment, &c->network);
    if (status != RUEDA_OK)
        return control_close(c), status;
    network_set_answerer(c->network, c->answer);
    return RUEDA_OK;
}

void control_close(control *c)
{
    network_close(c->network);
    mesh_close(c->mesh);
    c->network = NULL;
    c->mesh = NULL;
}
