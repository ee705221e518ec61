/* strangers.c: one socket or link for each stranger; none of them may get a word out of the job. */
#include "strangers.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_NS UINT64_C(3000000000)
#define FLOOD_BYTES 65536

static const char QUESTION[] = "GET / HTTP/1.1\r\nHost: job\r\n\r\n";

int own_port(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int port = 0;
    CHECK(folder != NULL);
    for (struct dirent *e; port == 0 && (e = readdir(folder)) != NULL;) {
        const int fd = atoi(e->d_name);
        int listens = 0;
        socklen_t length = sizeof listens;
        struct sockaddr_in6 address = {0};
        socklen_t bytes = sizeof address;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0 &&
            getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
            address.sin6_family != AF_UNIX)
            port = ntohs(address.sin6_port); /* lies where that of IPv4 does */
    }
    closedir(folder);
    CHECK(port != 0);
    return port;
}

/* ---- One stranger ---------------------------------------------------------------------------- */

static void babble(strangers *s, int fd, size_t bytes)
{
    static unsigned char text[FLOOD_BYTES];
    for (size_t i = 0; i < bytes; i += sizeof(unsigned long long)) {
        const unsigned long long word = roll(&s->dice);
        memcpy(text + i, &word, sizeof word);
    }
    (void)!send(fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int connect_to(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static void say_hello(strangers *s, stranger *one, int port)
{
    net_identity me = s->member;
    const uint32_t to = (uint32_t)roll_below(&s->dice, (size_t)s->port_count);
    const net_purpose purpose = {
        .role = 1 + (uint32_t)roll_below(&s->dice, 4), .from = 1, .to = to};
    const net_address where = {.family = 4, .port = (uint16_t)port, .ip = {127, 0, 0, 1}};
    net_purpose meant = purpose;
    if (one->kind == STRANGER_KEY)
        me.key[roll_below(&s->dice, sizeof me.key)] ^= 1;
    else if (one->kind == STRANGER_JOB)
        me.job[0] ^= 1;
    else if (one->kind == STRANGER_GENERATION)
        me.generation += 1 + roll_below(&s->dice, 3);
    else
        meant.to = (uint32_t)s->port_count + 7;
    if (net_link_call(&me, &meant, &where, NULL, LIMIT_NS, &one->link) != RUEDA_OK)
        one->link = NULL;
}

static void come(strangers *s, stranger *one)
{
    const int port = s->ports[roll_below(&s->dice, (size_t)s->port_count)];
    *one = (stranger){(stranger_kind)roll_below(&s->dice, STRANGER_KIND_COUNT), -1, NULL};
    s->came++;
    if (one->kind >= STRANGER_KEY) {
        say_hello(s, one, port);
        return;
    }
    one->fd = connect_to(port);
    s->refused += one->fd < 0;
    if (one->fd < 0)
        return;
    const struct linger reset = {.l_onoff = 1};
    if (one->kind == STRANGER_RESETS)
        setsockopt(one->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (one->kind == STRANGER_LEAVES || one->kind == STRANGER_RESETS) {
        close(one->fd);
        one->fd = -1;
    } else if (one->kind == STRANGER_BABBLES) {
        babble(s, one->fd, 8 * (1 + roll_below(&s->dice, 64)));
    } else if (one->kind == STRANGER_ASKS) {
        (void)!send(one->fd, QUESTION, sizeof QUESTION - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* Nothing ever comes back but the end of the connection. */
static void go_on(strangers *s, stranger *one)
{
    char word;
    if (one->link != NULL) {
        CHECK(net_link_progress(one->link, world_now_ns()) != NET_OPEN);
    } else if (one->fd >= 0) {
        if (one->kind == STRANGER_FLOODS)
            babble(s, one->fd, FLOOD_BYTES);
        else if (one->kind == STRANGER_SLOW)
            (void)!send(one->fd, "r", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        CHECK(recv(one->fd, &word, 1, MSG_DONTWAIT) <= 0);
    }
}

static void go(stranger *one)
{
    if (one->fd >= 0)
        close(one->fd);
    net_link_close(one->link);
    *one = (stranger){.fd = -1};
}

/* ---- All of them ----------------------------------------------------------------------------- */

void strangers_begin(strangers *s, const int *ports, int port_count, const char *key,
                     const char *job, unsigned long long seed)
{
    memset(s, 0, sizeof *s);
    s->ports = ports;
    s->port_count = port_count;
    s->dice.state = seed;
    s->member.generation = 1;
    s->member.rank = 1;
    snprintf(s->member.job, sizeof s->member.job, "%s", job);
    CHECK(net_key_parse(key, s->member.key) == NULL);
    for (int i = 0; i < STRANGERS_MOST; i++)
        s->open[i].fd = -1;
}

void strangers_step(strangers *s)
{
    stranger *one = &s->open[s->next];
    s->next = (s->next + 1) % STRANGERS_MOST;
    go(one);
    come(s, one);
    for (int i = 0; i < 8; i++) /* some of them, each in its turn */
        go_on(s, &s->open[((size_t)s->next * 8 + (size_t)i) % STRANGERS_MOST]);
}

void strangers_end(strangers *s)
{
    for (int i = 0; i < STRANGERS_MOST; i++) {
        go_on(s, &s->open[i]);
        go(&s->open[i]);
    }
}
