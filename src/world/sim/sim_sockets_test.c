/* sim_sockets_test.c: connections, bells and polls of the simulated world, and the faults that come to them.
 * ctest: timeout=60 */
#include "world/sim/sim_testing.h"

#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#define LENGTH 100000

/* ---- TCP ----------------------------------------------------------------------------------------------- */

typedef struct transfer {
    uint64_t pieces, full; /* receives, and sends for which there was no room */
    int end;               /* errno at the end; 0: the end of the stream */
    bool stays;
} transfer;

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 7 + i / 251);
}

static void receive_all(void *argument)
{
    transfer *t = argument;
    static uint8_t buffer[LENGTH];
    const int fd = accept_at(PORT);
    size_t done = 0;
    for (ssize_t got; (got = world_recv(fd, buffer, sizeof buffer, 0)) != 0;) {
        if (got < 0 && errno == EINTR)
            continue;
        assert_true(got > 0);
        for (ssize_t i = 0; i < got; i++)
            assert_int_equal(buffer[i], byte_at(done + (size_t)i));
        done += (size_t)got;
        t->pieces++;
    }
    assert_int_equal(done, LENGTH);
    assert_int_equal(poll_now(fd, POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
    world_close(fd);
}

/* By an edge-triggered epoll: a lost event would keep it waiting for ever. */
static void send_all(void *argument)
{
    transfer *t = argument;
    static uint8_t data[LENGTH];
    const int fd = call(1, PORT), epoll = world_epoll_create();
    struct epoll_event event = {.events = EPOLLOUT | EPOLLIN | EPOLLET};
    for (size_t i = 0; i < LENGTH; i++)
        data[i] = byte_at(i);
    assert_int_equal(world_epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    for (size_t done = 0; done < LENGTH;) {
        const ssize_t sent =
            world_send(fd, data + done, LENGTH - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            done += (size_t)sent;
            continue;
        }
        assert_int_equal(errno, EAGAIN);
        t->full++;
        while (world_epoll_wait(epoll, &event, 1, 1000 * SECOND) < 0)
            assert_int_equal(errno, EINTR);
    }
    world_close(fd);
    world_close(epoll);
}

static void a_stream_arrives_in_pieces(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        transfer t = {0};
        sim *s = sim_open(seed);
        sim_settings_of(s)->piece_chance = 300;
        sim_settings_of(s)->buffer_most_bytes = 16384;
        sim_process_start(s, 0, send_all, &t);
        sim_process_start(s, 1, receive_all, &t);
        run_to_end(s);
        assert_true(t.pieces > 6 && t.full > 0);
        for (int p = 0; p < 2; p++)
            assert_int_equal(sim_leaks_of(s, p).descriptors, 0);
        sim_close(s);
    }
}

static void call_nobody(void *argument)
{
    (void)argument;
    const struct sockaddr_in to = address_of(1, PORT);
    const int fd = world_socket(AF_INET, false);
    int error = 0;
    socklen_t bytes = sizeof error;
    struct pollfd p = {fd, POLLOUT, 0};
    assert_int_equal(world_connect(fd, (const struct sockaddr *)&to, sizeof to), -1);
    assert_int_equal(errno, EINPROGRESS);
    assert_int_equal(world_recv(fd, &error, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(world_connect(fd, (const struct sockaddr *)&to, sizeof to), -1);
    assert_int_equal(errno, EALREADY);
    assert_int_equal(world_poll(&p, 1, 1000), 1);
    assert_int_equal(p.revents, POLLOUT | POLLERR | POLLHUP);
    assert_int_equal(world_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes), 0);
    assert_int_equal(error, ECONNREFUSED);
    world_close(fd);
}

static void a_call_to_nobody_is_refused(void **state)
{
    (void)state;
    sim *s = calm_world(1);
    sim_process_start(s, 0, call_nobody, NULL);
    run_to_end(s);
    sim_close(s);
}

static void check_names(void *argument)
{
    (void)argument;
    const int listener = listen_at(0, true), other = world_socket(AF_INET, true);
    struct sockaddr_in6 own = {0};
    struct sockaddr_in taken, peer = {0};
    socklen_t bytes = sizeof own;
    assert_int_equal(world_getsockname(listener, (struct sockaddr *)&own, &bytes), 0);
    assert_true(own.sin6_family == AF_INET6 && own.sin6_port != 0);
    taken = address_of(0, ntohs(own.sin6_port));
    assert_int_equal(world_bind(other, (struct sockaddr *)&taken, sizeof taken), -1);
    assert_int_equal(errno, EADDRINUSE);
    const int caller = call(0, ntohs(own.sin6_port));
    const int fd = world_accept(listener, NULL, NULL, false);
    bytes = sizeof peer;
    assert_int_equal(world_getpeername(caller, (struct sockaddr *)&peer, &bytes), 0);
    assert_int_equal(peer.sin_addr.s_addr, taken.sin_addr.s_addr);
    for (const int *one = (const int[]){listener, other, caller, fd, -1}; *one >= 0; one++)
        assert_int_equal(world_close(*one), 0);
}

static void sockets_know_their_addresses(void **state)
{
    (void)state;
    sim *s = calm_world(2);
    sim_process_start(s, 0, check_names, NULL);
    run_to_end(s);
    sim_close(s);
}

/* ---- Resets, cuts and partitions ------------------------------------------------------------------------- */

static void close_with_unread(void *argument)
{
    transfer *t = argument;
    const int fd = accept_at(PORT);
    const struct linger reset = {.l_onoff = 1};
    if (t->stays)
        world_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    else
        while (poll_now(fd, POLLIN) == 0)
            world_rest(1000);
    world_close(fd);
}

static void hear_reset(void *argument)
{
    (void)argument;
    const int fd = call(1, PORT);
    char byte;
    assert_int_equal(world_send(fd, "x", 1, MSG_NOSIGNAL), 1);
    assert_int_equal(world_recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(world_recv(fd, &byte, 1, 0), 0);
    assert_int_equal(world_send(fd, "x", 1, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, EPIPE);
    assert_true((poll_now(fd, POLLIN) & POLLHUP) != 0);
    world_close(fd);
}

static void a_hard_close_resets(void **state)
{
    (void)state;
    for (int linger = 0; linger < 2; linger++) {
        transfer t = {.stays = linger != 0};
        sim *s = calm_world(3);
        sim_process_start(s, 0, hear_reset, NULL);
        sim_process_start(s, 1, close_with_unread, &t);
        run_to_end(s);
        sim_close(s);
    }
}

/* Receives for ten seconds, and notes how it ended; EAGAIN: not. */
static void listen_long(transfer *t, int fd)
{
    const uint64_t start = world_now_ns();
    char byte;
    for (;;) {
        const ssize_t got = world_recv(fd, &byte, 1, MSG_DONTWAIT);
        t->pieces += got > 0;
        t->end = got < 0 ? errno : 0;
        if (got == 0 || (got < 0 && errno != EAGAIN) || world_now_ns() - start > 10 * SECOND)
            break;
        world_poll(&(struct pollfd){fd, POLLIN, 0}, 1, 1000);
    }
    world_close(fd);
}

static void accept_long(void *argument)
{
    listen_long(argument, accept_at(PORT));
}

static void call_long(void *argument)
{
    const int fd = call(1, PORT);
    world_rest(2 * SECOND);
    world_send(fd, "x", 1, MSG_NOSIGNAL);
    listen_long(argument, fd);
}

static sim *two_who_listen(transfer *caller, transfer *host)
{
    sim *s = calm_world(4);
    sim_process_start(s, 0, call_long, caller);
    sim_process_start(s, 1, accept_long, host);
    assert_int_equal(sim_run(s, SECOND), SIM_TIME_IS_UP);
    return s;
}

static void a_cut_is_heard_at_both_ends(void **state)
{
    (void)state;
    transfer caller = {0}, host = {0};
    sim *s = two_who_listen(&caller, &host);
    assert_int_equal(sim_cut(s, 1, 0), 1);
    run_to_end(s);
    assert_int_equal(caller.end, 0); /* its send had the error, and the rest is the end */
    assert_int_equal(host.end, ECONNRESET);
    sim_close(s);
}

static void a_half_open_end_hears_nothing(void **state)
{
    (void)state;
    transfer caller = {0}, host = {0};
    sim *s = two_who_listen(&caller, &host);
    assert_int_equal(sim_half_open(s, 1, 0), 1);
    run_to_end(s);
    assert_int_equal(caller.end, EAGAIN);
    assert_int_equal(host.end, ECONNRESET);
    sim_close(s);
}

static void a_partition_holds_back_and_then_delivers(void **state)
{
    (void)state;
    transfer caller = {0}, host = {0};
    sim *s = two_who_listen(&caller, &host);
    sim_partition(s, 0, 1, true);
    sim_run(s, 5 * SECOND);
    assert_int_equal(host.pieces, 0);
    sim_partition(s, 0, 1, false);
    sim_run(s, 6 * SECOND);
    assert_int_equal(host.pieces, 1);
    run_to_end(s);
    sim_close(s);
}

static void heal(void *argument)
{
    sim_partition(argument, 0, 1, false);
}

static void calls_wait_for_the_end_of_a_partition(void **state)
{
    (void)state;
    transfer caller = {0}, host = {0};
    sim *s = calm_world(5);
    sim_partition(s, 0, 1, true);
    sim_process_start(s, 0, call_long, &caller);
    sim_process_start(s, 1, accept_long, &host);
    sim_at(s, 30 * SECOND, heal, s);
    assert_int_equal(sim_run(s, 29 * SECOND), SIM_TIME_IS_UP);
    assert_int_equal(sim_statistics_of(s).connections, 0);
    run_to_end(s);
    assert_int_equal(host.pieces, 1);
    sim_close(s);
}

static void the_death_of_a_process_ends_its_connections(void **state)
{
    (void)state;
    for (int hard = 0; hard < 2; hard++) {
        transfer caller = {0}, host = {0};
        sim *s = two_who_listen(&caller, &host);
        sim_settings_of(s)->death_reset_chance = hard ? SIM_CHANCE : 0;
        sim_kill(s, 0);
        run_to_end(s);
        assert_int_equal(host.end, hard ? ECONNRESET : 0);
        sim_close(s);
    }
}

/* ---- Unix sockets ---------------------------------------------------------------------------------------- */

static socklen_t unix_name(struct sockaddr_un *a, const char *name)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(a->sun_path + 1, name, strlen(name));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static bool is_listed(const char *name)
{
    char line[256];
    bool found = false;
    FILE *list = world_unix_names();
    assert_non_null(list);
    while (fgets(line, sizeof line, list) != NULL)
        found |= strstr(line, name) != NULL;
    fclose(list);
    return found;
}

typedef union fd_space {
    char space[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
} fd_space;

static void send_two(int connection, const int fds[2])
{
    fd_space control = {{0}};
    struct iovec body = {"hello", 5};
    struct msghdr m = {.msg_iov = &body,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control.space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&m);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(header), fds, 2 * sizeof(int));
    assert_int_equal(world_sendmsg(connection, &m, MSG_NOSIGNAL), 5);
}

/* Returns how many descriptors came. */
static int take_two(int connection, int fds[2], bool *lost)
{
    fd_space control;
    char text[64];
    struct iovec body = {text, sizeof text};
    struct msghdr m = {.msg_iov = &body,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control.space};
    assert_int_equal(world_recvmsg(connection, &m, MSG_CMSG_CLOEXEC), 5);
    assert_memory_equal(text, "hello", 5);
    *lost = (m.msg_flags & MSG_CTRUNC) != 0;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&m);
    if (header == NULL)
        return 0;
    const size_t bytes = header->cmsg_len - CMSG_LEN(0);
    memcpy(fds, CMSG_DATA(header), bytes);
    return (int)(bytes / sizeof(int));
}

static void give_memory(void *argument)
{
    struct sockaddr_un a;
    const socklen_t bytes = unix_name(&a, "rueda/test");
    const int listener = world_socket(AF_UNIX, true), bell = world_bell_make();
    int memory;
    (void)argument;
    assert_int_equal(os_shared_create(OS_PAGE, &memory), RUEDA_OK);
    assert_int_equal(world_bind(listener, (struct sockaddr *)&a, bytes), 0);
    assert_int_equal(world_listen(listener), 0);
    const int fd = world_accept(listener, NULL, NULL, true);
    send_two(fd, (const int[]){memory, bell});
    assert_int_equal(world_send(fd, "hello", 5, MSG_NOSIGNAL), 5); /* is not received with it */
    struct pollfd p = {bell, POLLIN, 0};
    assert_int_equal(world_poll(&p, 1, 1000), 1);
    void *base;
    assert_int_equal(os_shared_map(memory, OS_PAGE, &base), RUEDA_OK);
    assert_string_equal(base, "written");
    os_unmap(base, OS_PAGE);
    for (const int *one = (const int[]){listener, bell, memory, fd, -1}; *one >= 0; one++)
        assert_int_equal(world_close(*one), 0);
}

static int call_unix(const char *name)
{
    struct sockaddr_un a;
    const socklen_t bytes = unix_name(&a, name);
    const int fd = world_socket(AF_UNIX, false);
    while (world_connect(fd, (struct sockaddr *)&a, bytes) != 0) {
        assert_int_equal(errno, ECONNREFUSED);
        world_rest(1000);
    }
    assert_int_equal(world_let_block(fd), 0);
    return fd;
}

static void take_memory(void *argument)
{
    int fds[2] = {-1, -1};
    bool lost;
    struct ucred who;
    socklen_t bytes = sizeof who;
    const int fd = call_unix("rueda/test");
    assert_true(is_listed("@rueda/test\n"));
    assert_int_equal(world_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes), 0);
    assert_int_equal(who.pid, 1000);
    assert_true(who.uid == geteuid());
    while (poll_now(fd, POLLIN) == 0)
        world_rest(1000);
    if (*(bool *)argument) /* the second descriptor is refused */
        sim_fail_nth(sim_current(), 1, 2, false);
    const int count = take_two(fd, fds, &lost);
    assert_int_equal(count, *(bool *)argument ? 1 : 2);
    assert_true(lost == *(bool *)argument);
    void *base;
    assert_int_equal(os_shared_map(fds[0], OS_PAGE, &base), RUEDA_OK);
    strcpy(base, "written");
    if (count == 2)
        world_bell_ring(fds[1]);
    os_unmap(base, OS_PAGE);
    for (int i = 0; i < count; i++)
        world_close(fds[i]);
    world_close(fd);
}

static void descriptors_travel(void **state)
{
    (void)state;
    bool refused = false;
    sim *s = calm_world(6);
    sim_process_start(s, 0, give_memory, NULL);
    sim_process_start(s, 0, take_memory, &refused);
    run_to_end(s);
    for (int p = 0; p < 2; p++) {
        assert_int_equal(sim_leaks_of(s, p).descriptors, 0);
        assert_int_equal(sim_leaks_of(s, p).mappings, 0);
    }
    sim_close(s);
}

static void give_and_end(void *argument)
{
    struct sockaddr_un a;
    const socklen_t bytes = unix_name(&a, "rueda/test");
    const int listener = world_socket(AF_UNIX, true), bell = world_bell_make();
    int memory;
    (void)argument;
    assert_int_equal(os_shared_create(OS_PAGE, &memory), RUEDA_OK);
    assert_int_equal(world_bind(listener, (struct sockaddr *)&a, bytes), 0);
    assert_int_equal(world_listen(listener), 0);
    send_two(world_accept(listener, NULL, NULL, true), (const int[]){memory, bell});
    world_rest(SECOND);
}

static void a_descriptor_too_many_is_lost(void **state)
{
    (void)state;
    bool refused = true;
    sim *s = calm_world(7);
    sim_process_start(s, 0, give_and_end, NULL);
    sim_process_start(s, 0, take_memory, &refused);
    run_to_end(s);
    assert_int_equal(sim_leaks_of(s, 1).descriptors, 0);
    assert_int_equal(sim_leaks_of(s, 0).descriptors, 4);
    sim_close(s);
}

static void send_to_closed(void *argument)
{
    int line[2];
    char byte;
    (void)argument;
    assert_int_equal(world_socketpair(line), 0);
    assert_int_equal(world_send(line[0], "ab", 2, 0), 2);
    assert_int_equal(world_recv(line[1], &byte, 1, 0), 1);
    assert_int_equal(world_unsent(line[0]), 1);
    world_shutdown(line[0], SHUT_WR);
    assert_int_equal(world_recv(line[1], &byte, 1, 0), 1);
    assert_int_equal(world_recv(line[1], &byte, 1, 0), 0);
    world_close(line[0]);
    assert_int_equal(world_send(line[1], "a", 1, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, EPIPE);
    world_close(line[1]);
}

static void a_pair_of_sockets_is_a_line(void **state)
{
    (void)state;
    sim *s = calm_world(8);
    sim_process_start(s, 0, send_to_closed, NULL);
    run_to_end(s);
    sim_close(s);
}

/* ---- Polls -------------------------------------------------------------------------------------------------- */

static void look_at_bell(uint32_t kind)
{
    const int bell = world_bell_make(), inner = world_epoll_create(), outer = world_epoll_create();
    struct epoll_event event = {.events = EPOLLIN | kind, .data.u64 = 5},
                       nested = {.events = EPOLLIN, .data.u64 = 6};
    assert_int_equal(world_epoll_ctl(inner, EPOLL_CTL_ADD, bell, &event), 0);
    assert_int_equal(world_epoll_ctl(inner, EPOLL_CTL_ADD, bell, &event), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(world_epoll_ctl(outer, EPOLL_CTL_ADD, inner, &nested), 0);
    assert_int_equal(world_epoll_wait(outer, &nested, 1, 1000), 0);
    world_bell_ring(bell);
    assert_int_equal(world_epoll_wait(outer, &nested, 1, SECOND), 1);
    assert_int_equal(nested.data.u64, 6);
    assert_int_equal(poll_now(outer, POLLIN), POLLIN);
    assert_int_equal(world_epoll_wait(inner, &nested, 1, 0), 1);
    assert_int_equal(nested.data.u64, 5);
    /* not looked at again: the level is still there, the edge is not */
    assert_int_equal(world_epoll_wait(inner, &nested, 1, 0), kind == 0);
    assert_int_equal(poll_now(outer, POLLIN), kind == 0 ? POLLIN : 0);
    assert_int_equal(world_epoll_ctl(inner, EPOLL_CTL_MOD, bell, &event), 0); /* armed again */
    assert_int_equal(world_epoll_wait(inner, &nested, 1, 0), 1);
    world_bell_still(bell);
    assert_int_equal(world_epoll_wait(inner, &nested, 1, 0), 0);
    world_bell_ring(bell);
    assert_int_equal(world_epoll_ctl(inner, EPOLL_CTL_DEL, bell, NULL), 0);
    assert_int_equal(world_epoll_wait(inner, &nested, 1, 0), 0);
    world_close(bell);
    world_close(inner);
    world_close(outer);
}

static void look_at_bells(void *argument)
{
    (void)argument;
    look_at_bell(0);
    look_at_bell(EPOLLET);
}

static void polls_see_levels_and_edges(void **state)
{
    (void)state;
    sim *s = calm_world(9);
    sim_process_start(s, 0, look_at_bells, NULL);
    run_to_end(s);
    assert_int_equal(sim_leaks_of(s, 0).descriptors, 0);
    sim_close(s);
}

static void use_closed(void *argument)
{
    const int bell = world_bell_make();
    (void)argument;
    assert_int_equal(world_close(-1), -1);
    assert_int_equal(errno, EBADF);
    world_close(bell);
    world_bell_ring(bell);
    fail();
}

static void note_failure(void *context, const char *text)
{
    *(bool *)context = strstr(text, "is closed") != NULL;
}

static void a_closed_descriptor_is_not_used(void **state)
{
    (void)state;
    bool failed = false;
    sim *s = calm_world(10);
    sim_set_failure(s, note_failure, &failed);
    sim_process_start(s, 0, use_closed, NULL);
    assert_int_equal(sim_run(s, SECOND), SIM_HALTED);
    assert_true(failed);
    sim_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_arrives_in_pieces),
        cmocka_unit_test(a_call_to_nobody_is_refused),
        cmocka_unit_test(sockets_know_their_addresses),
        cmocka_unit_test(a_hard_close_resets),
        cmocka_unit_test(a_cut_is_heard_at_both_ends),
        cmocka_unit_test(a_half_open_end_hears_nothing),
        cmocka_unit_test(a_partition_holds_back_and_then_delivers),
        cmocka_unit_test(calls_wait_for_the_end_of_a_partition),
        cmocka_unit_test(the_death_of_a_process_ends_its_connections),
        cmocka_unit_test(descriptors_travel),
        cmocka_unit_test(a_descriptor_too_many_is_lost),
        cmocka_unit_test(a_pair_of_sockets_is_a_line),
        cmocka_unit_test(polls_see_levels_and_edges),
        cmocka_unit_test(a_closed_descriptor_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
