/* optimizer.c: see optimizer.h. */
#include "optimizer.h"

#define RISING_PART 5 /* a fifth of the steps */

double learning_rate(double peak, int step, int steps)
{
    const int rising = steps / RISING_PART;
    if (step < rising)
        return peak * (step + 1) / rising;
    return peak * (steps - step) / (steps - rising);
}

void optimizer_update(size_t count, double rate, float *velocity, const float *gradient,
                      float *update)
{
    const float factor = (float)-rate;
    for (size_t i = 0; i < count; i++) {
        velocity[i] = MOMENTUM * velocity[i] + gradient[i];
        update[i] = factor * velocity[i];
    }
}

void optimizer_apply(size_t count, const float *update, float *values)
{
    for (size_t i = 0; i < count; i++)
        values[i] += update[i];
}
