/* progress.c: one pass over all process sets: mail, rounds, plans in flight. No clock, no blocking. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>

#define STEPS_SMALL UINT32_MAX /* a small operation runs until it must wait */
#define STEPS_LARGE 16         /* a large one lets others in between; two ticks of two ranks */

void engine_tell_waiters(engine *e)
{
    if (atomic_load(&e->sleepers) == 0)
        return;
    atomic_fetch_add(&e->events, 1);
    world_wake(&e->events, false);
}

void engine_end_waiting(engine *e, process_set *s, rueda_status status, const char *text)
{
    queue_close(&s->queue, status, text);
    negotiation_take_mail(&s->negotiation);
    for (entry *waiting = negotiation_abandon(&s->negotiation), *next; waiting != NULL;
         waiting = next) {
        next = waiting->next;
        engine_end_entry(e, s, waiting, status, text);
    }
    sendrecv_end(e, s, status, text);
}

static void break_set(engine *e, process_set *s, rueda_status status, const char *text)
{
    engine_end_waiting(e, s, status, text);
    for (int l = 0; l < LANE_COUNT; l++) {
        for (operation **link = &s->flight[l].first; *link != NULL;) {
            if (linger_is_needed(*link)) {
                e->lingering++;
                link = &(*link)->next;
            } else {
                operation_finish(e, operation_remove(&s->flight[l], link), status, text);
            }
        }
    }
}

/* Ends everything, here; the other ranks learn it from the abort record, if there is one. */
void engine_break(engine *e, rueda_status status, const char *text)
{
    if (e->broken != RUEDA_OK)
        return;
    e->broken = status;
    snprintf(e->broken_text, sizeof e->broken_text, "%s", text);
    control_withdraw(&e->control, (uint32_t)e->who.rank);
    notes_broken(e, status);
    operation_list *changes = &e->set_operations;
    while (changes->first != NULL)
        operation_finish(e, operation_remove(changes, &changes->first), status, e->broken_text);
    for (int32_t i = 0; i < e->set_limit; i++) {
        if (e->sets[i].exists && e->sets[i].member)
            break_set(e, &e->sets[i], status, e->broken_text);
    }
    engine_tell_waiters(e);
}

/* Who is lost, or lacks something to go on, is the reason; other aborts tell only who noticed. */
static void break_as_agreed(engine *e)
{
    int rank = -1;
    const rueda_status status = control_aborted(&e->control, &rank);
    if (status == RUEDA_ERR_PEER || status == RUEDA_ERR_MEMORY || status == RUEDA_ERR_SYSTEM)
        board_name(e->board, e->who.rank, rank);
    if (status == RUEDA_ERR_MEMBERS)
        view_lose(e, rank);
    engine_break(e, status, status_text());
}

/* Ends everything on all ranks; with what another rank has said, if it was first. */
void engine_break_all(engine *e, rueda_status status)
{
    control_fail(&e->control, status);
    break_as_agreed(e);
}

static void note_join(engine *e, process_set *s, const negotiation_result *result)
{
    if (result->join == NULL)
        return;
    atomic_store(&e->last_joined, s->ranks[s->negotiation.last_joined]);
    engine_end_entry(e, s, result->join, RUEDA_OK, "");
    engine_tell_waiters(e);
}

static bool negotiate_set(engine *e, process_set *s)
{
    bool moved = false;
    if (queue_has_mail(&s->queue)) {
        atomic_store_explicit(&e->unseen, 0, memory_order_relaxed);
        negotiation_take_mail(&s->negotiation);
        moved = true;
    }
    /* while a small plan is in flight new tensors gather: it will be done in microseconds */
    const bool hold = s->flight[LANE_SMALL].count > 0;
    negotiation_result result;
    bool complete;
    const rueda_status status =
        negotiation_progress(&s->negotiation, hold, &moved, &complete, &result);
    if (status != RUEDA_OK) {
        engine_break_all(e, status);
        return true;
    }
    if (complete) {
        notes_decided(e, s, &result);
        note_join(e, s, &result);
        launch_decided(e, s, &result);
    }
    return moved;
}

/* The channel's earlier operation must be done here before its slots are used again. */
static bool is_first_on_channel(const process_set *s, const operation *o)
{
    return s->done[o->channel] == o->exec.bound.sequence;
}

/* Runs one operation; true: it has ended and is gone. */
static bool run_operation(engine *e, operation *o, bool *moved)
{
    process_set *s = o->set;
    if (!is_first_on_channel(s, o))
        return false;
    notes_running(o);
    exec_result result;
    const rueda_status status =
        exec_run(&o->exec, o->large ? STEPS_LARGE : STEPS_SMALL, &result, moved);
    if (status != RUEDA_OK) {
        engine_break_all(e, status);
        *moved = true;
        return false; /* engine_break has ended it with all others */
    }
    if (result != EXEC_DONE)
        return false;
    /* Who was stopped for long may have been given up meanwhile: what it then reads of others' memory is theirs
     * again, and no result. They say so before they use it, and LEAVE has ordered our reads before this look. */
    if (control_is_aborted(&e->control)) {
        *moved = true;
        return false;
    }
    RUEDA_ASSERT(s->done[o->channel] == o->exec.bound.sequence); /* in the order of their launch */
    s->done[o->channel]++;
    *moved = true;
    return true;
}

static bool run_flight(engine *e, process_set *s, lane l)
{
    bool moved = false;
    operation_list *list = &s->flight[l];
    operation **link = &list->first;
    while (*link != NULL) {
        operation *o = *link;
        const bool done = run_operation(e, o, &moved);
        if (e->broken != RUEDA_OK)
            return true;
        if (done)
            operation_finish(e, operation_remove(list, link), RUEDA_OK, "");
        else
            link = &o->next;
    }
    return moved;
}

/* Changes of process sets run strictly one after the other, each with a barrier of all ranks. */
static bool run_set_operation(engine *e)
{
    operation *o = e->set_operations.first;
    if (o == NULL)
        return false;
    bool moved = false;
    if (!o->started) {
        const rueda_status status = sets_begin(e, o);
        if (status != RUEDA_OK) {
            engine_break_all(e, status);
            return true;
        }
        o->started = true;
    }
    if (!o->after_barrier)
        o->after_barrier = run_operation(e, o, &moved);
    if (e->broken != RUEDA_OK)
        return true;
    if (o->after_barrier && sets_drained(e, o)) {
        operation_remove(&e->set_operations, &e->set_operations.first);
        sets_complete(e, o);
        operation_finish(e, o, RUEDA_OK, "");
        moved = true;
    }
    return moved;
}

static bool run_set(engine *e, process_set *s)
{
    bool moved = negotiate_set(e, s);
    for (int l = 0; l < LANE_COUNT && e->broken == RUEDA_OK; l++)
        moved |= run_flight(e, s, (lane)l);
    if (s->p2p != NULL && e->broken == RUEDA_OK)
        moved |= sendrecv_step(e, s);
    return moved;
}

static bool run_busy_sets(engine *e)
{
    bool moved = false;
    busy_take_calls(e);
    for (process_set **link = &e->busy; *link != NULL && e->broken == RUEDA_OK;) {
        process_set *s = *link;
        moved |= run_set(e, s);
        if (busy_is_over(s)) {
            *link = s->next_busy;
            s->busy = false;
        } else {
            link = &s->next_busy;
        }
    }
    return moved;
}

bool engine_step(engine *e, uint64_t now)
{
    world_point();
    RUEDA_ASSERT(atomic_load(&e->driving) != 0); /* one thread at a time */
    /* also when all is over here: others may count on us to pass on what they say */
    bool moved = control_pump(&e->control, now);
    if (e->broken != RUEDA_OK)
        return (e->lingering > 0 && linger_release(e)) || moved;
    if (control_is_aborted(&e->control)) {
        break_as_agreed(e);
        return true;
    }
    moved |= run_set_operation(e);
    if (e->broken == RUEDA_OK)
        moved |= run_set(e, &e->sets[RUEDA_GLOBAL_SET]);
    if (e->busy != NULL || atomic_load_explicit(&e->called, memory_order_acquire) != NULL)
        moved |= run_busy_sets(e);
    return moved;
}
