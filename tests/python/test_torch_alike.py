"""Ranks that do not begin alike are told so at the first step, once, and nobody else is."""

from __future__ import annotations

import warnings
from typing import Any, List

import pytest
import rueda.torch as hvd
import torch
from ranks import on_ranks
from rueda import _alike, _native
from rueda.torch import _tensors
from rueda.torch._alike import _bytes_of
from training import Doubling, batches, loss_of, make_model


def warned(model: torch.nn.Module, steps: int = 3, passes: int = 1, named: bool = True, **wrap: Any) -> List[str]:
    """What this rank was warned of in so many steps."""
    names = model.named_parameters() if named else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, names, backward_passes_per_step=passes, **wrap)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in [parts[hvd.rank()] for parts in batches(steps)]:
            optimizer.zero_grad()
            for _ in range(passes):
                loss_of(model, batch).backward()
            optimizer.step()
    return [str(each.message) for each in caught if "begin alike" in str(each.message)]


def differing(culprit: int) -> torch.nn.Module:
    """One element of the third layer is another on one rank."""
    model = make_model()
    if hvd.rank() == culprit:
        with torch.no_grad():
            model[2].weight[1, 3] += 1
    return model


@on_ranks(3)
@pytest.mark.parametrize("culprit", [0, 1, 2])
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum, hvd.Adasum], ids=["average", "sum", "adasum"])
def test_different_parameters_are_named_once(op: int, culprit: int) -> None:
    said = warned(differing(culprit), op=op)
    assert len(said) == (hvd.rank() == 0), said
    for text in said:
        assert "parameter 2.weight of shape (4, 8) is not the same" in text
        assert f"on rank 0 and rank {culprit or 1}:" in text
        assert "hvd.broadcast_parameters(model.state_dict(), root_rank=0)" in text


@on_ranks(2)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Adasum], ids=["average", "adasum"])
def test_ranks_that_begin_alike_are_not_warned(op: int) -> None:
    assert warned(make_model(), op=op) == []
    model = make_model(seed=hvd.rank())
    hvd.broadcast_parameters(model.state_dict(), root_rank=1)
    assert warned(model, op=op) == []


@on_ranks(2)
@pytest.mark.parametrize("wrap", [{"passes": 2}, {"compression": Doubling}, {"named": False}], ids=str)
def test_however_the_optimizer_is_wrapped(wrap: Any) -> None:
    said = warned(differing(1), **wrap)
    assert len(said) == (hvd.rank() == 0), said
    assert all("of shape (4, 8)" in text for text in said)


@on_ranks(3)
def test_each_process_set_begins_for_itself() -> None:
    """What differs between sets is meant to; what differs within one is not."""
    pair, alone = hvd.add_process_set([0, 2]), hvd.add_process_set([1])
    mine = alone if hvd.rank() == 1 else pair
    assert warned(make_model(seed=hvd.rank() == 1), process_set=mine) == []
    said = warned(differing(2), process_set=mine)
    assert len(said) == (hvd.rank() == 0) and all("rank 0 and rank 2" in text for text in said), said


@on_ranks(3)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Adasum], ids=["average", "adasum"])
def test_a_rank_without_data_does_not_matter(op: int) -> None:
    """The last rank joins at once, the second after one step."""
    model = differing(1)
    said = [] if hvd.rank() == 2 else warned(model, steps=2 - hvd.rank(), op=op)
    hvd.join()
    assert len(said) == (hvd.rank() == 0), said


def digest(tensor: torch.Tensor) -> int:
    return _native.digest(_tensors.native(tensor))


@on_ranks(2)
def test_every_type_of_parameter_is_compared() -> None:
    types = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
    for odd in types:
        tensors = [torch.ones(3, 5, dtype=each).t() for each in types]
        tensors[types.index(odd)][4, 2] += hvd.rank()
        digests = [digest(_bytes_of(tensor)) for tensor in tensors]
        found = _alike.find_difference(digests, "types", hvd.global_process_set)
        assert found == (types.index(odd), (0, 1))


def test_a_digest_tells_bytes_apart() -> None:
    generator = torch.Generator().manual_seed(3)
    for count in (1, 7, 8, 9, 100):
        data = torch.randint(0, 256, (count,), generator=generator, dtype=torch.uint8)
        seen = {digest(data)}
        assert digest(data.clone()) in seen
        for bit in range(8 * count):
            other = data.clone()
            other[bit // 8] ^= 1 << bit % 8
            seen.add(digest(other))
        assert len(seen) == 8 * count + 1
        assert all(0 <= each < 2**63 for each in seen)
    assert digest(torch.zeros(8, dtype=torch.uint8)) != digest(torch.zeros(16, dtype=torch.uint8))
