"""SyncBatchNorm against BatchNorm on the joined batch."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest
import rueda.torch as hvd
import torch
from ranks import on_ranks

SHAPES: Dict[str, Any] = {
    "rows": lambda n: (n, 3),
    "signal": lambda n: (n, 3, 5),
    "image": lambda n: (n, 3, 4, 2),
    "volume": lambda n: (n, 3, 2, 2, 2),
}
KINDS = {"rows": torch.nn.BatchNorm1d, "signal": torch.nn.BatchNorm1d, "image": torch.nn.BatchNorm2d, "volume": torch.nn.BatchNorm3d}


def parts_of(shape: Any, rows: List[int], dtype: torch.dtype) -> List[torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    return [(torch.randn(shape(n), generator=generator, dtype=torch.float64) * 3 + 1000).to(dtype) for n in rows]


@on_ranks(1, 2, 3)
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "settings",
    [{}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}, {"eps": 1e-2, "momentum": 0.5}],
    ids=str,
)
def test_against_the_joined_batch(kind: str, settings: Dict[str, Any]) -> None:
    """Values, running statistics and gradients; batches of different sizes, one of them empty later."""
    rank, size = hvd.rank(), hvd.size()
    joined, ours = KINDS[kind](3, **settings).double(), hvd.SyncBatchNorm(3, **settings).double()
    for module in (joined, ours):
        if module.affine:
            module.weight.data.copy_(torch.tensor([1.0, -2.0, 0.5]))
            module.bias.data.copy_(torch.tensor([0.1, 0.2, 0.3]))
    for step in range(3):
        rows = [2 + r + step if not (step == 2 and r == 1) else 0 for r in range(size)]
        parts = parts_of(SHAPES[kind], rows, torch.float64)
        whole = torch.cat(parts).requires_grad_()
        mine = parts[rank].clone().requires_grad_()
        cut = slice(sum(rows[:rank]), sum(rows[: rank + 1]))
        wanted, got = joined(whole), ours(mine)
        torch.testing.assert_close(got, wanted[cut], rtol=1e-8, atol=1e-8)
        (wanted**3).sum().backward()
        (got**3).sum().backward()
        torch.testing.assert_close(mine.grad, whole.grad[cut], rtol=1e-6, atol=1e-8)
        if ours.affine:
            for a, b in ((ours.weight, joined.weight), (ours.bias, joined.bias)):
                torch.testing.assert_close(hvd.allreduce(a.grad, op=hvd.Sum), b.grad, rtol=1e-8, atol=1e-8)
    if ours.track_running_stats:
        torch.testing.assert_close(dict(ours.named_buffers()), dict(joined.named_buffers()), rtol=1e-8, atol=1e-8)
    ours.eval(), joined.eval()
    if ours.track_running_stats:  # no communication: on one rank alone
        if rank == 0:
            torch.testing.assert_close(ours(parts[0]), joined(parts[0]), rtol=1e-8, atol=1e-8)
    else:
        torch.testing.assert_close(ours(parts[rank]), joined(whole)[cut], rtol=1e-8, atol=1e-8)


@on_ranks(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_other_types(dtype: torch.dtype) -> None:
    parts = parts_of(SHAPES["image"], [3, 4], torch.float32)
    wanted = torch.nn.BatchNorm2d(3)(torch.cat(parts))[slice(0, 3) if hvd.rank() == 0 else slice(3, 7)]
    got = hvd.SyncBatchNorm(3)(parts[hvd.rank()].to(dtype))
    assert got.dtype == dtype
    if dtype == torch.float32:
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)


@on_ranks(3)
def test_inside_a_training_on_process_sets() -> None:
    members = hvd.add_process_set([0, 1])
    if members.included():
        parts = parts_of(SHAPES["rows"], [2, 5], torch.float64)
        norm = hvd.SyncBatchNorm(3, process_set=members).double()
        cut = slice(0, 2) if hvd.rank() == 0 else slice(2, 7)
        wanted = torch.nn.BatchNorm1d(3).double()(torch.cat(parts))[cut]
        torch.testing.assert_close(norm(parts[members.rank()]), wanted, rtol=1e-8, atol=1e-8)
    hvd.remove_process_set(members)
    with pytest.raises(ValueError, match="2 dimensions"):
        hvd.SyncBatchNorm(3)(torch.ones(3))
    half = hvd.SyncBatchNorm(3).half()
    assert half(torch.randn(4, 3).half()).dtype == torch.float16
    state = torch.nn.BatchNorm2d(3).state_dict()
    hvd.SyncBatchNorm(3).load_state_dict(state)
