"""Whether the ranks begin with the same values. Where they do not, they train different models, and nothing
else would tell.

Each rank gives one number for each tensor (``_native.digest``); one allreduce of 16 bytes for each compares
them, however many ranks there are. A rank that has joined counts as equal to all.
"""

from __future__ import annotations

import ctypes
import warnings
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from . import _native
from ._basics import rank, size
from ._calls import ALLREDUCE
from ._process_sets import ProcessSet
from ._reduce_op import Max, Min

_I64 = 6


class Difference(NamedTuple):
    """The first tensor that is not the same everywhere, and the two lowest ranks that have it differently."""

    position: int
    ranks: Tuple[int, int]


def find_difference(digests: Sequence[int], name: str, process_set: ProcessSet) -> Optional[Difference]:
    """Compares the ranks' digests, in the order of their tensors, which is the same on all ranks of the set.
    Blocks until all of them have called it with the same ``name``; all get the same answer."""
    count = len(digests)
    if count == 0:
        return None
    extremes = (ctypes.c_int64 * (2 * count))(*digests, *(-digest for digest in digests))
    _combine(extremes, Max, f"{name}.digests", process_set)
    index = next((i for i in range(count) if extremes[i] != -extremes[count + i]), None)
    if index is None:
        return None
    has_highest = digests[index] == extremes[index]
    nobody = size()
    ranks = (ctypes.c_int64 * 2)(rank() if has_highest else nobody, nobody if has_highest else rank())
    _combine(ranks, Min, f"{name}.ranks", process_set)
    return Difference(index, (min(ranks), max(ranks)))


def warn_if_different(
    names: Sequence[str], digests: Sequence[int], name: str, process_set: ProcessSet, remedy: str
) -> None:
    """The same, and one rank says what was found: ``names`` are the tensors', ``remedy`` is what to write."""
    warn(find_difference(digests, name, process_set), names, remedy)


def warn(found: Optional[Difference], names: Sequence[str], remedy: str) -> None:
    """One rank, the lowest of the two, says what was found."""
    if found is None or rank() != found.ranks[0]:
        return
    one, other = found.ranks
    warnings.warn(
        f"{names[found.position]} is not the same on rank {one} and rank {other}: the ranks would train different "
        f"models. Let them begin alike: {remedy}",
        stacklevel=3,
    )


def _combine(numbers: Any, op: int, name: str, process_set: ProcessSet) -> None:
    tensor = (ctypes.addressof(numbers), _I64, (len(numbers),), numbers)
    number = process_set._require_id()
    _native.submit(ALLREDUCE, tensor, None, f"allreduce.{name}", op, 1.0, 1.0, number, 0, 0, None).wait()
