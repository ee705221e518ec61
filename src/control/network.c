/* network.c: control by the mesh: its life, and moving on. */
#include "control/network_parts.h"

#include <stdlib.h>
#include <time.h>

#define FLUSH_POLL_NS 200000

/* ---- Opening and closing --------------------------------------------------------------------- */

static bool arrived(void *context, uint32_t number)
{
    network *n = context;
    return tree_read(n, &n->links[number]);
}

static bool adopt(void *context, net_link *link)
{
    return net_link_purpose(link)->role == BOOT_TREE && tree_adopt_again(context, link);
}

/* The links of the meeting are those of the global set's tree. */
static rueda_status adopt_links(network *n)
{
    uint32_t rank;
    for (net_link *link; (link = mesh_take_link(n->mesh, &rank)) != NULL;) {
        tree_link *l = tree_link_to(n, rank);
        if (l == NULL) {
            net_link_close(link);
            return status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init");
        }
        mesh_stream_attach(l->stream, link);
    }
    return RUEDA_OK;
}

rueda_status network_open(mesh *m, const boot_identity *who, const control_terms *terms,
                          const segment *s, network **opened)
{
    network *n = calloc(1, sizeof *n);
    if (n == NULL)
        return status_fail(RUEDA_ERR_MEMORY, "rank %d: out of memory in rueda_init", who->rank);
    n->mesh = m;
    n->terms = *terms;
    n->heartbeat.limit_ns = terms->silence_ns;
    n->segment = s;
    n->rank = (uint32_t)who->rank;
    n->size = (uint32_t)who->size;
    mesh_set_owner(m, (mesh_owner){arrived, adopt, n});
    n->answers = calloc(n->size, sizeof *n->answers);
    const rueda_status status = n->answers == NULL
                                    ? status_fail(RUEDA_ERR_MEMORY, "out of memory in rueda_init")
                                    : adopt_links(n);
    if (status != RUEDA_OK)
        return network_close(n), status;
    *opened = n;
    return RUEDA_OK;
}

void network_set_answerer(network *n, control_answerer answer)
{
    n->answer = answer;
}

void network_leave(network *n)
{
    tree_tell_left(n);
}

/* In this order: a connection that is made now has something to write, and that has to leave. */
static bool is_flushed(network *n, bool whole)
{
    bool flushed = true;
    mesh_connect(n->mesh);
    for (uint32_t i = 0; i < n->link_count; i++) {
        tree_link *l = &n->links[i];
        tree_write(n, l);
        tree_read(n, l); /* what we do not read would turn closing into a reset */
        flushed = flushed && (l->stream == NULL || byte_queue_used(&l->out) == 0 ||
                              !(mesh_stream_is_open(l->stream) || mesh_stream_calls(l->stream)));
    }
    return flushed && mesh_flushed(n->mesh, whole);
}

void network_flush(network *n, bool whole, uint64_t limit_ns)
{
    const uint64_t deadline = world_now_ns() + limit_ns;
    while (!is_flushed(n, whole) && world_now_ns() < deadline)
        world_rest(FLUSH_POLL_NS);
}

void network_close(network *n)
{
    if (n == NULL)
        return;
    for (uint32_t i = 0; i < n->link_count; i++) {
        mesh_stream_close(n->links[i].stream);
        byte_queue_free(&n->links[i].in);
        byte_queue_free(&n->links[i].out);
    }
    free(n->links);
    for (uint32_t s = 0; s < SEGMENT_SETS; s++)
        network_set_close(n, s);
    free(n->answers);
    free(n);
}

/* ---- Moving on ------------------------------------------------------------------------------- */

static bool move_on(network *n, uint64_t now_ns)
{
    bool moved = false;
    for (uint32_t i = 0; i < n->link_count; i++) {
        if (byte_queue_used(&n->links[i].out) > 0)
            moved |= tree_write(n, &n->links[i]);
    }
    tree_beat(n, now_ns);
    tree_ask_time(n, now_ns);
    return moved;
}

bool network_pump(network *n, uint64_t now_ns)
{
    const bool moved = mesh_pump(n->mesh, now_ns);
    return move_on(n, now_ns) || moved;
}

void network_sleep(network *n, uint64_t timeout_ns)
{
    move_on(n, mesh_sleep(n->mesh, timeout_ns));
}
