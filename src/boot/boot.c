/* boot.c: identity, and the meeting of a host's ranks in the segment. */
#include "boot/boot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int given_or(int64_t given, int otherwise)
{
    return given >= 0 ? (int)given : otherwise;
}

rueda_status boot_identify(const config *settings, bool shares_memory, boot_identity *who)
{
    boot_identity me;
    me.rank = (int)settings->rank;
    me.size = (int)settings->size;
    me.local_rank = given_or(settings->local_rank, me.rank);
    me.local_size = given_or(settings->local_size, me.size);
    me.host_rank = me.local_size == me.size ? me.rank : me.local_rank;
    me.cross_rank = given_or(settings->cross_rank, 0);
    me.cross_size = given_or(settings->cross_size, 1);
    me.shares_memory = shares_memory;
    me.crowded = me.crowded_some = false;
    if (me.rank >= me.size)
        return status_fail(RUEDA_ERR_CONFIG, "RUEDA_RANK=%d must be smaller than RUEDA_SIZE=%d",
                           me.rank, me.size);
    const bool alone = settings->meet.text[0] == '\0', named = settings->job.text[0] != '\0';
    if (me.local_size != me.size && alone)
        return status_fail(
            RUEDA_ERR_CONFIG,
            "rank %d: %d of %d ranks are on this host, and there is no RUEDA_MEET to "
            "find the others by: start them with `rueda run -H`, or set "
            "RUEDA_MEET=HOST:PORT, HOST being rank 0's, and RUEDA_JOB=NAME, another for each job",
            me.rank, me.local_size, me.size);
    if (me.size > 1 && !named && alone)
        return status_fail(RUEDA_ERR_CONFIG,
                           "rank %d of %d has no RUEDA_JOB to find the others by: start the ranks "
                           "with `rueda run -np %d COMMAND`",
                           me.rank, me.size, me.size);
    if (me.size > 1 && !named && meet_file_of(settings) == NULL)
        return status_fail(
            RUEDA_ERR_CONFIG,
            "rank %d: nothing tells this job from others that meet at %.100s: give all ranks of "
            "this job the same RUEDA_JOB=NAME, another for each job",
            me.rank, settings->meet.text);
    *who = me;
    return RUEDA_OK;
}

bool boot_needs_network(const config *settings, const boot_identity *who)
{
    return who->size > 1 && (settings->meet.text[0] != '\0' || settings->host.text[0] != '\0' ||
                             who->local_size != who->size || !who->shares_memory);
}

void boot_meeting_close(boot_meeting *m)
{
    for (int i = 0; i < m->link_count; i++)
        net_link_close(m->links[i]);
    net_door_close(m->door);
    boot_bells_close(m);
    free(m->places);
    explicit_bzero(m, sizeof *m);
}

/* ---- Where everybody is ------------------------------------------------------------------------ */

bool boot_is_local(const boot_meeting *m, const boot_identity *who, int r)
{
    return m->places == NULL || m->places[r].host == m->places[who->rank].host;
}

/* Local and cross ranks as the table has them. */
static void find_local_ranks(const boot_meeting *m, boot_identity *who)
{
    who->local_rank = who->local_size = who->cross_rank = who->cross_size = 0;
    who->crowded = m->places[who->rank].crowded != 0;
    for (int r = 0; r < who->size; r++) {
        who->crowded_some |= m->places[r].crowded != 0;
        who->local_size += boot_is_local(m, who, r);
        who->local_rank += boot_is_local(m, who, r) && r < who->rank;
    }
    who->host_rank = who->local_rank;
    for (int r = 0; r < who->size; r++) {
        int local = 0;
        for (int q = 0; q < r; q++)
            local += m->places[q].host == m->places[r].host;
        who->cross_size += local == who->local_rank;
        who->cross_rank +=
            local == who->local_rank && m->places[r].host < m->places[who->rank].host;
    }
}

/* ---- Joining ------------------------------------------------------------------------------------ */

/* Every rank compares all with rank 0, in the same order: all get the same error. */
static rueda_status compare_settings(const segment *s, const boot_identity *who)
{
    const config *first = &segment_rank_at(s, 0)->settings;
    for (int r = 1; r < who->size; r++) {
        const config *other = &segment_rank_at(s, (uint32_t)r)->settings;
        const rueda_status status = config_compare(first, other, 0, r);
        if (status != RUEDA_OK)
            return status;
    }
    return RUEDA_OK;
}

void crowd_add(boot_crowd *crowd, const os_cpus *cpus)
{
    crowd->ranks++;
    for (int i = 0; i < OS_CPU_WORDS; i++)
        crowd->cpus.words[i] |= cpus->words[i];
}

bool crowd_is_dense(const boot_crowd *crowd)
{
    int cpus = 0;
    for (int i = 0; i < OS_CPU_WORDS; i++)
        cpus += __builtin_popcountll(crowd->cpus.words[i]);
    return crowd->ranks > cpus;
}

/* Without a meeting all ranks are in the segment. */
static void find_crowd(const segment *s, boot_identity *who)
{
    boot_crowd crowd = {0};
    for (int r = 0; r < who->size; r++)
        crowd_add(&crowd, &segment_rank_at(s, (uint32_t)r)->cpus);
    who->crowded = who->crowded_some = crowd_is_dense(&crowd);
}

/* All of boot_join but cleaning up. */
static rueda_status join(const config *settings, boot_identity *who, uint64_t generation,
                         attendance *there, const logger *log, const boot_memory *memory,
                         boot_meeting *m)
{
    uint64_t deadline = attendance_deadline(settings);
    rueda_status status =
        who->size == 1 ? RUEDA_OK : find_identity(settings, who, generation, &m->identity);
    if (status == RUEDA_OK && boot_needs_network(settings, who)) {
        status = find_meeting(settings, who, deadline, log, m);
        if (status == RUEDA_OK)
            find_local_ranks(m, who);
    }
    if (status == RUEDA_OK)
        status = share_memory(settings, who, generation, m, log, memory);
    if (status != RUEDA_OK || who->size == 1)
        return status;
    if (m->deadline_ns > deadline)
        deadline = m->deadline_ns;
    attendance_pass(there, BOOT_PHASE_MEMORY);
    status = attendance_complete(there, deadline + (who->rank == 0 ? 0 : BOOT_LATER_NS));
    if (status != RUEDA_OK || m->places != NULL)
        return status;
    find_crowd(memory->segment, who);
    return compare_settings(memory->segment, who);
}

rueda_status boot_name_rank(rueda_status status, int rank)
{
    char text[STATUS_TEXT_MAX];
    if (status != RUEDA_ERR_SYSTEM && status != RUEDA_ERR_MEMORY)
        return status;
    snprintf(text, sizeof text, "%s", status_text());
    return strncmp(text, "rank ", 5) == 0 ? status : status_fail(status, "rank %d: %s", rank, text);
}

rueda_status boot_join(const config *settings, boot_identity *who, uint64_t generation,
                       const attendance_ends *ends, const logger *log, const boot_memory *memory,
                       boot_meeting *meeting)
{
    attendance there = {.epoll = -1};
    boot_meeting held = {.there = &there};
    segment made = {.fd = -1};
    const boot_memory shared = {memory->heap, memory->roster, &made};
    boot_identity me = *who;
    rueda_status status = attendance_open(&there, settings, who->rank, generation, ends);
    if (status == RUEDA_OK)
        status = join(settings, &me, generation, &there, log, &shared, &held);
    meeting->met = there.met;
    if (status != RUEDA_OK) {
        meeting->others_failed =
            !there.left && (there.over || status == RUEDA_ERR_PEER || status == RUEDA_ERR_TIMEOUT);
        boot_name_rank(status, who->rank);
        attendance_fail(&there, status);
        status = there.left ? RUEDA_ERR_INTERRUPTED : status;
        attendance_close(&there);
        boot_meeting_close(&held);
        segment_close(&made);
        return status;
    }
    board_note_joined(ends->board, who->rank, generation);
    attendance_pass(&there, BOOT_PHASE_JOINED);
    attendance_close(&there);
    held.there = NULL;
    if (held.door == NULL)
        explicit_bzero(&held.identity, sizeof held.identity); /* it has nobody to prove it to */
    held.met = true;
    *who = me;
    *memory->segment = made;
    *meeting = held;
    explicit_bzero(&held, sizeof held); /* the key stays in one place */
    return RUEDA_OK;
}
