/* invariants.c: what must be so when a trial is over, whatever has happened in it. What must be so all the time is
 * where it can be seen: results and memory in rank.c, agreement by world_witness, and RUEDA_ASSERT in the library. */
#include "sim/job.h"

#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
/* From a mishap, and the silence by which it is noticed, until all who wait know. */
#define KNOWN_NS (5 * SECOND)
#define KEEP_ALIVE_NS (60 * SECOND) /* after which a system asks: KEEP_ALIVE_IDLE_S of net/link.c */
#define START_NS (30 * SECOND)      /* RUEDA_START_TIMEOUT, which no trial sets */

static sim_life life_of(const job *j, int rank)
{
    return sim_process_life(j->world, j->ranks[rank].process);
}

/* Nothing waits for ever. */
static void check_over(job *j, sim_end end)
{
    char waiting[2000];
    for (int r = 0; r < j->trial->ranks; r++) {
        const sim_life life = life_of(j, r);
        if (life == SIM_ENDED || life == SIM_KILLED)
            continue;
        sim_describe(j->world, waiting, sizeof waiting);
        job_fail(j, INVARIANT_OVER, "rank %d has not ended (%s):\n%s", r,
                 end == SIM_TIME_IS_UP ? "time is up" : "nothing can happen any more", waiting);
        return;
    }
}

/* ---- What has happened that may end the job -------------------------------------------------------- */

/* Who may be named for the end of the job, and how it may become known. */
typedef struct blame {
    uint32_t ranks;   /* a bit for each; 0: nothing may end the job */
    uint64_t last_ns; /* when the last of it happened */
    /* what tells of it is silence of this length; 0: one hears of it at once */
    uint64_t silence_ns;
} blame;

static uint32_t ranks_of_host(const trial *t, int host)
{
    uint32_t ranks = 0;
    for (int r = 0; r < t->ranks; r++)
        ranks |= (uint32_t)(t->host_of[r] == host) << r;
    return ranks;
}

/* Of a connection between two that both live either may be named, and of hosts any of their ranks. */
static uint32_t concerned(const trial *t, const mishap *m)
{
    const uint32_t one = UINT32_C(1) << m->rank, other = UINT32_C(1) << m->other;
    if (m->kind == MISHAP_CUT || m->kind == MISHAP_HALF_OPEN)
        return one | other;
    if (m->kind == MISHAP_PARTITION)
        return ranks_of_host(t, t->host_of[m->rank]) | ranks_of_host(t, t->host_of[m->other]);
    return one;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Who waits on a connection that only the other end knows to be over hears of it when its system asks. */
static uint64_t silence_after(const trial *t, mishap_kind kind)
{
    if (kind == MISHAP_HALF_OPEN)
        return KEEP_ALIVE_NS;
    return kind == MISHAP_STOP || kind == MISHAP_PARTITION ? (uint64_t)t->heartbeat_s * SECOND : 0;
}

static blame find_blame(const job *j)
{
    blame b = {0};
    for (int i = 0; i < j->trial->mishap_count; i++) {
        const mishap *m = &j->trial->mishaps[i];
        uint64_t at_ns;
        if (!mishaps_may_end(j, i, &at_ns))
            continue;
        /* who runs short and lives ends its part by itself: the others know when it leaves */
        if (m->kind == MISHAP_SHORTAGE)
            at_ns = later(at_ns, j->ranks[m->rank].left_ns);
        b.ranks |= concerned(j->trial, m);
        b.silence_ns = later(b.silence_ns, silence_after(j->trial, m->kind));
        b.last_ns = later(at_ns, b.last_ns);
    }
    return b;
}

/* Without a mishap that may end the job, all ranks do all their tasks. */
static void check_finished(job *j, const blame *b)
{
    for (int r = 0; r < j->trial->ranks && b->ranks == 0; r++) {
        if (!j->ranks[r].finished)
            job_fail(j, INVARIANT_FINISHED,
                     "rank %d did not finish, and nothing befell the job that could end it: %s", r,
                     j->ranks[r].text);
    }
}

/* ---- Who is named, and when ------------------------------------------------------------------------ */

/* The rank that a sentence gives as the reason, as a bit; or those of whom rueda_init says that it waits for them, if
 * it has not closed its own door. */
static uint32_t named_ranks(const char *text)
{
    static const char AWAITED[] = " in rueda_init for rank", RANK[] = "rank ";
    const char *list = strstr(text, "it could not accept") == NULL ? strstr(text, AWAITED) : NULL;
    const char *at = strstr(list != NULL ? list : text, RANK);
    uint32_t ranks = 0;
    unsigned rank;
    int length;
    for (at = at == NULL ? "" : at + sizeof RANK - 1; sscanf(at, "%u%n", &rank, &length) == 1;
         at = list == NULL ? "" : at + length)
        ranks |= rank < TRIAL_RANKS ? UINT32_C(1) << rank : 0;
    return ranks;
}

/* Where nobody tells who has ended, a rank that comes when another one has can only wait in vain. */
static bool is_late(const job *j, const job_rank *late)
{
    bool over = false;
    for (int r = 0; r < j->trial->ranks; r++) {
        const uint64_t ended = later(j->ranks[r].ended_ns, j->killed_ns[r]);
        over |= ended != 0 && ended < late->began_ns;
    }
    return over && !j->trial->has_launcher && late->status == RUEDA_ERR_TIMEOUT;
}

/* And all wait in vain for one that ended before the others had heard of it. */
static bool waits_in_vain(const job *j, const blame *b, const job_rank *k)
{
    bool unheard = is_late(j, k);
    for (int r = 0; r < j->trial->ranks; r++)
        unheard |=
            !j->trial->has_launcher && (b->ranks >> r & 1) != 0 && j->ranks[r].joined_ns == 0;
    return unheard;
}

static bool has_given_up(const job *j, int rank)
{
    return life_of(j, rank) == SIM_ENDED && !j->ranks[rank].finished;
}

/* Who runs short says what it lacks, and may have no memory for what others say. */
static bool is_short(const job *j, const job_rank *k)
{
    return sim_refusals_of(j->world, k->process).count > 0;
}

/* Who was stopped while something else befell the job may wake up when several are gone, and cannot tell who was the
 * first of them; and in rueda_init it finds that ranks have given it up, and left. */
static bool slept_through(const job *j, const blame *b, const job_rank *k)
{
    bool stopped = false;
    for (int i = 0; i < j->trial->mishap_count; i++)
        stopped |= j->happenings[i].happened && j->trial->mishaps[i].kind == MISHAP_STOP &&
                   j->trial->mishaps[i].rank == k->rank;
    const bool others = (b->ranks & ~(UINT32_C(1) << k->rank)) != 0;
    return stopped && (others || k->joined_ns == 0);
}

/* Who ends early names a rank that something has befallen. */
static void check_names(job *j, const blame *b)
{
    for (int r = 0; r < j->trial->ranks && b->ranks != 0; r++) {
        const job_rank *k = &j->ranks[r];
        const bool right = (named_ranks(k->text) & b->ranks) != 0;
        const bool excused = is_short(j, k) || is_late(j, k) || slept_through(j, b, k);
        if (has_given_up(j, r) && !right && !excused)
            job_fail(j, INVARIANT_NAMES,
                     "rank %d does not name a rank that something has befallen: %s", r, k->text);
    }
}

/* Who comes to rueda_init when others have given up there hears of them when they have left. */
static uint64_t others_left(const job *j, const job_rank *k)
{
    uint64_t left = 0;
    for (int r = 0; r < j->trial->ranks; r++) {
        if (k->joined_ns == 0 && j->ranks[r].left_ns < k->ended_ns)
            left = later(left, j->ranks[r].left_ns);
    }
    return left;
}

/* When it could first be expected to know: who is stopped knows nothing, and in rueda_init all wait as long as rank 0. */
static uint64_t could_know(const job *j, const blame *b, const job_rank *k)
{
    uint64_t since = later(later(b->last_ns, k->began_ns), others_left(j, k));
    for (int i = 0; i < j->trial->mishap_count; i++) {
        const mishap *m = &j->trial->mishaps[i];
        if (j->happenings[i].happened && m->kind == MISHAP_STOP &&
            (m->rank == k->rank || k->joined_ns == 0))
            since = later(since, j->happenings[i].at_ns + m->lasts_ns);
    }
    return since;
}

/* In rueda_init there are no beats: only its own limit ends what is silent. */
static uint64_t patience(const job *j, const blame *b, const job_rank *k)
{
    const bool was_joining = k->joined_ns == 0 || k->joined_ns > b->last_ns;
    if (was_joining && (b->silence_ns != 0 || waits_in_vain(j, b, k)))
        return START_NS + KNOWN_NS;
    return b->silence_ns + KNOWN_NS;
}

static bool has_slow_rank(const job *j)
{
    bool slow = false;
    for (int i = 0; i < j->trial->mishap_count; i++)
        slow |= j->trial->mishaps[i].kind == MISHAP_SLOW;
    return slow;
}

/* And it knows within a bounded time. Slow ones need longer for what they do. */
static void check_times(job *j, const blame *b)
{
    for (int r = 0; r < j->trial->ranks && b->ranks != 0 && !has_slow_rank(j); r++) {
        const job_rank *k = &j->ranks[r];
        const uint64_t since = could_know(j, b, k);
        if (has_given_up(j, r) && k->ended_ns > since + patience(j, b, k))
            job_fail(j, INVARIANT_TIMES, "rank %d knew of it only after %.1f s: %s", r,
                     (double)(k->ended_ns - since) / 1e9, k->text);
    }
}

/* Nothing leaks. */
static void check_leaks(job *j, const blame *b)
{
    (void)b;
    for (int r = 0; r < j->trial->ranks; r++) {
        const sim_leaks l = sim_leaks_of(j->world, j->ranks[r].process);
        if (life_of(j, r) == SIM_ENDED &&
            (l.blocks != 0 || l.mappings != 0 || l.descriptors != 0 || l.threads != 0))
            job_fail(j, INVARIANT_LEAKS,
                     "rank %d has left %llu blocks (%llu bytes), %llu mappings (%llu bytes), %llu "
                     "descriptors and %llu threads behind",
                     r, (unsigned long long)l.blocks, (unsigned long long)l.block_bytes,
                     (unsigned long long)l.mappings, (unsigned long long)l.mapping_bytes,
                     (unsigned long long)l.descriptors, (unsigned long long)l.threads);
    }
}

void invariants_check(job *j, sim_end end)
{
    void (*const CHECKS[])(job *, const blame *) = {check_finished, check_names, check_times,
                                                    check_leaks};
    const blame b = find_blame(j);
    if (j->result->failed == INVARIANT_NONE)
        check_over(j, end);
    if (j->trial->elastic) {
        elastic_check(j);
        check_leaks(j, &b);
        return;
    }
    for (size_t i = 0; i < sizeof CHECKS / sizeof *CHECKS && j->result->failed == INVARIANT_NONE;
         i++)
        CHECKS[i](j, &b);
}
