/* layers.c: see layers.h. A convolution is one matrix product once the 5 × 5 patch around each point
 * is laid out as a row ("unfolded"); bias, pooling and ReLU then take one walk over the result. */
#include "layers.h"

#include "gemm.h"

#include <string.h>

/* ---- Unfolding ------------------------------------------------------------------------------- */

/* The callers pass constants for `run`, so that each copy is a few vector moves and no call. */
static inline void unfold_by(const conv_shape *s, int run, const float *image, float *columns)
{
    const int side = conv_side(s);
    for (int y = 0; y < side; y++) {
        for (int x = 0; x < side; x++) {
            for (int ky = 0; ky < KERNEL; ky++, columns += run)
                memcpy(columns, image + ((y + ky) * s->side + x) * s->in,
                       sizeof *columns * (size_t)run);
        }
    }
}

/* Row by row, the patch of each point of one image. */
static void unfold(const conv_shape *s, const float *image, float *columns)
{
    if (s->in == 1)
        unfold_by(s, KERNEL, image, columns);
    else
        unfold_by(s, KERNEL * s->in, image, columns);
}

/* The way back: every patch's gradient is added where the patch came from. */
static void fold(const conv_shape *s, const float *restrict columns, float *restrict d_image)
{
    const int side = conv_side(s), run = KERNEL * s->in;
    memset(d_image, 0, sizeof *d_image * conv_inputs(s));
    for (int y = 0; y < side; y++) {
        for (int x = 0; x < side; x++) {
            for (int ky = 0; ky < KERNEL; ky++, columns += run) {
                float *to = d_image + ((y + ky) * s->side + x) * s->in;
                for (int i = 0; i < run; i++)
                    to[i] += columns[i];
            }
        }
    }
}

/* ---- Pooling --------------------------------------------------------------------------------- */

/* Bias is the same for all four points, so it may be added after the largest is found. */
static void pool_point(int out, const float *restrict a, const float *restrict b,
                       const float *restrict c, const float *restrict d, const float *restrict bias,
                       float *restrict output, int32_t *restrict winner)
{
    for (int i = 0; i < out; i++) {
        float best = a[i];
        int32_t which = 0;
        which = b[i] > best ? 1 : which;
        best = b[i] > best ? b[i] : best;
        which = c[i] > best ? 2 : which;
        best = c[i] > best ? c[i] : best;
        which = d[i] > best ? 3 : which;
        best = d[i] > best ? d[i] : best;
        best += bias[i];
        output[i] = best > 0 ? best : 0;
        winner[i] = best > 0 ? which : POOL * POOL;
    }
}

static void pool(const conv_shape *s, const float *points, const float *bias, float *output,
                 int32_t *winner)
{
    const int side = conv_side(s), row = side * s->out;
    for (int y = 0; y < pooled_side(s); y++) {
        for (int x = 0; x < pooled_side(s); x++, output += s->out, winner += s->out) {
            const float *at = points + (y * POOL * side + x * POOL) * s->out;
            pool_point(s->out, at, at + s->out, at + row, at + row + s->out, bias, output, winner);
        }
    }
}

static void unpool_point(int out, const float *restrict d_output, const int32_t *restrict winner,
                         float *restrict a, float *restrict b, float *restrict c, float *restrict d,
                         float *restrict d_bias)
{
    for (int i = 0; i < out; i++) {
        const float g = d_output[i];
        a[i] = winner[i] == 0 ? g : 0;
        b[i] = winner[i] == 1 ? g : 0;
        c[i] = winner[i] == 2 ? g : 0;
        d[i] = winner[i] == 3 ? g : 0;
        d_bias[i] += winner[i] < POOL * POOL ? g : 0;
    }
}

/* The gradient goes to the point that won, nothing to the others. */
static void unpool(const conv_shape *s, const float *d_output, const int32_t *winner,
                   float *d_points, float *d_bias)
{
    const int side = conv_side(s), row = side * s->out;
    for (int y = 0; y < pooled_side(s); y++) {
        for (int x = 0; x < pooled_side(s); x++, d_output += s->out, winner += s->out) {
            float *at = d_points + (y * POOL * side + x * POOL) * s->out;
            unpool_point(s->out, d_output, winner, at, at + s->out, at + row, at + row + s->out,
                         d_bias);
        }
    }
}

/* ---- Convolution ----------------------------------------------------------------------------- */

static int chunk_size(int count, int first)
{
    return count - first < CHUNK ? count - first : CHUNK;
}

void conv_forward(const conv_shape *shape, int count, const float *input, const float *weights,
                  const float *bias, const conv_scratch *scratch, float *output, int32_t *winner)
{
    const size_t points = conv_points(shape), patch = conv_patch(shape);
    for (int first = 0; first < count; first += CHUNK) {
        const int images = chunk_size(count, first);
        for (size_t i = 0; i < (size_t)images; i++)
            unfold(shape, input + ((size_t)first + i) * conv_inputs(shape),
                   scratch->columns + i * points * patch);
        gemm(GEMM_NN, images * (int)points, shape->out, (int)patch, scratch->columns, weights, 0,
             scratch->points);
        for (size_t i = 0; i < (size_t)images; i++) {
            const size_t at = ((size_t)first + i) * conv_outputs(shape);
            pool(shape, scratch->points + i * points * (size_t)shape->out, bias, output + at,
                 winner + at);
        }
    }
}

/* One chunk's share of the gradients; columns are unfolded again, which is cheaper than fetching them
 * from where they would have been kept. */
static void backward_chunk(const conv_shape *s, int images, const float *input,
                           const float *weights, const conv_scratch *scratch, float *d_weights,
                           float *d_input)
{
    const size_t points = conv_points(s), patch = conv_patch(s);
    for (size_t i = 0; i < (size_t)images; i++)
        unfold(s, input + i * conv_inputs(s), scratch->columns + i * points * patch);
    gemm(GEMM_TN, (int)patch, s->out, images * (int)points, scratch->columns, scratch->points, 1,
         d_weights);
    if (d_input == NULL)
        return;
    gemm(GEMM_NT, images * (int)points, (int)patch, s->out, scratch->points, weights, 0,
         scratch->columns);
    for (size_t i = 0; i < (size_t)images; i++)
        fold(s, scratch->columns + i * points * patch, d_input + i * conv_inputs(s));
}

void conv_backward(const conv_shape *shape, int count, const float *input, const float *weights,
                   const float *d_output, const int32_t *winner, const conv_scratch *scratch,
                   float *d_weights, float *d_bias, float *d_input)
{
    const size_t inputs = conv_inputs(shape), outputs = conv_outputs(shape);
    memset(d_weights, 0, sizeof *d_weights * conv_patch(shape) * (size_t)shape->out);
    memset(d_bias, 0, sizeof *d_bias * (size_t)shape->out);
    for (int first = 0; first < count; first += CHUNK) {
        const int images = chunk_size(count, first);
        for (size_t i = 0; i < (size_t)images; i++) {
            const size_t at = ((size_t)first + i) * outputs;
            unpool(shape, d_output + at, winner + at,
                   scratch->points + i * conv_points(shape) * (size_t)shape->out, d_bias);
        }
        backward_chunk(shape, images, input + (size_t)first * inputs, weights, scratch, d_weights,
                       d_input != NULL ? d_input + (size_t)first * inputs : NULL);
    }
}

/* ---- Dense layers and ReLU ------------------------------------------------------------------- */

void dense_forward(int count, int in, int out, const float *input, const float *weights,
                   const float *bias, float *output)
{
    for (int i = 0; i < count; i++)
        memcpy(output + i * out, bias, sizeof *output * (size_t)out);
    gemm(GEMM_NN, count, out, in, input, weights, 1, output);
}

void dense_backward(int count, int in, int out, const float *input, const float *weights,
                    const float *d_output, float *d_weights, float *d_bias, float *d_input)
{
    memset(d_bias, 0, sizeof *d_bias * (size_t)out);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < out; j++)
            d_bias[j] += d_output[i * out + j];
    }
    gemm(GEMM_TN, in, out, count, input, d_output, 0, d_weights);
    gemm(GEMM_NT, count, in, out, d_output, weights, 0, d_input);
}

void relu_forward(size_t count, float *values)
{
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] > 0 ? values[i] : 0;
}

/* `values` are what relu_forward left: where it left 0, nothing flows back. */
void relu_backward(size_t count, const float *values, float *gradient)
{
    for (size_t i = 0; i < count; i++)
        gradient[i] = values[i] > 0 ? gradient[i] : 0;
}
