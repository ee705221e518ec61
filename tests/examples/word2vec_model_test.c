/* ctest: timeout=60 */
/* The gradient against finite differences of the definition, in double; what is done with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model.h"
#include "sparse.h"
#include "words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 21
#define OUTPUTS 6
#define STEP 1e-6

typedef struct vectors {
    double center[SIZE], outputs[OUTPUTS][SIZE];
} vectors;

static double exact_loss(const vectors *v)
{
    double loss = 0;
    for (int o = 0; o < OUTPUTS; o++) {
        double product = 0;
        for (int i = 0; i < SIZE; i++)
            product += v->center[i] * v->outputs[o][i];
        loss -= log(1 / (1 + exp(o == 0 ? -product : product)));
    }
    return loss;
}

static double slope(vectors *v, double *value)
{
    const double old = *value;
    *value = old + STEP;
    const double above = exact_loss(v);
    *value = old - STEP;
    const double below = exact_loss(v);
    *value = old;
    return (above - below) / (2 * STEP);
}

/* Both precisions of the same random vectors; `length` makes products as large as those that occur. */
static void fill(vectors *exact, float *center, float outputs[OUTPUTS][SIZE], double length,
                 uint64_t seed)
{
    random_state random = {seed};
    for (int i = 0; i < SIZE; i++) {
        center[i] = (float)(length * (random_unit(&random) - 0.5));
        exact->center[i] = (double)center[i];
        for (int o = 0; o < OUTPUTS; o++) {
            outputs[o][i] = (float)(length * (random_unit(&random) - 0.5));
            exact->outputs[o][i] = (double)outputs[o][i];
        }
    }
}

static void check_gradient(double length, uint64_t seed)
{
    vectors exact;
    float center[SIZE], outputs[OUTPUTS][SIZE], d_center[SIZE] = {0};
    float d_outputs[OUTPUTS][SIZE] = {{0}};
    const float *rows[OUTPUTS];
    float *d_rows[OUTPUTS];
    fill(&exact, center, outputs, length, seed);
    for (int o = 0; o < OUTPUTS; o++) {
        rows[o] = outputs[o];
        d_rows[o] = d_outputs[o];
    }
    const double loss = model_pair(SIZE, center, rows, OUTPUTS, 1, d_center, d_rows);
    const double tolerance = 1e-5 * (1 + length);
    assert_true(fabs(loss - exact_loss(&exact)) < 1e-5 * (1 + loss));
    for (int i = 0; i < SIZE; i++) {
        assert_true(fabs((double)d_center[i] - slope(&exact, &exact.center[i])) < tolerance);
        for (int o = 0; o < OUTPUTS; o++)
            assert_true(fabs((double)d_outputs[o][i] - slope(&exact, &exact.outputs[o][i])) <
                        tolerance);
    }
}

static void gradient_is_the_slope_of_the_loss(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        check_gradient(0.1, seed);
        check_gradient(1, seed);
        check_gradient(6, seed); /* products far out, where σ is flat */
    }
}

static void huge_products_stay_numbers(void **state)
{
    (void)state;
    float center[SIZE], output[SIZE], d_center[SIZE] = {0}, d_output[SIZE] = {0};
    for (int i = 0; i < SIZE; i++) {
        center[i] = 100;
        output[i] = -100;
    }
    const double loss = model_pair(SIZE, center, (const float *const[]){output}, 1, 1, d_center,
                                   (float *const[]){d_output});
    assert_true(fabs(loss - 100.0 * 100 * SIZE) < 1);
    assert_true(d_center[0] == 100);
}

/* In place and with a negative factor it is a step downhill; the loss is that before the step. */
static void a_step_goes_downhill(void **state)
{
    (void)state;
    vectors exact;
    float center[SIZE], outputs[OUTPUTS][SIZE], d_center[SIZE] = {0};
    float *rows[OUTPUTS];
    fill(&exact, center, outputs, 1, 99);
    for (int o = 0; o < OUTPUTS; o++)
        rows[o] = outputs[o];
    double before = INFINITY;
    for (int step = 0; step < 50; step++) {
        memset(d_center, 0, sizeof d_center);
        const double loss =
            model_pair(SIZE, center, (const float *const *)rows, OUTPUTS, -0.1F, d_center, rows);
        for (int i = 0; i < SIZE; i++)
            center[i] += d_center[i];
        assert_true(loss < before);
        before = loss;
    }
}

/* ---- Sparse rows ----------------------------------------------------------------------------- */

static void workers_have_rows_of_their_own(void **state)
{
    (void)state;
    sparse s;
    assert_true(sparse_init(&s, 100, 3, 2));
    for (int round = 0; round < 3; round++) {
        sparse_clear(&s);
        sparse_next_worker(&s);
        sparse_row(&s, 7)[0] += 1;
        sparse_row(&s, 99)[1] += 2;
        sparse_row(&s, 7)[0] += 1;
        sparse_next_worker(&s);
        sparse_row(&s, 7)[2] += 5;
        const int32_t indices[] = {7, 99, 7};
        const float values[] = {2, 0, 0, 0, 2, 0, 0, 0, 5};
        assert_int_equal(s.count, 3);
        assert_memory_equal(s.indices, indices, sizeof indices);
        assert_memory_equal(s.values, values, sizeof values);
    }
    sparse_free(&s);
}

/* ---- Nearest words --------------------------------------------------------------------------- */

static void nearest_words_are_those_of_the_smallest_angle(void **state)
{
    (void)state;
    enum { WORDS = 40 };
    static char names[WORDS][MAX_WORD_BYTES];
    int64_t counts[WORDS] = {0};
    float vectors_of[WORDS][2];
    for (int i = 0; i < WORDS; i++) { /* directions that turn by 2 degrees, of all lengths */
        const double angle = 0.035 * i;
        snprintf(names[i], sizeof names[i], "w%d", i);
        vectors_of[i][0] = (float)(cos(angle) * (1 + i % 7));
        vectors_of[i][1] = (float)(sin(angle) * (1 + i % 7));
    }
    const vocabulary v = {WORDS, names, counts};
    words w;
    int found[4];
    const int self = 20;
    assert_true(words_init(&w, &v, vectors_of[0], 2));
    assert_int_equal(words_nearest(&w, w.vectors + 2 * self, &self, 1, 4, found), 4);
    assert_int_equal(found[0] + found[1], 2 * self); /* 19 and 21, in any order */
    assert_int_equal(found[2] + found[3], 2 * self);
    assert_int_equal(abs(found[0] - self), 1);
    assert_int_equal(abs(found[2] - self), 2);
    assert_true(isnan(words_partners(&w))); /* none of the list is here */
    words_free(&w);
}

static void partners_and_analogies_are_counted(void **state)
{
    (void)state;
    static char names[][MAX_WORD_BYTES] = {"man", "woman", "king", "queen", "gold", "silver"};
    const float vectors_of[] = {1, 0,  0, /**/ 1, 1, 0, /**/ 1, 0, 1, /**/ 1, 1, 1, /**/
                                0, -1, 0, /**/ 0, 0, -1};
    int64_t counts[6] = {0};
    const vocabulary v = {6, names, counts};
    words w;
    int asked;
    assert_true(words_init(&w, &v, vectors_of, 3));
    assert_int_equal(words_analogies(&w, &asked), 1);
    assert_int_equal(asked, 1);
    assert_true(words_partners(&w) == 1); /* all are among ten */
    words_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_is_the_slope_of_the_loss),
        cmocka_unit_test(huge_products_stay_numbers),
        cmocka_unit_test(a_step_goes_downhill),
        cmocka_unit_test(workers_have_rows_of_their_own),
        cmocka_unit_test(nearest_words_are_those_of_the_smallest_angle),
        cmocka_unit_test(partners_and_analogies_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
