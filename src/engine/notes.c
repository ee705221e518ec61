/* notes.c: what the engine tells the timeline and the trace. Every call returns at once where neither is
 * wanted, and costs a branch. All but what is said of submissions is the driver's. */
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

#define LONG_WAIT_NS UINT64_C(1000000000) /* a tensor that waits longer is shown while it does */

/* ---- Names ----------------------------------------------------------------------------------- */

/* Horovod's word for the operation. */
static const char *op_name(const signature *s)
{
    const bool adasum = s->kind == SIGNATURE_ALLREDUCE && s->op == RUEDA_ADASUM;
    return adasum ? "ADASUM" : signature_kind_name(s->kind);
}

static timeline_subject subject_of(const engine *e, const process_set *s, const entry *own)
{
    const record *r = own->record;
    return (timeline_subject){r->name, r->length, (int32_t)(s - e->sets), op_name(&own->signature)};
}

static const char *kind_name(uint8_t kind)
{
#define KIND_NAME(name, local, remote) local,
    static const char *const names[] = {PLAN_KIND_LIST(KIND_NAME)};
    return kind < PLAN_KIND_COUNT ? names[kind] : "?";
}

static const char *collective_name(uint8_t collective)
{
    return plan_collective_name((plan_collective)collective);
}

static const char *algorithm_name(uint8_t algorithm)
{
    return plan_algorithm_name((plan_algorithm)algorithm);
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static bool is_wanted_from_start(const engine *e)
{
    const char *path = e->settings.timeline.text;
    return path[0] != '\0' && strcmp(path, TIMELINE_DYNAMIC) != 0;
}

static bool writes_timeline(const engine *e)
{
    return e->who.rank == 0 || e->settings.timeline_all;
}

static timeline_options options_of(const engine *e, const char *path, bool mark_rounds)
{
    return (timeline_options){.path = path,
                              .mark_rounds = mark_rounds,
                              .max_bytes = (uint64_t)e->settings.timeline_max,
                              .writers = e->settings.timeline_all ? e->who.local_size : 1,
                              .await_offset = e->control.network != NULL && e->who.rank != 0};
}

/* A new generation must not take the place of what the one before it has written. */
static void path_from_start(const engine *e, char *path, size_t room)
{
    if (e->generation == 1)
        snprintf(path, room, "%s", e->settings.timeline.text);
    else
        snprintf(path, room, "%s.%llu", e->settings.timeline.text,
                 (unsigned long long)e->generation);
}

rueda_status notes_prepare(engine *e)
{
    char path[TIMELINE_PATH_MAX], reason[STATUS_TEXT_MAX];
    timeline_init(&e->timeline, e->who.rank, &e->log);
    if (!is_wanted_from_start(e) || !writes_timeline(e) || e->who.host_rank != 0)
        return RUEDA_OK;
    timeline_file file;
    path_from_start(e, path, sizeof path);
    rueda_status status = timeline_file_init(&file, path, timeline_text_first(), 0);
    if (status == RUEDA_OK)
        status = timeline_file_create(&file);
    if (status == RUEDA_OK)
        return RUEDA_OK;
    snprintf(reason, sizeof reason, "%s", status_text());
    return status_fail(RUEDA_ERR_CONFIG, "RUEDA_TIMELINE=%.200s: %.250s", path, reason);
}

rueda_status notes_start(engine *e)
{
    rueda_status status = trace_init(&e->trace, (uint64_t)e->settings.trace, e->generation);
    if (status != RUEDA_OK || !is_wanted_from_start(e) || !writes_timeline(e))
        return status;
    char path[TIMELINE_PATH_MAX];
    path_from_start(e, path, sizeof path);
    const timeline_options options = options_of(e, path, e->settings.timeline_mark_cycles);
    control_want_times(&e->control);
    return timeline_start(&e->timeline, &options);
}

void notes_clock(engine *e)
{
    int64_t offset_ns;
    if (e->control.network != NULL && network_clock_offset(e->control.network, &offset_ns))
        timeline_set_offset(&e->timeline, offset_ns);
}

void notes_stop(engine *e)
{
    notes_clock(e);
    if (timeline_stop(&e->timeline) != RUEDA_OK)
        board_note_lost_timeline(e->board, e->who.rank); /* the log has said why */
    timeline_fini(&e->timeline);
    trace_fini(&e->trace);
}

rueda_status notes_timeline_start(engine *e, const char *path, bool mark_cycles)
{
    if (!writes_timeline(e))
        return RUEDA_OK;
    timeline_options options = options_of(e, path, mark_cycles);
    options.fresh = e->who.host_rank == 0;
    control_want_times(&e->control);
    return timeline_start(&e->timeline, &options);
}

/* ---- What happens ---------------------------------------------------------------------------- */

void notes_submitted(const engine *e, entry *const *entries, size_t count)
{
    if (!timeline_is_on(&e->timeline))
        return;
    const uint64_t now = world_now_ns();
    for (size_t i = 0; i < count; i++)
        entries[i]->submitted_ns = now;
}

static void tell_negotiated(engine *e, const process_set *s, record *r, const entry *own)
{
    const timeline_subject subject = subject_of(e, s, own);
    if (r->ready_ns != NULL)
        r->ready_ns[s->index] = own->submitted_ns;
    timeline_negotiated(&e->timeline, &subject, own->submitted_ns, e->decided_ns,
                        r->conflicting ? RUEDA_ERR_MISMATCH : RUEDA_OK, r->ready_ns, s->ranks,
                        s->size);
}

void notes_decided(engine *e, const process_set *s, const negotiation_result *result)
{
    e->decided_ns = 0;
    if (!timeline_is_on(&e->timeline))
        return;
    e->decided_ns = world_now_ns();
    for (uint32_t i = 0; i < result->count; i++) {
        record *r = result->decided[i];
        if (r->launching != NULL)
            tell_negotiated(e, s, r, r->launching);
        negotiation_forget_ready(&s->negotiation, r);
    }
    if (result->join != NULL)
        tell_negotiated(e, s, result->join->record, result->join);
}

/* Mostly it can begin as soon as it is decided: that needs no second look at the clock. */
void notes_running(operation *o)
{
    if (o->decided_ns != 0 && !o->exec.entered)
        o->began_ns = o->began_ns == 0 ? o->decided_ns : world_now_ns();
}

static const char *engine_name(const operation *o)
{
    return o->exec.bound.channel->table->name;
}

void notes_finished(engine *e, const operation *o, rueda_status status)
{
    if (o->decided_ns == 0 || !timeline_is_on(&e->timeline))
        return;
    timeline_work w = {.decided_ns = o->decided_ns,
                       .began_ns = o->exec.entered ? o->began_ns : 0,
                       .ended_ns = world_now_ns(),
                       .status = status,
                       .engine = engine_name(o),
                       .algorithm = plan_algorithm_name(o->exec.bound.plan->algorithm),
                       .number = o->exec.bound.number,
                       .tensors = o->count};
    for (uint32_t i = 0; i < o->count; i++) {
        const entry *own = o->entries[i];
        if (own == NULL)
            continue;
        const timeline_subject subject = subject_of(e, o->set, own);
        w.dtype = (rueda_dtype)own->signature.dtype;
        w.ndim = own->signature.ndim;
        w.shape = own->signature.shape;
        timeline_done(&e->timeline, &subject, &w);
    }
}

void notes_call_submitted(const engine *e, p2p_call *call)
{
    if (timeline_is_on(&e->timeline))
        call->submitted_ns = world_now_ns(); /* what the report of stalls has is too coarse */
}

/* A send or a receive has no round: from the call to its end it is one piece of work. */
void notes_call_ended(engine *e, const process_set *s, const p2p_call *call, rueda_status status)
{
    if (!timeline_is_on(&e->timeline))
        return;
    const char *name = p2p_shown(call);
    const timeline_subject subject = {name, (uint32_t)strlen(name), (int32_t)(s - e->sets),
                                      call->sends ? "SEND" : "RECV"};
    const timeline_work w = {.decided_ns = call->submitted_ns,
                             .began_ns = call->submitted_ns,
                             .ended_ns = world_now_ns(),
                             .status = status != RUEDA_OK ? status : call->request->status,
                             .dtype = (rueda_dtype)call->tensor.dtype,
                             .ndim = call->tensor.ndim,
                             .shape = call->tensor.shape,
                             .engine = e->transports.table->name,
                             .algorithm =
                                 call->tensor.bytes <= P2P_EAGER_BYTES ? "eager" : "slices",
                             .number = call->number,
                             .tensors = 1};
    timeline_done(&e->timeline, &subject, &w);
}

static void tell_waiting(engine *e, process_set *s, uint64_t before)
{
    world_lock_take(&s->queue.lock);
    for (const record *r = NULL; (r = queue_next(&s->queue, r)) != NULL;) {
        if (!r->waits || r->entry->submitted_ns > before)
            continue;
        const timeline_subject subject = subject_of(e, s, r->entry);
        timeline_waiting(&e->timeline, &subject, r->entry->submitted_ns);
    }
    world_lock_release(&s->queue.lock);
}

void notes_waiting(engine *e, uint64_t now)
{
    if (!timeline_is_on(&e->timeline) || now < e->next_waiting_ns)
        return;
    e->next_waiting_ns = now + LONG_WAIT_NS;
    for (int32_t i = 0; i < e->set_limit; i++) {
        process_set *s = &e->sets[i];
        if (s->exists && s->member && s->negotiation.waiting > 0)
            tell_waiting(e, s, now - LONG_WAIT_NS);
    }
}

static void tell_where_it_waits(const operation_list *list)
{
    for (const operation *o = list->first; o != NULL; o = o->next) {
        if (o->exec.bound.trace != NULL && o->exec.phase < o->exec.bound.plan->phase_count)
            exec_trace_stuck(&o->exec, false);
    }
}

void notes_broken(engine *e, rueda_status status)
{
    const bool by_fault = status == RUEDA_ERR_PEER || status == RUEDA_ERR_STALLED ||
                          status == RUEDA_ERR_TIMEOUT || status == RUEDA_ERR_INTERNAL;
    static const trace_names names = {kind_name, collective_name, algorithm_name};
    if (!by_fault || trace_if_on(&e->trace) == NULL)
        return;
    tell_where_it_waits(&e->set_operations);
    for (int32_t i = 0; i < e->set_limit; i++) {
        for (int l = 0; l < LANE_COUNT && e->sets[i].exists; l++)
            tell_where_it_waits(&e->sets[i].flight[l]);
    }
    trace_dump(&e->trace, &names, e->settings.trace_file.text, &e->log);
}
