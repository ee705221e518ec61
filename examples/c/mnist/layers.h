/* layers.h: the two kinds of layers, forward and backward, over a batch. Images lie channel by
 * channel at each point (row, column, channel): the innermost loops then run over channels, which are
 * neighbours in memory. */
#ifndef MNIST_LAYERS_H
#define MNIST_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#define KERNEL 5 /* convolutions look at 5 × 5 points, without padding */
#define POOL 2   /* then the largest of 2 × 2 points is kept */
#define CHUNK 4  /* images unfolded at a time: their matrix stays in the cache */

typedef struct conv_shape {
    int side; /* of the input */
    int in, out;
} conv_shape;

typedef struct conv_scratch {
    float *columns; /* CHUNK × points × KERNEL² × in */
    float *points;  /* CHUNK × points × out: the convolution before pooling, or its gradient */
} conv_scratch;

/* Derived sizes: the sides after the convolution and after pooling. */
static inline int conv_side(const conv_shape *s)
{
    return s->side - KERNEL + 1;
}
static inline int pooled_side(const conv_shape *s)
{
    return conv_side(s) / POOL;
}
static inline size_t conv_patch(const conv_shape *s)
{
    return (size_t)(KERNEL * KERNEL * s->in);
}
static inline size_t conv_points(const conv_shape *s)
{
    return (size_t)conv_side(s) * (size_t)conv_side(s);
}
static inline size_t conv_inputs(const conv_shape *s)
{
    return (size_t)s->side * (size_t)s->side * (size_t)s->in;
}
static inline size_t conv_outputs(const conv_shape *s)
{
    return (size_t)pooled_side(s) * (size_t)pooled_side(s) * (size_t)s->out;
}

/* output ← ReLU(maxpool(convolution + bias)). weights: patch × out. `winner` remembers which of the
 * four points passed on its value; POOL² if ReLU let none through. */
void conv_forward(const conv_shape *shape, int count, const float *input, const float *weights,
                  const float *bias, const conv_scratch *scratch, float *output, int32_t *winner);

/* From the gradient of the output to those of weights and bias, and of the input unless it is NULL. */
void conv_backward(const conv_shape *shape, int count, const float *input, const float *weights,
                   const float *d_output, const int32_t *winner, const conv_scratch *scratch,
                   float *d_weights, float *d_bias, float *d_input);

/* output ← input · weights + bias. weights: in × out. */
void dense_forward(int count, int in, int out, const float *input, const float *weights,
                   const float *bias, float *output);
void dense_backward(int count, int in, int out, const float *input, const float *weights,
                    const float *d_output, float *d_weights, float *d_bias, float *d_input);

void relu_forward(size_t count, float *values);
void relu_backward(size_t count, const float *values, float *gradient);

#endif
