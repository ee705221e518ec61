"""The network of ../network.c in PyTorch, with the same weights: what is compared against."""

import gzip
import struct

import numpy
import torch
from torch import nn
from torch.nn import functional

MEAN, DEVIATION = 0.1307, 0.3081

# Name, shape in the C program (rows of weights are inputs, channels come last), in its order.
TENSORS = [
    ("conv1.weight", (5, 5, 1, 32)),
    ("conv1.bias", (32,)),
    ("conv2.weight", (5, 5, 32, 64)),
    ("conv2.bias", (64,)),
    ("dense1.weight", (1024, 128)),
    ("dense1.bias", (128,)),
    ("dense2.weight", (128, 10)),
    ("dense2.bias", (10,)),
]
PARAMETERS = sum(int(numpy.prod(shape)) for _, shape in TENSORS)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5)
        self.conv2 = nn.Conv2d(32, 64, 5)
        self.dense1 = nn.Linear(1024, 128)
        self.dense2 = nn.Linear(128, 10)

    def forward(self, images):
        x = functional.relu(functional.max_pool2d(self.conv1(images), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        x = functional.relu(self.dense1(x.flatten(1)))
        return self.dense2(x)


def from_c(name, values):
    """A tensor as the C program lays it out, as PyTorch wants it."""
    if values.ndim == 4:
        return values.transpose(3, 2, 0, 1)
    if name == "dense1.weight":  # the C program's 1024 are row, column, channel
        return values.reshape(4, 4, 64, 128).transpose(3, 2, 0, 1).reshape(128, 1024)
    return values.T if values.ndim == 2 else values


def split(flat):
    """The tensors of a flat array of parameters or gradients, by name, as PyTorch wants them."""
    tensors, at = {}, 0
    for name, shape in TENSORS:
        count = int(numpy.prod(shape))
        tensors[name] = from_c(name, flat[at : at + count].reshape(shape)).copy()
        at += count
    return tensors


def load_parameters(network, flat):
    network.load_state_dict({name: torch.from_numpy(t) for name, t in split(flat).items()})


def load_images(folder, kind, count):
    def read(path, header):
        with gzip.open(path) as file:
            fields = struct.unpack(f">{header}I", file.read(4 * header))
            return fields, numpy.frombuffer(file.read(), dtype=numpy.uint8)

    (_, total, rows, columns), pixels = read(f"{folder}/{kind}-images-idx3-ubyte.gz", 4)
    _, labels = read(f"{folder}/{kind}-labels-idx1-ubyte.gz", 2)
    images = pixels.reshape(total, 1, rows, columns)[:count].astype(numpy.float32)
    images = (images / 255 - MEAN) / DEVIATION
    return torch.from_numpy(images), torch.from_numpy(labels[:count].astype(numpy.int64))
