/* settings.c: see settings.h. */
#include "settings.h"

#include "pairs.h"

#include <limits.h>
#include <string.h>

const char *const how_words[] = {"adasum", "average", "gather", NULL};

size_t settings_table(settings *s, option table[MAX_OPTIONS])
{
    const option own[] = {
        {"--op", OPTION_WORD, &s->how, "OP",
         "adasum or average of what each worker's own training changed, or gather: sparse gradients",
         0, 0, how_words},
        {"--corpus", OPTION_FILE, &s->corpus, "FILE", "the text, a sentence on each line", 0, 0,
         NULL},
        {"--lines", OPTION_NUMBER, &s->lines, "N",
         "lines in a step, for each worker; 0: what suits", 0, INT_MAX, NULL},
        {"--size", OPTION_NUMBER, &s->size, "N", "numbers in a word's vector", 1, 4096, NULL},
        {"--window", OPTION_NUMBER, &s->window, "N", "neighbours to either side", 1, MAX_WINDOW,
         NULL},
        {"--negatives", OPTION_NUMBER, &s->negatives, "N", "words drawn for each neighbour", 1,
         MAX_NEGATIVES, NULL},
        {"--least", OPTION_NUMBER, &s->least, "N", "leave out words that occur fewer times", 1,
         INT_MAX, NULL},
        {"--frequent", OPTION_RATE, &s->frequent, "SHARE",
         "words with more than this share of the text are often skipped", 0, 0, NULL},
        {"--limit", OPTION_NUMBER, &s->limit, "N", "only the first N lines; 0: all", 0, INT_MAX,
         NULL},
        {"--vectors", OPTION_FILE, &s->vectors, "FILE",
         "the words and their vectors at the end, in the text format of word2vec", 0, 0, NULL}};
    const size_t count = sizeof own / sizeof own[0];
    *s = (settings){.run = {.epochs = 5, .lr = 0.05, .workers_per_rank = 1, .seed = 1},
                    .size = 100,
                    .window = 5,
                    .negatives = 5,
                    .least = 5,
                    .frequent = 1e-3,
                    .corpus = "kjv.txt"};
    memcpy(table, own, sizeof own);
    options_of_run(&s->run, table + count);
    return count + RUN_OPTIONS;
}
