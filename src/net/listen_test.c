/* listen_test.c: ports and where they are. */
#include "net/testing.h"

#include <errno.h>
#include <fcntl.h>

#define RANGE 4 /* ports in a row that are free */

static bool takes(const net_address *where, uint16_t port, int *fd)
{
    uint16_t got;
    return net_listen(where, port, port, fd, &got) == RUEDA_OK;
}

/* Listens on RANGE neighbouring ports and returns the first. */
static uint16_t take_range(const net_address *where, int fds[RANGE])
{
    for (uint16_t first = 20000; first < 60000; first = (uint16_t)(first + RANGE)) {
        int taken = 0;
        while (taken < RANGE && takes(where, (uint16_t)(first + taken), &fds[taken]))
            taken++;
        if (taken == RANGE)
            return first;
        while (taken > 0)
            close(fds[--taken]);
    }
    fail_msg("no %d free ports in a row", RANGE);
    return 0;
}

static void the_first_free_port_of_a_range_is_taken(void **state)
{
    (void)state;
    const net_address where = test_loopback(4);
    int fds[RANGE], fd;
    uint16_t port;
    const uint16_t first = take_range(&where, fds), last = (uint16_t)(first + RANGE - 1);
    close(fds[2]);
    assert_ok(net_listen(&where, first, last, &fd, &port));
    assert_int_equal(port, first + 2);
    assert_int_not_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    assert_int_not_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    close(fd);
    for (int i = 0; i < RANGE; i++)
        i == 2 ? 0 : close(fds[i]);
}

static void a_range_without_a_free_port_is_named(void **state)
{
    (void)state;
    const net_address where = test_loopback(4);
    int fds[RANGE], fd = -7;
    uint16_t port = 7;
    const uint16_t first = take_range(&where, fds), last = (uint16_t)(first + RANGE - 1);
    char range[64];
    snprintf(range, sizeof range, "127.0.0.1, ports %u to %u", first, last);
    assert_int_equal(net_listen(&where, first, last, &fd, &port), RUEDA_ERR_SYSTEM);
    assert_non_null(strstr(status_text(), range));
    assert_non_null(strstr(status_text(), strerror(EADDRINUSE)));
    assert_int_equal(fd, -7);
    assert_int_equal(port, 7);
    snprintf(range, sizeof range, "127.0.0.1, port %u:", first);
    assert_int_equal(net_listen(&where, first, first, &fd, &port), RUEDA_ERR_SYSTEM);
    assert_non_null(strstr(status_text(), range));
    for (int i = 0; i < RANGE; i++)
        close(fds[i]);
}

static void ranges_end_at_the_last_port(void **state)
{
    (void)state;
    const net_address where = test_loopback(4);
    int fd;
    uint16_t port;
    if (net_listen(&where, 65535, 65535, &fd, &port) == RUEDA_OK) {
        assert_int_equal(net_listen(&where, 65535, 65535, &(int){0}, &port), RUEDA_ERR_SYSTEM);
        close(fd);
    }
    assert_int_equal(net_listen(&where, 9, 8, &fd, &port), RUEDA_ERR_CONFIG);
    assert_non_null(strstr(status_text(), "9 to 8"));
}

static void a_foreign_address_is_named(void **state)
{
    (void)state;
    const net_address where = {.family = 4, .ip = {203, 0, 113, 77}}; /* nobody's */
    int fd;
    uint16_t port;
    assert_int_equal(net_listen(&where, 0, 0, &fd, &port), RUEDA_ERR_SYSTEM);
    assert_non_null(strstr(status_text(), "203.0.113.77"));
}

static void all_interfaces_means_both_families(void **state)
{
    (void)state;
    int fd;
    net_address at = test_loopback(4);
    assert_ok(net_listen(NULL, 0, 0, &fd, &at.port));
    assert_int_not_equal(at.port, 0);
    close(test_stranger(&at));
    if (test_has_family(6)) {
        net_address six = test_loopback(6);
        six.port = at.port;
        close(test_stranger(&six));
    }
    /* an IPv4 caller is seen as one */
    struct sockaddr_storage system;
    socklen_t bytes = sizeof system;
    net_address peer;
    const int accepted = accept(fd, (struct sockaddr *)&system, &bytes);
    assert_true(accepted >= 0);
    assert_true(address_from_socket((struct sockaddr *)&system, &peer));
    assert_int_equal(peer.family, 4);
    close(accepted);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_free_port_of_a_range_is_taken),
        cmocka_unit_test(a_range_without_a_free_port_is_named),
        cmocka_unit_test(ranges_end_at_the_last_port),
        cmocka_unit_test(a_foreign_address_is_named),
        cmocka_unit_test(all_interfaces_means_both_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
