/* text.c: edit distance. */
#include "base/text.h"

#include <string.h>

#define LONGEST 64 /* longer words are never near */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's distance with one row; both words fit the row. */
static size_t distance(const char *a, const char *b)
{
    size_t row[LONGEST + 1];
    const size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > LONGEST || b_length > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(change, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

text_nearest text_nearest_to(const char *word)
{
    return (text_nearest){.word = word, .best = NULL, .distance = (strlen(word) + 2) / 3 + 1};
}

void text_nearest_offer(text_nearest *nearest, const char *known)
{
    const size_t d = distance(nearest->word, known);
    if (d < nearest->distance) {
        nearest->distance = d;
        nearest->best = known;
    }
}
