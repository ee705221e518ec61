/* sets.c: process sets: made, added, removed.
 *
 * A change is an operation in the order of the global set. It begins when all earlier changes are
 * complete here, runs a barrier over all ranks, and is complete when nothing of a removed set is in
 * flight here. So all ranks go through the same sequence of sets, and a place in the segment is used
 * again only when everybody is done with it.
 */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

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

/* The number of the first operation on every channel of the set that is made now. It grows from set to
 * set: a slow member may still wait for our flag to reach a number of the set that had this place in
 * the segment before, and must not see it fall. */
static uint64_t first_sequence(const engine *e)
{
    return e->sets_added % 65536 << 24;
}

/* The place in the segment may have served another set: start anew before the others look. */
static void clear_segment(engine *e, int32_t id)
{
    const uint32_t rank = (uint32_t)e->who.rank, set = (uint32_t)id;
    for (uint32_t c = 0; c < e->segment.header->channels; c++)
        atomic_store(&segment_flag_at(&e->segment, rank, set, c)->value, first_sequence(e)
                                                                             << EXEC_TICK_BITS);
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
    for (uint32_t c = 0; c < channels && status == RUEDA_OK; c++) {
        s->begun[c] = s->done[c] = first_sequence(e);
        status = e->transports.table->open(e->transports.job, &s->members, c, &s->channels[c]);
    }
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
    clear_segment(e, id);
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
    s->exists = false; /* apart from the rest: other threads look at it at any time */
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
    pthread_mutex_lock(&e->sets_lock);
    release(e, &e->sets[id]);
    pthread_mutex_unlock(&e->sets_lock);
}

void sets_trim(engine *e)
{
    for (int32_t i = 0; i < e->set_limit; i++) {
        process_set *s = &e->sets[i];
        for (uint32_t c = 0; s->exists && s->member && c < e->segment.header->channels; c++)
            exec_scratch_free(&s->scratch[c]);
    }
}

static bool same_ranks(const process_set *s, const signature *wanted)
{
    if (!s->exists || s->size != wanted->list_count)
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
    int32_t unused = -1;
    for (int32_t i = RUEDA_MAX_SETS - 1; i >= 0; i--) {
        if (same_ranks(&e->sets[i], wanted))
            return status_fail(RUEDA_ERR_ARGUMENT,
                               "a process set of these ranks exists already: it is number %d", i);
        if (!e->sets[i].exists)
            unused = i;
    }
    if (unused < 0)
        return status_fail(RUEDA_ERR_MEMORY, "there are %d process sets already: remove one first",
                           RUEDA_MAX_SETS);
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
static void retire(process_set *s)
{
    negotiation_retire(&s->negotiation);
    if (s->p2p != NULL)
        p2p_retire(s->p2p);
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
        if (o->target > 0 && o->target < RUEDA_MAX_SETS && e->sets[o->target].exists) {
            retire(&e->sets[o->target]);
            return RUEDA_OK;
        }
        status = status_fail(RUEDA_ERR_ARGUMENT,
                             "process set %d does not exist: it cannot be removed", wanted->root);
    }
    refuse(o, status);
    return RUEDA_OK;
}

/* Not before the set's last round, which all members decide alike, and what the rounds have launched. The
 * barrier alone would not do: it may overtake a contribution, since those take another way. */
bool sets_drained(engine *e, operation *o)
{
    if (o->kind == SIGNATURE_ADD_SET || o->target < 0)
        return true;
    process_set *s = &e->sets[o->target];
    if (!s->member)
        return true;
    const negotiation *n = &s->negotiation;
    /* nobody reads messages any more: what is left of them must not be waited for */
    if (e->control.mesh != NULL &&
        !mesh_set_sent(e->control.mesh, (uint32_t)o->target, segment_message_channel(&e->segment)))
        return false;
    return n->retired && s->flight[LANE_SMALL].count == 0 && s->flight[LANE_LARGE].count == 0;
}

void sets_complete(engine *e, operation *o)
{
    if (o->target < 0)
        return;
    process_set *s = &e->sets[o->target];
    if (o->kind == SIGNATURE_ADD_SET) {
        pthread_mutex_lock(&e->sets_lock);
        s->exists = true;
        pthread_mutex_unlock(&e->sets_lock);
        o->entries[0]->request->set = o->target;
        return;
    }
    s->exists = false;
    while (atomic_load(&e->set_users[o->target]) > 0)
        os_yield(); /* a thread is about to submit: what it brings is ended below */
    if (s->member)
        engine_end_waiting(e, s, RUEDA_ERR_SHUTDOWN, "the process set was removed");
    if (s->p2p != NULL && p2p_channel(s->p2p) != NULL)
        segment_empty_rings(&e->segment, (uint32_t)e->who.rank, (uint32_t)o->target,
                            segment_message_channel(&e->segment));
    sets_unmake(e, o->target);
}
