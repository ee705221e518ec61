/* sets.c: process sets: made, added, removed.
 *
 * A change is an operation in the order of the global set. It begins when all earlier changes are
 * complete here, runs a barrier over all ranks, and is complete when nothing of a removed set is in
 * flight here. So all ranks go through the same sequence of sets.
 *
 * Places. A set has a place in the segment, whose number is the set's. When a removal is complete here, a
 * slower member may still wait for our flag there, or read our slots. So the place rests until the next
 * change has passed its barrier: then all ranks have completed the removal, and each clears its own head. A
 * later change may take the place, and all have cleared it when that one has passed its barrier in turn. So
 * every set counts its rounds and operations from the start, there is nothing that counts on from set to set
 * and could overflow, and at most one place rests at a time. All ranks choose places alike, by the same changes.
 *
 * Memory of an added set is its head; the rest is taken when an operation first needs it (sets_provide), and
 * given back when the place has rested. What an operation uses follows from agreed numbers only. Who
 * finds no memory ends the job, as the others count on it.
 */
#include "engine/engine.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_KEPT                                                                                \
    2 /* keep their memory: who adds and removes a set over and over goes through these */

rueda_status sets_init(engine *e)
{
    e->sets = calloc(SEGMENT_SETS, sizeof *e->sets);
    e->set_hashes = calloc(SEGMENT_SETS, sizeof *e->set_hashes);
    return e->sets != NULL && e->set_hashes != NULL
               ? RUEDA_OK
               : status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
}

void sets_fini(engine *e)
{
    free(e->sets);
    free(e->set_hashes);
    e->sets = NULL;
    e->set_hashes = NULL;
}

static rueda_status find_member(engine *e, process_set *s, const int64_t *ranks, uint32_t count)
{
    s->size = (uint16_t)count;
    s->ranks = malloc(count * sizeof *s->ranks);
    if (s->ranks == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a process set");
    for (uint32_t i = 0; i < count; i++) {
        s->ranks[i] = (uint16_t)ranks[i];
        if (ranks[i] == e->who.rank) {
            s->member = true;
            s->index = (uint16_t)i;
        }
    }
    return RUEDA_OK;
}

/* Numbers the hosts of the members in the order of their first members. */
static rueda_status find_hosts(const engine *e, process_set *s)
{
    const mesh *n = e->control.mesh;
    s->hosts = 1;
    if (n == NULL)
        return RUEDA_OK;
    s->host_of = calloc(s->size, sizeof *s->host_of);
    if (s->host_of == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a process set");
    for (uint16_t i = 1; i < s->size; i++) {
        uint16_t beside = 0;
        while (mesh_host(n, s->ranks[beside]) != mesh_host(n, s->ranks[i]))
            beside++;
        s->host_of[i] = beside < i ? s->host_of[beside] : s->hosts++;
    }
    if (s->hosts > 1)
        return RUEDA_OK;
    free(s->host_of);
    s->host_of = NULL;
    return RUEDA_OK;
}

static rueda_status open_channel(engine *e, process_set *s, uint32_t channel)
{
    return e->transports.table->open(e->transports.job, &s->members, channel,
                                     &s->channels[channel]);
}

/* Those of the global set at once: it will use them, and small calls need not look whether it has. */
static rueda_status open_channels(engine *e, process_set *s)
{
    const uint32_t channels = e->segment.header->channels;
    s->channels = calloc(channels, sizeof(transport_channel *));
    s->scratch = calloc(channels, sizeof *s->scratch);
    s->begun = calloc(channels, sizeof *s->begun);
    s->done = calloc(channels, sizeof *s->done);
    if (s->channels == NULL || s->scratch == NULL || s->begun == NULL || s->done == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory for a process set");
    rueda_status status = RUEDA_OK;
    const bool global = s == &e->sets[RUEDA_GLOBAL_SET];
    for (uint32_t c = 0; global && c < channels && status == RUEDA_OK; c++)
        status = open_channel(e, s, c);
    return status;
}

/* Cells that any phase has in a slot. */
static uint64_t most_cells(const plan *p)
{
    uint64_t most = 0;
    for (uint32_t f = 0; f < p->phase_count; f++)
        most = p->phases[f].cells > most ? p->phases[f].cells : most;
    return most;
}

/* Whether it needs but the slots of its channel, and a page of each. All members must find the same: nothing
 * that differs between their plans counts. */
static bool is_small(const plan *p, uint64_t cells, uint64_t bytes)
{
    const uint64_t cell = (bytes + OS_CACHE_LINE - 1) / OS_CACHE_LINE * OS_CACHE_LINE;
    return !p->layout.adasum && !p->layout.mapped && cell <= SEGMENT_SMALL_SLOT_BYTES &&
           cells * cell <= SEGMENT_SMALL_SLOT_BYTES;
}

rueda_status sets_provide(engine *e, const operation *o, const plan *p, uint64_t bytes,
                          uint64_t *slot_bytes)
{
    process_set *s = o->set;
    const uint64_t cells = most_cells(p);
    const bool small = is_small(p, cells, bytes);
    if (small)
        *slot_bytes = SEGMENT_SMALL_SLOT_BYTES;
    rueda_status status = RUEDA_OK;
    if (cells > 0 || !small)
        status = segment_commit_channel(&e->segment, (uint32_t)e->who.rank, s->members.set,
                                        o->channel, small);
    if (status == RUEDA_OK && s->channels[o->channel] == NULL)
        status = open_channel(e, s, o->channel);
    return status;
}

static rueda_status equip(engine *e, process_set *s, int32_t id)
{
    s->members =
        (control_members){&e->control, (uint32_t)id, s->size, s->index, s->ranks, e->sets_added};
    rueda_status status = segment_commit_set(&e->segment, (uint32_t)e->who.rank, (uint32_t)id);
    if (status == RUEDA_OK)
        status = find_hosts(e, s);
    if (status != RUEDA_OK)
        return status;
    status = control_members_open(&s->members);
    if (status == RUEDA_OK)
        status = queue_init(&s->queue);
    if (status == RUEDA_OK)
        status = negotiation_init(&s->negotiation, &s->members, &s->queue,
                                  (uint32_t)e->settings.cache_capacity);
    s->negotiation.timeline = &e->timeline;
    return status == RUEDA_OK ? open_channels(e, s) : status;
}

static void release(engine *e, process_set *s)
{
    p2p_free(s->p2p);
    for (uint32_t c = 0; s->channels != NULL && c < e->segment.header->channels; c++)
        e->transports.table->close(s->channels[c]);
    for (uint32_t c = 0; s->scratch != NULL && c < e->segment.header->channels; c++)
        exec_scratch_free(&s->scratch[c]);
    free(s->channels);
    free(s->scratch);
    free(s->begun);
    free(s->done);
    plans_free(s);
    negotiation_fini(&s->negotiation);
    queue_fini(&s->queue);
    control_members_close(&s->members);
    free(s->host_of);
    free(s->ranks);
    s->exists = false; /* apart from the rest: other threads look at them at any time */
    s->ending = false;
    const size_t kept = offsetof(process_set, member);
    memset((char *)s + kept, 0, sizeof *s - kept);
}

rueda_status sets_make(engine *e, int32_t id, const int64_t *ranks, uint32_t count)
{
    process_set *s = &e->sets[id];
    rueda_status status = find_member(e, s, ranks, count);
    if (status == RUEDA_OK && s->member)
        status = equip(e, s, id);
    if (status != RUEDA_OK)
        release(e, s);
    else if (id >= e->set_limit)
        e->set_limit = id + 1;
    return status;
}

void sets_unmake(engine *e, int32_t id)
{
    world_lock_take(&e->sets_lock);
    release(e, &e->sets[id]);
    world_lock_release(&e->sets_lock);
}

void sets_trim(engine *e)
{
    for (int32_t i = 0; i < e->set_limit; i++) {
        process_set *s = &e->sets[i];
        for (uint32_t c = 0; s->exists && s->member && c < e->segment.header->channels; c++)
            exec_scratch_free(&s->scratch[c]);
    }
}

/* Never 0. */
static uint64_t hash_ranks(const int64_t *ranks, uint32_t count)
{
    return hash_bytes(0, ranks, count * sizeof *ranks) | 1; /* 0: no set is there */
}

static bool same_ranks(const process_set *s, const signature *wanted)
{
    if (s->size != wanted->list_count)
        return false;
    for (uint16_t i = 0; i < s->size; i++) {
        if (s->ranks[i] != wanted->list[i])
            return false;
    }
    return true;
}

/* The same answer on all ranks: an id, or a status for everybody. */
static rueda_status choose_id(const engine *e, const signature *wanted, int32_t *id)
{
    const int32_t places = (int32_t)e->segment.header->sets;
    const uint64_t hash = hash_ranks(wanted->list, wanted->list_count);
    int32_t unused = -1;
    for (int32_t i = places - 1; i >= 0; i--) {
        if (e->set_hashes[i] == hash && same_ranks(&e->sets[i], wanted))
            return status_fail(RUEDA_ERR_ARGUMENT,
                               "a process set of these ranks exists already: it is number %d", i);
        if (e->set_hashes[i] == 0 && i != e->resting)
            unused = i;
    }
    if (unused < 0 || e->set_count + 1 >= (uint32_t)places)
        return status_fail(RUEDA_ERR_MEMORY, "there are %u process sets already: remove one first",
                           e->set_count);
    *id = unused;
    return RUEDA_OK;
}

static void refuse(operation *o, rueda_status status)
{
    o->target = -1;
    rueda_request *r = o->entries[0]->request;
    r->status = status;
    r->text = strdup(status_text());
}

/* From the barrier on no member sends to another any more. */
static void retire(engine *e, process_set *s)
{
    negotiation_retire(&s->negotiation);
    if (s->p2p != NULL)
        p2p_retire(s->p2p);
    if (s->member)
        busy_add(e, s);
}

rueda_status sets_begin(engine *e, operation *o)
{
    const signature *wanted = &o->entries[0]->signature;
    rueda_status status;
    if (o->kind == SIGNATURE_ADD_SET) {
        status = choose_id(e, wanted, &o->target);
        e->sets_added += status == RUEDA_OK;
        if (status == RUEDA_OK)
            return sets_make(e, o->target, wanted->list, wanted->list_count);
    } else {
        o->target = wanted->root;
        if (o->target > 0 && o->target < SEGMENT_SETS && e->sets[o->target].exists) {
            retire(e, &e->sets[o->target]);
            return RUEDA_OK;
        }
        status = status_fail(RUEDA_ERR_ARGUMENT,
                             "process set %d does not exist: it cannot be removed", wanted->root);
    }
    refuse(o, status);
    return RUEDA_OK;
}

static bool is_quiet(const engine *e, const process_set *s)
{
    /* nobody reads messages any more: what is left of them must not be waited for */
    if (e->control.mesh != NULL && !mesh_set_sent(e->control.mesh, (uint32_t)(s - e->sets),
                                                  segment_message_channel(&e->segment)))
        return false;
    return s->negotiation.retired && s->flight[LANE_SMALL].count == 0 &&
           s->flight[LANE_LARGE].count == 0;
}

/* Not before the set's last round, which all members decide alike, and what the rounds have launched. The
 * barrier alone would not do: it may overtake a contribution, since those take another way. And not as long as
 * a thread holds the set: what it is about to submit is ended with the set. */
bool sets_drained(engine *e, operation *o)
{
    if (o->kind == SIGNATURE_ADD_SET || o->target < 0)
        return true;
    process_set *s = &e->sets[o->target];
    if (s->member && !is_quiet(e, s))
        return false;
    s->ending = true;
    return atomic_load(&e->set_users[o->target]) == 0;
}

/* All ranks have completed the removal of the set that was there. The head of one that we were not in was
 * never written since it was last cleared. */
static void end_rest(engine *e)
{
    const uint32_t place = (uint32_t)e->resting, rank = (uint32_t)e->who.rank;
    if (place == 0)
        return;
    e->resting = 0;
    if (!e->rested_in)
        return;
    segment_clear_head(&e->segment, rank, place);
    if (place > PLACES_KEPT && segment_has_body(&e->segment, place))
        segment_release_body(&e->segment, rank, place);
    else
        segment_empty_messages(&e->segment, rank, place);
}

void sets_note(engine *e, int32_t id, const int64_t *ranks, uint32_t count)
{
    e->set_hashes[id] = hash_ranks(ranks, count);
    e->set_count++;
    world_lock_take(&e->sets_lock);
    e->sets[id].exists = true;
    world_lock_release(&e->sets_lock);
}

static void complete_addition(engine *e, operation *o)
{
    const signature *wanted = &o->entries[0]->signature;
    sets_note(e, o->target, wanted->list, wanted->list_count);
    o->entries[0]->request->set = o->target;
}

static void complete_removal(engine *e, const operation *o)
{
    process_set *s = &e->sets[o->target];
    s->exists = false;
    busy_take_calls(e); /* nobody can call it any more */
    busy_remove(e, s);
    if (s->member)
        engine_end_waiting(e, s, RUEDA_ERR_SHUTDOWN, "the process set was removed");
    e->resting = o->target;
    e->rested_in = s->member;
    e->set_hashes[o->target] = 0;
    e->set_count--;
    sets_unmake(e, o->target);
}

void sets_complete(engine *e, operation *o)
{
    end_rest(e);
    if (o->target >= 0 && o->kind == SIGNATURE_ADD_SET)
        complete_addition(e, o);
    else if (o->target >= 0)
        complete_removal(e, o);
}
