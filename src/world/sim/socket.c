/* socket.c: how sockets come to be, find each other, and end; stream.c moves their bytes. */
#include "world/sim/sim_parts.h"

#include "world/sockets.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define WAITING_MOST 4096        /* connections that a listener has not accepted */
#define UNIX_BUFFER (200u << 10) /* as on Linux */
#define FIRST_PORT 32768         /* of those that are given to who wants any */
#define LAST_PORT 60999
#define RETRY_NS UINT64_C(1000000000) /* of a call to a listener that is full */
#define ALL_EVENTS UINT32_MAX

/* ---- Making ------------------------------------------------------------------------------------------ */

bool sim_socket_is_unix(const sim_socket *k)
{
    return k->family == AF_UNIX;
}

sim_socket *sim_socket_make(sim *s, int family, bool blocks)
{
    sim_socket *k = sim_allocate(sizeof *k);
    sim_object_begin(&k->object, KIND_SOCKET);
    k->object.blocks = blocks;
    k->family = family;
    k->luggage_end = &k->luggage;
    const sim_fiber *f = sim_running();
    k->process = f == NULL ? -1 : f->process->number;
    k->host = f == NULL ? 0 : f->process->host;
    k->limit = family == AF_UNIX ? UNIX_BUFFER
                                 : sim_between(&s->network, s->settings.buffer_least_bytes,
                                               s->settings.buffer_most_bytes);
    return k;
}

sim_socket *sim_socket_of(int fd)
{
    sim_object *o = sim_descriptor_object(fd);
    if (o != NULL && o->kind == KIND_SOCKET)
        return (sim_socket *)o;
    if (o != NULL)
        errno = ENOTSOCK;
    return NULL;
}

int world_socket(int family, bool blocks)
{
    sim_spend();
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return sim_descriptor_give(&sim_socket_make(sim_world, family, blocks)->object);
}

void sim_socket_join(sim_socket *a, sim_socket *b)
{
    a->peer = b;
    b->peer = a;
    a->phase = b->phase = PHASE_OPEN;
    a->peer_process = b->process;
    b->peer_process = a->process;
    a->peer_host = b->host;
    b->peer_host = a->host;
    sim_world->statistics.connections++;
}

int world_socketpair(int fds[2])
{
    sim *s = sim_world;
    sim_spend();
    sim_socket *a = sim_socket_make(s, AF_UNIX, true), *b = sim_socket_make(s, AF_UNIX, true);
    sim_socket_join(a, b);
    const int first = sim_descriptor_give(&a->object);
    const int second = first < 0 ? -1 : sim_descriptor_give(&b->object);
    if (second < 0) {
        if (first >= 0)
            world_close(first);
        errno = EMFILE;
        return -1;
    }
    fds[0] = first;
    fds[1] = second;
    return 0;
}

/* ---- Names and ports ----------------------------------------------------------------------------------- */

static bool is_at(const sim_socket *k, const sim_address *a)
{
    if (sim_socket_is_unix(k) || a->family == AF_UNIX)
        return sim_socket_is_unix(k) && a->family == AF_UNIX && k->name_bytes == a->name_bytes &&
               memcmp(k->name, a->name, a->name_bytes) == 0;
    return k->port == a->port && (k->any_address || a->ip == 0 || k->ip == a->ip);
}

static bool is_taken(const sim *s, const sim_socket *k, const sim_address *a)
{
    for (const sim_socket *other = s->hosts[k->host].bound; other != NULL;
         other = other->bound_next) {
        if (is_at(other, a) && (sim_socket_is_unix(k) || other->phase == PHASE_LISTENS ||
                                !other->reuses || !k->reuses))
            return true;
    }
    return false;
}

static uint16_t choose_port(sim *s, const sim_socket *k, const sim_address *wanted)
{
    sim_host *h = &s->hosts[k->host];
    sim_address a = *wanted;
    a.family = AF_INET;
    do {
        a.port = h->next_port;
        h->next_port = a.port == LAST_PORT ? FIRST_PORT : (uint16_t)(a.port + 1);
    } while (is_taken(s, k, &a));
    return a.port;
}

int world_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    sim *s = sim_world;
    sim_address a;
    sim_spend();
    sim_socket *k = sim_socket_of(fd);
    if (k == NULL || !sim_address_read(address, bytes, &a))
        return -1;
    errno = 0;
    if (k->is_bound || k->phase != PHASE_NEW || (a.family == AF_UNIX) != sim_socket_is_unix(k))
        errno = EINVAL;
    else if (a.ip != 0 && a.ip != sim_host_ip(k->host) && !sim_is_loopback(a.ip))
        errno = EADDRNOTAVAIL;
    else if ((a.port != 0 || a.family == AF_UNIX) && is_taken(s, k, &a))
        errno = EADDRINUSE;
    else if (sim_refuses("bind"))
        errno = ENOMEM;
    if (errno != 0)
        return -1;
    k->is_bound = true;
    k->ip = a.ip;
    k->any_address = a.ip == 0;
    k->port = a.port != 0 || a.family == AF_UNIX ? a.port : choose_port(s, k, &a);
    k->name_bytes = a.name_bytes;
    memcpy(k->name, a.name, sizeof k->name);
    k->bound_next = s->hosts[k->host].bound;
    s->hosts[k->host].bound = k;
    return 0;
}

static void unbind(sim *s, sim_socket *k)
{
    sim_socket **at = &s->hosts[k->host].bound;
    while (*at != NULL && *at != k)
        at = &(*at)->bound_next;
    if (*at != NULL)
        *at = k->bound_next;
    k->is_bound = false;
}

int world_listen(int fd)
{
    sim_spend();
    sim_socket *k = sim_socket_of(fd);
    if (k == NULL)
        return -1;
    if (!k->is_bound || k->phase != PHASE_NEW) {
        errno = EINVAL;
        return -1;
    }
    if (sim_refuses("listen")) {
        errno = ENOBUFS;
        return -1;
    }
    k->phase = PHASE_LISTENS;
    return 0;
}

static sim_socket *find_listener(const sim *s, int host, const sim_address *a)
{
    for (sim_socket *k = s->hosts[host].bound; k != NULL; k = k->bound_next) {
        if (k->phase == PHASE_LISTENS && is_at(k, a))
            return k;
    }
    return NULL;
}

/* ---- Calling ---------------------------------------------------------------------------------------------- */

uint64_t sim_latency(sim *s, const sim_socket *k)
{
    const sim_settings *t = &s->settings;
    if (k->host == k->peer_host)
        return sim_between(&s->network, t->local_least_ns, t->local_most_ns);
    return sim_between(&s->network, t->latency_least_ns, t->latency_most_ns);
}

bool sim_parted(const sim *s, const sim_socket *k)
{
    return s->parted[k->host][k->peer_host];
}

/* The listener has one more; its end of the connection is not accepted yet. */
static void knock(sim *s, sim_socket *listener, sim_socket *caller)
{
    sim_socket *k = sim_socket_make(s, listener->family, true);
    k->process = listener->process;
    k->host = listener->host;
    k->ip = caller->peer_ip;
    k->port = listener->port;
    k->peer_ip = caller->ip;
    k->peer_port = caller->port;
    k->object.references = 1; /* the listener's */
    sim_socket_join(caller, k);
    listener->waiting =
        sim_grow(listener->waiting, listener->waiting_first + listener->waiting_count,
                 &listener->waiting_room, sizeof(sim_socket *));
    listener->waiting[listener->waiting_first + listener->waiting_count++] = k;
    sim_object_changed(&listener->object, POLLIN);
    sim_object_changed(&caller->object, POLLOUT);
}

static void run_call(void *target, uint64_t number)
{
    (void)number;
    sim *s = sim_world;
    sim_socket *k = target;
    k->moving = false;
    if (k->phase != PHASE_CALLS || k->closed || sim_parted(s, k))
        return;
    const sim_address a = {.family = AF_INET, .ip = k->peer_ip, .port = k->peer_port};
    sim_socket *listener = find_listener(s, k->peer_host, &a);
    if (listener == NULL) {
        k->phase = PHASE_OVER;
        k->error = ECONNREFUSED;
        sim_object_changed(&k->object, ALL_EVENTS);
    } else if (listener->waiting_count >= WAITING_MOST) {
        k->moving = true;
        sim_push(s, s->now_ns + RETRY_NS, run_call, k, 0);
    } else {
        knock(s, listener, k);
    }
}

static void start_call(sim *s, sim_socket *k, uint64_t delay_ns)
{
    if (k->moving)
        return;
    k->moving = true;
    sim_push(s, s->now_ns + delay_ns, run_call, k, 0);
}

static int call_unix(sim *s, sim_socket *k, const sim_address *a)
{
    sim_socket *listener = find_listener(s, k->host, a);
    if (listener == NULL || listener->waiting_count >= WAITING_MOST) {
        errno = listener == NULL ? ECONNREFUSED : EAGAIN;
        return -1;
    }
    k->peer_host = k->host;
    knock(s, listener, k);
    return 0;
}

static int finish_call(sim_socket *k)
{
    while (k->phase == PHASE_CALLS) {
        if (sim_object_wait(&k->object, POLLOUT, SIM_NEVER, "connect") == WAITED_INTERRUPT)
            return -1;
    }
    errno = k->error;
    k->error = 0;
    return k->phase == PHASE_OPEN ? 0 : -1;
}

static int call_host(sim *s, sim_socket *k, const sim_address *a)
{
    const int host = sim_address_host(a->ip, k->host);
    if (host < 0) {
        errno = ENETUNREACH;
        return -1;
    }
    k->peer_ip = a->ip;
    k->peer_port = a->port;
    k->peer_host = host;
    if (k->ip == 0)
        k->ip = sim_is_loopback(a->ip) ? a->ip : sim_host_ip(k->host);
    if (k->port == 0)
        k->port = choose_port(s, k, a);
    k->phase = PHASE_CALLS;
    start_call(s, k, sim_latency(s, k) * 2);
    if (k->object.blocks)
        return finish_call(k);
    errno = EINPROGRESS;
    return -1;
}

int world_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    sim_address a;
    sim_spend();
    sim_socket *k = sim_socket_of(fd);
    if (k == NULL || !sim_address_read(address, bytes, &a))
        return -1;
    errno = 0;
    if (k->phase == PHASE_OPEN)
        errno = EISCONN;
    else if (k->phase == PHASE_CALLS)
        errno = EALREADY;
    else if (k->phase != PHASE_NEW)
        errno = k->error != 0 ? k->error : ECONNABORTED;
    else if ((a.family == AF_UNIX) != sim_socket_is_unix(k))
        errno = EAFNOSUPPORT;
    if (errno != 0)
        return -1;
    return sim_socket_is_unix(k) ? call_unix(sim_world, k, &a) : call_host(sim_world, k, &a);
}

int world_accept(int listener, struct sockaddr *peer, socklen_t *bytes, bool blocks)
{
    sim_spend();
    sim_socket *l = sim_socket_of(listener);
    if (l == NULL)
        return -1;
    if (l->phase != PHASE_LISTENS) {
        errno = EINVAL;
        return -1;
    }
    while (l->waiting_count == 0) {
        if (!l->object.blocks) {
            errno = EAGAIN;
            return -1;
        }
        if (sim_object_wait(&l->object, POLLIN, SIM_NEVER, "accept") == WAITED_INTERRUPT)
            return -1;
    }
    sim_socket *k = l->waiting[l->waiting_first];
    const int fd = sim_descriptor_give(&k->object);
    if (fd < 0)
        return -1;
    k->object.references--; /* the listener's */
    k->object.blocks = blocks;
    l->waiting_first++;
    if (--l->waiting_count == 0)
        l->waiting_first = 0;
    if (peer != NULL)
        sim_address_write(k->family, k->peer_ip, k->peer_port, peer, bytes);
    return fd;
}

/* ---- The end ------------------------------------------------------------------------------------------------ */

static void close_listener(sim_socket *k)
{
    for (; k->waiting_count > 0; k->waiting_count--) {
        sim_socket *one = k->waiting[k->waiting_first++];
        one->resets = true;
        sim_reference_drop(&one->object);
    }
}

static void close_unix(sim_socket *k)
{
    sim_socket *peer = k->peer;
    if (k->in.used > 0 && !peer->closed)
        peer->error = ECONNRESET;
    peer->end_received = true;
    if (!peer->closed)
        sim_object_changed(&peer->object, ALL_EVENTS);
}

/* A killed process's connections end as the system likes. */
static bool ends_hard(sim *s, const sim_socket *k)
{
    return k->resets || k->in.used > 0 ||
           (k->process >= 0 && s->processes[k->process]->life == SIM_KILLED &&
            sim_happens(&s->network, s->settings.death_reset_chance));
}

void sim_socket_close(sim_socket *k)
{
    sim *s = sim_world;
    if (k->is_bound)
        unbind(s, k);
    if (k->phase == PHASE_LISTENS)
        close_listener(k);
    const bool was_open = k->phase == PHASE_OPEN, hard = was_open && ends_hard(s, k);
    k->closed = true;
    if (was_open && sim_socket_is_unix(k)) {
        close_unix(k);
    } else if (hard) {
        sim_stream_reset(s, k);
    } else if (was_open) {
        k->end_wanted = true;
        sim_stream_move(s, k, sim_latency(s, k));
    }
    sim_bytes_free(&k->in);
    for (sim_luggage *l; (l = k->luggage) != NULL;) {
        k->luggage = l->next;
        sim_luggage_free(l, true);
    }
    k->luggage_end = &k->luggage;
}

void sim_socket_free(sim_socket *k)
{
    for (sim_luggage *l; (l = k->luggage) != NULL;) {
        k->luggage = l->next;
        sim_luggage_free(l, false);
    }
    sim_bytes_free(&k->in);
    sim_bytes_free(&k->out);
    sim_release(k->waiting);
}

void sim_socket_resume(sim *s, sim_socket *k)
{
    const uint64_t delay = sim_latency(s, k);
    if (k->phase == PHASE_CALLS)
        start_call(s, k, delay);
    else if (k->peer != NULL && !sim_socket_is_unix(k))
        sim_stream_move(s, k, delay);
}
