/* streams.c: links made when first used. The higher rank calls; the lower one says one byte when it
 * has a use for the link, and closes it when it has none yet: then the caller tries again. */
#include "mesh/mesh_parts.h"
#include "world/sockets.h"

#include <stdlib.h>
#include <sys/socket.h>

#define CALL_LIMIT_NS UINT64_C(5000000000)
#define AGAIN_NS UINT64_C(10000000)    /* between two calls */
#define UNABLE_NS UINT64_C(1000000000) /* for the system to let us call again */
#define PROBE_NS UINT64_C(1000000000)  /* between two looks for a peer that does not call … */
#define PROBES 3                       /* … which is gone when so many fail one after the other */
#define SUSPECT_NS UINT64_C(500000000) /* for the true reason to come through the tree */

mesh_stream *mesh_stream_open(mesh *m, const mesh_purpose *purpose)
{
    mesh_stream *s = malloc(sizeof *s);
    if (s == NULL)
        return NULL;
    *s = (mesh_stream){.mesh = m, .purpose = *purpose, .next = m->streams, .before = &m->streams};
    if (s->next != NULL)
        s->next->before = &s->next;
    m->streams = s;
    return s;
}

/* It waits for its link from the first use until the link is there or it is given up. */
bool streams_is_connecting(const mesh_stream *s)
{
    return s->first_call_ns != 0 && !s->open && !s->broken;
}

void mesh_stream_close(mesh_stream *s)
{
    if (s == NULL)
        return;
    *s->before = s->next;
    if (s->next != NULL)
        s->next->before = s->before;
    s->mesh->connecting -= streams_is_connecting(s);
    net_link_close(s->link);
    free(s);
}

static bool is_caller(const mesh_stream *s)
{
    return s->purpose.again || s->mesh->rank > s->purpose.peer;
}

/* Descriptors or memory may become free again, but the peer does not wait for ever. */
static void note_unable(mesh_stream *s, rueda_status status, uint64_t now_ns)
{
    mesh *m = s->mesh;
    s->unable_ns = s->unable_ns == 0 ? now_ns : s->unable_ns;
    if (now_ns - s->unable_ns > UNABLE_NS)
        mesh_fail(m, status);
    else if (!m->told_no_call)
        log_line(&m->log, LOG_WARN, "%s; trying again", status_text());
    m->told_no_call = true;
}

rueda_status streams_call(const mesh *m, const mesh_purpose *wanted, uint64_t limit_ns,
                          net_link **link)
{
    const net_purpose purpose = {.role = wanted->role,
                                 .from = m->rank,
                                 .to = wanted->peer,
                                 .set = wanted->set,
                                 .channel = wanted->channel,
                                 .epoch = wanted->epoch};
    const net_address *own = m->meeting.own.family == 0 ? NULL : &m->meeting.own;
    const rueda_status status =
        net_link_call(&m->meeting.identity, &purpose, &m->meeting.places[wanted->peer].address, own,
                      limit_ns, link);
    if (status != RUEDA_OK)
        *link = NULL;
    return status;
}

static void call(mesh_stream *s, uint64_t now_ns)
{
    mesh *m = s->mesh;
    if (now_ns < s->again_ns)
        return;
    s->again_ns = now_ns + AGAIN_NS;
    const rueda_status status = streams_call(m, &s->purpose, CALL_LIMIT_NS, &s->link);
    if (status != RUEDA_OK) {
        note_unable(s, status, now_ns);
        return;
    }
    s->unable_ns = 0;
    mesh_watch(m, s);
}

net_link *mesh_stream_link(mesh_stream *s)
{
    if (s->open)
        return s->broken ? NULL : s->link;
    if (s->first_call_ns == 0 && !s->broken) {
        s->first_call_ns = world_now_ns();
        s->mesh->connecting++;
        if (is_caller(s))
            call(s, s->first_call_ns);
        else
            s->again_ns = s->first_call_ns + PROBE_NS;
    }
    return NULL;
}

static void give_up(mesh_stream *s)
{
    mesh *m = s->mesh;
    m->connecting--;
    s->broken = true;
    if (!s->purpose.again)
        mesh_lose(m, s->purpose.peer, "no connection to it can be made");
}

/* Our peer is to call. That it cannot, or has gone, we hear through the tree, but who would pass it on may
 * have left before, with nothing more to do. So now and then we call: a peer that is there opens the door, and
 * closes the link of a lower rank again. That it is slow means nothing. */
static bool probe(mesh_stream *s, uint64_t now_ns)
{
    if (s->link == NULL && now_ns >= s->again_ns) {
        mesh_purpose purpose = s->purpose;
        purpose.role = BOOT_DATA;
        s->again_ns = now_ns + PROBE_NS;
        (void)streams_call(s->mesh, &purpose, PROBE_NS, &s->link);
    }
    const net_state state = s->link == NULL ? NET_WAITS : net_link_progress(s->link, now_ns);
    if (state == NET_WAITS)
        return false;
    s->missed = state == NET_OPEN || now_ns >= s->again_ns ? 0 : s->missed + 1;
    net_link_close(s->link);
    s->link = NULL;
    if (s->missed == PROBES)
        give_up(s);
    return s->missed == PROBES;
}

static bool progress(mesh_stream *s, uint64_t now_ns)
{
    const uint64_t limit = s->mesh->limit_ns;
    /* only one of the two gives up after a time, or they would accuse each other; the one who waits may
     * have come much earlier, too */
    if (!is_caller(s))
        return probe(s, now_ns);
    if (now_ns > s->first_call_ns + limit) /* `now` may be a little older than the call */
        return give_up(s), true;
    if (s->link == NULL)
        call(s, now_ns);
    if (s->link == NULL)
        return false;
    const net_state state = net_link_progress(s->link, now_ns);
    uint8_t welcome;
    const ssize_t got = state == NET_OPEN ? net_link_receive(s->link, &welcome, 1) : 0;
    if (got == 1) {
        s->open = true;
        mesh_watch_again(s->mesh, s);
        s->mesh->connecting--;
        return true;
    }
    if (got < 0 || (state != NET_WAITS && state != NET_OPEN)) {
        net_link_close(s->link);
        s->link = NULL;
        /* who has left opens no door any more */
        if (s->purpose.again || mesh_departure(s->mesh, s->purpose.peer) != 0)
            give_up(s);
    }
    return false;
}

bool streams_progress(mesh *m, uint64_t now_ns)
{
    bool moved = false;
    for (mesh_stream *s = m->streams; s != NULL; s = s->next) {
        if (streams_is_connecting(s))
            moved |= progress(s, now_ns);
    }
    return moved;
}

void mesh_stream_attach(mesh_stream *s, net_link *link)
{
    s->mesh->connecting -= streams_is_connecting(s);
    net_link_close(s->link); /* a probe */
    s->link = link;
    s->open = true;
    mesh_watch(s->mesh, s);
}

/* The first byte of a connection always has room. */
bool mesh_greet(net_link *link)
{
    return net_link_send(link, &(struct iovec){"\1", 1}, 1) == 1;
}

bool streams_adopt(mesh *m, net_link *link)
{
    const net_purpose *p = net_link_purpose(link);
    for (mesh_stream *s = m->streams; s != NULL; s = s->next) {
        if (s->purpose.role != p->role || s->purpose.set != p->set ||
            s->purpose.channel != p->channel || s->purpose.epoch != p->epoch ||
            s->purpose.peer != p->from || is_caller(s))
            continue;
        /* it had to give the first link up, on which we may have sent something, and cannot be read again */
        if (s->open && s->purpose.role == BOOT_DATA && !s->broken)
            mesh_stream_broke(s);
        if (s->open)
            continue;
        if (!mesh_greet(link))
            return false;
        mesh_stream_attach(s, link);
        return true;
    }
    return false;
}

/* Both ends see it: the lower rank is to say so, and if it cannot, the higher one. */
void mesh_stream_broke(mesh_stream *s)
{
    mesh *m = s->mesh;
    s->broken = true;
    if (!mesh_lose_altered(m, s->purpose.peer, s->link) && m->trouble.suspect < 0)
        mesh_suspect(m, s->purpose.peer, m->rank < s->purpose.peer ? SUSPECT_NS : 2 * SUSPECT_NS);
}

void streams_find_broken(mesh *m)
{
    for (mesh_stream *s = m->streams; s != NULL; s = s->next) {
        if (s->purpose.role == BOOT_DATA && s->open && !s->broken && net_link_is_reset(s->link))
            mesh_stream_broke(s);
    }
}

void mesh_cut(mesh *m, uint32_t rank, mesh_links links)
{
    for (mesh_stream *s = m->streams; s != NULL; s = s->next) {
        const mesh_links own = s->purpose.role == BOOT_TREE ? MESH_TREE : MESH_DATA;
        if (s->purpose.peer == rank && s->link != NULL && (links == MESH_ALL || links == own))
            world_shutdown(net_link_fd(s->link), SHUT_RDWR);
    }
}

/* A call of ours that is under way may have been answered, with all that its peer had for us, before that left. */
bool mesh_stream_ended(const mesh_stream *s)
{
    const bool calls = is_caller(s) && s->link != NULL;
    return s->broken || (!s->open && !calls);
}

bool mesh_set_sent(const mesh *m, uint32_t set, uint32_t channels)
{
    for (const mesh_stream *s = m->streams; s != NULL; s = s->next) {
        if (s->purpose.role == BOOT_DATA && s->purpose.set == set &&
            s->purpose.channel < channels && s->open && !s->broken && net_link_wants_write(s->link))
            return false;
    }
    return true;
}

bool mesh_stream_calls(const mesh_stream *s)
{
    return !s->open && !s->broken && is_caller(s) && s->link != NULL;
}

bool mesh_stream_is_open(const mesh_stream *s)
{
    return s->open;
}

static bool is_flushed(const mesh_stream *s, bool whole)
{
    if (streams_is_connecting(s))
        return !s->purpose.again;
    return !s->open || s->broken || (!whole && s->purpose.role == BOOT_DATA) ||
           net_link_flushed(s->link);
}

void mesh_connect(mesh *m)
{
    if (m->connecting > 0)
        streams_progress(m, world_now_ns());
}

bool mesh_flushed(const mesh *m, bool whole)
{
    bool flushed = true;
    for (const mesh_stream *s = m->streams; s != NULL; s = s->next)
        flushed = flushed && is_flushed(s, whole);
    return flushed;
}
