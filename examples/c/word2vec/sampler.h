/* sampler.h: draws words as often as they occur, to a power: the negative examples. */
#ifndef WORD2VEC_SAMPLER_H
#define WORD2VEC_SAMPLER_H

#include "common/random.h"
#include "corpus.h"

#define SAMPLER_POWER 0.75 /* between "as in the text" and "all alike" */

/* Walker's alias method: one random number decides in constant time. A cell is shared by its own word
 * and one other. */
typedef struct sampler {
    int count;
    double *keep;   /* for each cell: the part of it that is its own word's */
    int32_t *other; /* whose the rest is */
} sampler;

bool sampler_init(sampler *s, const vocabulary *v); /* false: out of memory */
void sampler_free(sampler *s);
int32_t sampler_draw(const sampler *s, random_state *random);

/* The chance that an occurrence of each word is trained on: very frequent words, of which there is
 * enough, are left out most of the time. `threshold` is the share of a text above which a word counts
 * as very frequent. */
void keeping_chances(const vocabulary *v, double threshold, float *chances);

#endif
