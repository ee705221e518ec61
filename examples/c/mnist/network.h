/* network.h: the network that reads digits.
 *
 *     28 × 28 → convolution 5 × 5, 32 channels → maxpool 2 → ReLU    12 × 12 × 32
 *             → convolution 5 × 5, 64 channels → maxpool 2 → ReLU     4 × 4 × 64 = 1024
 *             → dense → ReLU                                          128
 *             → dense → softmax, cross-entropy                        10
 *
 * All parameters lie in one array; the table says where each tensor begins. Gradients and updates
 * have the same layout, so a tensor of a gradient is found by the same row.
 */
#ifndef MNIST_NETWORK_H
#define MNIST_NETWORK_H

#include "common/random.h"
#include "common/record.h"
#include "idx.h"

#define TENSORS 8

extern const tensor_place network_tensors[TENSORS];
extern const subject network_subject;
#define NETWORK_PARAMETERS ((size_t)184586)

typedef struct network network; /* the memory between the layers, for batches of up to `capacity` */

network *network_new(int capacity); /* NULL: out of memory */
void network_free(network *net);

/* Weights and biases, uniform in ±1/√fan_in. */
void network_init_parameters(float *parameters, random_state *random);

/* Takes the images as the next batch, normalised. */
void network_load(network *net, const dataset *set, const int *indices, int count);

/* Sum of the losses over the batch, and how many images were read right. */
double network_forward(network *net, const float *parameters, int *correct);

/* After network_forward: the gradient of the *mean* loss of the batch. */
void network_backward(network *net, const float *parameters, float *gradient);

#endif
