/* testing.h: doors, callers and strangers on the loopback interface, for the tests of this folder.
 * Brings cmocka along. */
#ifndef RUEDA_NET_TESTING_H
#define RUEDA_NET_TESTING_H

#include "net/address.h"
#include "net/door.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TEST_LIMIT_NS UINT64_C(30000000000) /* of a call; no good test comes near it */
#define TEST_HOST 1                         /* rank of the host */
#define TEST_CALLER 0

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != RUEDA_OK)                                                                    \
            fail_msg("%s: %s", #call, status_text());                                              \
    } while (0)

static const logger test_quiet = {.level = LOG_ERROR, .rank = -1};

static inline net_identity test_identity(uint32_t rank, bool encrypt)
{
    net_identity me = {.job = "job", .generation = 3, .rank = rank, .encrypt = encrypt};
    for (int i = 0; i < NET_KEY_BYTES; i++)
        me.key[i] = (uint8_t)(0xa0 + i);
    return me;
}

static inline net_purpose test_purpose(void)
{
    return (net_purpose){.role = 7,
                         .from = TEST_CALLER,
                         .to = TEST_HOST,
                         .set = 11,
                         .channel = 13,
                         .epoch = UINT64_C(0x123456789abcdef0)};
}

static inline bool test_same_purpose(const net_purpose *a, const net_purpose *b)
{
    return a->role == b->role && a->from == b->from && a->to == b->to && a->set == b->set &&
           a->channel == b->channel && a->epoch == b->epoch;
}

static inline net_address test_loopback(uint8_t family)
{
    if (family == 4)
        return (net_address){.family = 4, .ip = {127, 0, 0, 1}};
    return (net_address){.family = 6, .ip = {[15] = 1}};
}

static inline bool test_same_address(const net_address *a, const net_address *b)
{
    return a->family == b->family && a->port == b->port && a->scope == b->scope &&
           memcmp(a->ip, b->ip, a->family == 4 ? 4 : 16) == 0;
}

/* False: this machine has no such loopback address. */
static inline bool test_has_family(uint8_t family)
{
    const net_address at = test_loopback(family);
    int fd;
    uint16_t port;
    return net_listen(&at, 0, 0, &fd, &port) == RUEDA_OK && close(fd) == 0;
}

/* A door on the loopback interface, and its address. */
static inline net_door *test_door(const net_identity *me, uint8_t family, net_address *at)
{
    int listener;
    net_door *door;
    *at = test_loopback(family);
    assert_ok(net_listen(at, 0, 0, &listener, &at->port));
    assert_ok(net_door_open(me, listener, &test_quiet, &door));
    return door;
}

static inline net_link *test_call(const net_identity *me, const net_address *at)
{
    const net_purpose purpose = test_purpose();
    net_link *link;
    assert_ok(net_link_call(me, &purpose, at, NULL, TEST_LIMIT_NS, &link));
    return link;
}

/* Sleeps until one of the two is ready, or for a moment. */
static inline void test_wait(int a, short a_events, int b, short b_events)
{
    struct pollfd both[2] = {{.fd = a, .events = a_events}, {.fd = b, .events = b_events}};
    poll(both, 2, 100);
}

/* A small buffer for sending. */
static inline void test_set_buffer(const net_link *link, int bytes)
{
    assert_int_equal(setsockopt(link->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
}

/* Until the other host has acknowledged all; nothing tells when, so it is asked again and again. */
static inline void test_flush(net_link *link)
{
    while (!net_link_flushed(link))
        poll(NULL, 0, 1);
}

static inline short test_events(const net_link *link)
{
    return net_link_wants_write(link) ? POLLIN | POLLOUT : POLLIN;
}

/* Moves both ends until the caller's link is open and the door has admitted it (returned), or the
 * caller is refused (NULL). */
static inline net_link *test_meet(net_door *door, net_link *caller)
{
    net_link *host = NULL;
    for (;;) {
        const net_state state = net_link_progress(caller, world_now_ns());
        if (host == NULL)
            host = net_door_progress(door, world_now_ns());
        if (state == NET_REFUSED || (state == NET_OPEN && host != NULL))
            return host;
        test_wait(net_link_fd(caller), state == NET_OPEN ? 0 : test_events(caller),
                  net_door_fd(door), POLLIN);
    }
}

/* A plain blocking connection that knows nothing of proofs. */
static inline int test_stranger(const net_address *at)
{
    struct sockaddr_storage system;
    const socklen_t bytes = address_to_socket(at, &system);
    const int fd = socket(system.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&system, bytes), 0);
    return fd;
}

/* All that the other end says until it closes; at most `room` bytes are kept. */
static inline size_t test_read_all(int fd, uint8_t *to, size_t room)
{
    size_t done = 0;
    for (ssize_t got; done < room && (got = recv(fd, to + done, room - done, 0)) > 0;)
        done += (size_t)got;
    return done;
}

/* What the door does of its own accord until nothing is left to do; nobody may be admitted. */
static inline void test_settle(net_door *door, uint64_t now_ns)
{
    struct pollfd ready = {.fd = net_door_fd(door), .events = POLLIN};
    do
        assert_null(net_door_progress(door, now_ns));
    while (poll(&ready, 1, 0) > 0);
}

static inline uint64_t test_sum(const door_refusals *r)
{
    return r->wrong_key + r->wrong_job + r->wrong_generation + r->wrong_version + r->garbage +
           r->slow + r->crowded + r->wrong_purpose + r->repeated;
}

#endif
