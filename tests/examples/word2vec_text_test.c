/* ctest: timeout=60 */
/* From a text to words, their numbers, and the pairs that are learned from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "corpus.h"
#include "pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRAWS 400000

static char path[] = "/tmp/word2vec_text_test.XXXXXX";
static char error[CORPUS_ERROR_BYTES];

static void write_text(const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void expect_words(const char *text, const char *const *expected)
{
    const char *at = text, *end = text + strlen(text);
    char word[MAX_WORD_BYTES];
    for (; (at = next_word(at, end, word)) != NULL; expected++) {
        assert_non_null(*expected);
        assert_string_equal(word, *expected);
    }
    assert_null(*expected);
}

static void words_are_letters_in_lower_case(void **state)
{
    (void)state;
    expect_words("", (const char *const[]){NULL});
    expect_words(" 12, -- '", (const char *const[]){NULL});
    expect_words("In the beginning God created",
                 (const char *const[]){"in", "the", "beginning", "god", "created", NULL});
    expect_words("Lord's, Beth-el: 'tis (so)-",
                 (const char *const[]){"lord's", "beth-el", "tis", "so", NULL});
    expect_words("1Now2then", (const char *const[]){"now", "then", NULL});
    expect_words("Jes\xc3\xbas", (const char *const[]){"jes\xc3\xbas", NULL});
}

static void long_words_are_cut(void **state)
{
    (void)state;
    const char *text = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz b";
    char word[MAX_WORD_BYTES];
    const char *at = next_word(text, text + strlen(text), word);
    assert_int_equal(strlen(word), MAX_WORD_BYTES - 1);
    assert_non_null(next_word(at, text + strlen(text), word));
    assert_string_equal(word, "b");
}

static void numbers_follow_frequency(void **state)
{
    (void)state;
    corpus c;
    write_text("b a a rare\n\nC c A b. c\nc");
    assert_true(corpus_read(path, 2, 0, &c, error));
    assert_int_equal(c.words.count, 3);
    assert_string_equal(c.words.words[0], "c");
    assert_int_equal(c.words.counts[0], 4);
    assert_string_equal(c.words.words[1], "a");
    assert_string_equal(c.words.words[2], "b");
    assert_int_equal(c.lines, 4);
    const int32_t tokens[] = {2, 1, 1, 0, 0, 1, 2, 0, 0};
    const int64_t starts[] = {0, 3, 3, 8, 9};
    assert_memory_equal(c.tokens, tokens, sizeof tokens);
    assert_memory_equal(c.starts, starts, sizeof starts);
    assert_int_equal(vocabulary_find(&c.words, "b"), 2);
    assert_int_equal(vocabulary_find(&c.words, "rare"), -1);
    corpus_free(&c);
}

static void many_words_are_all_found(void **state)
{
    (void)state;
    enum { WORDS = 5000 };
    corpus c;
    char word[MAX_WORD_BYTES];
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 2 * WORDS; i++) { /* numbers in letters */
        const int n = i % WORDS;
        fprintf(file, "w%c%c%c%c\n", 'a' + n / 1000, 'a' + n / 100 % 10, 'a' + n / 10 % 10,
                'a' + n % 10);
    }
    fclose(file);
    assert_true(corpus_read(path, 2, 0, &c, error));
    assert_int_equal(c.words.count, WORDS);
    for (int i = 0; i < WORDS; i += 7) {
        snprintf(word, sizeof word, "w%c%c%c%c", 'a' + i / 1000, 'a' + i / 100 % 10,
                 'a' + i / 10 % 10, 'a' + i % 10);
        assert_int_equal(vocabulary_find(&c.words, word), i);
        assert_int_equal(c.tokens[i], i);
    }
    corpus_free(&c);
}

static void what_is_wrong_with_a_text_is_said(void **state)
{
    (void)state;
    corpus c;
    write_text("a b c\n");
    assert_false(corpus_read(path, 2, 0, &c, error));
    assert_non_null(strstr(error, "fewer than two words"));
    write_text("");
    assert_false(corpus_read(path, 1, 0, &c, error));
    assert_false(corpus_read("/nowhere/text", 1, 0, &c, error));
    assert_non_null(strstr(error, "/nowhere/text: No such file"));
}

/* ---- Draws ----------------------------------------------------------------------------------- */

static vocabulary some_counts(int64_t *counts, int count)
{
    for (int i = 0; i < count; i++)
        counts[i] = 1 + 100000 / ((int64_t)i * i + 1);
    return (vocabulary){.count = count, .counts = counts};
}

/* Each word is drawn as often as count^0.75 says, to five standard deviations. */
static void negatives_follow_the_power_of_counts(void **state)
{
    (void)state;
    enum { WORDS = 50 };
    int64_t counts[WORDS];
    int drawn[WORDS] = {0};
    double total = 0;
    const vocabulary v = some_counts(counts, WORDS);
    sampler s;
    random_state random = {3};
    assert_true(sampler_init(&s, &v));
    for (int i = 0; i < DRAWS; i++)
        drawn[sampler_draw(&s, &random)]++;
    for (int i = 0; i < WORDS; i++)
        total += pow((double)counts[i], 0.75);
    for (int i = 0; i < WORDS; i++) {
        const double chance = pow((double)counts[i], 0.75) / total;
        const double expected = chance * DRAWS, deviation = sqrt(expected * (1 - chance));
        if (fabs(drawn[i] - expected) > 5 * deviation)
            fail_msg("word %d drawn %d times instead of %.0f", i, drawn[i], expected);
    }
    sampler_free(&s);
}

static void frequent_words_are_often_skipped(void **state)
{
    (void)state;
    int64_t counts[] = {900, 90, 10};
    float chances[3];
    keeping_chances(&(vocabulary){.count = 3, .counts = counts}, 0.01, chances);
    assert_true(fabs((double)chances[0] - (sqrt(90) + 1) / 90) < 1e-6);
    assert_true(fabs((double)chances[1] - (3.0 + 1) / 9) < 1e-6);
    assert_true(chances[2] == 1);
}

/* All pairs are neighbours within the window, no negative is the neighbour, and the same random
 * numbers give the same pairs. */
static void pairs_are_neighbours(void **state)
{
    (void)state;
    enum { WINDOW = 3, OUTPUTS = 6 };
    corpus c;
    sampler s;
    pair_maker m;
    int seen[2 * WINDOW + 1] = {0};
    write_text("a b c d e f g h i j\n");
    assert_true(corpus_read(path, 1, 0, &c, error));
    assert_true(sampler_init(&s, &c.words));
    const float keep[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_true(pair_maker_init(&m, &c, &s, keep, WINDOW, OUTPUTS));
    for (uint64_t round = 0; round < 500; round++) {
        random_state random = {round}, same = {round};
        const int count = make_pairs(&m, 0, &random);
        assert_true(count >= 18);
        for (int i = 0; i < count; i++) {
            const int distance = m.pairs[i].outputs[0] - m.pairs[i].center;
            assert_true(distance != 0 && abs(distance) <= WINDOW);
            seen[distance + WINDOW]++;
            for (int j = 1; j < OUTPUTS; j++)
                assert_int_not_equal(m.pairs[i].outputs[j], m.pairs[i].outputs[0]);
        }
        const pair last = m.pairs[count - 1];
        assert_int_equal(make_pairs(&m, 0, &same), count);
        assert_memory_equal(&m.pairs[count - 1], &last, sizeof last.outputs[0] * (1 + OUTPUTS));
    }
    /* the reach is uniform in 1 … 3: distance 1 is always there, 3 in a third of cases */
    assert_true(seen[WINDOW + 1] == 500 * 9);
    assert_true(abs(seen[WINDOW + 3] - 500 * 7 / 3) < 150);
    assert_true(abs(seen[WINDOW - 2] - 500 * 8 * 2 / 3) < 200);
    pair_maker_free(&m);
    sampler_free(&s);
    corpus_free(&c);
}

static int make_file(void **state)
{
    (void)state;
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_letters_in_lower_case),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(numbers_follow_frequency),
        cmocka_unit_test(many_words_are_all_found),
        cmocka_unit_test(what_is_wrong_with_a_text_is_said),
        cmocka_unit_test(negatives_follow_the_power_of_counts),
        cmocka_unit_test(frequent_words_are_often_skipped),
        cmocka_unit_test(pairs_are_neighbours),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
