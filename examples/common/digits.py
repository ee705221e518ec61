"""The files of MNIST as NumPy arrays. An idx file is a magic number (two zero bytes, the type of an
element, the number of dimensions), the extents as big-endian 32-bit numbers, and the elements."""

from __future__ import annotations

import argparse
import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import NamedTuple, Tuple

import numpy

from options import natural

BYTES = 8  # the type of an element, as MNIST has it
CLASSES = 10
DATA = Path(__file__).resolve().parents[2] / "data" / "mnist"


class Digits(NamedTuple):
    """Images (count × 28 × 28) and what they show (count), as bytes."""

    images: numpy.ndarray
    labels: numpy.ndarray


def read_idx(path: Path, dimensions: int) -> numpy.ndarray:
    """An array of bytes, from a file that is gzip-compressed or not. ``ValueError`` says what is wrong
    with it, ``OSError`` why it cannot be read."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: the compressed data is damaged ({error})") from None
    header = 4 + 4 * dimensions
    if len(content) < header or struct.unpack(">HBB", content[:4]) != (0, BYTES, dimensions):
        raise ValueError(f"{path}: not an idx file of bytes with {dimensions} dimensions")
    extents = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != math.prod(extents):
        raise ValueError(f"{path}: {len(content) - header} elements instead of {math.prod(extents)}")
    return numpy.frombuffer(bytearray(content), numpy.uint8, offset=header).reshape(extents)


def find(folder: Path, name: str) -> Path:
    """The file, compressed or not."""
    plain, compressed = folder / name, folder / f"{name}.gz"
    if not plain.exists() and not compressed.exists():
        raise FileNotFoundError(f"{folder} has no {name}[.gz]: give the folder of MNIST's files with --data-dir")
    return plain if plain.exists() else compressed


def load(folder: Path, kind: str, limit: int = 0) -> Digits:
    """The ``train`` or ``t10k`` digits; ``limit`` keeps the first so many, 0 keeps all."""
    images = read_idx(find(folder, f"{kind}-images-idx3-ubyte"), 3)
    labels = read_idx(find(folder, f"{kind}-labels-idx1-ubyte"), 1)
    if len(images) != len(labels) or not len(labels) or labels.max() >= CLASSES:
        raise ValueError(f"{folder}: {len(images)} images and {len(labels)} labels do not belong together")
    limit = limit or len(labels)
    return Digits(images[:limit], labels[:limit])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Where the digits are, and how many of them are wanted."""
    parser.add_argument("--data-dir", type=Path, default=DATA, help="folder of the idx files")
    parser.add_argument("--limit", type=natural, default=0, help="only the first so many images; 0: all")


def load_chosen(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Tuple[Digits, Digits]:
    """Training and test digits as the options say; what is wrong with them ends the program, with 2."""
    try:
        return tuple(load(options.data_dir, kind, options.limit) for kind in ("train", "t10k"))
    except (OSError, ValueError) as error:
        parser.error(str(error))
