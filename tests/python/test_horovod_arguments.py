"""Arguments of Horovod's that Rueda has no use for: the package horovod takes them, rueda does not."""

from __future__ import annotations

from typing import Any, Callable, List

import pytest
from ranks import on_ranks

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402
import reference as ref  # noqa: E402
import rueda  # noqa: E402
import rueda.numpy  # noqa: E402
import rueda.torch  # noqa: E402
from horovod.torch import Average, Sum  # noqa: E402


@on_ranks(2, 4)
def test_average_is_the_old_way_to_say_op() -> None:
    inputs = ref.make_all((4,), torch.float32)
    mine = inputs[hvd.rank()]
    for average, op in [(None, Average), (True, Average), (False, Sum)]:
        results = [
            hvd.allreduce(mine, average=average),
            hvd.allreduce_(mine.clone(), average),
            hvd.allreduce_async(mine, average, "a").wait(),
            hvd.allreduce_async_(mine.clone(), average, "b").wait(),
            hvd.grouped_allreduce([mine], average)[0],
            hvd.grouped_allreduce_([mine.clone()], average)[0],
            hvd.grouped_allreduce_async([mine], average, "c").wait()[0],
            hvd.grouped_allreduce_async_([mine.clone()], average, "d").wait()[0],
        ]
        for result in results:
            ref.check(result, ref.reduce(inputs, op), torch.float32)
    twice = hvd.allreduce(mine, None, "e", hvd.Compression.none, Sum, 2.0, 0.5, hvd.global_process_set)
    ref.check(twice, ref.reduce(inputs, Sum), torch.float32)


@on_ranks(2)
def test_op_and_average_at_once() -> None:
    mine = torch.ones(2)
    for function in (hvd.allreduce, hvd.allreduce_, hvd.allreduce_async, hvd.allreduce_async_):
        with pytest.raises(ValueError, match="op and average"):
            function(mine, average=True, op=Sum)
    for function in (hvd.grouped_allreduce, hvd.grouped_allreduce_async):
        with pytest.raises(ValueError, match="op and average"):
            function([mine], average=True, op=Sum)


@on_ranks(2)
def test_join_with_a_device() -> None:
    assert hvd.join(0) in (0, 1)
    assert hvd.join(device=-1) in (0, 1)


@on_ranks(2)
def test_num_groups_is_the_old_way_to_say_groups() -> None:
    results = []
    for arguments in ({}, {"num_groups": 2}, {"num_groups": 2, "groups": 1}):
        parameters = [torch.nn.Parameter(torch.full((3,), float(i))) for i in range(4)]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), **arguments)
        for i, parameter in enumerate(parameters):
            (parameter.sum() * (i + hvd.rank())).backward()
        optimizer.step()
        results.append(torch.stack([parameter.detach() for parameter in parameters]))
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    with pytest.raises(ValueError, match="num_groups is -1"):
        hvd.DistributedOptimizer(torch.optim.SGD([torch.zeros(1)], lr=1.0), num_groups=-1)


@on_ranks(1)
def test_rueda_does_not_take_them() -> None:
    ones = torch.ones(1)
    sgd = torch.optim.SGD([torch.nn.Parameter(ones)], lr=1.0)
    calls: List[Callable[[], Any]] = [
        lambda: rueda.torch.allreduce(ones, average=False),
        lambda: rueda.torch.allreduce(ones, False),
        lambda: rueda.torch.allreduce_async_(ones, False),
        lambda: rueda.torch.grouped_allreduce([ones], False),
        lambda: rueda.torch.join(device=0),
        lambda: rueda.torch.DistributedOptimizer(sgd, num_groups=2),
        lambda: rueda.numpy.allreduce([1.0], average=False),
        lambda: rueda.numpy.grouped_allreduce_([], True),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert not [name for name in dir(rueda) if name.endswith(("_built", "_enabled"))]


@on_ranks(1)
def test_sets_that_are_no_list() -> None:
    hvd.shutdown()
    with pytest.raises(ValueError, match="init\\(process_sets='other'\\): a list of ProcessSet, or 'dynamic'"):
        hvd.init(process_sets="other")
    with pytest.raises(ValueError, match="init\\(process_sets='dynamic'\\): a list of ProcessSet$"):
        rueda.init(process_sets="dynamic")
    assert not hvd.is_initialized()
    hvd.init(process_sets="dynamic")
    assert hvd.is_initialized() and hvd.gloo_enabled() and rueda.transport() == "shm"
