/* address_test.c: what is an address, and what is said of what is none. */
#include "net/testing.h"

static void texts_become_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *formatted;
    } table[] = {
        {"1.2.3.4:5", "1.2.3.4:5"},
        {"1.2.3.4", "1.2.3.4:77"},
        {"0.0.0.0:0", "0.0.0.0:0"},
        {"255.255.255.255:65535", "255.255.255.255:65535"},
        {"[::1]:5", "[::1]:5"},
        {"[::1]", "[::1]:77"},
        {"::1", "[::1]:77"},
        {"::", "[::]:77"},
        {"2001:db8::42", "[2001:db8::42]:77"},
        {"2001:DB8:0:0:0:0:0:42", "[2001:db8::42]:77"},
        {"[2001:db8::42]:8080", "[2001:db8::42]:8080"},
        {"[fe80::1%1]:5", "[fe80::1%1]:5"},
        {"fe80::1%1", "[fe80::1%1]:77"},
        {"[fe80::1%lo]:5", "[fe80::1%1]:5"},
        {"[::ffff:10.1.2.3]:9", "10.1.2.3:9"}, /* the same host as over IPv4 */
        {"1.2.3.4:00080", "1.2.3.4:80"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        net_address address;
        char text[NET_TEXT];
        if (net_resolve(table[i].text, 77, &address) != RUEDA_OK)
            fail_msg("%s: %s", table[i].text, status_text());
        assert_string_equal(net_format(&address, text), table[i].formatted);
        net_address again;
        assert_int_equal(net_resolve(text, 1, &again), RUEDA_OK);
        assert_true(test_same_address(&address, &again));
    }
}

static void names_are_looked_up(void **state)
{
    (void)state;
    net_address address;
    assert_int_equal(net_resolve("localhost:42", 1, &address), RUEDA_OK);
    assert_int_equal(address.port, 42);
    assert_true(address.family == 4 ? address.ip[0] == 127 : address.ip[15] == 1);
    assert_int_equal(net_resolve("localhost", 43, &address), RUEDA_OK);
    assert_int_equal(address.port, 43);
}

static void bad_texts_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wrong;
    } table[] = {
        {"", "no host"},
        {":5", "no host"},
        {"[]:5", "brackets"},
        {"[]", "brackets"},
        {"[:]", ""},
        {"[", "[address]:port"},
        {"[::1", "[address]:port"},
        {"[::1]5", "[address]:port"},
        {"[::1]x:5", "[address]:port"},
        {"[1.2.3.4]:5", "brackets"},
        {"[localhost]:5", "brackets"},
        {"host:", "port"},
        {"[::1]:", "port"},
        {"host:x", "port"},
        {"host:5x", "port"},
        {"host: 5", "port"},
        {"host:-1", "port"},
        {"host:+1", "port"},
        {"host:65536", "port"},
        {"host:4294967297", "port"},
        {"host:99999999999999999999", "port"},
        {"1:2:3", ""},
        {":::", ""},
        {"1.2.3.4:5:6", ""},
        {"2001:db8::1::2", ""},
        {"fe80::1%nosuchinterface", ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        net_address address, before;
        memset(&address, 0x5a, sizeof address);
        before = address;
        if (net_resolve(table[i].text, 77, &address) != RUEDA_ERR_CONFIG)
            fail_msg("\"%s\" was accepted", table[i].text);
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\"", table[i].text);
        assert_non_null(strstr(status_text(), quoted));
        if (strstr(status_text(), table[i].wrong) == NULL)
            fail_msg("\"%s\": %s", table[i].text, status_text());
        assert_memory_equal(&address, &before, sizeof address);
    }
}

static void overlong_texts_are_refused(void **state)
{
    (void)state;
    char text[2 * ADDRESS_HOST];
    net_address address;
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(net_resolve(text, 1, &address), RUEDA_ERR_CONFIG);
    assert_non_null(strstr(status_text(), "too long"));
    /* with a port the text itself may be longer than the host */
    text[ADDRESS_HOST] = ':';
    assert_int_equal(net_resolve(text, 1, &address), RUEDA_ERR_CONFIG);
}

static void splitting_needs_no_name_server(void **state)
{
    (void)state;
    char host[ADDRESS_HOST];
    uint16_t port = 9;
    assert_null(address_split("some.where.example:80", host, &port));
    assert_string_equal(host, "some.where.example");
    assert_int_equal(port, 80);
    assert_null(address_split("some.where.example", host, &port));
    assert_int_equal(port, 80); /* as it was */
    assert_non_null(address_split("other:99999", host, &port));
    assert_string_equal(host, "some.where.example"); /* set only on success */
    net_address address;
    assert_false(address_parse("some.where.example", &address));
    assert_false(address_parse("", &address));
    assert_true(address_parse("10.1.2.3", &address));
    assert_int_equal(address.family, 4);
}

static void addresses_differ_in_every_part(void **state)
{
    (void)state;
    const net_address six = {.family = 6, .port = 5, .scope = 2, .ip = {0xfe, 0x80, [15] = 1}};
    net_address other = six;
    assert_true(test_same_address(&six, &other));
    other.port++;
    assert_false(test_same_address(&six, &other));
    other = six, other.scope++;
    assert_false(test_same_address(&six, &other));
    other = six, other.ip[15]++;
    assert_false(test_same_address(&six, &other));
    other = six, other.family = 4;
    assert_false(test_same_address(&six, &other));
    /* what an IPv4 address does not use does not count */
    net_address a = {.family = 4, .ip = {1, 2, 3, 4}}, b = a;
    b.ip[9] = 7;
    assert_true(test_same_address(&a, &b));
}

static void no_address_has_a_text_too(void **state)
{
    (void)state;
    char text[NET_TEXT];
    assert_string_equal(net_format(&(net_address){.family = 0}, text), "none:0");
    net_address longest = {.family = 6, .port = 65535, .scope = UINT32_MAX};
    memset(longest.ip, 0xff, sizeof longest.ip);
    assert_string_equal(net_format(&longest, text),
                        "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%4294967295]:65535");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_addresses),
        cmocka_unit_test(names_are_looked_up),
        cmocka_unit_test(bad_texts_are_refused_by_name),
        cmocka_unit_test(overlong_texts_are_refused),
        cmocka_unit_test(splitting_needs_no_name_server),
        cmocka_unit_test(addresses_differ_in_every_part),
        cmocka_unit_test(no_address_has_a_text_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
