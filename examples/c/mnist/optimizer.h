/* optimizer.h: stochastic gradient descent with momentum, and how fast it walks. */
#ifndef MNIST_OPTIMIZER_H
#define MNIST_OPTIMIZER_H

#include <stddef.h>

#define MOMENTUM 0.9F

/* Rises linearly to `peak` over the first fifth of the steps, then falls linearly to zero. */
double learning_rate(double peak, int step, int steps);

/* velocity ← 0.9 · velocity + gradient; update ← −rate · velocity. gradient and update may be the
 * same array. */
void optimizer_update(size_t count, double rate, float *velocity, const float *gradient,
                      float *update);

/* values ← values + update */
void optimizer_apply(size_t count, const float *update, float *values);

#endif
