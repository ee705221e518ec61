/* corpus.h: a text as lines of word numbers. */
#ifndef WORD2VEC_CORPUS_H
#define WORD2VEC_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CORPUS_ERROR_BYTES 512
#define MAX_WORD_BYTES 32 /* a longer word is cut */

/* The words that occur often enough, most frequent first; ties in alphabetical order. */
typedef struct vocabulary {
    int count;
    char (*words)[MAX_WORD_BYTES]; /* lower case */
    int64_t *counts;
} vocabulary;

typedef struct corpus {
    vocabulary words;
    int lines;
    int64_t *starts; /* lines + 1: line i is tokens[starts[i]] … tokens[starts[i + 1] − 1] */
    int32_t *tokens; /* words that are not in the vocabulary are left out */
} corpus;

/* Takes the next word of a text: letters, and apostrophes and hyphens between letters, made lower
 * case. Returns where to go on, or NULL at the end. */
const char *next_word(const char *at, const char *end, char word[MAX_WORD_BYTES]);

/* Reads a text with a sentence (or verse) on each line. Words that occur fewer than `least` times are
 * left out; `most_lines` keeps the first lines only, 0 keeps all. False: `error` has a sentence. */
bool corpus_read(const char *path, int least, int most_lines, corpus *c,
                 char error[CORPUS_ERROR_BYTES]);
void corpus_free(corpus *c);

/* The number of a word, or -1. */
int vocabulary_find(const vocabulary *v, const char *word);

#endif
