/* replays.c: how long a caller waits at a door where somebody sends a recorded hello again and again.
 *
 *     replays CONNECTIONS [CALLS]
 *
 * One process is the door, one calls CALLS times, first alone and then beside one that makes CONNECTIONS
 * with the recorded bytes and keeps many of them open. Prints how long calls took. */
#include "survivors.h"

#include "net/link.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>

#define OPEN_AT_ONCE                                                                               \
    900 /* more than a door has places, fewer than a process may have descriptors */
#define HELLO_MOST 512
#define LIMIT_NS UINT64_C(10000000000)
#define PAUSE_NS UINT64_C(10000000) /* a refused caller tries again after it, as ranks do */

static const net_identity host_id = {.key = {1, 2, 3}, .job = "job", .generation = 1, .rank = 0};
static const net_identity caller_id = {.key = {1, 2, 3}, .job = "job", .generation = 1, .rank = 1};
static const net_purpose purpose = {.role = 1, .from = 1, .to = 0};
static const net_address loopback = {.family = 4, .ip = {127, 0, 0, 1}};

typedef struct shared {
    _Atomic int replaying; /* 1: under way, 2: done */
    _Atomic bool over;
} shared;

static int connect_to(uint16_t port)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    perror("replays: cannot connect");
    exit(1);
}

static void keep_door(int listener, const shared *s)
{
    const logger log = {.level = LOG_ERROR, .rank = 0};
    net_door *door;
    if (net_door_open(&host_id, listener, &log, &door) != RUEDA_OK)
        _exit(1);
    while (!atomic_load(&s->over)) {
        net_link *link = net_door_progress(door, world_now_ns());
        if (link != NULL)
            net_link_send(link, &(struct iovec){"!", 1}, 1);
        net_link_close(link);
        if (link == NULL)
            poll(&(struct pollfd){net_door_fd(door), POLLIN, 0}, 1, 10);
    }
    _exit(0);
}

/* What a caller says before it hears a word. */
static size_t record(uint8_t hello[HELLO_MOST])
{
    net_address at = loopback;
    int listener;
    net_link *link;
    if (net_listen(&at, 0, 0, &listener, &at.port) != RUEDA_OK ||
        net_link_call(&caller_id, &purpose, &at, NULL, LIMIT_NS, &link) != RUEDA_OK)
        exit(1);
    const int fd = accept(listener, NULL, NULL);
    while (net_link_wants_write(link))
        net_link_progress(link, world_now_ns());
    const ssize_t got = recv(fd, hello, HELLO_MOST, 0);
    net_link_close(link);
    close(fd);
    close(listener);
    return got > 0 ? (size_t)got : 0;
}

static void replay(uint16_t port, long connections, shared *s)
{
    uint8_t hello[HELLO_MOST];
    const size_t bytes = record(hello);
    int fds[OPEN_AT_ONCE];
    memset(fds, -1, sizeof fds);
    atomic_store(&s->replaying, 1);
    for (long i = 0; i < connections; i++) {
        int *fd = &fds[i % OPEN_AT_ONCE];
        if (*fd >= 0)
            close(*fd);
        *fd = connect_to(port);
        (void)!send(*fd, hello, bytes, MSG_NOSIGNAL);
    }
    atomic_store(&s->replaying, 2);
    _exit(0);
}

/* How long until the door has said its word; again and again where it turns us away. */
static double call(uint16_t port)
{
    net_address at = loopback;
    at.port = port;
    const uint64_t start = world_now_ns();
    for (;;) {
        net_link *link;
        char word;
        ssize_t got = 0;
        if (net_link_call(&caller_id, &purpose, &at, NULL, LIMIT_NS, &link) != RUEDA_OK)
            exit(1);
        while (net_link_progress(link, world_now_ns()) == NET_WAITS)
            poll(&(struct pollfd){net_link_fd(link), net_link_wants_write(link) ? POLLOUT : POLLIN,
                                  0},
                 1, 100);
        while (link->state == NET_OPEN && (got = net_link_receive(link, &word, 1)) == 0)
            poll(&(struct pollfd){net_link_fd(link), POLLIN, 0}, 1, 100);
        net_link_close(link);
        if (got == 1)
            return 1e-6 * (double)(world_now_ns() - start);
        usleep(PAUSE_NS / 1000);
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *when, double *ms, int calls)
{
    qsort(ms, (size_t)calls, sizeof *ms, compare);
    printf("%s: %d calls, median %.2f ms, longest %.2f ms\n", when, calls, ms[calls / 2],
           ms[calls - 1]);
}

int main(int argc, char **argv)
{
    const long connections = argc > 1 ? atol(argv[1]) : 0;
    const int calls = argc > 2 ? atoi(argv[2]) : 200;
    if (connections <= 0 || calls <= 0) {
        fprintf(stderr, "usage: replays CONNECTIONS [CALLS]\n");
        return 2;
    }
    shared *s = shared_take(sizeof *s);
    net_address at = loopback;
    int listener;
    if (net_listen(&at, 0, 0, &listener, &at.port) != RUEDA_OK)
        return 1;
    const pid_t door = fork();
    if (door == 0)
        keep_door(listener, s);
    close(listener);
    double *ms = calloc((size_t)calls, sizeof *ms);
    for (int i = 0; i < calls; i++)
        ms[i] = call(at.port);
    report("alone", ms, calls);
    const pid_t attacker = fork();
    if (attacker == 0)
        replay(at.port, connections, s);
    while (atomic_load(&s->replaying) == 0)
        sleep_ms(1);
    int done = 0;
    while (done < calls && atomic_load(&s->replaying) == 1)
        ms[done++] = call(at.port);
    report("beside replays", ms, done);
    kill(attacker, SIGKILL);
    atomic_store(&s->over, true);
    int ended = 0;
    waitpid(attacker, NULL, 0);
    waitpid(door, &ended, 0);
    free(ms);
    return ended == 0 && done > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
