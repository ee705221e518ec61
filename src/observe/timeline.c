/* timeline.c: notes from the driver, and the thread that writes them. */
#include "observe/timeline.h"

#include <signal.h>
#include <string.h>

#define TURN_NS UINT64_C(100000000) /* then look again */

/* ---- The writer ------------------------------------------------------------------------------ */

/* A time that was written by our own clock could stand hours away from those of the others. */
static bool can_tell_times(const timeline *t)
{
    return !t->await_offset || atomic_load(&t->offset_known);
}

/* What the text has no room for stays in the ring; `last`: there is no later. */
static void drain(timeline *t, bool last)
{
    if (!last && !can_tell_times(t))
        return;
    t->text.offset_ns = atomic_load_explicit(&t->offset_ns, memory_order_relaxed);
    for (const note_head *note; (last || byte_queue_used(&t->text.text) < TIMELINE_TEXT_BYTES) &&
                                (note = note_ring_peek(&t->ring)) != NULL;) {
        if (!timeline_text_add(&t->text, (const timeline_note *)note))
            atomic_fetch_add(&t->dropped, 1);
        note_ring_take(&t->ring, note);
    }
}

static void tell_dropped(timeline *t)
{
    const uint64_t dropped = atomic_load(&t->dropped);
    if (dropped == t->told_dropped)
        return;
    timeline_text_add_dropped(&t->text, dropped - t->told_dropped, world_now_ns());
    t->told_dropped = dropped;
}

static void give_up(timeline *t, rueda_status status)
{
    t->told_dropped = atomic_fetch_add(&t->dropped, t->text.notes) + t->text.notes;
    if (status == RUEDA_ERR_TIMEOUT || t->status != RUEDA_OK)
        return;
    log_line(t->log, LOG_ERROR, "the timeline ends: %s", status_text());
    t->status = status;
}

/* What cannot be written is given up; only another writer's lock is worth waiting for, while there is
 * room. After a failure nothing more is tried. */
static void flush(timeline *t, bool last)
{
    tell_dropped(t);
    rueda_status status = t->status;
    if (status == RUEDA_OK && byte_queue_used(&t->text.text) > 0)
        status = timeline_file_add(&t->file, (const char *)t->text.text.bytes, t->text.text.end);
    if (status == RUEDA_ERR_TIMEOUT && !last &&
        byte_queue_used(&t->text.text) < TIMELINE_TEXT_BYTES)
        return;
    if (status != RUEDA_OK)
        give_up(t, status);
    timeline_text_clear(&t->text);
}

static void finish(timeline *t)
{
    timeline_text_close(&t->text, world_now_ns());
    flush(t, true);
    timeline_file_finish(&t->file);
}

static void *writer_main(void *argument)
{
    timeline *t = argument;
    uint64_t flush_at = world_now_ns() + TIMELINE_FLUSH_NS;
    world_lower_priority();
    for (;;) {
        const uint32_t seen = atomic_load(&t->wake);
        const bool last = atomic_load(&t->stopping) != 0;
        drain(t, last);
        if (last)
            break;
        const uint64_t now = world_now_ns();
        if (now >= flush_at) {
            flush(t, false);
            flush_at = now + TIMELINE_FLUSH_NS * (uint64_t)t->writers;
        } else {
            world_sleep_on(&t->wake, seen, flush_at - now, false);
        }
    }
    finish(t);
    return NULL;
}

/* ---- Start and stop -------------------------------------------------------------------------- */

void timeline_init(timeline *t, int rank, const logger *log)
{
    memset(t, 0, sizeof *t);
    t->rank = rank;
    t->log = log;
}

void timeline_fini(timeline *t)
{
    timeline_stop(t);
    note_ring_fini(&t->ring);
}

static rueda_status start_writer(timeline *t)
{
    atomic_store(&t->stopping, 0);
    t->running = world_thread_start(&t->writer, writer_main, t);
    return t->running ? RUEDA_OK
                      : status_fail(RUEDA_ERR_SYSTEM, "cannot start a thread for the timeline");
}

static rueda_status start_in_turn(timeline *t, const timeline_options *options)
{
    if (t->running)
        return status_fail(RUEDA_ERR_STATE,
                           "a timeline is being written to %.300s: stop it before the next one",
                           t->file.path);
    rueda_status status =
        timeline_file_init(&t->file, options->path, timeline_text_first(), options->max_bytes);
    if (status == RUEDA_OK && options->fresh)
        status = timeline_file_create(&t->file);
    if (status == RUEDA_OK && t->ring.memory == NULL)
        status = note_ring_init(&t->ring, TIMELINE_RING_BYTES);
    if (status == RUEDA_OK)
        status = timeline_text_init(&t->text, t->rank, world_now_ns());
    if (status != RUEDA_OK)
        return status;
    atomic_store(&t->dropped, 0);
    t->told_dropped = 0;
    t->status = RUEDA_OK;
    t->writers = options->writers;
    t->await_offset = options->await_offset;
    atomic_store(&t->mark_rounds, options->mark_rounds);
    status = start_writer(t);
    if (status != RUEDA_OK)
        timeline_text_fini(&t->text);
    return status;
}

/* One thread starts or stops it at a time. Not a lock: who stops it waits for the writer, and for its file. */
static void take_turn(timeline *t)
{
    uint32_t nobody = 0;
    while (!atomic_compare_exchange_strong(&t->changing, &nobody, 1)) {
        world_sleep_on(&t->changing, 1, TURN_NS, false);
        nobody = 0;
    }
}

static void end_turn(timeline *t)
{
    atomic_store(&t->changing, 0);
    world_wake(&t->changing, false);
}

rueda_status timeline_start(timeline *t, const timeline_options *options)
{
    take_turn(t);
    const rueda_status status = start_in_turn(t, options);
    if (status == RUEDA_OK)
        atomic_store_explicit(&t->on, true, memory_order_release);
    end_turn(t);
    return status;
}

static rueda_status stop_in_turn(timeline *t)
{
    if (!t->running)
        return RUEDA_OK;
    atomic_store(&t->on, false);
    atomic_store(&t->stopping, 1);
    atomic_fetch_add(&t->wake, 1);
    world_wake(&t->wake, false);
    world_thread_join(&t->writer);
    t->running = false;
    timeline_text_fini(&t->text);
    if (!can_tell_times(t))
        log_line(t->log, LOG_WARN,
                 "times of rank %d in the timeline %.300s are those of its own clock: rank 0 has "
                 "not told its time",
                 t->rank, t->file.path);
    const uint64_t dropped = atomic_load(&t->dropped);
    if (dropped > 0)
        log_line(t->log, LOG_WARN,
                 "the timeline %.300s is incomplete: %llu notes about tensors were dropped",
                 t->file.path, (unsigned long long)dropped);
    return t->status == RUEDA_OK
               ? RUEDA_OK
               : status_fail(RUEDA_ERR_SYSTEM, "the timeline %.300s is incomplete; see the log",
                             t->file.path);
}

rueda_status timeline_stop(timeline *t)
{
    take_turn(t);
    const rueda_status status = stop_in_turn(t);
    end_turn(t);
    return status;
}

void timeline_set_offset(timeline *t, int64_t offset_ns)
{
    atomic_store(&t->offset_ns, offset_ns);
    atomic_store(&t->offset_known, true);
}

/* ---- Notes ----------------------------------------------------------------------------------- */

/* The note with its tail of ready ranks, extents and name; NULL: no room, it is counted. */
static timeline_note *reserve(timeline *t, timeline_note_kind kind, const timeline_subject *s,
                              uint32_t ready_count, int ndim, const int64_t *shape)
{
    const size_t ready = ready_count * sizeof(timeline_ready),
                 extents = (size_t)ndim * sizeof *shape;
    timeline_note *note = (timeline_note *)note_ring_reserve(
        &t->ring, (uint32_t)(sizeof *note + ready + extents + s->name_length));
    if (note == NULL) {
        atomic_fetch_add_explicit(&t->dropped, 1, memory_order_relaxed);
        return NULL;
    }
    note->kind = (uint8_t)kind;
    note->set = s->set;
    note->op = s->op;
    note->name_length = s->name_length;
    note->ready_count = ready_count;
    note->ndim = (uint8_t)ndim;
    note->status = RUEDA_OK;
    char *tail = (char *)(note + 1) + ready;
    if (extents > 0)
        memcpy(tail, shape, extents);
    memcpy(tail + extents, s->name, s->name_length);
    return note;
}

static void publish(timeline *t, const timeline_note *note)
{
    if (!note_ring_publish(&t->ring, &note->head))
        return;
    atomic_fetch_add(&t->wake, 1);
    world_wake(&t->wake, false);
}

void timeline_waiting(timeline *t, const timeline_subject *s, uint64_t submitted_ns)
{
    timeline_note *note = reserve(t, TIMELINE_NOTE_WAITING, s, 0, 0, NULL);
    if (note == NULL)
        return;
    note->submitted_ns = submitted_ns;
    note->decided_ns = world_now_ns();
    publish(t, note);
}

static uint32_t count_known(const uint64_t *ready_ns, uint16_t count)
{
    uint32_t known = 0;
    for (uint16_t i = 0; ready_ns != NULL && i < count; i++)
        known += ready_ns[i] != 0;
    return known;
}

void timeline_negotiated(timeline *t, const timeline_subject *s, uint64_t submitted_ns,
                         uint64_t decided_ns, rueda_status status, const uint64_t *ready_ns,
                         const uint16_t *ranks, uint16_t count)
{
    timeline_note *note =
        reserve(t, TIMELINE_NOTE_NEGOTIATED, s, count_known(ready_ns, count), 0, NULL);
    if (note == NULL)
        return;
    timeline_ready *to = (timeline_ready *)(note + 1);
    for (uint16_t i = 0; ready_ns != NULL && i < count; i++) {
        if (ready_ns[i] != 0)
            *to++ = (timeline_ready){ready_ns[i], ranks[i]};
    }
    note->submitted_ns = submitted_ns;
    note->decided_ns = decided_ns;
    note->status = (uint32_t)status;
    publish(t, note);
}

void timeline_done(timeline *t, const timeline_subject *s, const timeline_work *w)
{
    timeline_note *note = reserve(t, TIMELINE_NOTE_DONE, s, 0, w->ndim, w->shape);
    if (note == NULL)
        return;
    note->dtype = (uint8_t)w->dtype;
    note->status = (uint32_t)w->status;
    note->engine = w->engine;
    note->algorithm = w->algorithm;
    note->number = w->number;
    note->tensors = w->tensors;
    note->decided_ns = w->decided_ns;
    note->began_ns = w->began_ns;
    note->ended_ns = w->ended_ns;
    publish(t, note);
}

void timeline_round(timeline *t, int32_t set, uint64_t round)
{
    if (!timeline_is_on(t) || !atomic_load_explicit(&t->mark_rounds, memory_order_relaxed))
        return;
    timeline_note *note =
        reserve(t, TIMELINE_NOTE_ROUND, &(timeline_subject){"", 0, set, ""}, 0, 0, NULL);
    if (note == NULL)
        return;
    note->number = round;
    note->decided_ns = world_now_ns();
    publish(t, note);
}
