/* text.h: which of the known words somebody meant. */
#ifndef RUEDA_BASE_TEXT_H
#define RUEDA_BASE_TEXT_H

#include <stddef.h>

/* The best candidate so far; start with text_nearest_to, offer the words, read `best`. */
typedef struct text_nearest {
    const char *word; /* what was written */
    const char *best; /* the nearest word offered, NULL if none is near enough */
    size_t distance;  /* a word must be nearer than this */
} text_nearest;

text_nearest text_nearest_to(const char *word);
void text_nearest_offer(text_nearest *nearest, const char *known);

#endif
