/* peer_socket.c: the bare socket that rueda bench measures tcp against: rueda-peer-socket.
 *
 * Two processes and one TCP connection over loopback, on the board of the bench as its second team.
 * Up to ROUND_TRIP_BYTES an operation is a round trip (there, then back); above, both send and receive
 * as many bytes as an allreduce of two ranks must, at the same time. Nothing is combined.
 *
 * Usage: rueda-peer-socket 2 PATH_OF_THE_BOARD
 */
#include "cli/bench_slice.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUND_TRIP_BYTES 4096
#define LANDING_BYTES (1 << 20) /* what arrives is overwritten by what follows */

static int connection;
static uint8_t landing[LANDING_BYTES];

static bool send_all(const uint8_t *from, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t now = send(connection, from + sent, bytes - sent, MSG_NOSIGNAL);
        if (now <= 0)
            return false;
        sent += (size_t)now;
    }
    return true;
}

static bool receive_all(size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        const ssize_t now = recv(connection, landing, bytes - got, 0);
        if (now <= 0)
            return false;
        got += (size_t)now;
    }
    return true;
}

static bool round_trip(int rank, const uint8_t *data, size_t bytes)
{
    return rank == 0 ? send_all(data, bytes) && receive_all(bytes)
                     : receive_all(bytes) && send_all(data, bytes);
}

static bool is_broken(ssize_t moved)
{
    return moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR);
}

static bool exchange(const uint8_t *data, size_t bytes)
{
    size_t sent = 0, got = 0;
    while (sent < bytes || got < bytes) {
        const ssize_t out = sent == bytes ? -2
                                          : send(connection, data + sent, bytes - sent,
                                                 MSG_NOSIGNAL | MSG_DONTWAIT);
        const size_t room = bytes - got < LANDING_BYTES ? bytes - got : LANDING_BYTES;
        if (out >= -1 && is_broken(out))
            return false;
        const ssize_t in = room == 0 ? -2 : recv(connection, landing, room, MSG_DONTWAIT);
        if (in >= -1 && is_broken(in))
            return false;
        sent += out > 0 ? (size_t)out : 0;
        got += in > 0 ? (size_t)in : 0;
        if (out <= 0 && in <= 0)
            poll(
                &(struct pollfd){connection,
                                 (short)((sent < bytes ? POLLOUT : 0) | (got < bytes ? POLLIN : 0)),
                                 0},
                1, -1);
    }
    return true;
}

static bool run(slice_engine *e, const board_order *order)
{
    (void)order;
    const size_t bytes = e->data.in_count * rueda_dtype_bytes(e->data.dtype);
    const bool ok = bytes <= ROUND_TRIP_BYTES ? round_trip(e->rank, e->data.input, bytes)
                                              : exchange(e->data.input, bytes);
    if (!ok)
        board_fail(e->board, e->team, "the connection broke");
    return ok;
}

/* Both ends of a connection over loopback; 0: fine. */
static int connect_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    const int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        return -1;
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[0], (struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
    for (int i = 0; i < 2; i++)
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return ends[1] < 0 ? -1 : 0;
}

static int serve(const char *program, int fd, int rank)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    board *b = fd >= 0 ? board_map(fd) : NULL;
    if (b == NULL || b->size != 2) {
        fprintf(stderr, "%s is started by rueda bench -np 2 --against socket\n", program);
        return 2;
    }
    board_bind(b, rank);
    slice_engine engine = {.board = b,
                           .team = BOARD_PEER,
                           .rank = rank,
                           .moves_only = true,
                           .data = {.rank = rank, .size = 2},
                           .allocate = slice_allocate,
                           .release = slice_release,
                           .run = run};
    return !slice_serve(&engine);
}

int main(int argc, char **argv)
{
    int ends[2];
    const int fd = argc == 3 ? open(argv[2], O_RDWR | O_CLOEXEC) : -1;
    if (connect_pair(ends) != 0)
        return perror("rueda-peer-socket"), 1;
    const pid_t child = fork();
    connection = ends[child == 0 ? 1 : 0];
    close(ends[child == 0 ? 0 : 1]);
    return child < 0 ? 1 : serve(argv[0], fd, child == 0 ? 1 : 0); /* a board is not inherited */
}
