/* model.c: see model.h. */
#include "model.h"

#include <math.h>
#include <string.h>

#define LANES 8 /* independent partial sums, so that the compiler can use vector instructions */

void model_init(float *parameters, int words, int size, random_state *random)
{
    const size_t count = (size_t)words * (size_t)size;
    for (size_t i = 0; i < count; i++)
        parameters[i] = (float)((random_unit(random) - 0.5) / size);
    memset(parameters + count, 0, sizeof *parameters * count);
}

static float dot(int size, const float *a, const float *b)
{
    float lanes[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= size; i += LANES) {
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += a[i + lane] * b[i + lane];
    }
    for (; i < size; i++)
        sum += a[i] * b[i];
    for (int lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

static void add_scaled(int size, float factor, const float *x, float *restrict y)
{
    for (int i = 0; i < size; i++)
        y[i] += factor * x[i];
}

double model_pair(int size, const float *center, const float *const *outputs, int count,
                  float factor, float *d_center, float *const *d_outputs)
{
    double loss = 0;
    for (int i = 0; i < count; i++) {
        const float wanted = i == 0 ? 1 : 0;
        const float product = dot(size, center, outputs[i]);
        const float small = expf(-fabsf(product)); /* never overflows */
        const float sigma = product > 0 ? 1 / (1 + small) : small / (1 + small);
        const float miss = wanted != 0 ? -product : product; /* loss = log(1 + exp(miss)) */
        loss += (double)(log1pf(small) + (miss > 0 ? miss : 0));
        add_scaled(size, factor * (sigma - wanted), outputs[i], d_center);
        add_scaled(size, factor * (sigma - wanted), center, d_outputs[i]);
    }
    return loss;
}
