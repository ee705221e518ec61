/* door_testing.h: a door on the loopback interface for each test, and strangers before it. Time is what
 * the test says it is, so nothing waits. */
#ifndef RUEDA_NET_DOOR_TESTING_H
#define RUEDA_NET_DOOR_TESTING_H

#include "net/testing.h"

#define AHEAD_NS                                                                                   \
    UINT64_C(1000000000000) /* guests of the test's time do not expire by the real one */
#define DOOR_TEST(name) cmocka_unit_test_setup_teardown(name, open_door, close_door)

/* Made anew for each test. */
static net_identity host_id, caller_id;
static net_door *door;
static net_address at;
static uint64_t start_ns;

static inline int open_door(void **state)
{
    (void)state;
    host_id = test_identity(TEST_HOST, false);
    caller_id = test_identity(TEST_CALLER, false);
    door = test_door(&host_id, 4, &at);
    start_ns = world_now_ns() + AHEAD_NS;
    return 0;
}

static inline int close_door(void **state)
{
    (void)state;
    net_door_close(door);
    return 0;
}

static inline bool is_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, 0) > 0;
}

/* Until the door has done something about a stranger who has just spoken or left. */
static inline void until_noticed(uint64_t now_ns)
{
    test_wait(net_door_fd(door), POLLIN, -1, 0);
    test_settle(door, now_ns);
}

/* `number` tells one hello from another. */
static inline void make_hello(const net_identity *me, const net_purpose *purpose, uint8_t number,
                              proof_transcript *said)
{
    const proof_chance chance = {.nonce = {[1] = number}, .secret = {number}};
    proof_make_hello(me, purpose, true, &chance, said);
}

static inline void say(int fd, const void *bytes, size_t count)
{
    assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
}

/* The door has closed the connection and has never said a word. */
static inline void assert_turned_away(int fd)
{
    uint8_t word;
    assert_true(recv(fd, &word, 1, 0) <= 0);
    close(fd);
}

static inline void assert_caller_gets_in(void)
{
    net_link *a = test_call(&caller_id, &at), *b = test_meet(door, a);
    assert_non_null(b);
    assert_int_equal(a->state, NET_OPEN);
    net_link_close(a);
    net_link_close(b);
}

#endif
