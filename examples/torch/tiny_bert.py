# A small BERT: a transformer learns to guess words that were hidden, from the words on both sides. It reads
# this project's own documentation (or --text) and is trained with AdamW, warm-up, clipping and accumulation:
#     python examples/torch/tiny_bert.py
#     rueda run -np 2 python examples/torch/tiny_bert.py --use-adasum

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import List, NamedTuple, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import rueda.torch as hvd

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "common"))
import training
from device import own_device
from options import add_training, positive
from progress import Progress

TREE = Path(__file__).resolve().parents[2]
HIDDEN, UNKNOWN = 0, 1  # words that stand for others
SPECIAL = 2
PART_HIDDEN = 0.15  # of the words; of those 8 of 10 become HIDDEN, one another word, one stays
NOT_ASKED = -100  # cross_entropy leaves such places out
TEST_PART = 0.1  # of the text
CLIP = 1.0  # largest norm of a gradient
WORD = re.compile(r"[a-z]+|\d|[^\sa-z\d]")


class Text(NamedTuple):
    """Words as numbers, to learn from and to be tested with."""

    training: Tensor
    test: Tensor
    words: List[str]


def read_text(files: List[Path], vocabulary: int) -> Text:
    """The most frequent words get numbers, all others are UNKNOWN."""
    found = [word for path in files for word in WORD.findall(path.read_text(errors="replace").lower())]
    frequent = [word for word, _ in sorted(Counter(found).items(), key=lambda row: (-row[1], row[0]))]
    words = ["[hidden]", "[unknown]"] + frequent[: vocabulary - SPECIAL]
    number_of = {word: number for number, word in enumerate(words)}
    numbers = torch.tensor([number_of.get(word, UNKNOWN) for word in found], dtype=torch.int64)
    border = len(numbers) - int(TEST_PART * len(numbers))
    return Text(numbers[:border], numbers[border:], words)


def documentation() -> List[Path]:
    """The text pages of this tree; none where this file stands alone."""
    folders = [TREE, *(TREE / name for name in ("docs", "examples", "experiments", "bench", "src"))]
    return [page for folder in folders for page in sorted(folder.glob("*.md" if folder == TREE else "**/*.md"))]


class Bert(nn.Module):
    """Words and places become vectors, layers of attention mix them, and each place guesses its word."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.words.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words) + self.places.weight[: words.shape[1]]
        return functional.linear(self.norm(self.layers(x)), self.words.weight, self.bias)


def hide(words: Tensor, vocabulary: int, random: torch.Generator) -> Tuple[Tensor, Tensor]:
    """What the network reads, and what it is asked for."""
    chance = torch.rand(words.shape, generator=random)
    others = torch.randint(SPECIAL, vocabulary, words.shape, generator=random)
    shown = torch.where(chance < 0.8 * PART_HIDDEN, HIDDEN, words)
    shown = torch.where((chance >= 0.8 * PART_HIDDEN) & (chance < 0.9 * PART_HIDDEN), others, shown)
    return shown, torch.where(chance < PART_HIDDEN, words, NOT_ASKED)


def batches_of_rank(text: Tensor, epoch: int, options: argparse.Namespace) -> Tensor:
    """This rank's stretches of the text, as passes × batch × length. Stretches begin elsewhere in each epoch;
    all ranks shuffle them alike, and each takes its own share."""
    length = options.length
    start = int(training.shuffle(length, options.seed + epoch)[0])
    count = (len(text) - start) // length
    stretches = text[start : start + count * length].view(count, length)[training.shuffle(count, epoch)]
    share = passes_in_epoch(text, options) * options.batch_size
    return stretches[hvd.rank() * share : (hvd.rank() + 1) * share].view(-1, options.batch_size, length)


def passes_in_epoch(text: Tensor, options: argparse.Namespace) -> int:
    """Forward and backward passes of each rank, the same in all epochs; steps are whole."""
    stretches = (len(text) - options.length) // options.length
    steps = stretches // (hvd.size() * options.batch_size * options.accumulation)
    return steps * options.accumulation


def test(model: nn.Module, text: Tensor, device: torch.device, options: argparse.Namespace) -> Tuple[float, float]:
    """Loss and part of hidden words guessed right, in text that was not learned from; over all ranks."""
    stretches = text[: len(text) // options.length * options.length].view(-1, options.length)
    shown, asked = hide(stretches, options.vocabulary, torch.Generator().manual_seed(0))
    x, y = (each[hvd.rank() :: hvd.size()].to(device) for each in (shown, asked))
    model.eval()
    with torch.no_grad():
        guess = model(x)[y != NOT_ASKED]
    model.train()
    y = y[y != NOT_ASKED]
    loss = functional.cross_entropy(guess, y, reduction="sum").item()
    sums = torch.tensor([loss, (guess.argmax(1) == y).sum().item(), len(y)], dtype=torch.float64)
    loss, right, count = hvd.allreduce(sums, op=hvd.Sum, name="test").tolist()
    return loss / count, right / count


def step_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, passes: Tensor, random: torch.Generator, vocabulary: int
) -> float:
    """One step: several passes add up their gradients, which are clipped and applied. When the last
    backward() returns, averaged gradients are there; Adasum clips each rank's own, and combines in step()."""
    device = next(model.parameters()).device
    total = 0.0
    optimizer.zero_grad()
    for words in passes:
        shown, asked = hide(words, vocabulary, random)
        guess = model(shown.to(device))
        loss = functional.cross_entropy(guess.flatten(0, 1), asked.flatten().to(device)) / len(passes)
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return total


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, text: Text, device: torch.device, options: argparse.Namespace
) -> None:
    steps = passes_in_epoch(text.training, options) // options.accumulation * options.epochs
    if steps == 0 or len(text.test) < options.length * hvd.size():
        raise SystemExit(f"the text has {len(text.training)} words: too few for such batches on {hvd.size()} ranks")
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: training.rate(step, steps))
    progress = Progress(options.progress, hvd.rank(), hvd.size(), options.epochs, steps, "words")
    random = torch.Generator().manual_seed(options.seed * hvd.size() + hvd.rank())
    words_in_step = options.accumulation * options.batch_size * options.length * hvd.size()
    for epoch in range(1, options.epochs + 1):
        progress.start()
        for passes in batches_of_rank(text.training, epoch, options).split(options.accumulation):
            loss = step_of(model, optimizer, passes, random, options.vocabulary)
            schedule.step()
            progress.advance(words_in_step)
            if progress.step % options.log_interval == 0 or progress.step == steps:
                orthogonality = hvd.orthogonality() if options.use_adasum else math.nan
                progress.show(epoch, hvd.metric_average(loss, "loss"), orthogonality=orthogonality)
        progress.stop()
    loss, right = test(model, text.test, device, options)
    progress.say(f"\ntest loss      {loss:.3f} (guessing: {math.log(options.vocabulary):.2f})")
    progress.say(f"guessed right  {100 * right:.1f}% of the hidden words")
    progress.say(f"words/s        {progress.speed:.0f}")
    progress.say(f"time           {progress.seconds:.1f} s")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a small BERT.")
    add_training(parser, epochs=20, batch_size=8, lr=2e-3)
    for name, value, what in [
        ("accumulation", 2, "passes whose gradients are added up in a step"),
        ("length", 64, "words in a stretch of text"),
        ("vocabulary", 1000, "words that are told apart"),
        ("width", 128, "of the vectors"),
        ("layers", 2, "of attention"),
        ("heads", 4, "of each layer"),
    ]:
        parser.add_argument(f"--{name}", type=positive, default=value, help=f"{what} ({value})")
    parser.add_argument("--text", type=Path, nargs="+", help="files to read instead of the documentation")
    options = parser.parse_args()
    if options.width % options.heads:
        parser.error(f"--heads {options.heads} does not divide --width {options.width}")
    files = options.text or documentation()
    if not files:
        parser.error("there is no documentation around this file: give a text with --text")
    try:
        options.read = read_text(files, options.vocabulary)
    except OSError as error:
        parser.error(str(error))
    options.vocabulary = len(options.read.words)
    return options


def main() -> None:
    options = parse_options()
    hvd.init()
    device = own_device()
    torch.manual_seed(options.seed)
    model = Bert(options.vocabulary, options.length, options.width, options.layers, options.heads).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
        backward_passes_per_step=options.accumulation,
        op=hvd.Adasum if options.use_adasum else hvd.Average,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    torch.manual_seed(options.seed + hvd.rank())  # dropout of our own
    if hvd.rank() == 0:
        print(f"{len(options.read.training)} words of text, {sum(p.numel() for p in model.parameters())} parameters")
    train(model, optimizer, options.read, device, options)


if __name__ == "__main__":
    main()
