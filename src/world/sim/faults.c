/* faults.c: what the harness does to the network. */
#include "world/sim/sim_parts.h"

void sim_partition(sim *s, int host_a, int host_b, bool holds)
{
    SIM_ASSERT(host_a >= 0 && host_a < SIM_HOSTS_MAX && host_b >= 0 && host_b < SIM_HOSTS_MAX);
    if (host_a == host_b)
        return;
    s->parted[host_a][host_b] = s->parted[host_b][host_a] = holds;
    for (sim_object *o = s->objects; o != NULL && !holds; o = o->next_made) {
        sim_socket *k = (sim_socket *)o;
        if (o->kind == KIND_SOCKET && ((k->host == host_a && k->peer_host == host_b) ||
                                       (k->host == host_b && k->peer_host == host_a)))
            sim_socket_resume(s, k);
    }
}

static bool is_between(const sim_object *o, int process_a, int process_b)
{
    const sim_socket *k = (const sim_socket *)o;
    return o->kind == KIND_SOCKET && !sim_socket_is_unix(k) && k->phase == PHASE_OPEN &&
           k->process == process_a && k->peer_process == process_b;
}

int sim_cut(sim *s, int process_a, int process_b)
{
    int count = 0;
    for (sim_object *o = s->objects; o != NULL; o = o->next_made) {
        sim_socket *k = (sim_socket *)o;
        if (!is_between(o, process_a, process_b))
            continue;
        count++;
        sim_stream_hear_reset(k->peer);
        sim_stream_hear_reset(k);
    }
    return count;
}

/* The system of the one that knows nothing has asked, and the other's has answered that there is no connection. */
static void notice(void *argument)
{
    sim_socket *unaware = argument;
    unaware->silent = false;
    sim_stream_hear_reset(unaware);
}

int sim_half_open(sim *s, int process_reset, int process_unaware)
{
    int count = 0;
    for (sim_object *o = s->objects; o != NULL; o = o->next_made) {
        sim_socket *k = (sim_socket *)o;
        if (!is_between(o, process_reset, process_unaware))
            continue;
        count++;
        k->peer->silent = true;
        if (k->peer->keeps_alive)
            sim_at(s, sim_now(s) + k->peer->idle_s * UINT64_C(1000000000), notice, k->peer);
        sim_stream_hear_reset(k);
    }
    return count;
}
