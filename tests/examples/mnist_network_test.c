/* ctest: timeout=60 */
/* The whole network's gradient: walking a little along it must change the loss by as much as its
 * length says, tensor by tensor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/combine.h"
#include "gemm.h"
#include "network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IMAGES 6
#define WAY 2e-3 /* ± along a direction; the loss is only as exact as float */
#define TOLERANCE 0.02

typedef struct fixture {
    network *net;
    dataset set;
    float *parameters, *gradient, *moved;
    int indices[IMAGES];
} fixture;

static int set_up(void **state)
{
    static fixture f;
    const size_t bytes = sizeof(float) * NETWORK_PARAMETERS;
    random_state random = {5};
    f.net = network_new(IMAGES);
    f.set = (dataset){IMAGES, malloc(IMAGES * IMAGE_PIXELS), malloc(IMAGES)};
    f.parameters = malloc(bytes);
    f.gradient = malloc(bytes);
    f.moved = malloc(bytes);
    for (int i = 0; i < IMAGES * IMAGE_PIXELS; i++)
        f.set.images[i] = (uint8_t)random_next(&random);
    for (int i = 0; i < IMAGES; i++) {
        f.set.labels[i] = (uint8_t)((i * 3) % CLASSES);
        f.indices[i] = i;
    }
    network_init_parameters(f.parameters, &random);
    network_load(f.net, &f.set, f.indices, IMAGES);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    network_free(f->net);
    dataset_free(&f->set);
    free(f->parameters);
    free(f->gradient);
    free(f->moved);
    return 0;
}

/* Mean loss after a walk of `way` along direction d of one tensor. */
static double loss_at(fixture *f, const tensor_place *place, const float *d, double way)
{
    int correct;
    memcpy(f->moved, f->parameters, sizeof(float) * NETWORK_PARAMETERS);
    for (size_t i = 0; i < place->count; i++)
        f->moved[place->offset + i] += (float)(way * (double)d[i]);
    return network_forward(f->net, f->moved, &correct) / IMAGES;
}

static void check_direction(fixture *f, const tensor_place *place, const float *d)
{
    double expected = 0;
    for (size_t i = 0; i < place->count; i++)
        expected += (double)f->gradient[place->offset + i] * (double)d[i];
    const double slope = (loss_at(f, place, d, WAY) - loss_at(f, place, d, -WAY)) / (2 * WAY);
    if (fabs(slope - expected) > TOLERANCE * fabs(expected) + 5e-4)
        fail_msg("%s: slope %g, by the gradient %g", place->name, slope, expected);
}

static void gradient_is_the_slope_of_the_loss(void **state)
{
    fixture *f = *state;
    int correct;
    float *d = malloc(sizeof(float) * NETWORK_PARAMETERS);
    random_state random = {9};
    network_forward(f->net, f->parameters, &correct);
    network_backward(f->net, f->parameters, f->gradient);
    for (int t = 0; t < TENSORS; t++) {
        const tensor_place *place = &network_tensors[t];
        double norm = 0;
        for (size_t i = 0; i < place->count; i++)
            norm += pow((double)f->gradient[place->offset + i], 2);
        assert_true(norm > 0);
        for (size_t i = 0; i < place->count; i++)
            d[i] = f->gradient[place->offset + i] / (float)sqrt(norm);
        check_direction(f, place, d);
        for (size_t i = 0; i < place->count; i++)
            d[i] = random_next(&random) & 1 ? 0.1F : -0.1F;
        for (size_t i = 0; i < place->count; i++) /* half the way of the gradient's, half random */
            d[i] = 0.5F * f->gradient[place->offset + i] / (float)sqrt(norm) +
                   0.5F * d[i] / (float)sqrt((double)place->count);
        check_direction(f, place, d);
    }
    free(d);
}

static void tensors_lie_side_by_side(void **state)
{
    (void)state;
    size_t at = 0;
    for (int t = 0; t < TENSORS; t++) {
        int64_t count = 1;
        for (int i = 0; i < network_tensors[t].ndim; i++)
            count *= network_tensors[t].shape[i];
        assert_int_equal(network_tensors[t].offset, at);
        assert_int_equal(network_tensors[t].count, count);
        at += network_tensors[t].count;
    }
    assert_int_equal(at, NETWORK_PARAMETERS);
}

/* Equal updates average, orthogonal ones add. */
static void workers_combine_by_adasum(void **state)
{
    fixture *f = *state;
    float *updates[2] = {f->gradient, f->moved};
    double norms[TENSORS] = {0};
    for (size_t i = 0; i < NETWORK_PARAMETERS; i++)
        f->gradient[i] = f->moved[i] = 2;
    combine_workers(RUEDA_ADASUM, &network_subject, updates, 2, norms);
    for (size_t i = 0; i < NETWORK_PARAMETERS; i++)
        assert_true(fabsf(f->gradient[i] - 2) < 1e-5F);
    for (size_t i = 0; i < NETWORK_PARAMETERS; i++) {
        f->gradient[i] = i % 2 == 0 ? 3 : 0;
        f->moved[i] = i % 2 == 0 ? 0 : 4;
    }
    combine_workers(RUEDA_ADASUM, &network_subject, updates, 2, norms);
    for (size_t i = 0; i < NETWORK_PARAMETERS; i++)
        assert_true(f->gradient[i] == (i % 2 == 0 ? 3 : 4));
}

int main(int argc, char **argv)
{
    (void)argc;
    gemm_setup(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_is_the_slope_of_the_loss),
        cmocka_unit_test(tensors_lie_side_by_side),
        cmocka_unit_test(workers_combine_by_adasum),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
