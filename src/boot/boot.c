/* boot.c: identity, and the meeting of all ranks in the segment. */
#include "boot/boot.h"
#include "boot/handover.h"

#include <stdio.h>
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
    if (me.rank >= me.size)
        return status_fail(RUEDA_ERR_CONFIG, "RUEDA_RANK=%d must be smaller than RUEDA_SIZE=%d",
                           me.rank, me.size);
    if (me.local_size != me.size)
        return status_fail(RUEDA_ERR_CONFIG,
                           "rank %d: %d of %d ranks are on this host; several hosts are not built "
                           "yet, start all ranks on one",
                           me.rank, me.local_size, me.size);
    if (me.size > 1 && settings->job.text[0] == '\0')
        return status_fail(RUEDA_ERR_CONFIG,
                           "rank %d of %d has no RUEDA_JOB to find the others by: start the ranks "
                           "with `rueda run -np %d COMMAND`",
                           me.rank, me.size, me.size);
    *who = me;
    return RUEDA_OK;
}

static rueda_status fail_missing(const segment *s, const boot_identity *who, int64_t seconds)
{
    char missing[200] = "";
    size_t used = 0;
    for (int r = 0; r < who->size && used + 16 < sizeof missing; r++) {
        if (atomic_load(&segment_rank_at(s, (uint32_t)r)->state) == SEGMENT_ABSENT)
            used += (size_t)snprintf(missing + used, sizeof missing - used, " %d", r);
    }
    return status_fail(
        RUEDA_ERR_TIMEOUT,
        "rank %d waited %lld s in rueda_init for rank%s; see why they did not start, "
        "or raise RUEDA_START_TIMEOUT",
        who->rank, (long long)seconds, missing);
}

/* A rank that came and already left again counts as present: it may be one generation ahead. */
static bool all_present(const segment *s, int size)
{
    for (int r = 0; r < size; r++) {
        if (atomic_load(&segment_rank_at(s, (uint32_t)r)->state) == SEGMENT_ABSENT)
            return false;
    }
    return true;
}

static rueda_status meet(segment *s, const config *settings, const boot_identity *who)
{
    segment_rank *me = segment_rank_at(s, (uint32_t)who->rank);
    me->pid = (int32_t)getpid();
    me->settings = *settings;
    atomic_store(&me->state, SEGMENT_HERE);
    const uint64_t deadline = os_now_ns() + (uint64_t)settings->start_timeout * 1000000000u;
    while (!all_present(s, who->size)) {
        if (os_now_ns() > deadline)
            return fail_missing(s, who, settings->start_timeout);
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
                           const logger *log, segment *s)
{
    if (who->rank != 0) {
        int fd;
        const rueda_status status = handover_receive(settings, who->rank, generation, &fd);
        return status == RUEDA_OK ? segment_attach(s, fd) : status;
    }
    rueda_status status = segment_create(s, settings, (uint32_t)who->size, generation);
    if (status == RUEDA_OK && who->size > 1)
        status = handover_give(settings, who->size, generation, s->fd, log);
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

rueda_status boot_join(const config *settings, const boot_identity *who, uint64_t generation,
                       const logger *log, segment *s)
{
    segment made = {.fd = -1};
    rueda_status status = obtain(settings, who, generation, log, &made);
    if (status == RUEDA_OK)
        status = segment_commit_set(&made, (uint32_t)who->rank, 0);
    if (status == RUEDA_OK)
        status = meet(&made, settings, who);
    if (status == RUEDA_OK)
        status = compare_settings(&made, who);
    if (status != RUEDA_OK) {
        leave(&made, who);
        segment_close(&made);
        return status;
    }
    *s = made;
    return RUEDA_OK;
}
