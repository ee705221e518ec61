/* tamper_test.c: somebody on the path between two hosts changes one bit of what the ranks exchange: all
 * ranks learn it, and none ever gets a wrong sum.
 * ctest: timeout=120 */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 3 /* of the job; the next process is the relay that ranks 1 and 2 reach rank 0 by */
#define CONNECTIONS 32
#define COUNT (1 << 18)
#define OPERATIONS 20

enum { DOOR_PORT, RELAY_PORT, OVER };

/* Which bit is changed: of the connections that carry more than `after` bytes in this direction, at that
 * byte. 0: to rank 0, 1: from it, -1: none. */
typedef struct tampering {
    int direction;
    long after;
    const char *setting;
} tampering;

/* ---- The relay ------------------------------------------------------------------------------- */

typedef struct relayed {
    int fds[2];    /* the caller's, rank 0's */
    long moved[2]; /* bytes from each */
} relayed;

typedef struct relay {
    const tampering *plan;
    int listener, door_port;
    bool tampered;
    int count;
    relayed connections[CONNECTIONS];
} relay;

static int bind_somewhere(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &bytes) == 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Rank 0 may not listen yet: then the caller is sent away, and tries again. */
static void accept_caller(relay *r)
{
    const int caller = accept(r->listener, NULL, NULL);
    const struct sockaddr_in door = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)r->door_port),
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int host = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(caller >= 0 && host >= 0);
    if (connect(host, (const struct sockaddr *)&door, sizeof door) != 0) {
        close(caller);
        close(host);
        return;
    }
    CHECK(r->count < CONNECTIONS);
    r->connections[r->count++] = (relayed){{caller, host}, {0, 0}};
}

static void carry(relay *r, relayed *c, int from)
{
    static uint8_t bytes[65536];
    const ssize_t got = recv(c->fds[from], bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close(c->fds[0]);
        close(c->fds[1]);
        *c = r->connections[--r->count];
        return;
    }
    const long at = r->plan->after - c->moved[from];
    if (!r->tampered && from == r->plan->direction && at >= 0 && at < got) {
        bytes[at] ^= 0x10;
        r->tampered = true;
    }
    c->moved[from] += got;
    for (ssize_t done = 0, sent; done < got; done += sent) {
        if ((sent = send(c->fds[!from], bytes + done, (size_t)(got - done), MSG_NOSIGNAL)) < 0)
            return; /* its end comes by itself */
    }
}

static void relay_all(const tampering *plan)
{
    static relay r;
    r.plan = plan;
    int port;
    close(bind_somewhere(&r.door_port));
    r.listener = bind_somewhere(&port);
    CHECK(listen(r.listener, CONNECTIONS) == 0);
    atomic_store(job_counter(DOOR_PORT), r.door_port);
    atomic_store(job_counter(RELAY_PORT), port);
    while (atomic_load(job_counter(OVER)) < RANKS) {
        struct pollfd fds[1 + 2 * CONNECTIONS] = {{r.listener, POLLIN, 0}};
        for (int i = 0; i < 2 * r.count; i++)
            fds[1 + i] = (struct pollfd){r.connections[i / 2].fds[i % 2], POLLIN, 0};
        const int count = r.count;
        CHECK(poll(fds, (nfds_t)(1 + 2 * count), 20) >= 0);
        for (int i = 2 * count - 1; i >= 0; i--) {
            if (fds[1 + i].revents != 0 && i / 2 < r.count)
                carry(&r, &r.connections[i / 2], i % 2);
        }
        if (fds[0].revents != 0)
            accept_caller(&r);
    }
    CHECK_EQUAL(r.tampered, plan->direction >= 0);
}

/* ---- The job --------------------------------------------------------------------------------- */

static void join_by_the_relay(int rank, const tampering *plan)
{
    char place[40];
    while (atomic_load(job_counter(RELAY_PORT)) == 0)
        usleep(1000);
    snprintf(place, sizeof place, "127.0.0.1:%d",
             atomic_load(job_counter(rank == 0 ? DOOR_PORT : RELAY_PORT)));
    setenv("RUEDA_MEET", place, 1);
    setenv("RUEDA_SIZE", "3", 1);
    setenv("RUEDA_LOCAL_SIZE", "3", 1);
    setenv("RUEDA_TRANSPORT", "tcp", 1);
    setenv("RUEDA_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    if (plan->setting != NULL)
        setenv(plan->setting, "1", 1);
    CHECK_OK(rueda_init(NULL));
}

/* Every sum that comes out is right; returns how the last operation ended. */
static rueda_status add_up(int rank)
{
    static int32_t data[COUNT];
    const int64_t count = COUNT;
    const rueda_tensor t = RUEDA_TENSOR("data", data, RUEDA_I32, 1, &count);
    for (int i = 0; i < OPERATIONS; i++) {
        doing("operation %d", i);
        for (int k = 0; k < COUNT; k++)
            data[k] = k * (rank + 1) + i;
        const rueda_status status = rueda_allreduce(&t, &RUEDA_OPTIONS(RUEDA_SUM), NULL);
        if (status != RUEDA_OK)
            return status;
        for (int k = 0; k < COUNT; k++)
            CHECK_EQUAL(data[k], 6 * k + 3 * i);
    }
    return RUEDA_OK;
}

static void live(int rank, int size, const void *argument)
{
    (void)size;
    const tampering *plan = argument;
    if (rank == RANKS) {
        relay_all(plan);
        return;
    }
    join_by_the_relay(rank, plan);
    const rueda_status status = add_up(rank);
    if (plan->direction < 0) {
        CHECK_EQUAL(status, RUEDA_OK);
    } else {
        CHECK_EQUAL(status, RUEDA_ERR_PEER);
        CHECK_SAYS("altered on the way");
        CHECK_SAYS("127.0.0.1:");
    }
    (void)rueda_shutdown();
    atomic_fetch_add(job_counter(OVER), 1);
}

static void tamper(const tampering *plan)
{
    run_job(&(job){.ranks = RANKS + 1, .body = live, .argument = plan});
}

static void a_relay_that_changes_nothing_is_not_noticed(void **state)
{
    (void)state;
    tamper(&(tampering){-1, 0, NULL});
}

static void one_bit_of_the_data_ends_the_job_on_all_ranks(void **state)
{
    (void)state;
    tamper(&(tampering){0, 200001, NULL});
    tamper(&(tampering){1, 300002, NULL});
}

static void the_same_with_encryption(void **state)
{
    (void)state;
    tamper(&(tampering){0, 1000003, "RUEDA_ENCRYPT"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relay_that_changes_nothing_is_not_noticed),
        cmocka_unit_test(one_bit_of_the_data_ends_the_job_on_all_ranks),
        cmocka_unit_test(the_same_with_encryption),
    };
    return cmocka_run_group_tests_name("tamper", tests, NULL, NULL);
}
