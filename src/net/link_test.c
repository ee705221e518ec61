/* link_test.c: two ends over the loopback interface. */
#include "net/link.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const logger quiet = {.level = LOG_ERROR, .rank = -1};
#define LIMIT_NS UINT64_C(20000000000)

static void plain_links_open_and_carry_bytes(void **state)
{
    (void)state;
    net_identity host = {.key = {1}, .job = "job", .generation = 3, .rank = 1};
    net_identity caller = host;
    caller.rank = 0;
    const net_address where = {.family = 4, .ip = {127, 0, 0, 1}};
    int fd;
    net_address to = where;
    assert_int_equal(net_listen(&where, 0, 0, &fd, &to.port), RUEDA_OK);
    net_door *door;
    assert_int_equal(net_door_open(&host, fd, &quiet, &door), RUEDA_OK);
    net_link *a, *b = NULL;
    const net_purpose purpose = {.role = 7, .from = 0, .to = 1, .epoch = 99};
    assert_int_equal(net_link_call(&caller, &purpose, &to, NULL, LIMIT_NS, &a), RUEDA_OK);
    for (int i = 0; i < 1000 && (b == NULL || net_link_state(a) == NET_WAITS); i++) {
        net_link_progress(a, os_now_ns());
        if (b == NULL)
            b = net_door_progress(door, os_now_ns());
    }
    assert_non_null(b);
    assert_int_equal(net_link_state(a), NET_OPEN);
    assert_int_equal(net_link_purpose(b)->epoch, 99);
    struct iovec parts[2] = {{"ab", 2}, {"cde", 3}};
    assert_int_equal(net_link_send(a, parts, 2), 5);
    char text[8] = "";
    assert_int_equal(net_link_receive(b, text, sizeof text), 5);
    assert_string_equal(text, "abcde");
    assert_true(net_link_flushed(a));
    net_link_close(a);
    assert_int_equal(net_link_receive(b, text, sizeof text), -1);
    assert_int_equal(net_link_state(b), NET_BROKEN);
    net_link_close(b);
    net_door_close(door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_links_open_and_carry_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
