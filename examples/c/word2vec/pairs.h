/* pairs.h: from a line of text to what the model learns from. */
#ifndef WORD2VEC_PAIRS_H
#define WORD2VEC_PAIRS_H

#include "model.h"
#include "sampler.h"

#define MAX_WINDOW 20

typedef struct pair {
    int32_t center;
    int32_t outputs[MAX_OUTPUTS]; /* the neighbour, then the negatives */
} pair;

typedef struct pair_maker {
    const corpus *text;
    const sampler *negatives;
    const float *keep; /* chance of each word, see keeping_chances */
    int window;        /* at most so many words to either side */
    int outputs;       /* 1 + negatives */
    int32_t *kept;     /* room for a line's words */
    pair *pairs;       /* room for its pairs */
} pair_maker;

bool pair_maker_init(pair_maker *m, const corpus *text, const sampler *negatives, const float *keep,
                     int window, int outputs); /* false: out of memory */
void pair_maker_free(pair_maker *m);

/* The pairs of a line, in m->pairs; returns their number. They depend on the line and the random
 * numbers alone, so that it does not matter which worker takes a line. */
int make_pairs(pair_maker *m, int line, random_state *random);

#endif
