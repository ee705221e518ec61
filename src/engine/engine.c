/* engine.c: start, submission and stop of a rank. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define URGENT_BYTES (1 << 20) /* unseen data worth waking the driver at once */
#define PIECES_WANTED 8        /* of a tensor: depth of the pipeline */
#define PIECES_CROWDED 2 /* with more ranks than cores every piece costs a turn of all ranks */
#define SECOND_NS UINT64_C(1000000000)
#define HEARTBEAT_S 60
#define HEARTBEAT_ELASTIC_S 10
#define DRAIN_NS UINT64_C(10000000000)
#define FAREWELL_NS UINT64_C(1000000000) /* for the last words in a job that is broken */

/* Who wants to go on after a loss wants to know of it earlier. */
void engine_choose_heartbeat(config *settings)
{
    if (settings->heartbeat < 0)
        settings->heartbeat = settings->elastic ? HEARTBEAT_ELASTIC_S : HEARTBEAT_S;
}

static rueda_status read_settings(engine *e)
{
    engine_choose_heartbeat(&e->settings);
    if (!log_level_parse(e->settings.log_level.text, &e->log.level))
        return status_fail(RUEDA_ERR_CONFIG, "RUEDA_LOG_LEVEL=%s is not error, warn, info or debug",
                           e->settings.log_level.text);
    if (!plan_algorithm_parse(e->settings.algorithm.text, &e->forced))
        return status_fail(RUEDA_ERR_CONFIG, "RUEDA_ALGORITHM=%s is not the name of an algorithm",
                           e->settings.algorithm.text);
    const rueda_status transport = transports_check(&e->settings);
    if (transport != RUEDA_OK)
        return transport;
    if (e->settings.insecure && e->settings.encrypt)
        return status_fail(
            RUEDA_ERR_CONFIG,
            "RUEDA_ENCRYPT=1 needs a secret, and RUEDA_INSECURE=1 says that there is "
            "none: take one of them away");
    if (e->settings.deterministic && e->forced != PLAN_ALGORITHM_AUTO &&
        e->forced != PLAN_ALGORITHM_HALVING)
        return status_fail(RUEDA_ERR_CONFIG,
                           "RUEDA_DETERMINISTIC=1 needs the order of halving, and "
                           "RUEDA_ALGORITHM=%s has another: take one of them away",
                           e->settings.algorithm.text);
    const rueda_status fault = fault_parse(e->settings.fault.text, &e->fault);
    if (fault != RUEDA_OK)
        return fault;
    const char *kernel = e->settings.kernel.text;
    e->kernel = strcmp(kernel, "auto") == 0 ? kernel_table_best() : kernel_table_named(kernel);
    if (e->kernel == NULL)
        return status_fail(RUEDA_ERR_CONFIG,
                           "RUEDA_KERNEL=%s is not known or not on this processor", kernel);
    return RUEDA_OK;
}

static rueda_status make_global_set(engine *e)
{
    int64_t *all = malloc((size_t)e->who.size * sizeof *all);
    if (all == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
    for (int r = 0; r < e->who.size; r++)
        all[r] = r;
    const rueda_status status = sets_make(e, RUEDA_GLOBAL_SET, all, (uint32_t)e->who.size);
    if (status == RUEDA_OK)
        sets_note(e, RUEDA_GLOBAL_SET, all, (uint32_t)e->who.size);
    free(all);
    return status;
}

static rueda_status start_parts(engine *e)
{
    rueda_status status = sets_init(e);
    if (status == RUEDA_OK)
        status = make_global_set(e);
    if (status == RUEDA_OK)
        status = watch_open(e);
    if (status == RUEDA_OK)
        sendrecv_listen(e);
    if (status == RUEDA_OK)
        status = notes_start(e);
    if (status == RUEDA_OK)
        status = view_begin(e);
    return status == RUEDA_OK ? background_start(e) : status;
}

/* `whole`: the job is not broken. */
static void stop_parts(engine *e, bool whole)
{
    view_end(e);
    background_stop(e);
    notes_stop(e);
    watch_close(e);
    for (int32_t i = 0; i < e->set_limit; i++)
        sets_unmake(e, i);
    transports_leave(&e->transports, whole);
    control_close(&e->control);
    sets_fini(e);
    segment_close(&e->segment);
    heap_leave(e->heap);
    board_close(e->board);
    world_lock_destroy(&e->sets_lock);
}

/* What we said and sent must arrive, unless the job is broken anyway. */
static void leave(engine *e, bool whole)
{
    control_leave(&e->control);
    if (e->control.network != NULL)
        network_flush(e->control.network, whole, whole ? DRAIN_NS : FAREWELL_NS);
}

static bool spans_hosts(const boot_identity *who, const boot_meeting *m)
{
    for (int r = 1; m->places != NULL && r < who->size; r++) {
        if (m->places[r].host != m->places[0].host)
            return true;
    }
    return false;
}

/* What the user asks for and this job could never do would otherwise be left out in silence. All ranks
 * know the same here, so all say the same. */
static rueda_status choose_transport(engine *e, const boot_meeting *m)
{
    const rueda_status status =
        transports_choose(&e->transports, &e->settings, m->door != NULL, spans_hosts(&e->who, m));
    if (status != RUEDA_OK)
        return status;
    if (e->forced == PLAN_ALGORITHM_NATIVE && e->who.size > 1 &&
        e->transports.table->collect == NULL)
        return transports_fail_native(&e->transports);
    if (e->forced == PLAN_ALGORITHM_DIRECT && e->who.size > 1 && !e->who.shares_memory)
        return status_fail(RUEDA_ERR_CONFIG,
                           "RUEDA_ALGORITHM=direct works in shared memory, which "
                           "RUEDA_TRANSPORT=%s does not use: take one of them away",
                           e->settings.transport.text);
    return RUEDA_OK;
}

static rueda_status join_job(engine *e, const rueda_init_options *options)
{
    boot_meeting meeting = {.door = NULL};
    const config *settings = &e->settings;
    const attendance_ends ends = {fault_in_init(&e->fault, e->settings.rank), e->board,
                                  options->interrupted, options->interrupted_argument};
    const boot_memory memory = {e->heap, e->members == NULL ? NULL : members_roster(e->members),
                                &e->segment};
    rueda_status status =
        boot_join(settings, &e->who, e->generation, &ends, &e->log, &memory, &meeting);
    explicit_bzero(&e->settings.key,
                   sizeof e->settings.key); /* the meeting has it where it is used */
    e->met = meeting.met;
    e->others_failed = meeting.others_failed;
    if (status != RUEDA_OK)
        return status;
    e->control = (control){.segment = &e->segment,
                           .rank = (uint32_t)e->who.rank,
                           .generation = e->generation,
                           .answer = stall_answerer(e)};
    e->pieces = e->who.crowded_some ? PIECES_CROWDED : PIECES_WANTED;
    const control_terms terms = {.connect_ns = (uint64_t)settings->start_timeout * SECOND_NS,
                                 .silence_ns = (uint64_t)settings->heartbeat * SECOND_NS,
                                 .clock = settings->timeline_all};
    status = choose_transport(e, &meeting);
    if (status != RUEDA_OK)
        boot_meeting_close(&meeting);
    else if (meeting.door != NULL)
        status = control_open(&e->control, &meeting, &e->who, &terms, &e->log);
    if (status != RUEDA_OK) {
        if (status != RUEDA_ERR_CONFIG) /* all say the same of settings */
            control_fail(&e->control, status);
        control_leave(&e->control);
        segment_close(&e->segment);
        return status;
    }
    return RUEDA_OK;
}

static rueda_status check_elastic(const engine *e)
{
    if (e->members == NULL || !boot_needs_network(&e->settings, &e->who))
        return RUEDA_OK;
    return status_fail(RUEDA_ERR_CONFIG,
                       "rank %d: an elastic job is on one host so far, and its ranks share memory: "
                       "take RUEDA_MEET, RUEDA_HOST and RUEDA_TRANSPORT away, or RUEDA_ELASTIC",
                       e->who.rank);
}

/* Transports come first: one may tell who we are, and where and with which key we meet. */
static rueda_status join(engine *e, const rueda_init_options *options)
{
    rueda_status status = transports_join(
        &e->transports, &(transport_terms){&e->settings, options, e->kernel, &e->log});
    if (status == RUEDA_OK)
        status = boot_identify(&e->settings, transports_share_memory(&e->settings), &e->who);
    e->log.rank = (int)e->settings.rank;
    if (status == RUEDA_OK)
        status = check_elastic(e);
    if (status == RUEDA_OK)
        status = notes_prepare(e);
    if (status == RUEDA_OK) {
        e->board = board_open(&e->settings);
        status = heap_open(e->heap, (uint64_t)e->settings.heap_max, (uint32_t)e->who.rank);
        boot_name_rank(status, e->who.rank);
    }
    if (status == RUEDA_OK)
        status = join_job(e, options);
    if (status != RUEDA_OK) {
        heap_leave(e->heap);
        transports_leave(&e->transports, false);
        board_close(e->board);
    }
    return status;
}

rueda_status engine_start(engine *e, const config *settings, const rueda_init_options *options,
                          uint64_t generation, heap *h, members *m)
{
    memset(e, 0, sizeof *e);
    e->settings = *settings;
    e->generation = generation;
    e->heap = h;
    e->members = m;
    e->segment.fd = -1;
    atomic_store(&e->last_joined, -1);
    e->log = (logger){LOG_WARN, (int)settings->rank};
    rueda_status status = read_settings(e);
    if (status == RUEDA_OK)
        status = join(e, options);
    if (status != RUEDA_OK)
        return status;
    world_lock_init(&e->sets_lock);
    e->crowded = e->who.crowded;
    status = start_parts(e);
    if (status != RUEDA_OK) {
        /* the others count on us already; but that members have changed again is nobody's fault */
        if (status == RUEDA_ERR_MEMBERS)
            control_abort(&e->control, status, -1, status_text());
        else
            control_fail(&e->control, status);
        leave(e, false);
        stop_parts(e, false);
    }
    return status;
}

static bool has_flight(const process_set *s)
{
    return s->flight[LANE_SMALL].count > 0 || s->flight[LANE_LARGE].count > 0 ||
           (s->p2p != NULL && p2p_has_flight(s->p2p));
}

bool engine_has_flight(const engine *e)
{
    for (const process_set *s = NULL; (s = busy_next(e, s)) != NULL;) {
        if (has_flight(s))
            return true;
    }
    return e->set_operations.first != NULL;
}

/* What all ranks have agreed on is finished: they count on our part of it. */
static void drain(engine *e)
{
    const uint64_t deadline = world_now_ns() + DRAIN_NS;
    while (engine_has_flight(e) && e->broken == RUEDA_OK && world_now_ns() < deadline) {
        if (!engine_step(e, engine_now(e))) {
            world_yield();
            watch_peers(e, world_now_ns());
        }
    }
}

void engine_stop(engine *e)
{
    view_end(e);
    background_stop(e);
    while (!drive_try(e))
        world_yield(); /* another thread is about to leave engine_wait */
    drain(e);
    const bool whole = e->broken == RUEDA_OK;
    engine_break(e, RUEDA_ERR_SHUTDOWN, "rueda_shutdown was called while the request was pending");
    linger_end(e);
    leave(e, whole);
    stop_parts(e, whole);
}

void engine_forget(engine *e)
{
    if (e->control.mesh != NULL)
        mesh_forget(e->control.mesh);
    watch_forget(e);
    close(e->segment.fd);
}

static uint64_t bytes_of(entry *const *entries, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += signature_bytes(&entries[i]->signature);
    return bytes;
}

/* Waking a thread costs more than a small tensor. A driver that naps, or a background thread that
 * naps, will look by itself: only a heap of data is worth waking it. */
void engine_call_driver(engine *e, uint64_t bytes)
{
    const bool urgent = atomic_fetch_add(&e->unseen, bytes) + bytes >= URGENT_BYTES;
    if (atomic_load(&e->driving) == 0)
        background_call(e, urgent);
    else if (urgent || atomic_load(&e->napping) == 0)
        control_notify_rank(&e->control, (uint32_t)e->who.rank);
}

rueda_status engine_submit(engine *e, process_set *s, entry *const *entries,
                           const char *const *names, size_t count, bool will_wait)
{
    /* before the queue has them: they may end, and be freed, any time after */
    const uint64_t bytes = bytes_of(entries, count);
    notes_submitted(e, entries, count);
    atomic_fetch_add(&e->outstanding, count);
    const rueda_status status = queue_submit(&s->queue, entries, names, count);
    world_point();
    if (status != RUEDA_OK)
        atomic_fetch_sub(&e->outstanding, count);
    else
        busy_call(e, s);
    if (status == RUEDA_OK && !will_wait)
        engine_call_driver(e, bytes);
    return status;
}

/* The global set stays until the end: nothing to count, and it is in the way of every small call. */
static void count_user(engine *e, int32_t id, uint32_t change)
{
    if (id != RUEDA_GLOBAL_SET)
        atomic_fetch_add(&e->set_users[id], change);
}

rueda_status engine_set(engine *e, int32_t id, process_set **set)
{
    if (id < 0 || id >= SEGMENT_SETS)
        return status_fail(RUEDA_ERR_ARGUMENT, "process set %d does not exist", id);
    /* first count, then look: a removal does it the other way round */
    count_user(e, id, 1);
    rueda_status status = RUEDA_OK;
    if (!e->sets[id].exists || e->sets[id].ending)
        status = status_fail(RUEDA_ERR_ARGUMENT, "process set %d does not exist", id);
    else if (!e->sets[id].member)
        status = status_fail(RUEDA_ERR_STATE, "rank %d is not in process set %d", e->who.rank, id);
    if (status != RUEDA_OK)
        return count_user(e, id, UINT32_MAX), status;
    *set = &e->sets[id];
    return RUEDA_OK;
}

void engine_release_set(engine *e, const process_set *set)
{
    if (set != NULL)
        count_user(e, (int32_t)(set - e->sets), UINT32_MAX);
}
