/* invariants.c: what must be so when a trial is over, whatever has happened in it. What must be so all the time is
 * where it can be seen: results and memory in rank.c, agreement by world_witness, and RUEDA_ASSERT in the library. */
#include "sim/job.h"

#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define KILL_LIMIT_NS (5 * SECOND) /* from a death until every survivor that waits knows */

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
        job_fail(j, "rank %d has not ended (%s):\n%s", r,
                 end == SIM_TIME_IS_UP ? "time is up" : "nothing can happen any more", waiting);
        return;
    }
}

/* Without a mishap that may end the job, all ranks do all their tasks. */
static void check_finished(job *j)
{
    for (int r = 0; r < j->trial->ranks && !trial_may_end(j->trial); r++) {
        if (!j->ranks[r].finished)
            job_fail(j, "rank %d did not finish, and nothing befell the job that could end it: %s",
                     r, j->ranks[r].text);
    }
}

/* The rank that a sentence calls lost, or -1. */
static int named_rank(const char *text)
{
    int rank = -1;
    const char *at = strstr(text, "rank ");
    return at != NULL && sscanf(at, "rank %d is lost", &rank) == 1 ? rank : -1;
}

static bool only_kills(const job *j)
{
    for (int i = 0; i < j->trial->mishap_count; i++) {
        const mishap_kind kind = j->trial->mishaps[i].kind;
        if (j->happened[i] && kind != MISHAP_KILL && kind != MISHAP_SLOW && kind != MISHAP_CLOCK)
            return false;
    }
    return true;
}

static int count_killed(const job *j)
{
    int count = 0;
    for (int r = 0; r < j->trial->ranks; r++)
        count += j->killed_ns[r] != 0;
    return count;
}

/* Where nobody tells who has ended, a rank that comes when the others have given up can only wait in vain. */
static bool is_late(const job *j, const job_rank *r)
{
    return !j->trial->has_launcher && r->status == RUEDA_ERR_TIMEOUT;
}

/* Where ranks were killed and nothing else happened: survivors all name a rank that is really dead, the same one. Of
 * several dead ones survivors may name different ones as long as nobody agrees on who is missing. */
static void check_names(job *j)
{
    int first = -1;
    if (!only_kills(j) || count_killed(j) == 0)
        return;
    for (int r = 0; r < j->trial->ranks; r++) {
        const job_rank *k = &j->ranks[r];
        if (life_of(j, r) != SIM_ENDED || k->finished)
            continue;
        const int named = named_rank(k->text);
        if (is_late(j, k))
            continue;
        if (named < 0 || named >= j->trial->ranks || j->killed_ns[named] == 0)
            job_fail(j, "rank %d does not name a rank that is dead: %s", r, k->text);
        else if (first >= 0 && named != first && count_killed(j) == 1)
            job_fail(j, "rank %d names rank %d and another survivor rank %d", r, named, first);
        first = named;
    }
}

/* Survivors know of a death within a bounded time. Slow ones need longer for what they do. */
static void check_times(job *j)
{
    for (int i = 0; i < j->trial->mishap_count; i++) {
        if (j->trial->mishaps[i].kind == MISHAP_SLOW)
            return;
    }
    if (!only_kills(j) || count_killed(j) == 0)
        return;
    for (int r = 0; r < j->trial->ranks; r++) {
        const job_rank *k = &j->ranks[r];
        if (life_of(j, r) == SIM_ENDED && !k->finished && !is_late(j, k) &&
            k->ended_ns > j->mishap_ns + KILL_LIMIT_NS)
            job_fail(j, "rank %d knew of the death only after %.1f s: %s", r,
                     (double)(k->ended_ns - j->mishap_ns) / 1e9, k->text);
    }
}

/* Nothing leaks. */
static void check_leaks(job *j)
{
    for (int r = 0; r < j->trial->ranks; r++) {
        const sim_leaks l = sim_leaks_of(j->world, j->ranks[r].process);
        if (life_of(j, r) == SIM_ENDED &&
            (l.blocks != 0 || l.mappings != 0 || l.descriptors != 0 || l.threads != 0))
            job_fail(j,
                     "rank %d has left %llu blocks (%llu bytes), %llu mappings (%llu bytes), %llu "
                     "descriptors and %llu threads behind",
                     r, (unsigned long long)l.blocks, (unsigned long long)l.block_bytes,
                     (unsigned long long)l.mappings, (unsigned long long)l.mapping_bytes,
                     (unsigned long long)l.descriptors, (unsigned long long)l.threads);
    }
}

void invariants_check(job *j, sim_end end)
{
    void (*const CHECKS[])(job *) = {check_finished, check_names, check_times, check_leaks};
    if (!j->failed)
        check_over(j, end);
    for (size_t i = 0; i < sizeof CHECKS / sizeof *CHECKS && !j->failed; i++)
        CHECKS[i](j);
}
