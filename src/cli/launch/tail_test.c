/* tail_test.c: what is kept of a rank's output. */
#include "cli/launch/bytes.c" // NOLINT
#include "cli/launch/tail.c"  // NOLINT

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void collect(void *context, const char *line)
{
    bytes_add_text(context, line);
    bytes_add_text(context, "|");
}

static void assert_tail(const bytes *tail, int lines, const char *expected)
{
    bytes seen = {0};
    tail_show(tail, lines, collect, &seen);
    bytes_add(&seen, "", 1);
    assert_string_equal(bytes_first(&seen), expected);
    bytes_free(&seen);
}

static void last_lines_are_shown(void **state)
{
    (void)state;
    bytes tail = {0};
    assert_tail(&tail, 3, "");
    tail_add(&tail, "", 0);
    assert_tail(&tail, 3, "");
    tail_add(&tail, "one\ntwo\nth", 10);
    assert_tail(&tail, 3, "one|two|th|");
    assert_tail(&tail, 2, "two|th|");
    tail_add(&tail, "ree\n\n", 5);
    assert_tail(&tail, 2, "two|three|");
    tail_add(&tail, "10%\r20%\r", 8);
    assert_tail(&tail, 2, "10%|20%|");
    bytes_free(&tail);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    bytes tail = {0};
    for (int i = 0; i < 100000; i++) {
        tail_add(&tail, "0123456789", 10);
        assert_true(bytes_used(&tail) <= 2 * TAIL_BYTES + 10);
    }
    bytes seen = {0};
    tail_show(&tail, TAIL_LINES, collect, &seen);
    assert_true(bytes_used(&seen) >= TAIL_BYTES - 1 && bytes_used(&seen) <= TAIL_BYTES + 1);
    bytes_free(&seen);
    bytes_free(&tail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_lines_are_shown),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
