/* ctest: timeout=60 */
/* What the training programs share: options, how a run is judged, the log, workers inside a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/bar.h"
#include "common/combine.h"
#include "common/log.h"
#include "common/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tensor_place places[] = {{"a", 0, 3, 1, {3}}, {"b", 3, 5000, 1, {5000}}};
static const subject about = {.title = "test",
                              .items = "things",
                              .test = "test score",
                              .guessing = 2,
                              .recovered = 0.5,
                              .places = places,
                              .tensors = 2};

/* ---- Options --------------------------------------------------------------------------------- */

typedef struct values {
    run_options run;
    int word;
} values;

static options_result parse(values *v, char *error, int argc, char **argv)
{
    static const char *const words[] = {"one", "two", NULL};
    option table[1 + RUN_OPTIONS] = {
        {"--word", OPTION_WORD, &v->word, "WORD", "which", 0, 0, words}};
    *v = (values){.run = {.epochs = 2, .lr = 0.5}};
    options_of_run(&v->run, table + 1);
    return options_parse("test", table, 1 + RUN_OPTIONS, argc, argv, error);
}
#define PARSE(...)                                                                                 \
    parse(&v, error, (int)(sizeof((char *[]){"test", __VA_ARGS__}) / sizeof(char *)),              \
          (char *[]){"test", __VA_ARGS__})

static void options_are_taken(void **state)
{
    (void)state;
    values v;
    char error[OPTIONS_ERROR_BYTES];
    assert_int_equal(PARSE("--epochs", "7", "--word", "two", "--json", "--log", "x.csv", "--lr",
                           "1e-3", "--workers-per-rank", "8", "--progress", "lines"),
                     OPTIONS_GO);
    assert_int_equal(v.run.epochs, 7);
    assert_int_equal(v.word, 1);
    assert_true(v.run.json && v.run.lr == 1e-3);
    assert_string_equal(v.run.log, "x.csv");
    assert_int_equal(v.run.workers_per_rank, 8);
    assert_int_equal(v.run.progress, PROGRESS_LINES);
    assert_int_equal(PARSE("--epochs", "7", "--help"), OPTIONS_HELPED);
}

static void bad_options_are_named(void **state)
{
    (void)state;
    values v;
    char error[OPTIONS_ERROR_BYTES];
    assert_int_equal(PARSE("--epochs", "0"), OPTIONS_BAD);
    assert_string_equal(error,
                        "test: --epochs takes a number from 1 to 1000, not '0'; see test --help");
    assert_int_equal(PARSE("--epochs", "99999999999999999999"), OPTIONS_BAD);
    assert_int_equal(PARSE("--epochs", "3x"), OPTIONS_BAD);
    assert_int_equal(PARSE("--epochs"), OPTIONS_BAD);
    assert_non_null(strstr(error, "lacks its value"));
    assert_int_equal(PARSE("--word", "three"), OPTIONS_BAD);
    assert_non_null(strstr(error, "does not know 'three'"));
    assert_int_equal(PARSE("--workers-per-rank", "0"), OPTIONS_BAD);
    assert_int_equal(PARSE("--lr", "inf"), OPTIONS_BAD);
    assert_int_equal(PARSE("--log", "x.txt"), OPTIONS_BAD);
    assert_int_equal(PARSE("--nothing"), OPTIONS_BAD);
    assert_int_equal(PARSE("word"), OPTIONS_BAD);
}

/* ---- How a run is judged --------------------------------------------------------------------- */

/* A run of 100 steps whose loss goes from `first` to `last`, with `spike` in step 50. */
static run_summary judge(double first, double spike, double last)
{
    run_summary s;
    summary_start(&s, RUEDA_ADASUM, "adasum", 4, 1);
    for (int i = 1; i <= 100; i++) {
        const double loss = first + (last - first) * i / 100;
        const step_record r = {.epoch = 1,
                               .step = i,
                               .steps = 100,
                               .seconds = 0.1 * i,
                               .items = 5 * i,
                               .loss = i == 50 ? spike : loss,
                               .test = i == 100 ? 0.75 : NAN,
                               .orthogonality = 0.01 * i,
                               .tensor = {0.25, 0.001 * i}};
        summary_step(&s, &about, &r);
        if (!isfinite(r.loss))
            break;
    }
    return s;
}

static void expect_outcome(const run_summary *s, run_outcome outcome, const char *word)
{
    char sentence[SENTENCE_BYTES];
    summary_sentence(s, &about, sentence);
    assert_int_equal(s->outcome, outcome);
    assert_non_null(strstr(sentence, word));
}

static void divergence_is_seen(void **state)
{
    (void)state;
    run_summary s = judge(2, 1, 0.1);
    expect_outcome(&s, RUN_TRAINED, "trained");
    s = judge(2, 9, 0.1); /* thrown, and found back */
    expect_outcome(&s, RUN_TRAINED, "trained");
    s = judge(2, 9, 1.2);
    expect_outcome(&s, RUN_DIVERGED, "DIVERGED: the loss rose to 9 in step 50");
    s = judge(2, NAN, 1.2);
    expect_outcome(&s, RUN_DIVERGED, "DIVERGED: after step 50");
    assert_true(isnan(s.last));
    s = judge(2, 2, 1.95);
    expect_outcome(&s, RUN_GUESSES, "HARDLY");
}

static void the_summary_has_first_and_last_tenth(void **state)
{
    (void)state;
    const run_summary s = judge(2, 1, 0.1);
    assert_true(fabs(s.first - 0.055) < 1e-9 && fabs(s.last - 0.955) < 1e-9);
    assert_true(fabs(s.tensor_first[1] - 0.0055) < 1e-9 && fabs(s.tensor_last[0] - 0.25) < 1e-9);
    assert_true(fabs(s.items_per_second - 50) < 1e-9 && s.test[0] == 0.75);
}

/* ---- Log ------------------------------------------------------------------------------------- */

static void expect_log(const char *ending, const char *expected)
{
    char path[] = "/tmp/common_test.XXXXXX.json", text[1024] = "";
    strcpy(path + strlen(path) - 5, ending);
    const int file = mkstemps(path, (int)strlen(ending));
    assert_true(file >= 0);
    log_file log;
    const run_summary s = judge(2, 1, 0.1);
    const step_record r = {.epoch = 1,
                           .step = 2,
                           .steps = 3,
                           .seconds = 0.5,
                           .items = 10,
                           .rate = 0.25,
                           .loss = 1.5,
                           .test = NAN,
                           .orthogonality = NAN,
                           .tensor = {0.5, NAN}};
    assert_true(log_open(&log, &about, path, NULL));
    log_step(&log, &r);
    assert_true(log_close(&log, &s));
    FILE *read = fdopen(file, "r");
    assert_true(fread(text, 1, sizeof text - 1, read) > 0);
    fclose(read);
    remove(path);
    if (strncmp(text, expected, strlen(expected)) != 0)
        fail_msg("%s", text);
}

static void what_was_not_measured_is_left_out(void **state)
{
    (void)state;
    expect_log(".csv", "epoch,step,seconds,things,rate,loss,test_score,orthogonality,a,b\n"
                       "1,2,0.500000,10,0.25,1.5,,,0.5,\n");
    expect_log(
        ".json",
        "{\"event\":\"step\",\"epoch\":1,\"step\":2,\"steps\":3,\"things\":10,\"seconds\":0.5,"
        "\"rate\":0.25,\"loss\":1.5,\"test_score\":null,\"orthogonality\":null,"
        "\"tensors\":{\"a\":0.5,\"b\":null}}\n"
        "{\"event\":\"summary\",\"op\":\"adasum\",");
}

/* ---- Workers inside a process ---------------------------------------------------------------- */

enum { COUNT = 5003, MOST_WORKERS = 12 };
static float memory[MOST_WORKERS][COUNT];

static void combine(int workers, double *norms)
{
    float *updates[MOST_WORKERS];
    for (int w = 0; w < workers; w++)
        updates[w] = memory[w];
    combine_workers(RUEDA_ADASUM, &about, updates, workers, norms);
}

/* Orthogonal updates add up, equal ones average; the orthogonality tells. */
static void adasum_of_workers(void **state)
{
    (void)state;
    for (int n = 2; n <= 2 * MOST_WORKERS + 1; n++) {
        const int workers = n / 2, equal = n % 2;
        double norms[2] = {0};
        step_record r;
        for (int w = 0; w < workers; w++) {
            for (int i = 0; i < COUNT; i++)
                memory[w][i] = equal || i % workers == w ? 2 : 0;
        }
        combine(workers, norms);
        for (int i = 0; i < COUNT; i++)
            assert_true(fabsf(memory[0][i] - 2) < 1e-5F);
        if (workers == 1)
            continue; /* nothing was combined */
        assert_true(fabs(norms[1] - 20000 * (equal ? workers : 1)) < 1e-6);
        measure_orthogonality(&about, memory[0], norms, &r);
        assert_true(fabs(r.orthogonality - (equal ? 1.0 / workers : 1)) < 1e-5);
    }
}

/* Multiples of one vector come to their mean over the workers that have something. */
static void adasum_of_workers_weighs_all_alike(void **state)
{
    (void)state;
    for (int workers = 1; workers <= MOST_WORKERS; workers++) {
        double norms[2] = {0}, sum = 0;
        int several = 0;
        for (int w = 0; w < workers; w++) {
            const int factor = (w * w + 1) % 5; /* 1, 2, 0, 0, 2, 1, … */
            sum += factor;
            several += factor != 0;
            for (int i = 0; i < COUNT; i++)
                memory[w][i] = (float)(factor * (i % 7 - 3));
        }
        combine(workers, norms);
        for (int i = 0; i < COUNT; i++)
            assert_true(fabs((double)memory[0][i] - sum / several * (i % 7 - 3)) < 1e-4);
    }
}

/* ---- The bar --------------------------------------------------------------------------------- */

static void a_bar_is_narrower_than_its_terminal(void **state)
{
    (void)state;
    for (int width = 1; width < 60; width++) {
        bar b;
        bar_begin(&b, width);
        bar_add(&b, "%s", "█▏·"); /* 3 columns, 8 bytes */
        bar_add(&b, " %d left", 1234567);
        bar_add(&b, "  %s", "of 16 add up");
        assert_int_equal(b.columns, width <= 3 ? 0 : width <= 16 ? 3 : width <= 30 ? 16 : 30);
        assert_int_equal(b.used, strlen(b.text));
        assert_true(b.columns < width);
    }
}

static void a_part_that_is_too_long_ends_the_bar(void **state)
{
    (void)state;
    char longer[BAR_BYTES + 1];
    memset(longer, 'x', BAR_BYTES);
    longer[BAR_BYTES] = '\0';
    bar b;
    bar_begin(&b, 10 * BAR_BYTES);
    bar_add(&b, "first");
    bar_add(&b, "%s", longer);
    bar_add(&b, "last");
    assert_string_equal(b.text, "first");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_taken),
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(divergence_is_seen),
        cmocka_unit_test(the_summary_has_first_and_last_tenth),
        cmocka_unit_test(what_was_not_measured_is_left_out),
        cmocka_unit_test(adasum_of_workers),
        cmocka_unit_test(adasum_of_workers_weighs_all_alike),
        cmocka_unit_test(a_bar_is_narrower_than_its_terminal),
        cmocka_unit_test(a_part_that_is_too_long_ends_the_bar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
