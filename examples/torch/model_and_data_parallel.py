# Model parallelism combined with data parallelism, by process sets: two ranks share one model, and two such
# pairs share the images. Trains on MNIST, and with --check compares every step with one process:
#     rueda run -np 4 python examples/torch/model_and_data_parallel.py
#     rueda run -np 4 python examples/torch/model_and_data_parallel.py --check --limit 3200
#
#                  images A           images B
#              ┌──────────────┐   ┌──────────────┐
#     part 0   │    rank 0    │═══│    rank 2    │   ═══ the same weights: gradients are averaged,
#              │      ‖       │   │      ‖       │       once in a step
#     part 1   │    rank 1    │═══│    rank 3    │    ‖  halves of the same layers: activations are
#              └──────────────┘   └──────────────┘       added, in every layer, forward and backward
#                 one model       the same again

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import List, NamedTuple, Tuple, Union

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional

import rueda.torch as hvd

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "common"))
import digits
import training
from options import add_training, positive
from progress import Progress

SIZES = [(784, 512, 128), (128, 512, digits.CLASSES)]  # of each block: inputs, hidden units, outputs
TOLERANCE = 1e-4  # of what --check compares, relative to the largest value


class Grid(NamedTuple):
    """Where a rank stands: its column shares a model with it, its row has the same part of it."""

    column: hvd.ProcessSet
    row: hvd.ProcessSet


def make_grid(parts: int) -> Grid:
    """All ranks make all sets, in the same order, and keep the two that they are in."""
    size, rank = hvd.size(), hvd.rank()
    columns = [make_set(range(start, start + parts)) for start in range(0, size, parts)]
    rows = [make_set(range(part, size, parts)) for part in range(parts)]
    return Grid(columns[rank // parts], rows[rank % parts])


def make_set(ranks: range) -> hvd.ProcessSet:
    if len(ranks) == hvd.size():
        return hvd.global_process_set
    return hvd.add_process_set(list(ranks))


class Block(nn.Module):
    """Two layers, as one process has them."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.into = nn.Linear(inputs, hidden)
        self.out_of = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.out_of(functional.relu(self.into(x)))


class PartOfBlock(nn.Module):
    """Some of a block's hidden units, with all weights that lead to them and from them: the first layer is
    split by its outputs, the second by its inputs. What the units of all ranks give is added."""

    def __init__(self, whole: Block, column: hvd.ProcessSet) -> None:
        super().__init__()
        self.column = column
        values = [parameter.detach() for parameter in whole.parameters()]
        self.own = nn.ParameterList([part.clone() for part in self.part_of(values)])

    def part_of(self, values: List[Tensor]) -> List[Tensor]:
        """The part of this rank, of the parameters or gradients of the whole block."""
        part, parts = self.column.rank(), self.column.size()
        into_weight, into_bias, out_weight, out_bias = values
        own = [into_weight.chunk(parts)[part], into_bias.chunk(parts)[part], out_weight.chunk(parts, dim=1)[part]]
        return own + [out_bias] if part == 0 else own  # a bias that all ranks had would be added too often

    def forward(self, x: Tensor) -> Tensor:
        units = functional.relu(functional.linear(x, self.own[0], self.own[1]))
        share = functional.linear(units, *self.own[2:])
        return hvd.allreduce(share, op=hvd.Sum, process_set=self.column)  # differentiable, like any layer


def make_whole(seed: int) -> nn.Sequential:
    """The model as one process has it. (One that is too large for that would be made part by part.)"""
    torch.manual_seed(seed)
    blocks = [Block(*sizes) for sizes in SIZES]
    return nn.Sequential(nn.Flatten(), blocks[0], nn.ReLU(), blocks[1])


def take_part(whole: nn.Sequential, column: hvd.ProcessSet) -> nn.Sequential:
    return nn.Sequential(*[PartOfBlock(each, column) if isinstance(each, Block) else each for each in whole])


class Reference:
    """The whole model in this one process, trained on the images of all: what --check compares with."""

    def __init__(self, whole: nn.Sequential, options: argparse.Namespace) -> None:
        self.whole, self.worst = whole, 0.0
        self.optimizer = torch.optim.SGD(whole.parameters(), lr=options.lr, momentum=options.momentum)

    def step(self, x: Tensor, y: Tensor, own: nn.Sequential) -> None:
        self.optimizer.zero_grad()
        functional.cross_entropy(self.whole(x), y).backward()
        for whole, part in zip(self.whole, own):
            if isinstance(part, PartOfBlock) and isinstance(whole, Block):
                self.compare(whole, part)
        self.optimizer.step()

    def compare(self, whole: Block, part: PartOfBlock) -> None:
        gradients = [parameter.grad for parameter in whole.parameters() if parameter.grad is not None]
        for parameter, expected in zip(part.own, part.part_of(gradients)):
            difference = (parameter.grad - expected).abs().max() / expected.abs().max()
            self.worst = max(self.worst, difference.item()) if math.isfinite(difference) else math.inf

    def conclude(self, progress: Progress) -> None:
        """The job fails if any rank has found a difference."""
        worst = hvd.allreduce(torch.tensor(self.worst, dtype=torch.float64), op=hvd.Max).item()
        if not worst <= TOLERANCE:
            raise SystemExit(f"the gradients differ from those of one process by {worst:.2g} of the largest")
        progress.say(f"gradients      those of one process, up to {worst:.1g} of the largest")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Model parallelism combined with data parallelism.")
    add_training(parser, epochs=1, batch_size=64, lr=0.05)
    parser.add_argument("--momentum", type=float, default=0.9, help="(0.9)")
    parser.add_argument("--model-ranks", type=positive, default=2, help="ranks that share one model (2)")
    parser.add_argument("--check", action="store_true", help="compare every step with one process")
    digits.add_options(parser)
    options = parser.parse_args()
    if options.check and (options.use_adasum or options.fp16_allreduce):
        parser.error("--check goes with averaging in full: one process does neither Adasum nor rounding")
    options.training, options.test = digits.load_chosen(parser, options)
    return options


def to_tensors(data: digits.Digits, chosen: Union[slice, numpy.ndarray]) -> Tuple[Tensor, Tensor]:
    return torch.from_numpy(data.images[chosen]) / 255.0, torch.from_numpy(data.labels[chosen]).long()


def test(model: nn.Module, data: digits.Digits, grid: Grid) -> float:
    """Accuracy. The ranks of a column read the same images, those of a row different ones."""
    x, y = to_tensors(data, slice(grid.row.rank(), None, grid.row.size()))
    with torch.no_grad():
        right = (model(x).argmax(1) == y).sum()
    counts = hvd.allreduce(torch.stack([right, torch.tensor(len(y))]), op=hvd.Sum, process_set=grid.row)
    return (counts[0] / counts[1]).item()


def train(
    model: nn.Sequential,
    optimizer: torch.optim.Optimizer,
    reference: Reference,
    grid: Grid,
    options: argparse.Namespace,
) -> None:
    joined = options.batch_size * grid.row.size()  # images in a step
    steps = len(options.training.labels) // joined
    if steps == 0:
        raise SystemExit(f"a step takes {joined} images, and there are {len(options.training.labels)}")
    progress = Progress(options.progress, hvd.rank(), hvd.size(), options.epochs, steps * options.epochs)
    own = slice(grid.row.rank() * options.batch_size, (grid.row.rank() + 1) * options.batch_size)
    for epoch in range(1, options.epochs + 1):
        order = training.shuffle(len(options.training.labels), options.seed + epoch)
        progress.start()
        for step in range(steps):
            batch = order[step * joined : (step + 1) * joined]
            x, y = to_tensors(options.training, batch[own])
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            # Every rank of the column has this loss. Their sum must be the loss, or gradients would be too
            # large: the backward of a sum over ranks adds what all of them want.
            (loss / grid.column.size()).backward()
            if options.check:
                reference.step(*to_tensors(options.training, batch), model)
            optimizer.step()
            progress.advance(joined)
            if progress.step % options.log_interval == 0:
                progress.show(epoch, hvd.metric_average(loss.item(), process_set=grid.row))
        progress.stop()
        progress.say(f"epoch {epoch}/{options.epochs}: test accuracy {100 * test(model, options.test, grid):.2f}%")
    progress.say(f"\nimages/s       {progress.speed:.0f}")
    if options.check:
        reference.conclude(progress)


def main() -> None:
    options = parse_options()
    hvd.init()
    if hvd.size() % options.model_ranks:
        raise SystemExit(f"--model-ranks {options.model_ranks} does not divide the {hvd.size()} ranks of the job")
    grid = make_grid(options.model_ranks)
    whole = make_whole(options.seed)
    model = take_part(whole, grid.column)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if options.use_adasum else hvd.Average,
        process_set=grid.row,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=grid.row.ranks[0], process_set=grid.row)
    held, of = (sum(p.numel() for p in each.parameters()) for each in (model, whole))
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks: {grid.row.size()} models, each on {grid.column.size()} ranks")
        print(f"rank 0 holds {held} of {of} parameters", flush=True)
    train(model, optimizer, Reference(whole, options), grid, options)


if __name__ == "__main__":
    main()
