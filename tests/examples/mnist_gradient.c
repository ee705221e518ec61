/* mnist_gradient.c DATA COUNT FILE: writes what another program needs to check a gradient: the first
 * weights, and the gradient of the mean loss over the first COUNT training images; float32, in the
 * order of the network's tensors. Prints loss and right answers. Not a test by itself. */
#include "common/random.h"
#include "gemm.h"
#include "network.h"

#include <stdio.h>
#include <stdlib.h>

static int write_out(const char *path, const float *parameters, const float *gradient)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return 1;
    const size_t n = NETWORK_PARAMETERS;
    const int good = fwrite(parameters, sizeof(float), n, file) == n &&
                     fwrite(gradient, sizeof(float), n, file) == n;
    return fclose(file) != 0 || !good;
}

int main(int argc, char **argv)
{
    gemm_setup(argv);
    const int count = argc == 4 ? atoi(argv[2]) : 0;
    dataset set;
    char error[IDX_ERROR_BYTES];
    if (count < 1 || !dataset_load(argv[1], "train", count, &set, error))
        return fprintf(stderr, "mnist_gradient: bad usage, or no images\n"), 1;
    float *parameters = malloc(sizeof(float) * NETWORK_PARAMETERS);
    float *gradient = malloc(sizeof(float) * NETWORK_PARAMETERS);
    int *indices = malloc(sizeof(int) * (size_t)count);
    network *net = network_new(count);
    if (parameters == NULL || gradient == NULL || indices == NULL || net == NULL)
        return 1;
    for (int i = 0; i < count; i++)
        indices[i] = i;
    random_state random = random_stream(1, 0);
    int correct;
    network_init_parameters(parameters, &random);
    network_load(net, &set, indices, count);
    const double loss = network_forward(net, parameters, &correct) / count;
    network_backward(net, parameters, gradient);
    printf("%.8f %d\n", loss, correct);
    const int code = write_out(argv[3], parameters, gradient);
    network_free(net);
    free(indices);
    free(gradient);
    free(parameters);
    dataset_free(&set);
    return code;
}
