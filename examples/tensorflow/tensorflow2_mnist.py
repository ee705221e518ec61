# Trains a network with two convolutions on MNIST, by a loop of its own with a tape; the files of data/mnist
# are enough. Alone, or on N ranks:
#     python examples/tensorflow/tensorflow2_mnist.py
#     rueda run -np 2 python examples/tensorflow/tensorflow2_mnist.py --use-adasum
# The four lines that make it distributed are numbered; the rest is a TensorFlow program like any other.

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Callable, Tuple

import keras
import tensorflow as tf

import rueda.tensorflow as hvd

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "common"))
import mnist
from network import Network, are_right, losses_of

Pair = Tuple[Any, Any]


def take_device() -> None:
    """The GPU of this rank, or the processor where there is none."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")


def make_optimizer(options: argparse.Namespace, compression: Any) -> keras.optimizers.Optimizer:
    """Adasum combines steps, which the optimizer makes, and not gradients."""
    optimizer = keras.optimizers.SGD(mnist.largest_rate(options), options.momentum)
    if options.use_adasum:
        optimizer = hvd.DistributedOptimizer(optimizer, compression=compression, op=hvd.Adasum)  # 3
    return optimizer


def make_step(
    network: Network, optimizer: keras.optimizers.Optimizer, options: argparse.Namespace, compression: Any
) -> Callable[[Any, Any], Pair]:
    """A step on a batch; gives its loss and accuracy."""
    variables = network.trainable_variables

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> Pair:
        with tf.GradientTape() as tape:
            guess = network(images)
            loss = tf.reduce_mean(losses_of(guess, labels))
        if not options.use_adasum:
            tape = hvd.DistributedGradientTape(tape, compression=compression)  # 3: combine what ranks have learned
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss, tf.reduce_mean(are_right(guess, labels))

    return step


def train(network: Network, optimizer: keras.optimizers.Optimizer, step: Callable[..., Pair], options: argparse.Namespace) -> None:
    @tf.function(reduce_retracing=True)
    def examine(images: tf.Tensor, labels: tf.Tensor) -> Pair:
        guess = network(images)
        return tf.reduce_sum(losses_of(guess, labels)), tf.reduce_sum(are_right(guess, labels))

    run = mnist.Run(options, hvd.orthogonality)
    for epoch in run.epochs():
        for images, labels in run.batches(epoch):
            optimizer.learning_rate = run.rate
            loss, accuracy = step(images, labels)
            run.advance(float(loss), float(accuracy), optimizer)
        run.tell_test(*mnist.test(examine, options))
    run.conclude()


def main() -> None:
    options = mnist.parse_options(mnist.make_parser())
    hvd.init()  # 1: join the job
    take_device()  # 2: a GPU of our own; without GPUs the launcher has given us our cores
    network = Network(options.seed)
    compression = hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none
    optimizer = make_optimizer(options, compression)
    optimizer.build(network.trainable_variables)
    hvd.broadcast_variables([*network.variables, *optimizer.variables], root_rank=0)  # 4: all begin alike
    train(network, optimizer, make_step(network, optimizer, options, compression), options)


if __name__ == "__main__":
    main()
