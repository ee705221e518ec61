"""horovod.tensorflow and horovod.keras: the names, and a training in the manner of Horovod's documentation."""

from __future__ import annotations

import importlib

import pytest
from ranks import HERE, horovodrun, on_ranks, run_script
from test_tensorflow import ENV, tf  # noqa: F401

keras = pytest.importorskip("keras")

import horovod.keras  # noqa: E402
import horovod.tensorflow as hvd  # noqa: E402
import horovod.tensorflow.keras  # noqa: E402
import rueda.keras  # noqa: E402

SCRIPT_SECONDS = 240
NAMES = {
    "horovod.tensorflow": """allreduce grouped_allreduce allgather grouped_allgather broadcast broadcast_ alltoall
        reducescatter grouped_reducescatter join size_op rank_op local_rank_op local_size_op process_set_included_op
        broadcast_variables broadcast_object broadcast_object_fn allgather_object broadcast_global_variables
        BroadcastGlobalVariablesHook DistributedGradientTape PartialDistributedGradientTape DistributedOptimizer
        Compression init shutdown rank size local_rank Average Sum Adasum ProcessSet global_process_set
        HorovodInternalError SyncBatchNormalization elastic Min Max Product is_initialized start_timeline
        stop_timeline cross_rank cross_size local_size is_homogeneous mpi_threads_supported mpi_enabled mpi_built
        gloo_enabled gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built add_process_set
        remove_process_set""",
    "horovod.tensorflow.elastic": "run TensorFlowKerasState TensorFlowState",
    "horovod.tensorflow.sync_batch_norm": "SyncBatchNormalization",
    "horovod.tensorflow.mpi_ops": "allreduce broadcast_ rank size Average ProcessSet _basics",
    "horovod.tensorflow.util": "_executing_eagerly _make_subgraph _cache",
    "horovod._keras": "create_distributed_optimizer allreduce allgather broadcast reducescatter callbacks elastic",
    "horovod.tensorflow.compression": "Compression",
    "horovod.tensorflow.functions": "broadcast_variables broadcast_object allgather_object",
    "horovod.keras": """DistributedOptimizer PartialDistributedOptimizer load_model allreduce allgather broadcast
        reducescatter broadcast_global_variables callbacks elastic init shutdown rank size local_rank local_size
        Compression Average ProcessSet global_process_set add_process_set remove_process_set is_initialized
        start_timeline stop_timeline mpi_built gloo_built nccl_built""",
    "horovod.keras.elastic": """run KerasState CommitStateCallback UpdateBatchStateCallback
        UpdateEpochStateCallback""",
    "horovod.keras.callbacks": """BroadcastGlobalVariablesCallback MetricAverageCallback LearningRateScheduleCallback
        LearningRateWarmupCallback BestModelCheckpoint""",
}
OLD = {"mpi_built", "gloo_built", "nccl_built"}  # horovod's alone
for module in ("horovod.tensorflow.keras", "rueda.keras", "rueda.tensorflow.keras"):
    NAMES[module] = " ".join(set(NAMES["horovod.keras"].split()) - (OLD if module.startswith("rueda") else set()))
    NAMES[f"{module}.callbacks"] = NAMES["horovod.keras.callbacks"]
    NAMES[f"{module}.elastic"] = NAMES["horovod.keras.elastic"]


@pytest.mark.parametrize("path", NAMES)
def test_names(path: str) -> None:
    module = importlib.import_module(path)
    for name in NAMES[path].split():
        assert hasattr(module, name), name


def test_the_compute_service_says_what_to_do() -> None:
    for name in ("data", "data.compute_service"):
        with pytest.raises(ImportError, match=r"horovod.tensorflow.data is not part of Rueda: .*shard.*migrating"):
            importlib.import_module(f"horovod.tensorflow.{name}")


@on_ranks(2, env=ENV)
def test_keras_collectives_give_tensors() -> None:
    import horovod._keras
    import horovod.tensorflow.keras as hvd

    rank = hvd.rank()
    assert hvd.allreduce(tf.constant([1.0 + rank]), average=False).numpy().tolist() == [3]
    assert hvd.allgather(tf.constant([rank])).numpy().tolist() == [0, 1]
    assert hvd.broadcast([rank, 5], 1).numpy().tolist() == [1, 5]
    assert hvd.reducescatter(tf.constant([[2.0], [4.0]])).numpy().tolist() == [[2.0 + 2 * rank]]
    assert isinstance(horovod._keras.allreduce(keras.backend, tf.ones([2])), tf.Tensor)
    assert isinstance(tf.function(hvd.allreduce)(tf.ones([2])), tf.Tensor)
    with tf.Graph().as_default(), tf.compat.v1.Session():
        assert hvd.allgather(tf.constant([rank])).tolist() == [0, 1]  # computed at once


@on_ranks(2, env=ENV)
def test_what_scripts_reach_by_attributes() -> None:
    assert hvd.mpi_ops._basics.rank() == hvd.rank()
    variable = tf.Variable([hvd.rank(), 7])
    assert hvd.mpi_ops.broadcast_([variable], 1)[0].numpy().tolist() == [1, 7]
    assert hvd.broadcast_object({"rank": hvd.rank()}, 1, session=None, name="thing") == {"rank": 1}
    assert hvd.allgather_object(hvd.rank(), session=None, name="things") == [0, 1]
    assert hvd.allgather_object(hvd.rank(), None, "things") == [0, 1]


@on_ranks(2, env=ENV)
def test_arguments_that_rueda_does_not_need() -> None:
    """By their places, which are Horovod's."""
    import horovod.keras
    import rueda.tensorflow

    rank, ones = hvd.rank(), tf.ones([2, 1])
    everyone, none = hvd.global_process_set, hvd.Compression.none
    results = [
        (hvd.allreduce(ones, None, "/cpu:0", "/cpu:0", none, hvd.Sum, 1.0, 3.0, "a", everyone, True), [[6], [6]]),
        (hvd.allreduce(ones, average=False), [[2], [2]]),
        (hvd.grouped_allreduce([ones], False, "/cpu:0", "/cpu:0", none, None, 1.0, 1.0, everyone, True)[0], [[2], [2]]),
        (hvd.allgather(ones[:1] * rank, "b", True, everyone), [[0], [1]]),
        (hvd.grouped_allgather([ones[:1] * rank], "c", True, everyone)[0], [[0], [1]]),
        (hvd.broadcast(ones * rank, 1, "d", True, everyone), [[1], [1]]),
        (hvd.alltoall(ones * rank, [1, 1], "e", True, everyone)[0], [[0], [1]]),
        (hvd.reducescatter(ones, "/cpu:0", none, hvd.Sum, "f", everyone, 1.0, 3.0, True), [[6]]),
        (hvd.grouped_reducescatter([ones], "/cpu:0", none, hvd.Sum, everyone, 1.0, 3.0, True, "g")[0], [[6]]),
        (horovod.keras.allreduce(ones, "h", False, 1.0, 3.0, None, none), [[6], [6]]),
    ]
    for i, (result, wanted) in enumerate(results):
        assert result.numpy().tolist() == wanted, i
    variable = tf.Variable([float(rank)])
    hvd.broadcast_variables([variable], 1, everyone, True)
    assert variable.numpy().tolist() == [1]
    with pytest.raises(ValueError, match="op and average"):
        hvd.allreduce(ones, average=True, op=hvd.Sum)
    for call in (lambda: rueda.tensorflow.allreduce(ones, False), lambda: rueda.tensorflow.allgather(ones, "b", True)):
        with pytest.raises(TypeError):
            call()


@on_ranks(2, env=ENV)
def test_devices_of_tapes_optimizers_and_callbacks() -> None:
    import horovod.keras

    none, variable = hvd.Compression.none, tf.Variable(1.0)
    for wrap in (hvd.DistributedGradientTape, hvd.PartialDistributedGradientTape):
        with tf.GradientTape() as tape:
            loss = variable * (1.0 + hvd.rank())
        tape = wrap(tape, "/cpu:0", "/cpu:0", none, False, hvd.Sum, num_groups=1)
        assert float(tape.gradient(loss, variable)) == 3
    with pytest.raises(ValueError, match="num_groups is -1"):
        hvd.DistributedGradientTape(tf.GradientTape(), num_groups=-1)
    for optimizer in (
        hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), "o", False, "/cpu:0", "/cpu:0", none, False, 1, hvd.Sum),
        horovod.keras.DistributedOptimizer(keras.optimizers.SGD(1.0), "o", "/cpu:0", "/cpu:0", none, False, 1.0, hvd.Sum),
        horovod.keras.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), "o", "/cpu:0", "/cpu:0", op=hvd.Sum),
    ):
        variable.assign(1.0)
        optimizer.apply_gradients([(tf.constant(1.0), variable)])
        assert float(variable) == -1
    assert horovod.keras.callbacks.BroadcastGlobalVariablesCallback(1, "/cpu:0").device == "/cpu:0"
    assert isinstance(horovod.keras.callbacks.MetricAverageCallback("/cpu:0"), rueda.keras.callbacks.MetricAverageCallback)
    assert hvd.BroadcastGlobalVariablesHook(1, "/cpu:0").root_rank == 1


@on_ranks(2, env=ENV)
def test_gradients_of_a_tape_in_two_lists() -> None:
    own, shared = tf.Variable(2.0), tf.Variable(3.0)
    for keywords in ({}, {"use_generic_names": True}):
        with tf.GradientTape(persistent=True) as tape:
            loss = (1.0 + hvd.rank()) * (own + 2 * shared)
        tape = hvd.DistributedGradientTape(tape, scale_local_gradients=False)
        tape.register_local_source(own)
        gradients = tape.gradient(loss, [shared, own], **keywords)
        assert [float(g) for g in gradients] == [3, 1 + hvd.rank()]
        local, combined = tape.get_local_and_global_gradients(loss, [shared, own], **keywords)
        assert [float(g) for g in local] == [1 + hvd.rank()] and [float(g) for g in combined] == [3]


@pytest.mark.parametrize("name", ["tensorflow2_keras.py", "tensorflow2_elastic.py"])
@pytest.mark.parametrize("keras_2", [False, True])
def test_scripts(name: str, keras_2: bool) -> None:
    if keras_2:
        pytest.importorskip("tf_keras")
    env = {**ENV, "TF_USE_LEGACY_KERAS": "1"} if keras_2 else ENV
    ended = run_script(2, HERE / "horovod_scripts" / name, launcher=horovodrun(), env=env, timeout=SCRIPT_SECONDS)
    assert ended.code == 0, ended
    assert ended.out.count("done") == 2, ended


def test_before_init() -> None:
    for module in (hvd, horovod.keras, horovod.tensorflow.keras):
        module.shutdown()
        with pytest.raises(ValueError, match=r"^Horovod has not been initialized; use hvd.init\(\)\.$"):
            module.rank()


@on_ranks(2, env=ENV)
def test_a_tape() -> None:
    tf.random.set_seed(hvd.rank())
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3)])
    optimizer = keras.optimizers.SGD(0.01 * hvd.size())
    data = tf.random.normal([8, 4])

    @tf.function
    def training_step(first_batch: bool) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(data)))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        if first_batch:
            hvd.broadcast_variables(model.variables, root_rank=0)

    for batch in range(3):
        training_step(batch == 0)
    weights = hvd.allgather_object(model.get_weights()[0].tolist())
    assert weights[0] == weights[1]


@on_ranks(2, env=ENV)
def test_fit() -> None:
    import horovod.tensorflow.keras as hvd

    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size()))
    model.compile(optimizer=optimizer, loss="mse")
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.001 * hvd.size(), warmup_epochs=2, verbose=0),
    ]
    data = tf.random.normal([32, 4]), tf.random.normal([32, 3])
    history = model.fit(*data, batch_size=8, epochs=3, callbacks=callbacks, verbose=0)
    losses = hvd.allgather_object(history.history["loss"])
    assert losses[0] == losses[1]  # averaged over ranks
    weights = hvd.allgather_object(model.get_weights()[0].tolist())
    assert weights[0] == weights[1]
