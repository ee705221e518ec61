/* network.c: see network.h. All memory is taken once, when the network is made. */
#include "network.h"

#include "layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEAN 0.1307 /* of the training images' pixels, in 0 … 1 */
#define DEVIATION 0.3081
#define CHANNELS1 32
#define CHANNELS2 64
#define FLAT 1024
#define HIDDEN 128
#define PATCH1 (KERNEL * KERNEL)
#define PATCH2 (KERNEL * KERNEL * CHANNELS1)

static const conv_shape conv1 = {.side = IMAGE_SIDE, .in = 1, .out = CHANNELS1};
static const conv_shape conv2 = {.side = 12, .in = CHANNELS1, .out = CHANNELS2};

enum {
    AT_CONV1 = 0,
    AT_CONV1_BIAS = AT_CONV1 + PATCH1 * CHANNELS1,
    AT_CONV2 = AT_CONV1_BIAS + CHANNELS1,
    AT_CONV2_BIAS = AT_CONV2 + PATCH2 * CHANNELS2,
    AT_DENSE1 = AT_CONV2_BIAS + CHANNELS2,
    AT_DENSE1_BIAS = AT_DENSE1 + FLAT * HIDDEN,
    AT_DENSE2 = AT_DENSE1_BIAS + HIDDEN,
    AT_DENSE2_BIAS = AT_DENSE2 + HIDDEN * CLASSES,
    AT_END = AT_DENSE2_BIAS + CLASSES
};
_Static_assert(AT_END == NETWORK_PARAMETERS, "network.h must tell the number of parameters");

const tensor_place network_tensors[TENSORS] = {
    {"conv1.weights", AT_CONV1, PATCH1 *CHANNELS1, 4, {KERNEL, KERNEL, 1, CHANNELS1}},
    {"conv1.bias", AT_CONV1_BIAS, CHANNELS1, 1, {CHANNELS1}},
    {"conv2.weights", AT_CONV2, PATCH2 *CHANNELS2, 4, {KERNEL, KERNEL, CHANNELS1, CHANNELS2}},
    {"conv2.bias", AT_CONV2_BIAS, CHANNELS2, 1, {CHANNELS2}},
    {"dense1.weights", AT_DENSE1, FLAT *HIDDEN, 2, {FLAT, HIDDEN}},
    {"dense1.bias", AT_DENSE1_BIAS, HIDDEN, 1, {HIDDEN}},
    {"dense2.weights", AT_DENSE2, HIDDEN *CLASSES, 2, {HIDDEN, CLASSES}},
    {"dense2.bias", AT_DENSE2_BIAS, CLASSES, 1, {CLASSES}},
};

/* Inputs of one unit of each tensor: the fewer, the larger the first weights may be. */
static const int fan_in[TENSORS] = {PATCH1, PATCH1, PATCH2, PATCH2, FLAT, FLAT, HIDDEN, HIDDEN};

const subject network_subject = {.title = "MNIST",
                                 .items = "images",
                                 .test = "test accuracy",
                                 .has_accuracy = true,
                                 .guessing = 2.302585, /* ln 10 */
                                 .recovered = 0.5,
                                 .places = network_tensors,
                                 .tensors = TENSORS};

struct network {
    int count; /* images in the batch */
    float pixel[256];
    uint8_t *labels;
    float *input, *maps1, *maps2, *hidden, *logits; /* what each layer gives */
    float *d_maps1, *d_maps2, *d_hidden;            /* and the gradients of that; */
    int32_t *winner1, *winner2;                     /* logits are overwritten by theirs */
    conv_scratch scratch1, scratch2;
    void *blocks[16]; /* all of the above, to free it */
    int block_count;
};

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Aligned to a cache line. NULL after the first failure is noticed at the end, by network_new. */
static void *take(network *net, size_t elements, size_t element_bytes, int *failed)
{
    const size_t bytes = (elements * element_bytes + 63) / 64 * 64;
    void *block = aligned_alloc(64, bytes);
    if (block == NULL) {
        *failed = 1;
        return NULL;
    }
    memset(block, 0, bytes); /* now, not during the first step, are the pages fetched */
    return net->blocks[net->block_count++] = block;
}

static void take_layers(network *net, size_t n, int *failed)
{
    net->labels = take(net, n, 1, failed);
    net->input = take(net, n * IMAGE_PIXELS, sizeof(float), failed);
    net->maps1 = take(net, n * conv_outputs(&conv1), sizeof(float), failed);
    net->maps2 = take(net, n * FLAT, sizeof(float), failed);
    net->hidden = take(net, n * HIDDEN, sizeof(float), failed);
    net->logits = take(net, n * CLASSES, sizeof(float), failed);
    net->d_maps1 = take(net, n * conv_outputs(&conv1), sizeof(float), failed);
    net->d_maps2 = take(net, n * FLAT, sizeof(float), failed);
    net->d_hidden = take(net, n * HIDDEN, sizeof(float), failed);
    net->winner1 = take(net, n * conv_outputs(&conv1), sizeof(int32_t), failed);
    net->winner2 = take(net, n * FLAT, sizeof(int32_t), failed);
}

static void take_scratch(network *net, const conv_shape *s, conv_scratch *scratch, int *failed)
{
    scratch->columns = take(net, CHUNK * conv_points(s) * conv_patch(s), sizeof(float), failed);
    scratch->points = take(net, CHUNK * conv_points(s) * (size_t)s->out, sizeof(float), failed);
}

network *network_new(int capacity)
{
    network *net = calloc(1, sizeof *net);
    int failed = 0;
    if (net == NULL)
        return NULL;
    take_layers(net, (size_t)capacity, &failed);
    take_scratch(net, &conv1, &net->scratch1, &failed);
    take_scratch(net, &conv2, &net->scratch2, &failed);
    for (int i = 0; i < 256; i++)
        net->pixel[i] = (float)((i / 255.0 - MEAN) / DEVIATION);
    if (!failed)
        return net;
    network_free(net);
    return NULL;
}

void network_free(network *net)
{
    if (net == NULL)
        return;
    for (int i = 0; i < net->block_count; i++)
        free(net->blocks[i]);
    free(net);
}

/* ---- Use ------------------------------------------------------------------------------------- */

void network_init_parameters(float *parameters, random_state *random)
{
    for (int t = 0; t < TENSORS; t++) {
        const tensor_place *place = &network_tensors[t];
        const double bound = 1.0 / sqrt((double)fan_in[t]);
        for (size_t i = 0; i < place->count; i++)
            parameters[place->offset + i] = (float)((2 * random_unit(random) - 1) * bound);
    }
}

void network_load(network *net, const dataset *set, const int *indices, int count)
{
    net->count = count;
    for (int i = 0; i < count; i++) {
        const uint8_t *image = set->images + (size_t)indices[i] * IMAGE_PIXELS;
        for (int p = 0; p < IMAGE_PIXELS; p++)
            net->input[i * IMAGE_PIXELS + p] = net->pixel[image[p]];
        net->labels[i] = set->labels[indices[i]];
    }
}

/* Turns one image's logits into the gradient of its loss, which is softmax minus the truth. */
static double softmax_loss(float *logits, int label, int *correct)
{
    int best = 0;
    for (int i = 1; i < CLASSES; i++)
        best = logits[i] > logits[best] ? i : best;
    double sum = 0, powers[CLASSES];
    for (int i = 0; i < CLASSES; i++)
        sum += powers[i] = exp((double)logits[i] - (double)logits[best]);
    const double loss = log(sum) + (double)logits[best] - (double)logits[label];
    for (int i = 0; i < CLASSES; i++)
        logits[i] = (float)(powers[i] / sum - (i == label));
    *correct += best == label;
    return loss;
}

double network_forward(network *net, const float *p, int *correct)
{
    const int n = net->count;
    conv_forward(&conv1, n, net->input, p + AT_CONV1, p + AT_CONV1_BIAS, &net->scratch1, net->maps1,
                 net->winner1);
    conv_forward(&conv2, n, net->maps1, p + AT_CONV2, p + AT_CONV2_BIAS, &net->scratch2, net->maps2,
                 net->winner2);
    dense_forward(n, FLAT, HIDDEN, net->maps2, p + AT_DENSE1, p + AT_DENSE1_BIAS, net->hidden);
    relu_forward((size_t)n * HIDDEN, net->hidden);
    dense_forward(n, HIDDEN, CLASSES, net->hidden, p + AT_DENSE2, p + AT_DENSE2_BIAS, net->logits);
    double loss = 0;
    *correct = 0;
    for (int i = 0; i < n; i++)
        loss += softmax_loss(net->logits + i * CLASSES, net->labels[i], correct);
    return loss;
}

void network_backward(network *net, const float *p, float *g)
{
    const int n = net->count;
    for (int i = 0; i < n * CLASSES; i++)
        net->logits[i] /= (float)n;
    dense_backward(n, HIDDEN, CLASSES, net->hidden, p + AT_DENSE2, net->logits, g + AT_DENSE2,
                   g + AT_DENSE2_BIAS, net->d_hidden);
    relu_backward((size_t)n * HIDDEN, net->hidden, net->d_hidden);
    dense_backward(n, FLAT, HIDDEN, net->maps2, p + AT_DENSE1, net->d_hidden, g + AT_DENSE1,
                   g + AT_DENSE1_BIAS, net->d_maps2);
    conv_backward(&conv2, n, net->maps1, p + AT_CONV2, net->d_maps2, net->winner2, &net->scratch2,
                  g + AT_CONV2, g + AT_CONV2_BIAS, net->d_maps1);
    conv_backward(&conv1, n, net->input, p + AT_CONV1, net->d_maps1, net->winner1, &net->scratch1,
                  g + AT_CONV1, g + AT_CONV1_BIAS, NULL);
}
