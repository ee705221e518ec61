# Trains a network with two convolutions on MNIST, by Keras' fit; the files of data/mnist are enough. Alone,
# or on N ranks:
#     python examples/keras/keras_mnist.py
#     rueda run -np 2 python examples/keras/keras_mnist.py --use-adasum
# The four lines that make it distributed are numbered; the rest is a Keras program like any other.

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Dict, List

import keras
import tensorflow as tf

import rueda.keras as hvd

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "common"))
import digits
import mnist
from training import rate

Logs = Dict[str, Any]


def make_model() -> keras.Model:
    """The network of examples/c/mnist; it reads bytes."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input([28, 28], dtype="uint8"),
            layers.Rescaling(1 / 255 / mnist.DEVIATION, -mnist.MEAN / mnist.DEVIATION),
            layers.Reshape([28, 28, 1]),
            layers.Conv2D(32, 5, name="conv1"),
            layers.MaxPooling2D(),
            layers.ReLU(),
            layers.Conv2D(64, 5, name="conv2"),
            layers.MaxPooling2D(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(128, "relu", name="dense1"),
            layers.Dense(digits.CLASSES, name="dense2"),
        ]
    )


def take_device() -> None:
    """The GPU of this rank, or the processor where there is none."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")


class Telling(keras.callbacks.Callback):
    """Tells what the other examples tell. Keras gives the means of an epoch's steps so far: what a step adds
    to their sums is its own."""

    def __init__(self, run: mnist.Run) -> None:
        super().__init__()
        self.run = run

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.run.start(epoch + 1)
        self.sums = [0.0, 0.0]

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        sums = [(batch + 1) * logs[name] for name in ("loss", "accuracy")]
        loss, accuracy = (now - before for now, before in zip(sums, self.sums))
        self.sums = sums
        self.run.advance(loss, accuracy, self.model.optimizer)

    def on_test_begin(self, logs: Logs | None = None) -> None:
        self.run.stop()

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        self.run.tell_test(logs["val_loss"], logs["val_accuracy"])

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.run.conclude()


def make_callbacks(run: mnist.Run, options: argparse.Namespace) -> List[keras.callbacks.Callback]:
    largest, in_epoch = mnist.largest_rate(options), run.steps_in_epoch
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=0),  # 4: all begin alike
        hvd.callbacks.MetricAverageCallback(),  # those after it see the averages of all ranks
        hvd.callbacks.LearningRateScheduleCallback(
            largest,
            lambda epoch: rate(round(epoch * in_epoch), run.steps),
            staircase=False,
            momentum_correction=False,  # from step to step the rate hardly changes
            steps_per_epoch=in_epoch,
        ),
    ]
    if options.checkpoint:
        best = hvd.callbacks.BestModelCheckpoint(monitor="val_accuracy", mode="max", filepath=options.checkpoint)
        callbacks.append(best)
    return [*callbacks, Telling(run)]


def model_file(name: str) -> str:
    if not name.endswith(".keras"):
        raise argparse.ArgumentTypeError(f"the name of a model ends with .keras, and {name} does not")
    return name


def parse_options() -> argparse.Namespace:
    parser = mnist.make_parser()
    parser.add_argument("--checkpoint", type=model_file, metavar="FILE.keras", help="rank 0 keeps the best model here")
    return mnist.parse_options(parser)


def main() -> None:
    options = parse_options()
    hvd.init()  # 1: join the job
    take_device()  # 2: a GPU of our own; without GPUs the launcher has given us our cores
    keras.utils.set_random_seed(options.seed)
    model = make_model()
    optimizer = keras.optimizers.SGD(mnist.largest_rate(options), options.momentum)
    optimizer = hvd.DistributedOptimizer(  # 3: combine what the ranks have learned
        optimizer,
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if options.use_adasum else hvd.Average,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    model.fit(
        *mnist.share_of_rank(1, options),
        batch_size=options.batch_size,
        epochs=options.epochs,
        validation_data=tuple(mnist.share_of_test(options)),
        validation_batch_size=mnist.TEST_BATCH,
        callbacks=make_callbacks(mnist.Run(options, hvd.orthogonality), options),
        verbose=0,
    )


if __name__ == "__main__":
    main()
