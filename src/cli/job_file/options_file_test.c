/* options_file_test.c: sections become options; what is wrong is refused. */
#include "cli/job_file/options_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Whether the text is fine; its options, one after the other, in `words`. */
static bool read_text(const char *text, char words[1024])
{
    char path[] = "/tmp/options_file_test.XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    options_file file;
    const bool fine = options_file_read(&file, path);
    words[0] = '\0';
    for (size_t i = 0; i < file.count; i++)
        snprintf(words + strlen(words), 1024 - strlen(words), "%s ", file.words[i]);
    options_file_free(&file);
    unlink(path);
    return fine;
}

static void assert_words(const char *text, const char *expected)
{
    char words[1024];
    assert_true(read_text(text, words));
    assert_string_equal(words, expected);
}

static void sections_become_options(void **state)
{
    (void)state;
    assert_words("params: {fusion_threshold_mb: 32, cycle-time-ms: 3.5}",
                 "--fusion-threshold-mb=32 --cycle-time-ms=3.5 ");
    assert_words("controller: gloo\ntimeline: {filename: a b.json, mark_cycles: true}",
                 "--gloo --timeline-filename=a b.json --timeline-mark-cycles ");
    assert_words("logging: {level: INFO, hide_timestamp: yes}\nlibrary_options: {num_x: 1}",
                 "--log-level=INFO --log-hide-timestamp --num-x=1 ");
}

static void what_is_off_or_null_is_left_out(void **state)
{
    (void)state;
    assert_words("params: {hierarchical_allreduce: false, cache_capacity: null}", "");
    assert_words("autotune: {enabled: false, log_file: x}", "");
    assert_words("autotune: {enabled: true}", "--autotune ");
    assert_words("stall_check: {enabled: true, warning_time_seconds: 9}",
                 "--stall-check-warning-time-seconds=9 ");
    assert_words("stall_check: {enabled: no, warning_time_seconds: 9}", "--no-stall-check ");
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "[]", "params: 3", "prams: {a: 1}", "params: {a: [1]}", "params: {a", "[a]: {b: 1}"};
    char words[1024];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(read_text(wrong[i], words));
    options_file file;
    assert_false(options_file_read(&file, "/nowhere/at/all"));
    options_file_free(&file);
}

static void a_file_with_too_many_is_refused(void **state)
{
    (void)state;
    char text[4096] = "params:\n", words[1024];
    for (int i = 0; i <= OPTIONS_FILE_MAX; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "  a%d: true\n", i);
    assert_false(read_text(text, words));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_become_options),
        cmocka_unit_test(what_is_off_or_null_is_left_out),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(a_file_with_too_many_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
