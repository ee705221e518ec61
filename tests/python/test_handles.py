"""What every framework's operations have in common: waits with a time limit, operations by name, public names."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

import numpy as np
import pytest
import rueda
import rueda.numpy
import rueda.torch
import torch
from ranks import on_ranks

SHORT = 0.05  # seconds; nothing happens in them

ASYNC = {
    "numpy": lambda: rueda.numpy.allreduce_async(np.ones(3), name="late", op=rueda.Sum),
    "torch": lambda: rueda.torch.allreduce_async(torch.ones(3), name="late", op=rueda.Sum),
    "sized": lambda: rueda.numpy.allgather_async(np.ones(1), name="late"),
    "group": lambda: rueda.torch.grouped_allreduce_async([torch.ones(3)], name="late", op=rueda.Sum),
}


def ready(value: int) -> None:
    """Rank 1 waits here until rank 0 has met its time limit."""
    rueda.numpy.broadcast_object(value, root_rank=0, name="ready")


@on_ranks(2)
@pytest.mark.parametrize("kind", list(ASYNC))
def test_a_wait_takes_a_time_limit(kind: str) -> None:
    """When it has passed nothing is lost: the operation goes on and may be waited for again."""
    if rueda.rank() == 0:
        handle = ASYNC[kind]()
        for wait in (handle.wait, lambda timeout: rueda.numpy.synchronize(handle, timeout)):
            with pytest.raises(TimeoutError, match="late has not ended after 0.05 s"):
                wait(timeout=SHORT)
        assert not rueda.numpy.poll(handle)
        ready(1)
    else:
        ready(0)
        handle = ASYNC[kind]()
    result = handle.wait(timeout=60)
    first = result[0] if kind == "group" else result
    assert [float(each) for each in first] == ([1.0, 1.0] if kind == "sized" else [2.0] * 3)


@on_ranks(2)
@pytest.mark.parametrize("module", ["numpy", "torch"])
def test_a_barrier_and_a_join_take_one_too(module: str, tmp_path: Path) -> None:
    hvd: Any = getattr(rueda, module)
    if rueda.rank() == 0:
        with pytest.raises(TimeoutError, match="barrier has not ended after 0.05 s"):
            hvd.barrier(timeout=SHORT)
    ready(1)
    if rueda.rank() == 1:
        hvd.barrier(timeout=60)  # the first rank has called it already
    hvd.barrier_async().wait(60)
    if rueda.rank() == 0:
        handle = hvd.join_async()
        with pytest.raises(TimeoutError, match="join has not ended after 0.05 s"):
            handle.wait(SHORT)
        (tmp_path / "waited").touch()
    else:
        while not (tmp_path / "waited").exists():
            time.sleep(0.01)
        handle = hvd.join_async()
    assert hvd.synchronize(handle, timeout=60) == 1
    assert hvd.join(timeout=60) in (0, 1)


def test_operations_have_names() -> None:
    assert [str(op) for op in rueda.ReduceOp] == ["Average", "Sum", "Adasum", "Min", "Max", "Product"]
    assert [int(op) for op in rueda.ReduceOp] == list(range(6))
    assert f"{rueda.Sum} {rueda.Sum:>5} {rueda.torch.Adasum}" == "Sum   Sum Adasum"
    assert "Max" in repr(rueda.Max)
    assert rueda.Average == 0 and rueda.adasum is rueda.Adasum and rueda.torch.Min is rueda.numpy.Min
    assert json.dumps({"op": rueda.Product}) == '{"op": 5}'
    assert pickle.loads(pickle.dumps(rueda.Min)) is rueda.Min


@on_ranks(1)
def test_wrong_operations_are_named() -> None:
    calls: "list[Callable[[Any], Any]]" = [
        lambda op: rueda.numpy.allreduce(np.ones(1), op=op),
        lambda op: rueda.torch.allreduce(torch.ones(1), op=op),
        lambda op: rueda.numpy.reducescatter(np.ones(1), op=op),
        lambda op: rueda.torch.reducescatter(torch.ones(1), op=op),
    ]
    for call in calls:
        for wrong in (77, -1, "sum", 0.5):
            with pytest.raises(ValueError, match=f"op={wrong!r} is none of Average, Sum, Adasum, Min, Max and Product"):
                call(wrong)


@pytest.mark.parametrize("module", [rueda, rueda.numpy, rueda.torch], ids=lambda module: module.__name__)
def test_dir_shows_what_is_public(module: ModuleType) -> None:
    shown = [name for name in dir(module) if not name.startswith("__")]
    assert not [name for name in shown if name.startswith("_")]
    assert set(module.__all__) <= set(shown)
    assert {"init", "rank", "Average", "ProcessSet"} <= set(shown)
    assert not {"annotations", "Any", "List", "TYPE_CHECKING", "importlib", "np"} & set(shown)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in shown:
        if name not in ("keras", "tensorflow"):  # which may not be there
            assert getattr(module, name) is not None


def test_dir_of_the_package_shows_the_frameworks() -> None:
    assert {"numpy", "torch", "tensorflow", "keras", "run", "exceptions", "config"} <= set(dir(rueda))
    assert not hasattr(rueda, "no_such_name")
