/* words.h: what the vectors know: neighbours, analogies, and a number for it. */
#ifndef WORD2VEC_WORDS_H
#define WORD2VEC_WORDS_H

#include "corpus.h"

#include <stdio.h>

#define NEAR 10 /* a partner among so many nearest words counts as found */

/* Vectors of length 1. */
typedef struct words {
    const vocabulary *names;
    int size;
    float *vectors; /* words × size */
} words;

bool words_init(words *w, const vocabulary *names, const float *vectors, int size);
void words_free(words *w);

/* The `count` words whose vectors point most nearly in a direction, nearest first, without those of
 * `except` (`excepted` of them). Returns how many there are. */
int words_nearest(const words *w, const float *direction, const int *except, int excepted,
                  int count, int *found);

/* The share of a list of partners ("gold silver"; each asked from both sides) that are among the NEAR
 * nearest words of each other. Partners that are not in the vocabulary are not asked; NAN: none is. */
double words_partners(const words *w);

/* Analogies ("man is to woman as king is to …") whose answer is among the five nearest words; and how
 * many could be asked. */
int words_analogies(const words *w, int *asked);

/* A few neighbours and analogies for people. */
void words_print(const words *w);

/* "word number number …", a line for each word, after a line with both counts. */
bool words_save(const vocabulary *names, const float *vectors, int size, const char *path);

#endif
