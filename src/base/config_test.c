/* config_test.c: the table of settings and how it is read. */
#include "base/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Every test starts without any of our variables. */
static int clean_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_setting_count; i++) {
        unsetenv(config_settings[i].name);
        if (config_settings[i].alias != NULL)
            unsetenv(config_settings[i].alias);
    }
    unsetenv("RUEDA_CHANELS");
    unsetenv("RUEDA_SOMETHING_ELSE_ENTIRELY");
    return 0;
}

static config load(void)
{
    config c;
    assert_int_equal(config_load(&c, NULL), RUEDA_OK);
    return c;
}

static config load_with(const char *name, const char *value)
{
    setenv(name, value, 1);
    const config c = load();
    unsetenv(name);
    return c;
}

/* The setting is refused, with a sentence that names the variable, the value and the bounds. */
static void assert_refused(const char *name, const char *value, const char *min, const char *max)
{
    config c;
    memset(&c, 0x5a, sizeof c);
    config before = c;
    setenv(name, value, 1);
    assert_int_equal(config_load(&c, NULL), RUEDA_ERR_CONFIG);
    unsetenv(name);
    char variable[128], bounds[128];
    snprintf(variable, sizeof variable, "%s=%s", name, value);
    snprintf(bounds, sizeof bounds, "from %s to %s", min, max);
    assert_non_null(strstr(status_text(), variable));
    assert_non_null(strstr(status_text(), bounds));
    assert_memory_equal(&c, &before, sizeof c); /* outputs are set only on success */
}

static void defaults_lie_within_their_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_setting_count; i++) {
        const config_setting *s = &config_settings[i];
        assert_true(s->min <= s->max);
        if (s->type == CONFIG_TEXT) {
            assert_non_null(s->initial_text);
            assert_in_range(s->max, 1, CONFIG_TEXT_MAX - 1);
            assert_true(strlen(s->initial_text) <= (size_t)s->max);
        } else {
            assert_true(s->min <= s->initial_number && s->initial_number <= s->max);
        }
    }
}

static void names_are_ours_and_different(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_setting_count; i++) {
        const config_setting *s = &config_settings[i];
        assert_memory_equal(s->name, "RUEDA_", 6);
        assert_true(s->alias == NULL || strncmp(s->alias, "HOROVOD_", 8) == 0);
        assert_int_equal(s->doc[strlen(s->doc) - 1], '.');
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(s->name, config_settings[j].name);
    }
}

static void without_variables_all_is_default(void **state)
{
    (void)state;
    const config c = load();
    for (size_t i = 0; i < config_setting_count; i++) {
        const config_setting *s = &config_settings[i];
        char value[CONFIG_TEXT_MAX], initial[CONFIG_TEXT_MAX];
        config_format(&c, s, value, sizeof value);
        if (s->type == CONFIG_TEXT)
            assert_string_equal(value, s->initial_text);
        else
            assert_string_equal(
                value, config_format_number(s->type, s->initial_number, initial, sizeof initial));
    }
    assert_int_equal(c.size, 1);
    assert_string_equal(c.algorithm.text, "auto");
}

static void numbers_are_read(void **state)
{
    (void)state;
    assert_int_equal(load_with("RUEDA_CHANNELS", "16").channels, 16);
    assert_int_equal(load_with("RUEDA_LOCAL_RANK", "-1").local_rank, -1);
    assert_refused("RUEDA_CHANNELS", "0", "1", "16");
    assert_refused("RUEDA_CHANNELS", "17", "1", "16");
    assert_refused("RUEDA_CHANNELS", "4K", "1", "16");
    assert_refused("RUEDA_CHANNELS", "four", "1", "16");
    assert_refused("RUEDA_CHANNELS", "4 ", "1", "16");
    assert_refused("RUEDA_CHANNELS", "99999999999999999999", "1", "16");
}

static void bytes_take_suffixes(void **state)
{
    (void)state;
    assert_int_equal(load_with("RUEDA_SLOT_BYTES", "65536").slot_bytes, 65536);
    assert_int_equal(load_with("RUEDA_SLOT_BYTES", "64K").slot_bytes, 65536);
    assert_int_equal(load_with("RUEDA_SLOT_BYTES", "64kib").slot_bytes, 65536);
    assert_int_equal(load_with("RUEDA_SLOT_BYTES", "2m").slot_bytes, 2 * MIB);
    assert_int_equal(load_with("RUEDA_HEAP_MAX", "3G").heap_max, 3 * GIB);
    assert_refused("RUEDA_SLOT_BYTES", "4095", "4K", "16M");
    assert_refused("RUEDA_SLOT_BYTES", "64Q", "4K", "16M");
    assert_refused("RUEDA_SLOT_BYTES", "9223372036854775807G", "4K", "16M");
}

static void booleans_have_words(void **state)
{
    (void)state;
    static const char *const yes[] = {"1", "yes", "TRUE", "on"};
    static const char *const no[] = {"0", "no", "False", "off"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(load_with("RUEDA_VERIFY", yes[i]).verify, 1);
        assert_int_equal(load_with("RUEDA_VERIFY", no[i]).verify, 0);
    }
    assert_refused("RUEDA_VERIFY", "2", "0", "1");
    assert_refused("RUEDA_VERIFY", "maybe", "0", "1");
}

static void text_has_a_length(void **state)
{
    (void)state;
    char word[65];
    memset(word, 'a', 63);
    word[63] = '\0';
    assert_string_equal(load_with("RUEDA_JOB", word).job.text, word);
    word[63] = 'a';
    word[64] = '\0';
    config c;
    setenv("RUEDA_JOB", word, 1);
    assert_int_equal(config_load(&c, NULL), RUEDA_ERR_CONFIG);
    assert_non_null(strstr(status_text(), "RUEDA_JOB"));
    assert_non_null(strstr(status_text(), "63"));
}

static void alias_works_and_ours_wins(void **state)
{
    (void)state;
    setenv("HOROVOD_CACHE_CAPACITY", "100", 1);
    assert_int_equal(load().cache_capacity, 100);
    setenv("RUEDA_CACHE_CAPACITY", "", 1); /* set to nothing is not set */
    assert_int_equal(load().cache_capacity, 100);
    setenv("RUEDA_CACHE_CAPACITY", "200", 1);
    assert_int_equal(load().cache_capacity, 200);
    unsetenv("RUEDA_CACHE_CAPACITY");
    assert_refused("HOROVOD_CACHE_CAPACITY", "-5", "0", "65536"); /* names what the user wrote */
}

/* config_load has no place for a context, so the callback writes here. */
static struct {
    int calls;
    char name[64], nearest[64];
} reported;

static void horovods_switches_become_values(void **state)
{
    (void)state;
    assert_int_equal(load_with("HOROVOD_STALL_CHECK_DISABLE", "1").stall_warn, 0);
    assert_int_equal(load_with("HOROVOD_STALL_CHECK_DISABLE", "0").stall_warn, 60);
    assert_string_equal(load_with("HOROVOD_HIERARCHICAL_ALLREDUCE", "1").algorithm.text,
                        "hierarchical");
    setenv("RUEDA_STALL_WARN", "7", 1);
    setenv("RUEDA_ALGORITHM", "ring", 1);
    assert_int_equal(load_with("HOROVOD_STALL_CHECK_DISABLE", "1").stall_warn, 7);
    assert_string_equal(load_with("HOROVOD_HIERARCHICAL_ALLGATHER", "1").algorithm.text, "ring");
}

static void note_unknown(const char *name, const char *nearest)
{
    reported.calls++;
    snprintf(reported.name, sizeof reported.name, "%s", name);
    snprintf(reported.nearest, sizeof reported.nearest, "%s", nearest != NULL ? nearest : "none");
}

static void unknown_variable_gets_nearest_name(void **state)
{
    (void)state;
    config c;
    memset(&reported, 0, sizeof reported);
    assert_int_equal(config_load(&c, note_unknown), RUEDA_OK);
    assert_int_equal(reported.calls, 0);
    setenv("RUEDA_CHANELS", "2", 1);
    assert_int_equal(config_load(&c, note_unknown), RUEDA_OK);
    assert_int_equal(reported.calls, 1);
    assert_string_equal(reported.name, "RUEDA_CHANELS");
    assert_string_equal(reported.nearest, "RUEDA_CHANNELS");
    unsetenv("RUEDA_CHANELS");
    setenv("RUEDA_SOMETHING_ELSE_ENTIRELY", "2", 1);
    assert_int_equal(config_load(&c, note_unknown), RUEDA_OK);
    assert_string_equal(reported.nearest, "none");
}

static void comparison_names_rank_and_variable(void **state)
{
    (void)state;
    config mine = load(), other = load();
    assert_int_equal(config_compare(&mine, &other, 0, 3), RUEDA_OK);
    other.slot_bytes = 64 * KIB;
    assert_int_equal(config_compare(&mine, &other, 0, 3), RUEDA_ERR_CONFIG);
    assert_non_null(strstr(status_text(), "RUEDA_SLOT_BYTES"));
    assert_non_null(strstr(status_text(), "rank 0 has '256K'"));
    assert_non_null(strstr(status_text(), "rank 3 has '64K'"));
    other = mine;
    strcpy(other.algorithm.text, "ring");
    assert_int_equal(config_compare(&mine, &other, 1, 2), RUEDA_ERR_CONFIG);
    assert_non_null(strstr(status_text(), "RUEDA_ALGORITHM"));
}

static void comparison_ignores_what_may_differ(void **state)
{
    (void)state;
    config mine = load(), other = load();
    other.rank = 5;
    other.spin_us = 7;
    strcpy(other.log_level.text, "debug");
    assert_int_equal(config_compare(&mine, &other, 0, 5), RUEDA_OK);
}

static void bytes_are_shown_exactly(void **state)
{
    (void)state;
    char text[32];
    assert_string_equal(config_format_number(CONFIG_BYTES, 0, text, sizeof text), "0");
    assert_string_equal(config_format_number(CONFIG_BYTES, 1536, text, sizeof text), "1536");
    assert_string_equal(config_format_number(CONFIG_BYTES, 3 * KIB, text, sizeof text), "3K");
    assert_string_equal(config_format_number(CONFIG_BYTES, 3 * GIB, text, sizeof text), "3G");
    assert_string_equal(config_format_number(CONFIG_INT, 1024, text, sizeof text), "1024");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults_lie_within_their_bounds, clean_environment),
        cmocka_unit_test_setup(names_are_ours_and_different, clean_environment),
        cmocka_unit_test_setup(without_variables_all_is_default, clean_environment),
        cmocka_unit_test_setup(numbers_are_read, clean_environment),
        cmocka_unit_test_setup(bytes_take_suffixes, clean_environment),
        cmocka_unit_test_setup(booleans_have_words, clean_environment),
        cmocka_unit_test_setup(text_has_a_length, clean_environment),
        cmocka_unit_test_setup(alias_works_and_ours_wins, clean_environment),
        cmocka_unit_test_setup(horovods_switches_become_values, clean_environment),
        cmocka_unit_test_setup(unknown_variable_gets_nearest_name, clean_environment),
        cmocka_unit_test_setup(comparison_names_rank_and_variable, clean_environment),
        cmocka_unit_test_setup(comparison_ignores_what_may_differ, clean_environment),
        cmocka_unit_test_setup(bytes_are_shown_exactly, clean_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
