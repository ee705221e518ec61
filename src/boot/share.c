/* share.c: the ranks of a host share a segment, the bells by which they wake each other, and their heaps; those of an
 * elastic job also a roster. The lowest of them makes segment and bells and hands them to the others. Each of those brings its heap and a line,
 * one end of a pair of sockets: when all have come, all heaps go to each of them by it. */
#include "boot/boot.h"
#include "boot/handover.h"
#include "memory/heap.h"
#include "world/sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum brought { BROUGHT_HEAP, BROUGHT_LINE };
enum given { FD_SEGMENT, FD_ROSTER };

/* Who shares with us, and what is handed over: the segment, the roster if there is one, and a bell for each of them
 * in ascending order. */
typedef struct sharing {
    const config *settings;
    const boot_identity *who;
    boot_meeting *meeting;
    const boot_memory *memory;
    bool *local; /* by rank */
    int count, giver;
    int *fds;
    int fd_count;
    int first_bell; /* among them */
} sharing;

static rueda_status fail_memory(const boot_identity *who)
{
    return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", who->rank);
}

/* ---- Bells ----------------------------------------------------------------------------------- */

void boot_bells_close(boot_meeting *m)
{
    for (int r = 0; m->bells != NULL && r < m->bell_count; r++) {
        if (m->bells[r] >= 0)
            world_close(m->bells[r]);
    }
    free(m->bells);
    m->bells = NULL;
}

static rueda_status make_bells(sharing *s)
{
    for (int i = s->first_bell; i < s->fd_count; i++) {
        s->fds[i] = world_bell_make();
        if (s->fds[i] < 0)
            return status_fail_errno(RUEDA_ERR_SYSTEM,
                                     "rank %d cannot make the bells of the %d ranks of its host; "
                                     "raise `ulimit -n`",
                                     s->who->rank, s->count);
    }
    return RUEDA_OK;
}

/* From now on they are the meeting's. */
static void hang_bells(sharing *s)
{
    int next = s->first_bell;
    for (int r = 0; r < s->who->size && s->fd_count > s->first_bell; r++) {
        if (!s->local[r])
            continue;
        s->meeting->bells[r] = s->fds[next];
        s->fds[next++] = -1;
    }
}

/* ---- Who and what ---------------------------------------------------------------------------- */

static void find_sharers(sharing *s)
{
    const boot_identity *who = s->who;
    for (int r = who->size - 1; r >= 0; r--) {
        s->local[r] = r == who->rank || (who->shares_memory && boot_is_local(s->meeting, who, r));
        s->count += s->local[r];
        s->giver = s->local[r] ? r : s->giver;
    }
}

static void end_sharing(sharing *s)
{
    for (int i = 0; s->fds != NULL && i < s->fd_count; i++) {
        if (s->fds[i] >= 0)
            world_close(s->fds[i]);
    }
    free(s->fds);
    free(s->local);
}

/* Bells are for ranks that sleep in a poll over their sockets. */
static rueda_status begin_sharing(sharing *s)
{
    boot_meeting *m = s->meeting;
    const size_t size = (size_t)s->who->size;
    s->local = calloc(size, sizeof *s->local);
    if (s->local == NULL)
        return fail_memory(s->who);
    find_sharers(s);
    s->first_bell = s->memory->roster != NULL ? FD_ROSTER + 1 : FD_SEGMENT + 1;
    s->fd_count = s->first_bell + (m->places != NULL ? s->count : 0);
    s->fds = malloc((size_t)s->fd_count * sizeof *s->fds);
    m->bells = m->places != NULL ? malloc(size * sizeof *m->bells) : NULL;
    if (s->fds == NULL || (m->bells == NULL && m->places != NULL)) {
        s->fd_count = 0;
        return fail_memory(s->who);
    }
    memset(s->fds, -1, (size_t)s->fd_count * sizeof *s->fds);
    if (m->bells != NULL) {
        memset(m->bells, -1, size * sizeof *m->bells);
        m->bell_count = (int)size;
    }
    return RUEDA_OK;
}

/* ---- Heaps ----------------------------------------------------------------------------------- */

/* Our own among the ranks that share. */
static int own_index(const sharing *s)
{
    int index = 0;
    for (int r = 0; r < s->who->rank; r++)
        index += s->local[r];
    return index;
}

/* Maps the heaps of those who share with us, given in ascending order, and takes the descriptors over; but for
 * our own. */
static rueda_status attach_heaps(const sharing *s, const int *fds, segment *made)
{
    rueda_status status = segment_own_heap(made, (uint32_t)s->who->rank, s->memory->heap->base);
    for (int r = 0, next = 0; r < s->who->size; r++) {
        if (!s->local[r])
            continue;
        const int fd = fds[next++];
        if (r != s->who->rank && status == RUEDA_OK)
            status = segment_attach_heap(made, (uint32_t)r, fd);
        else if (r != s->who->rank)
            world_close(fd);
    }
    return status;
}

/* Who is gone will be missed by all. */
static rueda_status send_heaps(const sharing *s, const handover_brought *brought, const int *fds)
{
    for (int r = 0; r < s->who->size; r++) {
        const int line = brought[r].fds[BROUGHT_LINE];
        if (line >= 0 && !handover_send(line, fds, s->count) && errno != EPIPE)
            return status_fail_errno(RUEDA_ERR_SYSTEM,
                                     "rank %d cannot hand the heaps of the ranks of its host to "
                                     "rank %d",
                                     s->who->rank, r);
    }
    return RUEDA_OK;
}

/* The giver, when all have come. */
static rueda_status spread_heaps(const sharing *s, handover_brought *brought, segment *made)
{
    int *fds = malloc((size_t)s->count * sizeof *fds), next = 0;
    if (fds == NULL)
        return fail_memory(s->who);
    for (int r = 0; r < s->who->size; r++) {
        if (s->local[r])
            fds[next++] = r == s->who->rank ? s->memory->heap->fd : brought[r].fds[BROUGHT_HEAP];
    }
    rueda_status status = send_heaps(s, brought, fds);
    if (status == RUEDA_OK) {
        status = attach_heaps(s, fds, made);
        for (int r = 0; r < s->who->size; r++)
            brought[r].fds[BROUGHT_HEAP] = -1;
    }
    free(fds);
    return status;
}

/* A taker. They come when all ranks have come to the giver, who knows which have not. */
static rueda_status collect_heaps(const sharing *s, const handover *h, int line, segment *made)
{
    int *fds = malloc((size_t)s->count * sizeof *fds);
    if (fds == NULL)
        return fail_memory(s->who);
    const uint64_t deadline = attendance_deadline(s->settings) + BOOT_LATER_NS;
    rueda_status status = handover_receive(h, s->who->rank, line, deadline, fds, s->count);
    if (status == RUEDA_OK) {
        world_close(fds[own_index(s)]);
        status = attach_heaps(s, fds, made);
    }
    free(fds);
    return status;
}

/* ---- Handing over ---------------------------------------------------------------------------- */

static void close_brought(const sharing *s, const handover_brought *brought)
{
    for (int r = 0; r < s->who->size; r++) {
        for (int i = 0; i < HANDOVER_BROUGHT; i++) {
            if (brought[r].fds[i] >= 0)
                world_close(brought[r].fds[i]);
        }
    }
}

static rueda_status serve_sharers(sharing *s, const handover *h, const logger *log, segment *made)
{
    const size_t bytes = (size_t)s->who->size * sizeof(handover_brought);
    const handover_gift gift = {.fds = s->fds, .fd_count = s->fd_count};
    handover_brought *brought = malloc(bytes);
    if (brought == NULL)
        return fail_memory(s->who);
    memset(brought, -1, bytes);
    s->fds[FD_SEGMENT] = made->fd;
    if (s->memory->roster != NULL)
        s->fds[FD_ROSTER] = *s->memory->roster;
    s->local[s->giver] = false; /* takes nothing */
    rueda_status status = handover_give(h, s->local, s->who->size, &gift, brought, log);
    s->local[s->giver] = true;
    s->fds[FD_SEGMENT] = -1; /* stays the segment's, … */
    if (s->memory->roster != NULL)
        s->fds[FD_ROSTER] = -1; /* … and this the caller's */
    if (status == RUEDA_OK)
        status = spread_heaps(s, brought, made);
    close_brought(s, brought);
    free(brought);
    return status;
}

static rueda_status give(sharing *s, const handover *h, uint64_t generation, const logger *log,
                         segment *made)
{
    rueda_status status = segment_create(made, s->settings, (uint32_t)s->who->size, generation);
    if (status == RUEDA_OK)
        status = make_bells(s);
    if (status != RUEDA_OK)
        return status;
    if (s->count == 1)
        return segment_own_heap(made, (uint32_t)s->who->rank, s->memory->heap->base);
    return serve_sharers(s, h, log, made);
}

static rueda_status take_segment(const sharing *s, const handover *h, int line, segment *made)
{
    handover_gift gift = {.fds = s->fds, .fd_count = s->fd_count};
    const handover_brought brings = {{[BROUGHT_HEAP] = s->memory->heap->fd, [BROUGHT_LINE] = line}};
    const rueda_status status = handover_take(h, s->who->rank, s->who->size, &brings, &gift);
    if (status != RUEDA_OK) {
        memset(s->fds, -1, (size_t)s->fd_count * sizeof *s->fds);
        return status;
    }
    const int fd = s->fds[FD_SEGMENT];
    s->fds[FD_SEGMENT] = -1;
    if (s->memory->roster != NULL && *s->memory->roster < 0) {
        *s->memory->roster = s->fds[FD_ROSTER];
        s->fds[FD_ROSTER] = -1;
    }
    return segment_attach(made, fd);
}

static rueda_status take(const sharing *s, const handover *h, segment *made)
{
    int line[2];
    if (world_socketpair(line) != 0)
        return status_fail_errno(RUEDA_ERR_SYSTEM, "rank %d cannot make sockets; raise `ulimit -n`",
                                 s->who->rank);
    rueda_status status = take_segment(s, h, line[1], made);
    world_close(line[1]); /* the giver has it: when it is gone, the line ends */
    if (status == RUEDA_OK &&
        s->meeting->places == NULL) /* the giver is rank 0, and may wait so long */
        s->meeting->deadline_ns = attendance_deadline(s->settings);
    if (status == RUEDA_OK)
        status = collect_heaps(s, h, line[0], made);
    world_close(line[0]);
    return status;
}

/* What the others need to know of this rank. */
static void announce(const segment *s, const config *settings, const boot_identity *who)
{
    segment_rank *me = segment_rank_at(s, (uint32_t)who->rank);
    me->pid = world_process();
    me->process_space = os_process_space();
    me->settings = *settings;
    me->settings.key = (config_text){""};
    world_cpus_allowed(&me->cpus);
    atomic_store(&me->state, SEGMENT_HERE);
}

rueda_status share_memory(const config *settings, const boot_identity *who, uint64_t generation,
                          boot_meeting *m, const logger *log, const boot_memory *memory)
{
    segment *s = memory->segment;
    sharing all = {.settings = settings, .who = who, .meeting = m, .memory = memory};
    rueda_status status = begin_sharing(&all);
    const handover h = {settings, {&m->identity, "memory", all.giver}, m->there};
    if (status == RUEDA_OK)
        status = who->rank == all.giver ? give(&all, &h, generation, log, s) : take(&all, &h, s);
    if (status == RUEDA_OK)
        hang_bells(&all);
    if (status == RUEDA_OK)
        status = segment_commit_set(s, (uint32_t)who->rank, 0);
    if (status == RUEDA_OK)
        announce(s, settings, who);
    end_sharing(&all);
    return status;
}
