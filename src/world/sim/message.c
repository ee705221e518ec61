/* message.c: the calls of sockets.h that send, receive and ask; and descriptors on their way between processes. */
#include "world/sim/sim_parts.h"

#include "world/sim/wrapped.h"
#include "world/sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#define NAME_LINE 160 /* bytes of a line of the list of names */

/* ---- Luggage -------------------------------------------------------------------------------------------- */

void sim_luggage_free(sim_luggage *l, bool drop)
{
    for (int i = 0; i < l->count; i++) {
        if (l->items[i].object == NULL && l->items[i].real >= 0)
            sim_real_close(l->items[i].real);
        else if (l->items[i].object != NULL && drop)
            sim_reference_drop(l->items[i].object);
    }
    sim_release(l);
}

static bool pack_item(sim_luggage *l, int fd)
{
    sim_object *o = fd < SIM_FIRST_DESCRIPTOR ? NULL : sim_descriptor_object(fd);
    const int real = fd < SIM_FIRST_DESCRIPTOR ? sim_real_copy(fd) : -1;
    if (o == NULL && real < 0)
        return false;
    if (o != NULL)
        o->references++;
    l->items[l->count].object = o;
    l->items[l->count++].real = real;
    return true;
}

sim_luggage *sim_luggage_pack(const struct msghdr *m, bool *wrong)
{
    const struct cmsghdr *header = CMSG_FIRSTHDR(m);
    *wrong = false;
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return NULL;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    sim_luggage *l = sim_allocate(sizeof *l + count * sizeof l->items[0]);
    for (size_t i = 0; i < count && !*wrong; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        *wrong = !pack_item(l, fd);
    }
    if (!*wrong)
        return l;
    sim_luggage_free(l, true);
    errno = EBADF;
    return NULL;
}

/* A descriptor of the running process, or -1; the luggage has it no more. */
static int unpack_item(sim_luggage *l, int i)
{
    sim_object *o = l->items[i].object;
    const int real = l->items[i].real;
    if (o != NULL) {
        const int fd = sim_descriptor_give(o);
        if (fd >= 0)
            o->references--; /* the luggage's */
        l->items[i].object = fd >= 0 ? NULL : o;
        return fd;
    }
    if (sim_refuses("a descriptor"))
        return -1;
    sim_real_note(real, sim_process_now());
    l->items[i].real = -1;
    return real;
}

/* Those for which there is no room, or none are to be had, are lost, as on Linux. */
static void unpack(sim_luggage *l, struct msghdr *m)
{
    const size_t space =
        m->msg_controllen < CMSG_LEN(sizeof(int)) ? 0 : m->msg_controllen - CMSG_LEN(0);
    struct cmsghdr *header = m->msg_control;
    int given = 0;
    while (given < l->count && (size_t)(given + 1) * sizeof(int) <= space) {
        const int fd = unpack_item(l, given);
        if (fd < 0)
            break;
        memcpy(CMSG_DATA(header) + (size_t)given * sizeof fd, &fd, sizeof fd);
        given++;
    }
    if (given < l->count)
        m->msg_flags |= MSG_CTRUNC;
    m->msg_controllen = given == 0 ? 0 : CMSG_SPACE((size_t)given * sizeof(int));
    if (given > 0) {
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN((size_t)given * sizeof(int));
    }
    sim_luggage_free(l, true);
}

/* ---- Sending and receiving ---------------------------------------------------------------------------------- */

ssize_t world_sendmsg(int fd, const struct msghdr *message, int flags)
{
    bool wrong;
    sim_spend();
    sim_socket *k = sim_socket_of(fd);
    if (k == NULL)
        return -1;
    sim_luggage *l = sim_luggage_pack(message, &wrong);
    if (wrong)
        return -1;
    const bool refused = l != NULL && sim_refuses("sendmsg");
    errno = ENOBUFS;
    const ssize_t sent = refused ? -1 : sim_stream_send(k, message, flags, l);
    if (l != NULL && (sent <= 0 || !sim_socket_is_unix(k))) {
        const int saved = errno;
        sim_luggage_free(l, true);
        errno = saved;
    }
    return sent;
}

ssize_t world_send(int fd, const void *from, size_t bytes, int flags)
{
    struct iovec part = {(void *)from, bytes};
    return world_sendmsg(fd, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, flags);
}

ssize_t world_recvmsg(int fd, struct msghdr *message, int flags)
{
    sim_spend();
    sim_socket *k = sim_socket_of(fd);
    if (k == NULL)
        return -1;
    sim_luggage *l = NULL;
    const ssize_t got = sim_stream_receive(k, message, flags, &l);
    message->msg_flags = 0;
    if (l != NULL)
        unpack(l, message);
    else
        message->msg_controllen = 0;
    return got;
}

ssize_t world_recv(int fd, void *to, size_t bytes, int flags)
{
    struct iovec part = {to, bytes};
    return world_recvmsg(fd, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, flags);
}

int world_unsent(int fd)
{
    sim_spend();
    const sim_socket *k = sim_socket_of(fd);
    if (k == NULL || k->peer == NULL)
        return -1;
    return (int)(sim_socket_is_unix(k) ? k->peer->in.used : k->out.used);
}

/* ---- Ending ---------------------------------------------------------------------------------------------------- */

static void end_sending(sim *s, sim_socket *k)
{
    if (k->end_wanted)
        return;
    k->end_wanted = true;
    if (sim_socket_is_unix(k)) {
        k->peer->end_received = true;
        sim_object_changed(&k->peer->object, UINT32_MAX);
    } else {
        sim_stream_move(s, k, sim_latency(s, k));
    }
}

int world_shutdown(int fd, int how)
{
    sim_spend();
    sim_socket *k = sim_socket_of(fd);
    if (k == NULL)
        return -1;
    if (k->phase == PHASE_CALLS) {
        k->phase = PHASE_OVER;
        sim_object_changed(&k->object, UINT32_MAX);
        return 0;
    }
    if (k->phase != PHASE_OPEN) {
        errno = ENOTCONN;
        return -1;
    }
    if (how != SHUT_RD)
        end_sending(sim_world, k);
    if (how != SHUT_WR)
        k->hears_no_more = true;
    sim_object_changed(&k->object, UINT32_MAX);
    return 0;
}

/* ---- Options and names ------------------------------------------------------------------------------------------ */

int world_let_block(int fd)
{
    sim_spend();
    sim_socket *k = sim_socket_of(fd);
    if (k == NULL)
        return -1;
    k->object.blocks = true;
    return 0;
}

/* Options that change nothing here are taken silently. */
int world_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
    sim_spend();
    sim_socket *k = sim_socket_of(fd);
    if (k == NULL)
        return -1;
    int number = 0;
    if (level == SOL_SOCKET && name == SO_LINGER && bytes >= sizeof(struct linger)) {
        const struct linger *l = value;
        k->resets = l->l_onoff != 0 && l->l_linger == 0;
        return 0;
    }
    memcpy(&number, value, bytes < sizeof number ? bytes : sizeof number);
    if (level == SOL_SOCKET && name == SO_REUSEADDR)
        k->reuses = number != 0;
    if (level == SOL_SOCKET && name == SO_KEEPALIVE)
        k->keeps_alive = number != 0;
    if (level == IPPROTO_TCP && name == TCP_KEEPIDLE)
        k->idle_s = (uint32_t)number;
    /* larger buffers would hide what happens when they are full */
    if (level == SOL_SOCKET && name == SO_SNDBUF && number > 0 && (uint64_t)number < k->limit)
        k->limit = number < 1024 ? 1024 : (uint64_t)number;
    return 0;
}

static int give_option(const void *from, socklen_t bytes, void *value, socklen_t *room)
{
    *room = bytes < *room ? bytes : *room;
    memcpy(value, from, *room);
    return 0;
}

int world_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
    sim_spend();
    sim_socket *k = sim_socket_of(fd);
    if (k == NULL)
        return -1;
    if (level == SOL_SOCKET && name == SO_ERROR) {
        const int error = k->error;
        k->error = 0;
        return give_option(&error, sizeof error, value, bytes);
    }
    if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF)) {
        const int size = (int)k->limit;
        return give_option(&size, sizeof size, value, bytes);
    }
    if (level == SOL_SOCKET && name == SO_PEERCRED && k->peer != NULL) {
        const struct ucred who = {SIM_FIRST_PROCESS + k->peer_process, geteuid(), getegid()};
        return give_option(&who, sizeof who, value, bytes);
    }
    errno = ENOPROTOOPT;
    return -1;
}

int world_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    sim_spend();
    const sim_socket *k = sim_socket_of(fd);
    if (k == NULL)
        return -1;
    sim_address_write(k->family, k->ip, k->port, address, bytes);
    return 0;
}

int world_getpeername(int fd, struct sockaddr *address, socklen_t *bytes)
{
    sim_spend();
    const sim_socket *k = sim_socket_of(fd);
    if (k == NULL)
        return -1;
    if (k->phase != PHASE_OPEN) {
        errno = ENOTCONN;
        return -1;
    }
    sim_address_write(k->family, k->peer_ip, k->peer_port, address, bytes);
    return 0;
}

/* As /proc/net/unix writes them: an abstract name begins with @. */
FILE *world_unix_names(void)
{
    const sim *s = sim_world;
    sim_spend();
    const sim_fiber *f = sim_running();
    size_t room = 1;
    if (f == NULL || sim_refuses("fopen")) {
        errno = EMFILE;
        return NULL;
    }
    const sim_socket *first = s->hosts[f->process->host].bound;
    for (const sim_socket *k = first; k != NULL; k = k->bound_next)
        room += NAME_LINE;
    FILE *list = fmemopen(NULL, room, "w+");
    if (list == NULL)
        return NULL;
    for (const sim_socket *k = first; k != NULL; k = k->bound_next) {
        if (sim_socket_is_unix(k) && k->phase == PHASE_LISTENS && k->name_bytes > 0 &&
            k->name[0] == '\0')
            fprintf(list, "0: 00000002 00000000 00010000 0001 01 0 @%.*s\n", (int)k->name_bytes - 1,
                    k->name + 1);
    }
    rewind(list);
    return list;
}

bool world_lists_unix_names(void)
{
    return true;
}
