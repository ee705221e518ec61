/* interface_test.c: which of our addresses is meant; `lo` is everywhere. */
#include "net/testing.h"

#include <ifaddrs.h>
#include <net/if.h>

static void interfaces_are_found_by_name_and_network(void **state)
{
    (void)state;
    static const char *const good[] = {"lo",           "127.0.0.0/8", "127.0.0.1",
                                       "127.0.0.1/32", "nosuch,lo",   "233.252.0.0/24,127.0.0.0/9",
                                       "126.0.0.0/7",  "lo,nosuch"};
    const net_address expected = test_loopback(4);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        net_address found;
        if (net_interface(good[i], &found) != RUEDA_OK)
            fail_msg("%s: %s", good[i], status_text());
        if (!test_same_address(&found, &expected))
            fail_msg("%s is not 127.0.0.1", good[i]);
    }
    if (test_has_family(6)) {
        net_address found, six = test_loopback(6);
        assert_ok(net_interface("::1/128", &found));
        assert_true(test_same_address(&found, &six));
        assert_ok(net_interface("::/120", &found));
        assert_true(test_same_address(&found, &six));
    }
}

static bool has_other_than_loopback(int family)
{
    struct ifaddrs *list;
    bool found = false;
    assert_int_equal(getifaddrs(&list), 0);
    for (const struct ifaddrs *one = list; one != NULL; one = one->ifa_next) {
        found |= one->ifa_addr != NULL && one->ifa_addr->sa_family == family &&
                 (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    }
    freeifaddrs(list);
    return found;
}

static void any_interface_is_one_that_others_reach(void **state)
{
    (void)state;
    net_address found;
    const net_address loopback = test_loopback(4);
    assert_ok(net_interface(NET_INTERFACE_ANY, &found));
    if (has_other_than_loopback(AF_INET)) {
        assert_false(test_same_address(&found, &loopback));
        assert_ok(net_interface("0.0.0.0/0", &found));
        assert_int_not_equal(found.ip[0], 127);
    } else {
        assert_int_equal(net_interface("0.0.0.0/0", &found), RUEDA_ERR_CONFIG);
    }
}

static void unknown_interfaces_are_answered_with_the_known(void **state)
{
    (void)state;
    static const char *const bad[] = {"nosuch",        "",    ",",          "233.252.0.0/24",
                                      "2001:db8::/32", "lo0", "233.252.0.1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        net_address found = {.port = 9};
        assert_int_equal(net_interface(bad[i], &found), RUEDA_ERR_CONFIG);
        assert_non_null(strstr(status_text(), bad[i]));
        assert_non_null(strstr(status_text(), "lo 127.0.0.1"));
        assert_int_equal(found.port, 9);
    }
}

static void malformed_networks_are_named(void **state)
{
    (void)state;
    static const char *const bad[] = {"10.0.0.0/33",
                                      "10.0.0.0/",
                                      "10.0.0.0/x",
                                      "10.0.0.0/-1",
                                      "::/129",
                                      "/8",
                                      "lo/8",
                                      "10.0.0.0/8/8",
                                      "10.0.0.0/ 8",
                                      "10.0.0.0/8x",
                                      "lo2,127.0/99",
                                      "::/+8",
                                      "10.0.0.0/18446744073709551617"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        net_address found;
        if (net_interface(bad[i], &found) != RUEDA_ERR_CONFIG)
            fail_msg("%s was accepted", bad[i]);
        assert_non_null(strstr(status_text(), "is no network"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interfaces_are_found_by_name_and_network),
        cmocka_unit_test(any_interface_is_one_that_others_reach),
        cmocka_unit_test(unknown_interfaces_are_answered_with_the_known),
        cmocka_unit_test(malformed_networks_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
