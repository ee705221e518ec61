"""The network of examples/c/mnist in plain TensorFlow, for both of its ways of running."""

from __future__ import annotations

import math
from typing import Any, List, Tuple

import numpy
import tensorflow as tf

import digits
import mnist

Layer = Tuple[tf.Variable, tf.Variable]


def make_layer(name: str, shape: List[int], random: numpy.random.Generator) -> Layer:
    """Weights and bias, all within what the number of inputs suggests."""
    bound = 1 / math.sqrt(math.prod(shape[:-1]))
    weight, bias = (random.uniform(-bound, bound, each).astype("float32") for each in (shape, shape[-1:]))
    return tf.Variable(weight, name=f"{name}/weight"), tf.Variable(bias, name=f"{name}/bias")


def convolve(x: tf.Tensor, layer: Layer) -> tf.Tensor:
    x = tf.nn.bias_add(tf.nn.conv2d(x, layer[0], strides=1, padding="VALID"), layer[1])
    return tf.nn.relu(tf.nn.max_pool2d(x, 2, 2, "VALID"))


class Network(tf.Module):
    """Gives, for bytes (count × 28 × 28), a number for each digit."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        random = numpy.random.default_rng(seed)
        self.conv1 = make_layer("conv1", [5, 5, 1, 32], random)
        self.conv2 = make_layer("conv2", [5, 5, 32, 64], random)
        self.dense1 = make_layer("dense1", [1024, 128], random)
        self.dense2 = make_layer("dense2", [128, digits.CLASSES], random)

    def __call__(self, images: Any) -> tf.Tensor:
        x = (tf.cast(images, tf.float32)[..., None] / 255 - mnist.MEAN) / mnist.DEVIATION
        x = convolve(convolve(x, self.conv1), self.conv2)
        x = tf.nn.relu(tf.reshape(x, [-1, 1024]) @ self.dense1[0] + self.dense1[1])
        return x @ self.dense2[0] + self.dense2[1]


def losses_of(guess: tf.Tensor, labels: Any) -> tf.Tensor:
    """One number for each image."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), guess)


def are_right(guess: tf.Tensor, labels: Any) -> tf.Tensor:
    """1 for each image that was read right, 0 for others."""
    return tf.cast(tf.equal(tf.argmax(guess, 1, tf.int32), tf.cast(labels, tf.int32)), tf.float32)
