/* sim_testing.h: what the tests of the simulated world share. Each test makes a world, lets processes run in it, and
 * closes it. */
#ifndef RUEDA_WORLD_SIM_TESTING_H
#define RUEDA_WORLD_SIM_TESTING_H

#include "world/sim/sim.h"
#include "world/sockets.h"
#include "world/world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)
#define MILLISECOND UINT64_C(1000000)
#define PORT 4000

/* No surprises but those that a test asks for. */
static inline sim *calm_world(uint64_t seed)
{
    sim *s = sim_open(seed);
    sim_settings *t = sim_settings_of(s);
    t->preempt_chance = t->spurious_chance = t->interrupt_chance = t->piece_chance =
        t->torn_chance = 0;
    t->death_reset_chance = 0;
    return s;
}

static inline void run_to_end(sim *s)
{
    static char waits[4096];
    const sim_end end = sim_run(s, sim_now(s) + 1000 * SECOND);
    sim_describe(s, waits, sizeof waits);
    if (end != SIM_NOTHING_LEFT || waits[0] != '\0')
        print_message("end %d\n%s", end, waits);
    assert_int_equal(end, SIM_NOTHING_LEFT);
    assert_string_equal(waits, "");
}

static inline struct sockaddr_in address_of(int host, uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(UINT32_C(0x0a000001) + (uint32_t)host)};
}

/* On all addresses, by IPv6 as Rueda does it. */
static inline int listen_at(uint16_t port, bool blocks)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const int fd = world_socket(AF_INET6, blocks);
    assert_true(fd >= 0);
    assert_int_equal(world_bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(world_listen(fd), 0);
    return fd;
}

/* One connection, accepted; the listener is closed. */
static inline int accept_at(uint16_t port)
{
    const int listener = listen_at(port, true);
    int fd;
    do
        fd = world_accept(listener, NULL, NULL, true);
    while (fd < 0 && errno == EINTR);
    assert_true(fd >= 0);
    world_close(listener);
    return fd;
}

/* Connects, however often it takes until somebody listens. */
static inline int call(int host, uint16_t port)
{
    const struct sockaddr_in to = address_of(host, port);
    for (;;) {
        const int fd = world_socket(AF_INET, true);
        if (world_connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
            return fd;
        assert_int_equal(errno, ECONNREFUSED);
        world_close(fd);
        world_rest(MILLISECOND);
    }
}

static inline short poll_now(int fd, short events)
{
    struct pollfd p = {fd, events, 0};
    world_poll(&p, 1, 0);
    return p.revents;
}

#endif
