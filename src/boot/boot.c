/* boot.c: identity, and the meeting of a host's ranks in the segment. */
#include "boot/boot.h"
#include "boot/handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEETING_POLL_NS 200000 /* between two looks at the others */

static int given_or(int64_t given, int otherwise)
{
    return given >= 0 ? (int)given : otherwise;
}

rueda_status boot_identify(const config *settings, boot_identity *who)
{
    boot_identity me;
    me.rank = (int)settings->rank;
    me.size = (int)settings->size;
    me.local_rank = given_or(settings->local_rank, me.rank);
    me.local_size = given_or(settings->local_size, me.size);
    me.cross_rank = given_or(settings->cross_rank, 0);
    me.cross_size = given_or(settings->cross_size, 1);
    me.crowded = me.crowded_some = false;
    if (me.rank >= me.size)
        return status_fail(RUEDA_ERR_CONFIG, "RUEDA_RANK=%d must be smaller than RUEDA_SIZE=%d",
                           me.rank, me.size);
    const bool alone = settings->meet.text[0] == '\0';
    if (me.local_size != me.size && alone)
        return status_fail(
            RUEDA_ERR_CONFIG,
            "rank %d: %d of %d ranks are on this host, and there is no RUEDA_MEET to "
            "find the others by: start them with `rueda run -H`, or set "
            "RUEDA_MEET=HOST:PORT, HOST being rank 0's",
            me.rank, me.local_size, me.size);
    if (me.size > 1 && settings->job.text[0] == '\0' && alone)
        return status_fail(RUEDA_ERR_CONFIG,
                           "rank %d of %d has no RUEDA_JOB to find the others by: start the ranks "
                           "with `rueda run -np %d COMMAND`",
                           me.rank, me.size, me.size);
    *who = me;
    return RUEDA_OK;
}

const char *boot_job_name(const config *settings, char name[BOOT_NAME])
{
    uint64_t sum = 5381;
    for (const char *c = settings->meet.text; *c != '\0'; c++)
        sum = sum * 33 + (unsigned char)*c;
    if (settings->job.text[0] != '\0')
        snprintf(name, BOOT_NAME, "%.63s", settings->job.text);
    else
        snprintf(name, BOOT_NAME, "meet-%u-%llx", (unsigned)geteuid(), (unsigned long long)sum);
    return name;
}

bool boot_shares_memory(const config *settings)
{
    return strcmp(settings->transport.text, "tcp") != 0 &&
           strcmp(settings->transport.text, "mpi") != 0;
}

bool boot_needs_network(const config *settings, const boot_identity *who)
{
    return who->size > 1 && (settings->meet.text[0] != '\0' || settings->host.text[0] != '\0' ||
                             who->local_size != who->size || !boot_shares_memory(settings));
}

void boot_meeting_close(boot_meeting *m)
{
    for (int i = 0; i < m->link_count; i++)
        net_link_close(m->links[i]);
    net_door_close(m->door);
    free(m->places);
    explicit_bzero(m, sizeof *m);
}

/* ---- Who shares our memory ------------------------------------------------------------------- */

/* Whether rank `r` is on our host; without a meeting all are. */
static bool is_local(const boot_meeting *m, const boot_identity *who, int r)
{
    return m->places == NULL || m->places[r].host == m->places[who->rank].host;
}

/* Which ranks use our segment; returns how many. */
static int find_sharers(const config *settings, const boot_meeting *m, const boot_identity *who,
                        bool *shares)
{
    int count = 0;
    for (int r = 0; r < who->size; r++) {
        shares[r] = r == who->rank || (boot_shares_memory(settings) && is_local(m, who, r));
        count += shares[r];
    }
    return count;
}

/* Local and cross ranks as the table has them. */
static void find_local_ranks(const boot_meeting *m, boot_identity *who)
{
    who->local_rank = who->local_size = who->cross_rank = who->cross_size = 0;
    who->crowded = m->places[who->rank].crowded != 0;
    for (int r = 0; r < who->size; r++) {
        who->crowded_some |= m->places[r].crowded != 0;
        who->local_size += is_local(m, who, r);
        who->local_rank += is_local(m, who, r) && r < who->rank;
    }
    for (int r = 0; r < who->size; r++) {
        int local = 0;
        for (int q = 0; q < r; q++)
            local += m->places[q].host == m->places[r].host;
        who->cross_size += local == who->local_rank;
        who->cross_rank +=
            local == who->local_rank && m->places[r].host < m->places[who->rank].host;
    }
}

/* ---- The segment ----------------------------------------------------------------------------- */

static rueda_status fail_missing(const segment *s, const boot_identity *who, const bool *local,
                                 int64_t seconds)
{
    char missing[200] = "";
    size_t used = 0;
    for (int r = 0; r < who->size && used + 16 < sizeof missing; r++) {
        if (local[r] && atomic_load(&segment_rank_at(s, (uint32_t)r)->state) == SEGMENT_ABSENT)
            used += (size_t)snprintf(missing + used, sizeof missing - used, " %d", r);
    }
    return status_fail(
        RUEDA_ERR_TIMEOUT,
        "rank %d waited %lld s in rueda_init for rank%s; see why they did not start, "
        "or raise RUEDA_START_TIMEOUT",
        who->rank, (long long)seconds, missing);
}

/* A rank that came and already left again counts as present: it may be one generation ahead. */
static bool all_present(const segment *s, const bool *local, int size)
{
    for (int r = 0; r < size; r++) {
        if (local[r] && atomic_load(&segment_rank_at(s, (uint32_t)r)->state) == SEGMENT_ABSENT)
            return false;
    }
    return true;
}

static rueda_status meet(segment *s, const config *settings, const boot_identity *who,
                         const bool *local)
{
    segment_rank *me = segment_rank_at(s, (uint32_t)who->rank);
    me->pid = (int32_t)getpid();
    me->process_space = os_process_space();
    me->settings = *settings;
    me->settings.key = (config_text){""};
    os_cpus_allowed(&me->cpus);
    atomic_store(&me->state, SEGMENT_HERE);
    const uint64_t deadline = os_now_ns() + (uint64_t)settings->start_timeout * 1000000000u;
    while (!all_present(s, local, who->size)) {
        if (os_now_ns() > deadline)
            return fail_missing(s, who, local, settings->start_timeout);
        os_sleep_on(&me->bell.rings, atomic_load(&me->bell.rings), MEETING_POLL_NS, true);
    }
    return RUEDA_OK;
}

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

static rueda_status obtain(const config *settings, const boot_identity *who, uint64_t generation,
                           const bool *local, int count, const logger *log, segment *s)
{
    int giver = 0;
    while (!local[giver])
        giver++;
    const handover h = {settings, generation, "memory", giver};
    handover_gift gift = {.fd = -1};
    if (who->rank != giver) {
        const rueda_status status = handover_take(&h, who->rank, &gift);
        return status == RUEDA_OK ? segment_attach(s, gift.fd) : status;
    }
    rueda_status status = segment_create(s, settings, (uint32_t)who->size, generation);
    if (status != RUEDA_OK || count == 1)
        return status;
    bool *takes = malloc((size_t)who->size * sizeof *takes);
    if (takes == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", who->rank);
    memcpy(takes, local, (size_t)who->size * sizeof *takes);
    takes[giver] = false;
    gift.fd = s->fd;
    status = handover_give(&h, takes, who->size, &gift, log);
    free(takes);
    return status;
}

/* Ranks with more patience may still meet all others, us included: they must not wait for us. */
static void leave(const segment *s, const boot_identity *who)
{
    uint32_t here = SEGMENT_HERE;
    if (s->base != NULL)
        atomic_compare_exchange_strong(&segment_rank_at(s, (uint32_t)who->rank)->state, &here,
                                       SEGMENT_LEFT);
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

static rueda_status share_memory(const config *settings, const boot_identity *who,
                                 uint64_t generation, const boot_meeting *m, const logger *log,
                                 segment *s)
{
    segment made = {.fd = -1};
    bool *local = malloc((size_t)who->size * sizeof *local);
    if (local == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", who->rank);
    const int count = find_sharers(settings, m, who, local);
    rueda_status status = obtain(settings, who, generation, local, count, log, &made);
    if (status == RUEDA_OK)
        status = segment_commit_set(&made, (uint32_t)who->rank, 0);
    if (status == RUEDA_OK)
        status = meet(&made, settings, who, local);
    if (status == RUEDA_OK && m->places == NULL)
        status = compare_settings(&made, who);
    free(local);
    if (status != RUEDA_OK) {
        leave(&made, who);
        segment_close(&made);
        return status;
    }
    *s = made;
    return RUEDA_OK;
}

rueda_status boot_join(const config *settings, boot_identity *who, uint64_t generation,
                       const logger *log, segment *s, boot_meeting *meeting)
{
    boot_meeting held = {.door = NULL};
    boot_identity me = *who;
    rueda_status status = RUEDA_OK;
    if (boot_needs_network(settings, who)) {
        const uint64_t limit = (uint64_t)settings->start_timeout * 1000000000u;
        status = find_meeting(settings, who, generation, os_now_ns() + limit, log, &held);
        if (status == RUEDA_OK)
            find_local_ranks(&held, &me);
    }
    if (status == RUEDA_OK)
        status = share_memory(settings, &me, generation, &held, log, s);
    if (status == RUEDA_OK && held.places == NULL)
        find_crowd(s, &me);
    if (status != RUEDA_OK) {
        boot_meeting_close(&held);
        return status;
    }
    *who = me;
    *meeting = held;
    return RUEDA_OK;
}
