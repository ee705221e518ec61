/* key_test.c: keys as text and in files. */
#include "net/net.h"

#include <ctype.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DIGITS "00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f"
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

static char folder[64], path[128];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/rueda-key-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/key", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const void *text, size_t bytes, mode_t mode)
{
    unlink(path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void made_keys_are_random_digits(void **state)
{
    (void)state;
    char a[2 * NET_KEY_BYTES + 1], b[2 * NET_KEY_BYTES + 1];
    net_key_make(a);
    net_key_make(b);
    assert_int_equal(strlen(a), 2 * NET_KEY_BYTES);
    for (const char *c = a; *c != '\0'; c++)
        assert_true(isxdigit((unsigned char)*c));
    assert_string_not_equal(a, b);
    uint8_t key[NET_KEY_BYTES];
    assert_null(net_key_parse(a, key));
}

static void texts_become_keys(void **state)
{
    (void)state;
    uint8_t key[NET_KEY_BYTES], upper[NET_KEY_BYTES];
    assert_null(net_key_parse(DIGITS, key));
    assert_int_equal(key[0], 0x00);
    assert_int_equal(key[10], 0xaa);
    assert_int_equal(key[31], 0x0f);
    char text[] = DIGITS;
    for (char *c = text; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    assert_null(net_key_parse(text, upper));
    assert_memory_equal(key, upper, sizeof key);
}

static void bad_texts_are_no_keys(void **state)
{
    (void)state;
    char text[] = DIGITS;
    uint8_t key[NET_KEY_BYTES] = {42};
    assert_non_null(net_key_parse("", key));
    assert_non_null(net_key_parse("0", key));
    assert_non_null(net_key_parse(DIGITS "0", key));
    assert_non_null(net_key_parse(DIGITS "00", key));
    assert_non_null(net_key_parse(" " DIGITS, key));
    text[63] = '\0';
    assert_non_null(net_key_parse(text, key));
    for (int i = 0; i < 64; i++) {
        snprintf(text, sizeof text, DIGITS);
        text[i] = "gG:-/@` "[i % 8];
        assert_non_null(net_key_parse(text, key));
    }
    assert_non_null(strstr(net_key_parse(ZEROS, key), "zeros"));
    assert_int_equal(key[0], 42); /* set only on success */
}

static void key_files_are_read(void **state)
{
    (void)state;
    static const char *const texts[] = {DIGITS, DIGITS "\n", ("  " DIGITS " \r\n"), "\n" DIGITS};
    uint8_t expected[NET_KEY_BYTES], key[NET_KEY_BYTES];
    assert_null(net_key_parse(DIGITS, expected));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_file(texts[i], strlen(texts[i]), i % 2 == 0 ? 0600 : 0400);
        memset(key, 0, sizeof key);
        if (net_key_read(path, key) != RUEDA_OK)
            fail_msg("%s", status_text());
        assert_memory_equal(key, expected, sizeof key);
    }
}

static void assert_refused(const char *name, const char *reason)
{
    uint8_t key[NET_KEY_BYTES] = {42};
    assert_int_equal(net_key_read(name, key), RUEDA_ERR_CONFIG);
    assert_non_null(strstr(status_text(), name));
    if (strstr(status_text(), reason) == NULL)
        fail_msg("%s", status_text());
    assert_null(strchr(status_text(), '\n'));
    assert_null(strstr(status_text(), "0011223344")); /* nothing of what is in it */
    assert_int_equal(key[0], 42);
}

static void open_key_files_are_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0644, 0666};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        write_file(DIGITS, 64, modes[i]);
        assert_refused(path, "chmod 600");
    }
}

static void foreign_key_files_are_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    write_file(DIGITS, 64, 0600);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_refused(path, "another user");
}

static void files_without_a_key_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "\n", "short", (DIGITS "0"), (DIGITS "\n" DIGITS), (DIGITS " x"), ("x" DIGITS)};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_file(texts[i], strlen(texts[i]), 0600);
        assert_refused(path, "64 hexadecimal digits");
    }
    char far[300];
    snprintf(far, sizeof far, "%200s" DIGITS, ""); /* more white space than anybody needs */
    write_file(far, strlen(far), 0600);
    assert_refused(path, "64 hexadecimal digits");
    write_file(DIGITS "\0junk", 64 + 5, 0600);
    assert_refused(path, "64 hexadecimal digits");
    write_file(ZEROS, 64, 0600);
    assert_refused(path, "zeros");
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    unlink(path);
    assert_refused(path, "No such file");
    assert_refused(folder, "not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it must not wait for a writer */
    assert_refused(path, "not a regular file");
    assert_refused("/dev/null", "not a regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_keys_are_random_digits),
        cmocka_unit_test(texts_become_keys),
        cmocka_unit_test(bad_texts_are_no_keys),
        cmocka_unit_test(key_files_are_read),
        cmocka_unit_test(open_key_files_are_refused),
        cmocka_unit_test(foreign_key_files_are_refused),
        cmocka_unit_test(files_without_a_key_are_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
