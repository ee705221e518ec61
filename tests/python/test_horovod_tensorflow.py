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
    "horovod.tensorflow.mpi_ops": "allreduce rank size Average ProcessSet",
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
for module in ("horovod.tensorflow.keras", "rueda.keras", "rueda.tensorflow.keras"):
    NAMES[module] = NAMES["horovod.keras"]
    NAMES[f"{module}.callbacks"] = NAMES["horovod.keras.callbacks"]
    NAMES[f"{module}.elastic"] = NAMES["horovod.keras.elastic"]


@pytest.mark.parametrize("path", NAMES)
def test_names(path: str) -> None:
    module = importlib.import_module(path)
    for name in NAMES[path].split():
        assert hasattr(module, name), name


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
