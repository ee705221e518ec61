"""Errors of rueda.tensorflow: TensorFlow's classes, on every rank, and the job goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ranks import HERE, on_ranks, run_script
from tensorflow_cases import ENV, MODES, call, tf

import rueda.tensorflow as hvd
from rueda.tensorflow._ops import grouped_allreduce_named

GRADIENTS = 100


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_errors_have_tensorflows_classes(mode: str) -> None:
    rank = hvd.rank()
    errors = tf.errors
    with pytest.raises(errors.FailedPreconditionError, match="Mismatched ALLREDUCE tensor shapes"):
        call(mode, lambda x: hvd.allreduce(x, name="shape"), np.ones(2 + rank, np.float32))
    with pytest.raises(errors.FailedPreconditionError, match="Mismatched data types"):
        call(mode, lambda x: hvd.allreduce(x, name="type"), np.ones(2, np.float32 if rank else np.float64))
    with pytest.raises(errors.FailedPreconditionError, match="(?i)mismatched"):
        call(mode, lambda x: hvd.allreduce(x, name="op", op=hvd.Max if rank else hvd.Min), np.ones(2, np.float32))
    with pytest.raises(errors.FailedPreconditionError, match="(?i)mismatched"):
        call(mode, lambda x: hvd.allgather(x, name="rows"), np.ones([2, 2 + rank], np.float32))
    with pytest.raises(errors.FailedPreconditionError, match="(?i)root"):
        call(mode, lambda x: hvd.broadcast(x, rank, name="root"), np.ones(2, np.float32))
    with pytest.raises(errors.InvalidArgumentError, match="split"):
        call(mode, lambda x: hvd.alltoall(x, splits=[1, 1, 1], name="splits"), np.ones(3, np.float32))
    with pytest.raises(errors.InvalidArgumentError, match="(?i)rows"):
        call(mode, lambda x: hvd.alltoall(x, splits=[1, 1], name="few"), np.ones(3, np.float32))
    with pytest.raises(errors.InvalidArgumentError, match="7"):
        call(mode, lambda x: hvd.broadcast(x, 7), np.ones(3, np.float32))
    with pytest.raises(errors.InvalidArgumentError, match="(?i)adasum"):
        call(mode, lambda x: hvd.allreduce(x, op=hvd.Adasum), np.ones(3, np.int32))
    with pytest.raises(errors.InvalidArgumentError, match="(?i)average"):
        call(mode, lambda x: hvd.allreduce(x), np.ones(3, np.bool_))
    with pytest.raises((TypeError, errors.InvalidArgumentError)):
        call(mode, lambda x: hvd.allreduce(x), np.ones(3, np.complex64))
    with pytest.raises(errors.InvalidArgumentError, match="name"):
        call(mode, lambda x: hvd.allreduce(x, name="n" * 300), np.ones(3, np.float32))
    np.testing.assert_array_equal(call(mode, lambda x: hvd.allreduce(x, op=hvd.Sum), np.ones(1, np.float32)), [2])


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_who_is_not_in_the_process_set(mode: str) -> None:
    alone = hvd.add_process_set([0])
    calls = [
        lambda x: hvd.allreduce(x, process_set=alone),
        lambda x: hvd.grouped_allreduce([x, x], process_set=alone),
        lambda x: hvd.allgather(x, process_set=alone),
        lambda x: hvd.broadcast(x, 0, process_set=alone),
        lambda x: hvd.reducescatter(x, process_set=alone),
    ]
    for each in calls:
        if hvd.rank() == 0:
            call(mode, each, np.ones(2, np.float32))
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="rank 1 is not in process set"):
                call(mode, each, np.ones(2, np.float32))


@on_ranks(1, env=ENV)
def test_wrong_arguments() -> None:
    with pytest.raises(RuntimeError, match="reducescatter has no Adasum"):
        hvd.reducescatter(tf.ones(2), op=hvd.Adasum)
    with pytest.raises(ValueError, match="op=77 is none of Average"):
        hvd.reducescatter(tf.ones(1), op=77)
    with pytest.raises(ValueError, match="none of Average"):
        hvd.allreduce(tf.ones(1), op=17)
    with pytest.raises(RuntimeError, match="broadcast_variables"):
        hvd.broadcast_global_variables(0)


@on_ranks(2, env=ENV)
def test_a_name_twice_in_flight() -> None:
    """Rank 1 gives the name once rank 0 has given it twice, which the last tensor tells."""

    def start(*names: str) -> Any:
        return grouped_allreduce_named(
            [tf.ones(2)] * len(names),
            [f"allreduce.{name}" for name in names],
            hvd.Compression.none,
            hvd.Sum,
            (1.0, 1.0),
            hvd.global_process_set,
        )

    for _ in range(3):
        if hvd.rank() == 0:
            with pytest.raises(tf.errors.InvalidArgumentError, match="allreduce.twice.*already in flight"):
                start("one", "twice", "twice", "last")
        else:
            start("last")
            start("twice", "one")
        for name in ("one", "twice", "last"):
            assert start(name)[0].numpy().tolist() == [2, 2]


@on_ranks(2, 3, env=ENV)
def test_one_of_many_gradients_is_wrong() -> None:
    variables = [tf.Variable(tf.ones([3])) for _ in range(GRADIENTS)]

    @tf.function(reduce_retracing=True)
    def step(odd: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(v) for v in variables])
        gradients = tape.gradient(loss, variables)
        gradients[50] = tf.concat([gradients[50], odd], 0)
        names = [f"many.{i}" for i in range(GRADIENTS)]
        return grouped_allreduce_named(
            gradients, names, hvd.Compression.none, hvd.Sum, (1.0, 1.0), hvd.global_process_set
        )

    for _ in range(3):
        with pytest.raises(tf.errors.FailedPreconditionError, match="many.50"):
            step(tf.ones([hvd.rank()]))
        assert [float(g[2]) for g in step(tf.ones([0]))] == [hvd.size()] * GRADIENTS


@on_ranks(2, env=ENV)
def test_a_step_that_ends_early_leaves_nothing_behind() -> None:
    """Another operation fails after starts have run: nobody waits for these any more."""

    @tf.function
    def step(x: Any, bad: Any) -> Any:
        total = hvd.allreduce(x, op=hvd.Sum, name="early")
        tf.debugging.Assert(tf.logical_not(bad), ["stop"])
        return total

    for _ in range(20):
        with pytest.raises(tf.errors.InvalidArgumentError, match="stop"):
            step(tf.constant(1.0), tf.constant(True))
        assert float(step(tf.constant(1.0), tf.constant(False))) == 2


@on_ranks(2, env=ENV)
def test_functions_outlive_a_job() -> None:
    step = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
    graph = tf.Graph()
    with graph.as_default():
        total = hvd.allreduce(tf.constant(1.0), op=hvd.Sum)
        session = tf.compat.v1.Session()
    for _ in range(3):
        assert float(step(tf.constant(1.0))) == 2 and session.run(total) == 2
        hvd.shutdown()
        for run in (lambda: step(tf.constant(1.0)), lambda: session.run(total), lambda: hvd.allreduce(tf.ones(1))):
            with pytest.raises((tf.errors.FailedPreconditionError, ValueError), match="initiali[sz]ed"):
                run()
        hvd.init()


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_a_rank_that_leaves_ends_the_waits_of_others(mode: str) -> None:
    if hvd.rank() == 1:
        hvd.shutdown()
    else:
        with pytest.raises((tf.errors.AbortedError, tf.errors.UnknownError)):
            call(mode, lambda x: hvd.allreduce(x), np.ones(3, np.float32))
        hvd.shutdown()
    hvd.init()


@pytest.mark.parametrize("mode", MODES)
def test_a_rank_that_dies_ends_the_waits_of_others(mode: str, tmp_path: Path) -> None:
    script = tmp_path / "die.py"
    script.write_text(f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
from tensorflow_cases import call, hvd, tf
import numpy as np
hvd.init()
run = lambda x: hvd.allreduce(x, name="last")
call({mode!r}, run, np.ones(3, np.float32))
if hvd.rank() == 1:
    os._exit(3)
try:
    call({mode!r}, run, np.ones(3, np.float32))
except (tf.errors.AbortedError, tf.errors.UnknownError) as error:
    print("SEEN", type(error).__name__, flush=True)
    os._exit(0)
""")
    ended = run_script(2, script, env=ENV)
    assert ended.code != 0 and "SEEN" in ended.out, ended
