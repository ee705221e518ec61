/* door_crowd_test.c: many at the door at once, strangers and callers. */
/* ctest: timeout=120 */
#include "net/door_testing.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define FLOOD 1000

static void allow_many_descriptors(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* `count` connections that say nothing. */
static int *silent_crowd(int count)
{
    int *fds = malloc((size_t)count * sizeof *fds);
    for (int i = 0; i < count; i++) {
        fds[i] = test_stranger(&at);
        test_settle(door, start_ns);
    }
    return fds;
}

static void disperse(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static void callers_get_in_through_a_silent_crowd(void **state)
{
    (void)state;
    const int count = 3 * NET_GUESTS;
    int *crowd = silent_crowd(count);
    assert_int_equal(door->refusals.crowded, count - NET_GUESTS);
    for (int i = 0; i < 10; i++)
        assert_caller_gets_in();
    assert_int_equal(door->refusals.crowded, count - NET_GUESTS + 1);
    disperse(crowd, count);
    free(crowd);
}

static void strangers_cannot_push_out_who_is_proving(void **state)
{
    (void)state;
    net_link *a = test_call(&caller_id, &at);
    while (net_link_wants_write(a))
        net_link_progress(a, world_now_ns());
    until_noticed(start_ns); /* the host has answered, the caller has not read it yet */
    const int count = 4 * NET_GUESTS;
    int *crowd = silent_crowd(count);
    net_link *b = test_meet(door, a);
    assert_non_null(b);
    net_link_close(a);
    net_link_close(b);
    disperse(crowd, count);
    free(crowd);
}

/* As many credible guests as there are places, and as many more outside. */
static void credible_crowd(int fds[2 * NET_GUESTS])
{
    const net_purpose purpose = test_purpose();
    for (int i = 0; i < 2 * NET_GUESTS; i++) {
        proof_transcript said;
        make_hello(&caller_id, &purpose, (uint8_t)i, &said);
        fds[i] = test_stranger(&at);
        say(fds[i], said.hello, sizeof said.hello);
        if (i < NET_GUESTS)
            until_noticed(start_ns);
    }
    until_noticed(start_ns);
}

/* Who sends recorded hellos again holds no place, however many come. */
static void replays_keep_nobody_out(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    int fds[2 * NET_GUESTS];
    proof_transcript said;
    make_hello(&caller_id, &purpose, 1, &said);
    for (int i = 0; i < 2 * NET_GUESTS; i++) {
        fds[i] = test_stranger(&at);
        say(fds[i], said.hello, sizeof said.hello);
        until_noticed(start_ns);
    }
    assert_int_equal(door->refusals.repeated, 2 * NET_GUESTS - 1);
    assert_caller_gets_in();
    disperse(fds, 2 * NET_GUESTS);
}

static bool was_answered(int fd)
{
    uint8_t answer[PROOF_ANSWER];
    return recv(fd, answer, sizeof answer, MSG_DONTWAIT | MSG_PEEK) == sizeof answer;
}

static void in_a_rush_of_callers_newcomers_wait_outside(void **state)
{
    (void)state;
    int fds[2 * NET_GUESTS];
    credible_crowd(fds);
    assert_int_equal(test_sum(&door->refusals), 0);
    assert_true(was_answered(fds[NET_GUESTS - 1]) && !was_answered(fds[NET_GUESTS]));
    assert_false(is_readable(net_door_fd(door))); /* and the door is quiet */
    close(fds[7]);                                /* a place becomes free */
    until_noticed(start_ns);
    assert_int_equal(door->refusals.garbage, 1);
    assert_true(was_answered(fds[NET_GUESTS]) && !was_answered(fds[NET_GUESTS + 1]));
    assert_false(is_readable(net_door_fd(door)));
    fds[7] = dup(0);
    disperse(fds, 2 * NET_GUESTS);
}

static void even_credible_guests_cannot_block_the_door(void **state)
{
    (void)state;
    int fds[2 * NET_GUESTS];
    credible_crowd(fds);
    const uint64_t grace_ns = net_door_deadline(door) - start_ns;
    assert_true(grace_ns > 0 && grace_ns < NET_GUEST_LIMIT_NS);
    test_settle(door, start_ns + grace_ns - 1);
    assert_int_equal(door->refusals.crowded, 0);
    test_settle(door, start_ns + grace_ns);
    assert_int_equal(door->refusals.crowded, NET_GUESTS);
    assert_true(was_answered(fds[2 * NET_GUESTS - 1]));
    /* all within the limits of time: a good caller too gets in after another second */
    net_link *a = test_call(&caller_id, &at);
    until_noticed(start_ns + grace_ns);
    test_settle(door, start_ns + 2 * grace_ns);
    net_link *b = test_meet(door, a);
    assert_non_null(b);
    net_link_close(a);
    net_link_close(b);
    disperse(fds, 2 * NET_GUESTS);
}

/* In a child: calls again and again, each time until the link is open and the host has closed it. */
static void keep_calling(int calls)
{
    const net_purpose purpose = test_purpose();
    for (int i = 0; i < calls; i++) {
        net_link *link;
        char byte;
        if (net_link_call(&caller_id, &purpose, &at, NULL, TEST_LIMIT_NS, &link) != RUEDA_OK)
            _exit(1);
        while (net_link_progress(link, world_now_ns()) == NET_WAITS) {
        }
        if (link->state != NET_OPEN)
            _exit(2);
        while (net_link_receive(link, &byte, 1) == 0)
            test_wait(net_link_fd(link), POLLIN, -1, 0);
        net_link_close(link);
    }
    _exit(0);
}

/* A caller on another core may complete its proof while the door still looks at its hello. */
static void no_caller_is_too_fast(void **state)
{
    (void)state;
    const int calls = 300;
    const pid_t child = fork();
    if (child == 0)
        keep_calling(calls);
    int admitted = 0;
    while (admitted < calls) {
        net_link *link = net_door_progress(door, world_now_ns());
        admitted += link != NULL;
        net_link_close(link);
        if (link == NULL)
            test_wait(net_door_fd(door), POLLIN, -1, 0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(test_sum(&door->refusals), 0);
}

static void a_flood_is_refused_and_counted(void **state)
{
    (void)state;
    const net_purpose purpose = test_purpose();
    net_identity wrong = caller_id;
    wrong.key[0] ^= 1;
    proof_transcript said;
    make_hello(&wrong, &purpose, 1, &said);
    for (int i = 0; i < FLOOD; i++) {
        const int fd = test_stranger(&at);
        if (i % 4 == 1)
            say(fd, said.hello, sizeof said.hello);
        else if (i % 4 == 2)
            say(fd, "garbage", 7);
        else if (i % 4 == 3)
            say(fd, said.hello, 100);
        test_settle(door, start_ns);
        close(fd);
        if (i % 100 == 0)
            assert_caller_gets_in();
    }
    while (test_sum(&door->refusals) < FLOOD)
        until_noticed(start_ns);
    assert_int_equal(test_sum(&door->refusals), FLOOD);
    assert_int_equal(door->refusals.wrong_key, FLOOD / 4);
    assert_int_equal(net_door_deadline(door), UINT64_MAX);
    assert_false(is_readable(net_door_fd(door)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DOOR_TEST(callers_get_in_through_a_silent_crowd),
        DOOR_TEST(strangers_cannot_push_out_who_is_proving),
        DOOR_TEST(replays_keep_nobody_out),
        DOOR_TEST(in_a_rush_of_callers_newcomers_wait_outside),
        DOOR_TEST(even_credible_guests_cannot_block_the_door),
        DOOR_TEST(no_caller_is_too_fast),
        DOOR_TEST(a_flood_is_refused_and_counted),
    };
    allow_many_descriptors();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
