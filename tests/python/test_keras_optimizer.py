"""rueda.keras.DistributedOptimizer: every optimizer of Keras and every keyword, against one process on the
joined batch."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest
from ranks import on_ranks
from test_tensorflow import ENV, tf  # noqa: F401

keras = pytest.importorskip("keras")
from keras_models import (  # noqa: E402
    BATCH,
    compare_with_one_process,
    equal_on_ranks,
    fit,
    make_data,
    make_model,
    operations,
    own_part,
    same_weights,
)

import rueda.keras as hvd  # noqa: E402

opt = keras.optimizers
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "nesterov": lambda: opt.SGD(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: opt.Adam(0.01, amsgrad=True),
    "adamw": lambda: opt.AdamW(0.01, weight_decay=0.1),
    "rmsprop": lambda: opt.RMSprop(0.01, momentum=0.5, centered=True),
    "adagrad": lambda: opt.Adagrad(0.05),
    "adadelta": lambda: opt.Adadelta(1.0),
    "adamax": lambda: opt.Adamax(0.01),
    "nadam": lambda: opt.Nadam(0.01),
    "ftrl": lambda: opt.Ftrl(0.05),
    "lion": lambda: opt.Lion(0.001),
    "adafactor": lambda: opt.Adafactor(0.01),
    "lamb": lambda: opt.Lamb(0.01),
    "weight decay": lambda: opt.SGD(0.05, weight_decay=0.1),
    "moving average": lambda: opt.SGD(0.05, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3),
    "clipvalue": lambda: opt.SGD(0.1, clipvalue=0.02),
    "clipnorm": lambda: opt.SGD(0.1, clipnorm=0.1),
    "global_clipnorm": lambda: opt.SGD(0.1, global_clipnorm=0.1),
    "schedule": lambda: opt.SGD(opt.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "loss_scale_factor": lambda: opt.SGD(0.05, loss_scale_factor=8.0),
}


@on_ranks(2, long=[3], env=ENV)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers(kind: str) -> None:
    model = compare_with_one_process(hvd.DistributedOptimizer, OPTIMIZERS[kind], rtol=2e-3, atol=2e-5)
    assert equal_on_ranks(model)


class Counting:
    """A compressor of the user's own."""

    calls: List[str] = []

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        Counting.calls.append("compress")
        return tf.cast(tensor, tf.float64), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        Counting.calls.append("decompress")
        return tf.cast(tensor, ctx)


def sgd(rate: float = 0.05) -> Any:
    return opt.SGD(rate, momentum=0.5)


@on_ranks(2, env=ENV)
def test_compression() -> None:
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        wrap = lambda o: hvd.DistributedOptimizer(o, compression=compression)  # noqa: E731
        model = compare_with_one_process(wrap, sgd, rtol=3e-2, atol=3e-3)
        exact = make_model()
        _, _, own_x, own_y = make_data(4)
        fit(exact, hvd.DistributedOptimizer(sgd()), own_x, own_y, BATCH)
        assert any(np.any(a != b) for a, b in zip(model.get_weights(), exact.get_weights()))  # it was rounded
    Counting.calls.clear()
    compare_with_one_process(lambda o: hvd.DistributedOptimizer(o, compression=Counting), sgd)
    assert Counting.calls.count("compress") == Counting.calls.count("decompress") > 0


@on_ranks(2, long=[3], env=ENV)
@pytest.mark.parametrize(
    "keywords",
    [{"gradient_predivide_factor": 2.0}, {"groups": 2}, {"groups": 1}, {"groups": "list"}],
    ids=str,
)
def test_keywords_that_change_nothing_in_the_result(keywords: Dict[str, Any]) -> None:
    def wrap(optimizer: Any) -> Any:
        given = dict(keywords)
        if given.get("groups") == "list":
            given["groups"] = [[each] for each in variables[0].trainable_variables[:2]]
        return hvd.DistributedOptimizer(optimizer, **given)

    variables: List[Any] = []

    def model() -> Any:
        variables.append(make_model())
        return variables[-1]

    compare_with_one_process(wrap, sgd, model=model)


@on_ranks(2, 3, env=ENV)
def test_sums() -> None:
    wrap = lambda o: hvd.DistributedOptimizer(o, op=hvd.Sum)  # noqa: E731
    compare_with_one_process(wrap, lambda: opt.SGD(0.02), lambda: opt.SGD(0.02 * hvd.size()))


def test_bad_keywords() -> None:
    for keywords, word in (
        ({"op": hvd.Max}, "op must be"),
        ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, "Average only"),
        ({"groups": -1}, "groups"),
        ({"backward_passes_per_step": 0}, "at least 1"),
    ):
        with pytest.raises(ValueError, match=word):
            hvd.DistributedOptimizer(opt.SGD(), **keywords)
    with pytest.raises(ValueError, match="give one"):
        hvd.DistributedOptimizer(opt.SGD(gradient_accumulation_steps=2), backward_passes_per_step=2)
    with pytest.raises(ValueError, match="already"):
        hvd.DistributedOptimizer(hvd.DistributedOptimizer(opt.SGD()))


# ---- Sparse gradients -------------------------------------------------------------------------------


def words() -> Any:
    keras.utils.set_random_seed(1)
    layers = [
        keras.Input([5], dtype="int32"),
        keras.layers.Embedding(30, 4),
        keras.layers.Flatten(),
        keras.layers.Dense(2),
    ]
    return keras.Sequential(layers)


@on_ranks(2, 3, env=ENV)
@pytest.mark.parametrize("dense", [False, True])
def test_sparse_gradients(dense: bool) -> None:
    from rueda.tensorflow import _ops

    rng, gathers, gather = np.random.default_rng(2), [], _ops.allgather
    x = rng.integers(0, 30, size=(4 * BATCH * hvd.size(), 5))
    y = rng.normal(size=(len(x), 2)).astype("float32")
    make = sgd if dense else lambda: opt.Adam(0.01)  # Keras squares the parts of a sparse gradient one by one
    ours, alone = words(), words()
    _ops.allgather = lambda *args, **keywords: gathers.append(1) or gather(*args, **keywords)
    try:
        fit(ours, hvd.DistributedOptimizer(make(), sparse_as_dense=dense), own_part(x), own_part(y), BATCH)
    finally:
        _ops.allgather = gather
    fit(alone, make(), x, y, BATCH * hvd.size())
    same_weights(ours, alone)
    assert bool(gathers) != dense


# ---- Accumulation -----------------------------------------------------------------------------------


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("op", ["average", "adasum"])
@pytest.mark.parametrize("mean", [False, True])
def test_passes_communicate_only_when_they_must(op: str, mean: bool) -> None:
    _, _, x, y = make_data()
    model, kind = make_model(), hvd.Adasum if op == "adasum" else hvd.Average
    optimizer = hvd.DistributedOptimizer(
        opt.SGD(0.05), op=kind, backward_passes_per_step=3, average_aggregated_gradients=mean
    )
    model.compile(optimizer, "mse")
    alone = make_model()
    alone.compile(opt.SGD(0.05), "mse")
    part = lambda i: (x[i * BATCH : (i + 1) * BATCH], y[i * BATCH : (i + 1) * BATCH])  # noqa: E731
    counts = [operations(lambda: model.train_on_batch(*part(i))) for i in range(6)]
    # one for each variable, in every third batch; the first also compares how the ranks begin
    assert counts == [0, 0, 5, 0, 0, 4], counts
    assert equal_on_ranks(model)
    if op == "average":
        factor = 1 if mean else 3
        alone.optimizer.learning_rate = 0.05 * factor
        for first in (0, 3 * BATCH):
            rows = [hvd.allgather_object(each[first : first + 3 * BATCH]) for each in (x, y)]
            alone.train_on_batch(*[np.concatenate(each) for each in rows])
        same_weights(model, alone)


@on_ranks(2, env=ENV)
def test_adasum_of_accumulated_updates() -> None:
    _, _, x, y = make_data()
    once, twice = make_model(), make_model()
    once.compile(hvd.DistributedOptimizer(opt.SGD(0.05), op=hvd.Adasum), "mse")
    both = hvd.DistributedOptimizer(
        opt.SGD(0.05), op=hvd.Adasum, backward_passes_per_step=2, average_aggregated_gradients=True
    )
    twice.compile(both, "mse")
    once.train_on_batch(x[: 2 * BATCH], y[: 2 * BATCH])
    for first in (0, BATCH):
        twice.train_on_batch(x[first : first + BATCH], y[first : first + BATCH])
    same_weights(once, twice)
    assert 0 < hvd.orthogonality() < 2


@on_ranks(2, 3, env=ENV)
@pytest.mark.parametrize("kind", ["moving average", "weight decay", "adamw", "clipnorm"])
def test_adasum_with_everything_else(kind: str) -> None:
    _, _, x, y = make_data(4)
    model = make_model()
    before = model.get_weights()
    fit(model, hvd.DistributedOptimizer(OPTIMIZERS[kind](), op=hvd.Adasum), x, y, BATCH)
    assert equal_on_ranks(model)
    assert all(np.isfinite(a).all() and np.any(a != b) for a, b in zip(model.get_weights(), before))
    if kind == "moving average":
        average = [v.numpy() for v in model.optimizer._model_variables_moving_average]
        everyone = hvd.allgather_object(average)
        assert all(np.array_equal(a, b) for other in everyone[1:] for a, b in zip(everyone[0], other))


# ---- Process sets and variables that stay local -----------------------------------------------------


@on_ranks(3, env=ENV)
def test_process_sets() -> None:
    x, y, own_x, own_y = make_data(2)
    pair = hvd.add_process_set([0, 2])
    try:
        model, alone = make_model(), make_model()
        fit(model, hvd.DistributedOptimizer(sgd(), process_set=pair), own_x, own_y, BATCH)
        members = [0, 2] if pair.included() else [1]
        joined = lambda a: a.reshape(-1, 3, BATCH, a.shape[1])[:, members].reshape(-1, a.shape[1])  # noqa: E731
        fit(alone, sgd(), joined(x), joined(y), BATCH * len(members))
        same_weights(model, alone)
    finally:
        hvd.remove_process_set(pair)


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("partial", [False, True])
def test_local_variables(scaled: bool, partial: bool) -> None:
    x, y, own_x, own_y = make_data(1)
    model, alone, own = make_model(), make_model(), make_model()
    first, second = model.layers
    if partial:
        optimizer = hvd.PartialDistributedOptimizer(
            opt.SGD(0.1), local_layers=first, scale_local_gradients=scaled
        )
    else:
        optimizer = hvd.DistributedOptimizer(opt.SGD(0.1), scale_local_gradients=scaled)
        for variable in first.trainable_variables:
            optimizer.register_local_var(variable)
    for each, kind, data in (
        (model, optimizer, (own_x, own_y)),
        (alone, opt.SGD(0.1), (x, y)),
        (own, opt.SGD(0.1), (own_x, own_y)),
    ):
        each.compile(kind, "mse")
        each.train_on_batch(*data)
    np.testing.assert_allclose(second.get_weights()[0], alone.layers[1].get_weights()[0], rtol=1e-4, atol=1e-6)
    start = make_model().layers[0].get_weights()[0]
    change = (own.layers[0].get_weights()[0] - start) / (2 if scaled else 1)
    np.testing.assert_allclose(first.get_weights()[0] - start, change, rtol=1e-3, atol=1e-6)
