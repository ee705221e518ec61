/* trouble.c: which rank is lost and why, and what this rank itself lacks. The first reason counts. */
#include "mesh/mesh_parts.h"
#include "world/sockets.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define PROBE_LIMIT_NS UINT64_C(5000000000)
#define THERE_NS UINT64_C(3000000000) /* for a rank that is there to say why it has given us up */

bool mesh_lose(mesh *m, uint32_t rank, const char *why)
{
    mesh_trouble *t = &m->trouble;
    if (t->lost < 0 && !t->ended && t->left[rank] == 0) {
        t->lost = (int)rank;
        t->why = why;
    }
    return t->lost == (int)rank;
}

bool mesh_has_lost(const mesh *m)
{
    return m->trouble.lost >= 0;
}

bool mesh_lose_altered(mesh *m, uint32_t rank, const net_link *link)
{
    mesh_trouble *t = &m->trouble;
    if (!net_link_altered(link))
        return false;
    if (t->lost < 0)
        snprintf(t->altered, sizeof t->altered, "%s", net_link_why(link));
    mesh_lose(m, rank, t->altered);
    return true;
}

int mesh_take_lost(mesh *m, const char **why)
{
    mesh_trouble *t = &m->trouble;
    const int lost = t->ended ? -1 : t->lost;
    *why = t->why;
    t->lost = -1;
    return lost;
}

static void drop_probe(mesh_trouble *t)
{
    net_link_close(t->probe);
    t->probe = NULL;
}

/* Of two ranks that both live the lower one is to name the higher one, and may be slow to. So the higher one
 * looks whether there still is a process where the lower one was: its door is called, for no use of it. */
void mesh_suspect(mesh *m, uint32_t rank, uint64_t wait_ns)
{
    mesh_trouble *t = &m->trouble;
    const mesh_purpose nothing = {.role = BOOT_DATA, .peer = rank, .channel = UINT32_MAX};
    drop_probe(t);
    t->suspect = (int)rank;
    t->suspect_until_ns = world_now_ns() + wait_ns;
    if (rank < m->rank)
        (void)streams_call(m, &nothing, PROBE_LIMIT_NS, &t->probe);
}

/* The system of a process that lives takes the call at once, however busy the process is. */
static bool is_there(const net_link *probe)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    return probe != NULL &&
           world_getpeername(net_link_fd(probe), (struct sockaddr *)&address, &length) == 0;
}

void trouble_settle(mesh *m, uint64_t now_ns)
{
    mesh_trouble *t = &m->trouble;
    if (t->suspect < 0 || now_ns < t->suspect_until_ns)
        return;
    const bool waits = is_there(t->probe);
    drop_probe(t);
    if (waits) {
        t->suspect_until_ns = now_ns + THERE_NS;
        return;
    }
    mesh_lose(m, (uint32_t)t->suspect, RANK_ENDED_OR_CUT_OFF);
    t->suspect = -1;
}

void trouble_close(mesh *m)
{
    drop_probe(&m->trouble);
    free(m->trouble.left);
}

void mesh_fail(mesh *m, rueda_status status)
{
    mesh_trouble *t = &m->trouble;
    if (t->failed != RUEDA_OK)
        return;
    t->failed = status;
    snprintf(t->lack, sizeof t->lack, "%s", status_text());
}

rueda_status mesh_failed(const mesh *m)
{
    const mesh_trouble *t = &m->trouble;
    return t->failed == RUEDA_OK ? RUEDA_OK : status_restore(t->failed, t->lack);
}

void mesh_note_left(mesh *m, uint32_t rank)
{
    m->trouble.left[rank] = ++m->trouble.departures;
}

uint32_t mesh_departure(const mesh *m, uint32_t rank)
{
    return m->trouble.left[rank];
}

void mesh_end(mesh *m)
{
    m->trouble.ended = true;
}

bool mesh_has_ended(const mesh *m)
{
    return m->trouble.ended;
}
