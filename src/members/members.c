/* members.c: see members.h; what the program and the engine call. thread.c has the rest. */
#include "members/members_parts.h"
#include "world/sockets.h"

#include <stdio.h>
#include <stdlib.h>

#define DECISION_NS (20000 * MEMBERS_MS)
#define ASK_NS (20 * MEMBERS_MS) /* whether a caller that waits gives up */

/* ---- Life ------------------------------------------------------------------------------------------ */

static members *make(uint32_t worker, uint32_t size, const members_view *first)
{
    members *m = calloc(1, sizeof *m);
    statement *heard = calloc(size, sizeof *heard);
    silence *silences = calloc(size, sizeof *silences);
    int *fds = malloc(size * sizeof *fds);
    if (m == NULL || heard == NULL || silences == NULL || fds == NULL)
        return free(fds), free(silences), free(heard), free(m), NULL;
    for (uint32_t w = 0; w < size; w++)
        fds[w] = WORLD_PROCESS_UNKNOWN;
    agreement_init(&m->agreement, worker, size, first->number, &first->workers, heard);
    m->worker = worker;
    m->roster_fd = -1;
    m->silences = silences;
    m->process_fds = fds;
    return m;
}

rueda_status members_open(uint32_t worker, uint32_t workers, const members_view *first,
                          uint64_t silence_ns, members **opened)
{
    members *m = make(worker, workers, first);
    if (m == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "worker %u: out of memory in rueda_init", worker);
    m->heartbeat.limit_ns = silence_ns;
    m->adopted = m->decided = *first;
    world_lock_init(&m->lock);
    *opened = m;
    return RUEDA_OK;
}

static void stop_thread(members *m)
{
    if (!m->runs)
        return;
    atomic_store(&m->stopping, 1);
    roster_ring(&m->roster, m->worker);
    world_thread_join(&m->thread);
    m->runs = false;
}

void members_close(members *m)
{
    if (m == NULL)
        return;
    stop_thread(m);
    if (m->roster.places != NULL) {
        m->agreement.heard[m->worker].flags |= STATEMENT_LEFT;
        members_tell_others(m);
    }
    for (uint32_t w = 0; w < m->agreement.workers; w++) {
        if (m->process_fds[w] >= 0)
            world_close(m->process_fds[w]);
    }
    roster_unmap(&m->roster);
    if (m->roster_fd >= 0)
        world_close(m->roster_fd);
    world_lock_destroy(&m->lock);
    free(m->process_fds);
    free(m->silences);
    free(m->agreement.heard);
    free(m);
}

void members_forget(members *m)
{
    for (uint32_t w = 0; m != NULL && w < m->agreement.workers; w++) {
        if (m->process_fds[w] >= 0)
            world_close(m->process_fds[w]);
    }
    if (m != NULL && m->roster_fd >= 0)
        world_close(m->roster_fd);
}

int *members_roster(members *m)
{
    return &m->roster_fd;
}

uint32_t members_worker(const members *m)
{
    return m->worker;
}

rueda_status members_make_roster(members *m)
{
    return roster_create(m->agreement.workers, &m->roster_fd);
}

/* ---- Around a view ---------------------------------------------------------------------------------- */

/* Without them nobody is certainly dead, and nobody can be killed. */
static rueda_status open_processes(members *m, const int *pids)
{
    int rank = 0;
    MEMBERS_EACH(worker, &m->adopted.workers)
    {
        const int pid = pids[rank++];
        if (worker == m->worker || m->process_fds[worker] != WORLD_PROCESS_UNKNOWN)
            continue;
        const int fd = pid == 0 ? WORLD_PROCESS_UNKNOWN : world_process_open(pid);
        if (fd == WORLD_PROCESS_UNKNOWN)
            return status_fail(RUEDA_ERR_SYSTEM,
                               "worker %u cannot watch the process of worker %u: an elastic job "
                               "needs a kernel with pidfd_open, all of its processes in one PID "
                               "namespace, and a descriptor for each (`ulimit -n`)",
                               m->worker, worker);
        world_lock_take(&m->lock);
        m->process_fds[worker] = fd;
        world_lock_release(&m->lock);
    }
    return RUEDA_OK;
}

static rueda_status start_thread(members *m)
{
    const rueda_status status = roster_map(&m->roster, m->roster_fd);
    if (status != RUEDA_OK)
        return status;
    roster_say(&m->roster, m->worker, agreement_own(&m->agreement));
    m->runs = world_thread_start(&m->thread, members_run_thread, m);
    return m->runs ? RUEDA_OK
                   : status_fail(RUEDA_ERR_SYSTEM, "worker %u: cannot start a thread", m->worker);
}

rueda_status members_begin_view(members *m, const members_engine *engine, const int *pids)
{
    const rueda_status status = open_processes(m, pids);
    if (status != RUEDA_OK)
        return status;
    world_lock_take(&m->lock);
    const bool begins = !m->is_voting && m->decided.number == m->adopted.number;
    if (begins) {
        m->engine = *engine;
        m->engine_is_ended = false;
    }
    world_lock_release(&m->lock);
    if (!begins)
        return status_fail(RUEDA_ERR_MEMBERS, "the members of the job have changed again");
    return m->runs ? RUEDA_OK : start_thread(m);
}

static void wake_thread(members *m)
{
    if (m->runs)
        roster_ring(&m->roster, m->worker);
}

void members_end_view(members *m)
{
    world_lock_take(&m->lock);
    m->engine = (members_engine){NULL, NULL, NULL};
    world_lock_release(&m->lock);
    for (bool used = true; used;) {
        const uint32_t seen = atomic_load(&m->events);
        world_lock_take(&m->lock);
        used = m->engine_is_used;
        world_lock_release(&m->lock);
        if (used)
            world_sleep_on(&m->events, seen, ASK_NS, false);
    }
    wake_thread(m);
}

void members_begin_leaving(members *m)
{
    atomic_store(&m->leaving, 1);
}

void members_report_lost(members *m, uint64_t number, int rank)
{
    int at = 0;
    world_lock_take(&m->lock);
    MEMBERS_EACH(worker, &m->adopted.workers)
    {
        if (at++ == rank && m->adopted.number == number)
            members_add(&m->reported, worker);
    }
    world_lock_release(&m->lock);
    wake_thread(m);
}

void members_call(members *m, uint64_t number)
{
    world_lock_take(&m->lock);
    m->calls = m->calls || m->adopted.number == number;
    world_lock_release(&m->lock);
    wake_thread(m);
}

/* ---- The next view ---------------------------------------------------------------------------------- */

bool members_is_decided(members *m)
{
    world_lock_take(&m->lock);
    const bool decided = m->decided.number != m->adopted.number;
    world_lock_release(&m->lock);
    return decided;
}

/* Until when a view that is called for must be decided: who is silent was given up, and who does not vote was not waited
 * for, several times over. */
static uint64_t decision_limit(const members *m)
{
    return world_now_ns() + DECISION_NS + 2 * m->heartbeat.limit_ns;
}

/* ERR_TIMEOUT: it takes too long. */
static rueda_status await_decision(members *m, int (*interrupted)(void *), void *argument)
{
    const uint64_t until = decision_limit(m);
    for (uint32_t seen; seen = atomic_load(&m->events), !members_is_decided(m);) {
        world_sleep_on(&m->events, seen, ASK_NS, false);
        if (world_now_ns() >= until)
            return status_fail(RUEDA_ERR_TIMEOUT,
                               "rueda_members_update: worker %u cannot go on: too few of the "
                               "workers of the last view answer",
                               m->worker);
        if (interrupted != NULL && interrupted(argument) != 0)
            return status_fail(RUEDA_ERR_INTERRUPTED,
                               "rueda_members_update: worker %u was interrupted; the others go on",
                               m->worker);
    }
    return RUEDA_OK;
}

bool members_await(members *m)
{
    char text[STATUS_TEXT_MAX]; /* why the caller waits is what it tells */
    snprintf(text, sizeof text, "%s", status_text());
    const rueda_status status = await_decision(m, NULL, NULL);
    status_restore(status, text);
    return status == RUEDA_OK;
}

bool members_is_changing(members *m)
{
    world_lock_take(&m->lock);
    const bool changing = m->decided.number != m->adopted.number || m->is_called || m->calls ||
                          members_count(&m->reported) > 0;
    world_lock_release(&m->lock);
    return changing;
}

rueda_status members_adopt(members *m, int (*interrupted)(void *), void *argument,
                           members_view *view)
{
    const rueda_status status = await_decision(m, interrupted, argument);
    if (status != RUEDA_OK)
        return status;
    world_lock_take(&m->lock);
    m->adopted = m->decided;
    m->reported = (members_list){{0}};
    m->calls = false;
    *view = m->adopted;
    world_lock_release(&m->lock);
    if (members_has(&view->workers, m->worker))
        return RUEDA_OK;
    return status_fail(RUEDA_ERR_PEER,
                       "worker %u was given up by the others, which have gone on without it as "
                       "view %llu: end this process",
                       m->worker, (unsigned long long)view->number);
}
