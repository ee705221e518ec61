/* ctest: timeout=60 */
/* Layers against their definition, in double; gradients against finite differences of it. The loss
 * here is Σ r · output with random r, so that its gradient by the output is r. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/random.h"
#include "gemm.h"
#include "layers.h"
#include "optimizer.h"

#include <math.h>
#include <stdlib.h>

#define STEP 1e-6 /* of finite differences, in double */
#define TOLERANCE 1e-4
#define PROBES 40

static random_state randomness = {42};

static double random_value(void)
{
    return (double)(float)(2 * random_unit(&randomness) - 1);
}

/* An array in both precisions. */
typedef struct array {
    size_t count;
    double *exact;
    float *single;
} array;

static array array_new(size_t count)
{
    array a = {count, malloc(sizeof(double) * count), malloc(sizeof(float) * count)};
    assert_true(a.exact != NULL && a.single != NULL);
    for (size_t i = 0; i < count; i++)
        a.single[i] = (float)(a.exact[i] = random_value());
    return a;
}

static void array_free(array a)
{
    free(a.exact);
    free(a.single);
}

static void assert_close(double actual, double expected, const char *what, size_t index)
{
    if (fabs(actual - expected) > TOLERANCE * (1 + fabs(expected)))
        fail_msg("%s[%zu]: %g instead of %g", what, index, actual, expected);
}

/* ---- Convolution ----------------------------------------------------------------------------- */

typedef struct conv_case {
    conv_shape shape;
    int count;
    array input, weights, bias, weighting;
} conv_case;

static double point(const conv_case *c, int image, int y, int x, int out)
{
    const conv_shape *s = &c->shape;
    double sum = c->bias.exact[out];
    for (int ky = 0; ky < KERNEL; ky++) {
        for (int kx = 0; kx < KERNEL; kx++) {
            for (int in = 0; in < s->in; in++) {
                const int pixel = ((image * s->side + y + ky) * s->side + x + kx) * s->in + in;
                sum += c->input.exact[pixel] *
                       c->weights.exact[((ky * KERNEL + kx) * s->in + in) * s->out + out];
            }
        }
    }
    return sum;
}

static double pooled(const conv_case *c, int image, int y, int x, int out)
{
    double best = 0; /* ReLU */
    for (int i = 0; i < POOL * POOL; i++)
        best = fmax(best, point(c, image, y * POOL + i / POOL, x * POOL + i % POOL, out));
    return best;
}

/* The loss, and with `output` the values too. */
static double conv_loss(const conv_case *c, double *output)
{
    const int side = pooled_side(&c->shape);
    double loss = 0;
    size_t at = 0;
    for (int image = 0; image < c->count; image++) {
        for (int i = 0; i < side * side; i++) {
            for (int out = 0; out < c->shape.out; out++, at++) {
                const double value = pooled(c, image, i / side, i % side, out);
                loss += c->weighting.exact[at] * value;
                if (output != NULL)
                    output[at] = value;
            }
        }
    }
    return loss;
}

static double conv_slope(const conv_case *c, double *value)
{
    const double old = *value;
    *value = old + STEP;
    const double above = conv_loss(c, NULL);
    *value = old - STEP;
    const double below = conv_loss(c, NULL);
    *value = old;
    return (above - below) / (2 * STEP);
}

static void probe_conv(const conv_case *c, const array *a, const float *gradient, const char *what)
{
    for (int probe = 0; probe < PROBES; probe++) {
        const size_t i = random_next(&randomness) % a->count;
        assert_close((double)gradient[i], conv_slope(c, &a->exact[i]), what, i);
    }
}

static void check_conv(conv_shape shape, int count)
{
    const size_t images = (size_t)count, outputs = images * conv_outputs(&shape);
    conv_case c = {.shape = shape, .count = count};
    c.input = array_new(images * conv_inputs(&shape));
    c.weights = array_new(conv_patch(&shape) * (size_t)shape.out);
    c.bias = array_new((size_t)shape.out);
    c.weighting = array_new(outputs);
    array output = array_new(outputs), d_input = array_new(c.input.count);
    array d_weights = array_new(c.weights.count), d_bias = array_new(c.bias.count);
    array columns = array_new(CHUNK * conv_points(&shape) * conv_patch(&shape));
    array points = array_new(CHUNK * conv_points(&shape) * (size_t)shape.out);
    int32_t *winner = malloc(sizeof *winner * outputs);
    const conv_scratch scratch = {columns.single, points.single};

    conv_forward(&shape, count, c.input.single, c.weights.single, c.bias.single, &scratch,
                 output.single, winner);
    conv_loss(&c, output.exact);
    for (size_t i = 0; i < outputs; i++)
        assert_close((double)output.single[i], output.exact[i], "output", i);

    conv_backward(&shape, count, c.input.single, c.weights.single, c.weighting.single, winner,
                  &scratch, d_weights.single, d_bias.single, d_input.single);
    probe_conv(&c, &c.weights, d_weights.single, "d_weights");
    probe_conv(&c, &c.bias, d_bias.single, "d_bias");
    probe_conv(&c, &c.input, d_input.single, "d_input");

    const array all[] = {c.input, c.weights, c.bias, c.weighting, output,
                         d_input, d_weights, d_bias, columns,     points};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        array_free(all[i]);
    free(winner);
}

static void convolution_of_one_channel(void **state)
{
    (void)state;
    check_conv((conv_shape){.side = 10, .in = 1, .out = 3}, 2);
}

static void convolution_of_many_channels(void **state)
{
    (void)state;
    check_conv((conv_shape){.side = 8, .in = 6, .out = 5}, 3);
}

static void convolution_of_more_images_than_a_chunk(void **state)
{
    (void)state;
    check_conv((conv_shape){.side = 6, .in = 2, .out = 4}, 2 * CHUNK + 3);
}

/* Where all four points are the same, as on an empty background, the first one wins alone. */
static void a_tie_has_one_winner(void **state)
{
    (void)state;
    const conv_shape shape = {.side = 6, .in = 1, .out = 1};
    float input[36] = {0}, weights[25] = {0}, columns[CHUNK * 4 * 25], points[CHUNK * 4];
    float output[1], d_weights[25], d_input[36];
    float bias[1] = {1}, d_output[1] = {3}, d_bias[1];
    int32_t winner[1];
    const conv_scratch scratch = {columns, points};
    conv_forward(&shape, 1, input, weights, bias, &scratch, output, winner);
    assert_int_equal(winner[0], 0);
    conv_backward(&shape, 1, input, weights, d_output, winner, &scratch, d_weights, d_bias,
                  d_input);
    assert_true(d_bias[0] == 3);
}

/* ---- Dense ----------------------------------------------------------------------------------- */

static void dense_is_linear(void **state)
{
    (void)state;
    enum { COUNT = 3, IN = 7, OUT = 5 };
    array input = array_new(COUNT * IN), weights = array_new(IN * OUT), bias = array_new(OUT);
    array r = array_new(COUNT * OUT), output = array_new(COUNT * OUT);
    array d_weights = array_new(IN * OUT), d_bias = array_new(OUT), d_input = array_new(COUNT * IN);
    dense_forward(COUNT, IN, OUT, input.single, weights.single, bias.single, output.single);
    dense_backward(COUNT, IN, OUT, input.single, weights.single, r.single, d_weights.single,
                   d_bias.single, d_input.single);
    for (size_t n = 0; n < COUNT; n++) {
        for (size_t o = 0; o < OUT; o++) {
            double sum = bias.exact[o];
            for (size_t i = 0; i < IN; i++)
                sum += input.exact[n * IN + i] * weights.exact[i * OUT + o];
            assert_close((double)output.single[n * OUT + o], sum, "output", n * OUT + o);
        }
    }
    for (size_t i = 0; i < IN; i++) {
        for (size_t o = 0; o < OUT; o++) {
            double weight = 0, by_bias = 0;
            for (size_t n = 0; n < COUNT; n++) {
                weight += input.exact[n * IN + i] * r.exact[n * OUT + o];
                by_bias += r.exact[n * OUT + o];
            }
            assert_close((double)d_weights.single[i * OUT + o], weight, "d_weights", i * OUT + o);
            assert_close((double)d_bias.single[o], by_bias, "d_bias", o);
        }
        double by_input = 0;
        for (size_t o = 0; o < OUT; o++)
            by_input += weights.exact[i * OUT + o] * r.exact[o];
        assert_close((double)d_input.single[i], by_input, "d_input", i);
    }
    const array all[] = {input, weights, bias, r, output, d_weights, d_bias, d_input};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        array_free(all[i]);
}

static void learning_rate_rises_and_falls(void **state)
{
    (void)state;
    assert_close(learning_rate(1, 0, 100), 0.05, "rate", 0);
    assert_close(learning_rate(1, 19, 100), 1, "rate", 19);
    assert_close(learning_rate(1, 20, 100), 1, "rate", 20);
    assert_close(learning_rate(1, 60, 100), 0.5, "rate", 60);
    assert_close(learning_rate(1, 99, 100), 1 / 80.0, "rate", 99);
    assert_close(learning_rate(1, 0, 1), 1, "rate", 0); /* no step is left out of a short run */
}

int main(int argc, char **argv)
{
    (void)argc;
    gemm_setup(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_of_one_channel),
        cmocka_unit_test(convolution_of_many_channels),
        cmocka_unit_test(convolution_of_more_images_than_a_chunk),
        cmocka_unit_test(a_tie_has_one_winner),
        cmocka_unit_test(dense_is_linear),
        cmocka_unit_test(learning_rate_rises_and_falls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
