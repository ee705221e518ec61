/* mishaps.c: lets the mishaps of a trial happen: at a time, or when a rank has come to a point of its way. */
#include "sim/job.h"

#include <string.h>

#define SLOW_PERCENT 5000
#define POINTS_LIMIT 5000000 /* of all ranks; more than ten times what any trial needs */

/* An arranged mishap, as the world calls it back. */
typedef struct appointment {
    job *job;
    int number;
} appointment;

static appointment appointments[TRIAL_MISHAPS]; /* of the one job there is at a time */

static const char *text_of(mishap_kind kind)
{
    static const char *const TEXTS[] = {
#define MISHAP_TEXT(name, text) text,
        MISHAP_LIST(MISHAP_TEXT)};
    return TEXTS[kind];
}

static bool has_other(mishap_kind kind)
{
    return kind == MISHAP_CUT || kind == MISHAP_HALF_OPEN || kind == MISHAP_PARTITION;
}

static bool lives(const job *j, int rank)
{
    const sim_life life = sim_process_life(j->world, j->ranks[rank].process);
    return life == SIM_RUNS || life == SIM_STOPPED;
}

/* ---- What ends again ------------------------------------------------------------------------------ */

static void end_mishap(void *argument)
{
    const appointment *a = argument;
    job *j = a->job;
    const mishap *m = &j->trial->mishaps[a->number];
    if (m->kind == MISHAP_STOP && lives(j, m->rank)) {
        job_tell(j, "rank %d goes on", m->rank);
        timeline_moment(&j->ranks[m->rank], "goes on");
        sim_continue(j->world, j->ranks[m->rank].process);
    } else if (m->kind == MISHAP_PARTITION) {
        job_tell(j, "the network is whole again");
        sim_partition(j->world, j->trial->host_of[m->rank], j->trial->host_of[m->other], false);
    }
}

/* ---- What happens --------------------------------------------------------------------------------- */

static void befall(job *j, const mishap *m, happening *h)
{
    sim *w = j->world;
    const int process = j->ranks[m->rank].process, other = j->ranks[m->other].process;
    switch (m->kind) {
    case MISHAP_KILL:
        j->killed_ns[m->rank] = sim_now(w);
        sim_kill(w, process);
        launcher_note_end(j, m->rank);
        break;
    case MISHAP_STOP:
        sim_stop(w, process);
        break;
    case MISHAP_CUT:
        h->connections = sim_cut(w, process, other);
        break;
    case MISHAP_HALF_OPEN:
        h->connections = sim_half_open(w, process, other);
        break;
    case MISHAP_PARTITION:
        sim_partition(w, j->trial->host_of[m->rank], j->trial->host_of[m->other], true);
        break;
    case MISHAP_SLOW:
        sim_set_slowness(w, process, SLOW_PERCENT);
        break;
    case MISHAP_CLOCK:
        sim_jump_clock(w, j->trial->host_of[m->rank], m->jump_ns);
        break;
    case MISHAP_SHORTAGE:
        sim_fail_nth(w, process, m->nth, m->onwards);
        break;
    case MISHAP_KINDS:
        break;
    }
}

static void at_time(void *argument);

static void happen(job *j, int number)
{
    const mishap *m = &j->trial->mishaps[number];
    happening *h = &j->happenings[number];
    if (h->happened || !lives(j, m->rank))
        return;
    if (m->kind == MISHAP_PARTITION && j->trial->host_of[m->rank] == j->trial->host_of[m->other])
        return; /* a host is not cut off from itself */
    h->happened = true;
    h->at_ns = sim_now(j->world);
    if (has_other(m->kind))
        job_tell(j, "rank %d %s rank %d", m->rank, text_of(m->kind), m->other);
    else
        job_tell(j, "rank %d %s", m->rank, text_of(m->kind));
    timeline_moment(&j->ranks[m->rank], text_of(m->kind));
    befall(j, m, h);
    if (m->kind == MISHAP_STOP || m->kind == MISHAP_PARTITION)
        sim_at(j->world, sim_now(j->world) + m->lasts_ns, end_mishap, &appointments[number]);
    if (number + 1 < j->trial->mishap_count && m[1].follows)
        sim_at(j->world, sim_now(j->world) + m[1].at_ns, at_time, &appointments[number + 1]);
}

static void at_time(void *argument)
{
    const appointment *a = argument;
    happen(a->job, a->number);
}

static void tell_shortage(job_rank *r)
{
    const sim_refusals f = sim_refusals_of(r->job->world, r->process);
    if (f.count == 0 || r->ran_short)
        return;
    r->ran_short = true;
    job_tell(r->job, "rank %d is refused %s", r->rank, f.first_call);
}

static bool at_point(void *context, int process)
{
    job *j = context;
    bool due = ++j->points > POINTS_LIMIT;
    if (due)
        job_fail(j, INVARIANT_OVER, "the ranks are busy without end: %d points were passed",
                 POINTS_LIMIT);
    for (int r = 0; r < j->trial->ranks; r++) {
        if (j->ranks[r].process != process)
            continue;
        const uint64_t points = ++j->ranks[r].points;
        tell_shortage(&j->ranks[r]);
        for (int i = 0; i < j->trial->mishap_count; i++) {
            const mishap *m = &j->trial->mishaps[i];
            if (m->rank != r || m->at_point != points)
                continue;
            happen(j, i);
            due = true;
        }
    }
    return due;
}

void mishaps_arrange(job *j)
{
    sim_set_point_hook(j->world, at_point, j);
    for (int i = 0; i < j->trial->mishap_count; i++) {
        const mishap *m = &j->trial->mishaps[i];
        appointments[i] = (appointment){j, i};
        if (m->kind == MISHAP_SHORTAGE && m->from_start)
            happen(j, i);
        else if (m->at_point == 0 && !m->follows)
            sim_at(j->world, m->at_ns, at_time, &appointments[i]);
    }
}

/* ---- What became of them ---------------------------------------------------------------------------- */

/* Silence may add up where one mishap follows on another. */
static bool is_too_long(const job *j)
{
    uint64_t sum = 0;
    for (int i = 0; i < j->trial->mishap_count; i++) {
        const mishap *m = &j->trial->mishaps[i];
        if (j->happenings[i].happened && (m->kind == MISHAP_STOP || m->kind == MISHAP_PARTITION))
            sum += m->lasts_ns;
    }
    return sum >= (uint64_t)j->trial->heartbeat_s * UINT64_C(1000000000) / 2;
}

bool mishaps_may_end(const job *j, int number, uint64_t *at_ns)
{
    const mishap *m = &j->trial->mishaps[number];
    const happening *h = &j->happenings[number];
    *at_ns = h->at_ns;
    if (!h->happened)
        return false;
    switch (m->kind) {
    case MISHAP_KILL:
        return true;
    case MISHAP_STOP:
    case MISHAP_PARTITION:
        return is_too_long(j);
    case MISHAP_CUT:
    case MISHAP_HALF_OPEN:
        return h->connections > 0;
    case MISHAP_SHORTAGE: {
        const sim_refusals r = sim_refusals_of(j->world, j->ranks[m->rank].process);
        *at_ns = r.first_ns;
        return r.count > 0;
    }
    case MISHAP_SLOW:
    case MISHAP_CLOCK:
    case MISHAP_KINDS:
        break;
    }
    return false;
}
