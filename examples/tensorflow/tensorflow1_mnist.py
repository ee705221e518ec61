# The same as tensorflow2_mnist.py in the manner of TensorFlow 1, a graph and a session, for programs that
# were written so; tf.compat.v1 still has it all. Alone, or on N ranks:
#     python examples/tensorflow/tensorflow1_mnist.py
#     rueda run -np 2 python examples/tensorflow/tensorflow1_mnist.py --use-adasum
# The four lines that make it distributed are numbered.

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple, Tuple

import numpy
import tensorflow.compat.v1 as tf

import rueda.tensorflow as hvd

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "common"))
import mnist
from network import Network, are_right, losses_of


class Graph(NamedTuple):
    """What is fed into the graph, and what can be asked of it."""

    images: tf.Tensor
    labels: tf.Tensor
    rate: tf.Tensor
    losses: tf.Tensor
    right: tf.Tensor
    optimizer: tf.train.Optimizer
    step: tf.Operation


def make_graph(options: argparse.Namespace) -> Graph:
    images = tf.placeholder(tf.uint8, [None, 28, 28])
    labels = tf.placeholder(tf.uint8, [None])
    rate = tf.placeholder(tf.float32, [])
    guess = Network(options.seed)(images)
    losses = losses_of(guess, labels)
    optimizer = tf.train.MomentumOptimizer(rate, options.momentum)
    optimizer = hvd.DistributedOptimizer(  # 3: combine what the ranks have learned
        optimizer,
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if options.use_adasum else hvd.Average,
    )
    step = optimizer.minimize(tf.reduce_mean(losses), global_step=tf.train.get_or_create_global_step())
    return Graph(images, labels, rate, losses, are_right(guess, labels), optimizer, step)


def session_config() -> tf.ConfigProto:
    """With the GPU of this rank, or without one where there is none."""
    config = tf.ConfigProto()
    config.gpu_options.visible_device_list = str(hvd.local_rank())
    return config


def train(graph: Graph, session: Any, options: argparse.Namespace) -> None:
    def examine(images: numpy.ndarray, labels: numpy.ndarray) -> Tuple[float, float]:
        fed = {graph.images: images, graph.labels: labels}
        losses, right = session.run([graph.losses, graph.right], fed)
        return losses.sum(), right.sum()

    run = mnist.Run(options, hvd.orthogonality)
    for epoch in run.epochs():
        for images, labels in run.batches(epoch):
            fed = {graph.images: images, graph.labels: labels, graph.rate: run.rate}
            _, losses, right = session.run([graph.step, graph.losses, graph.right], fed)
            run.advance(losses.mean(), right.mean(), graph.optimizer)
        run.tell_test(*mnist.test(examine, options))
    run.conclude()


def main() -> None:
    options = mnist.parse_options(mnist.make_parser())
    tf.disable_eager_execution()
    hvd.init()  # 1: join the job
    config = session_config()  # 2: a GPU of our own; without GPUs the launcher has given us our cores
    graph = make_graph(options)
    hooks = [hvd.BroadcastGlobalVariablesHook(root_rank=0)]  # 4: all begin alike
    with tf.train.MonitoredTrainingSession(hooks=hooks, config=config) as session:
        train(graph, session, options)


if __name__ == "__main__":
    main()
