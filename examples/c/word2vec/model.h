/* model.h: skip-gram with negative sampling. Each word has two vectors: one as the word in the middle
 * ("input", the result of it all) and one as a neighbour ("output"). A pair of neighbours should have a
 * large product of those two, a word drawn at random a small one:
 *
 *     loss = −log σ(center · neighbour) − Σ log σ(−center · negative)
 *
 * All parameters lie in one array: the table of inputs, then that of outputs, a row for each word. */
#ifndef WORD2VEC_MODEL_H
#define WORD2VEC_MODEL_H

#include "common/random.h"

#include <stddef.h>

#define MAX_NEGATIVES 30
#define MAX_OUTPUTS (MAX_NEGATIVES + 1)

/* Inputs uniform in ±1/(2·size), outputs zero. */
void model_init(float *parameters, int words, int size, random_state *random);

/* Loss of one pair. outputs[0] is the neighbour's vector, the others are the negatives'. Adds `factor`
 * times the gradient of the loss to d_center and to each d_outputs[i]. d_outputs[i] may be outputs[i]
 * itself, with a negative factor: that is a step of training. d_center is not center. */
double model_pair(int size, const float *center, const float *const *outputs, int count,
                  float factor, float *d_center, float *const *d_outputs);

#endif
