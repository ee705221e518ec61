"""The package horovod: names, signatures, defaults, constants, exceptions; what is not there says so."""

from __future__ import annotations

import importlib
import enum
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

pytest.importorskip("torch")

import horovod  # noqa: E402
import horovod.torch as hvd  # noqa: E402
import rueda.exceptions  # noqa: E402
from horovod.common import exceptions, util  # noqa: E402

#: What functions of horovod.torch take.
SCALES = "prescale_factor=1.0, postscale_factor=1.0"
SET = "process_set=global"
SIGNATURES = {
    "allreduce": f"tensor, average=None, name=None, compression=none, op=None, {SCALES}, {SET}",
    "allreduce_": f"tensor, average=None, name=None, op=None, {SCALES}, {SET}",
    "allreduce_async": f"tensor, average=None, name=None, op=None, {SCALES}, {SET}",
    "allreduce_async_": f"tensor, average=None, name=None, op=None, {SCALES}, {SET}",
    "grouped_allreduce": f"tensors, average=None, name=None, compression=none, op=None, {SCALES}, {SET}",
    "grouped_allreduce_": f"tensors, average=None, name=None, op=None, {SCALES}, {SET}",
    "grouped_allreduce_async": f"tensors, average=None, name=None, op=None, {SCALES}, {SET}",
    "grouped_allreduce_async_": f"tensors, average=None, name=None, op=None, {SCALES}, {SET}",
    "sparse_allreduce_async": f"tensor, name, op, {SET}",
    "allgather": f"tensor, name=None, {SET}",
    "allgather_async": f"tensor, name=None, {SET}",
    "grouped_allgather": f"tensors, name=None, {SET}",
    "grouped_allgather_async": f"tensors, name=None, {SET}",
    "broadcast": f"tensor, root_rank, name=None, {SET}",
    "broadcast_": f"tensor, root_rank, name=None, {SET}",
    "broadcast_async": f"tensor, root_rank, name=None, {SET}",
    "broadcast_async_": f"tensor, root_rank, name=None, {SET}",
    "alltoall": f"tensor, splits=None, name=None, {SET}",
    "alltoall_async": f"tensor, splits=None, name=None, {SET}",
    "reducescatter": f"tensor, name=None, compression=none, op=0, {SET}, {SCALES}",
    "reducescatter_async": f"tensor, name=None, op=0, {SET}, {SCALES}",
    "grouped_reducescatter": f"tensors, name=None, compression=none, op=0, {SET}, {SCALES}",
    "grouped_reducescatter_async": f"tensors, name=None, op=0, {SET}, {SCALES}",
    "join": "device=-1",
    "barrier": SET,
    "poll": "handle",
    "synchronize": "handle",
    "broadcast_parameters": "params, root_rank",
    "broadcast_optimizer_state": "optimizer, root_rank, model=None",
    "broadcast_object": f"obj, root_rank=0, name=None, {SET}",
    "allgather_object": "obj, name=None",
    "DistributedOptimizer": "optimizer, named_parameters=None, compression=none, backward_passes_per_step=1, "
    f"op=0, gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False, {SET}",
    "SyncBatchNorm": "num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
    "ProcessSet": "ranks_or_comm",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
    "init": "comm=None, process_sets=None",
    "start_timeline": "file_path, mark_cycles=False",
    "stop_timeline": "",
    "elastic.run": "func",
    "elastic.TorchState": "model=None, optimizer=None, **kwargs",
    "elastic.ElasticSampler": "dataset, shuffle=True, seed=0",
}
NO_ARGUMENTS = """shutdown is_initialized size local_size cross_size rank local_rank cross_rank is_homogeneous
    mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built ddl_built ccl_built cuda_built
    rocm_built""".split()
SYMBOLS: Dict[str, Any] = {"none": hvd.Compression.none, "global": hvd.global_process_set}


def find(dotted: str) -> Any:
    found: Any = hvd
    for part in dotted.split("."):
        found = getattr(found, part)
    return found


def show(parameter: inspect.Parameter) -> str:
    """As in the table."""
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if parameter.default is inspect.Parameter.empty:
        return parameter.name
    symbol = next((name for name, value in SYMBOLS.items() if parameter.default is value), None)
    default = int(parameter.default) if isinstance(parameter.default, enum.IntEnum) else parameter.default
    return f"{parameter.name}={symbol or repr(default)}"


@pytest.mark.parametrize("name", [*SIGNATURES, *NO_ARGUMENTS])
def test_signature(name: str) -> None:
    wanted = [each for each in SIGNATURES.get(name, "").split(", ") if each]
    ours = [show(each) for each in inspect.signature(find(name)).parameters.values()]
    for want, have in zip(wanted, ours):
        assert have == want or have.startswith(f"{want}=")  # a default where Horovod has none is no harm
    assert len(ours) >= len(wanted)
    assert all("=" in more for more in ours[len(wanted) :])  # what is more than Horovod's can be left out


def test_horovod_run_has_horovods_signature() -> None:
    wanted = """func args kwargs num_proc min_num_proc max_num_proc slots reset_limit cooldown_range hosts hostfile
        start_timeout ssh_port ssh_identity_file disable_cache output_filename verbose use_gloo use_mpi mpi_args
        network_interface executable np min_np max_np network_interfaces host_discovery_script""".split()
    assert list(inspect.signature(horovod.run).parameters) == wanted
    assert inspect.signature(horovod.run).parameters["num_proc"].default == 1


def test_methods_of_optimizer_sampler_and_sets() -> None:
    from rueda.torch._adasum import AdasumMixin
    from rueda.torch.optimizer import AveragingMixin

    for mixin in (AveragingMixin, AdasumMixin):
        for method in ("synchronize", "skip_synchronize", "set_backward_passes_per_step", "step"):
            assert callable(getattr(mixin, method))
    for method in ("set_epoch", "record_batch", "state_dict", "load_state_dict"):
        assert callable(getattr(hvd.elastic.ElasticSampler, method))
    for method in ("size", "rank", "included"):
        assert callable(getattr(hvd.ProcessSet, method))
    unknown = hvd.ProcessSet([2, 0])
    assert unknown.ranks == [0, 2] and unknown.size() is None and unknown.rank() is None
    assert str(unknown) == "ProcessSet(process_set_id=None, ranks=[0, 2], mpi_comm=None)"
    assert hvd.mpi_ops._basics.size is hvd.size
    assert hvd.global_process_set.process_set_id == 0


def test_constants() -> None:
    names = ["Average", "Sum", "Adasum", "Min", "Max", "Product"]
    assert [getattr(hvd, name) for name in names] == list(range(6))
    assert horovod.__version__ == "0.28.1"
    assert isinstance(hvd.nccl_built(), int)
    assert hvd.gloo_built() is True and isinstance(hvd.mpi_built(), bool)


def test_exceptions_are_ruedas_under_horovods_names() -> None:
    assert issubclass(exceptions.HorovodInternalError, RuntimeError)
    assert exceptions.HorovodInternalError is rueda.exceptions.RuedaError is hvd.HorovodInternalError
    assert issubclass(exceptions.HostsUpdatedInterrupt, RuntimeError)
    assert exceptions.HostsUpdatedInterrupt().skip_sync is False
    assert exceptions.HostsUpdatedInterrupt(skip_sync=True).skip_sync is True
    error = exceptions.HorovodVersionMismatchError("torch", "1.0", "2.0")
    assert isinstance(error, ImportError) and (error.version, error.installed_version) == ("1.0", "2.0")


BEFORE_INIT = """size local_size cross_size rank local_rank cross_rank is_homogeneous
    mpi_threads_supported stop_timeline""".split()


@pytest.mark.parametrize("name", BEFORE_INIT)
def test_before_init(name: str) -> None:
    hvd.shutdown()
    with pytest.raises(ValueError) as caught:
        getattr(hvd, name)()
    assert str(caught.value) == "Horovod has not been initialized; use hvd.init()."


PATHS = {
    "horovod": "run",
    "horovod.common.basics": "init rank",
    "horovod.common.elastic": "State ObjectState run_fn",
    "horovod.common.exceptions": "HorovodInternalError HostsUpdatedInterrupt HorovodVersionMismatchError",
    "horovod.common.process_sets": "ProcessSet global_process_set add_process_set remove_process_set",
    "horovod.common.util": "check_extension extension_available gpu_available env split_list num_rank_is_power_2 _cache "
    "is_version_greater_equal_than",
    "horovod.data": "BaseDataLoader AsyncDataLoaderMixin",
    "horovod.data.data_loader_base": "BaseDataLoader AsyncDataLoaderMixin",
    "horovod.runner": "run",
    "horovod.runner.common.util.env": "get_env_rank_and_size",
    "horovod.runner.util.threads": "in_thread",
    "horovod.runner.launch": "run_commandline",
    "horovod.torch.compression": "Compression Compressor NoneCompressor FP16Compressor",
    "horovod.torch.elastic": "run TorchState ElasticSampler",
    "horovod.torch.elastic.sampler": "ElasticSampler",
    "horovod.torch.elastic.state": "TorchState get_handler_registry set_handler_registry StateHandler",
    "horovod.torch.functions": "broadcast_parameters broadcast_optimizer_state broadcast_object allgather_object",
    "horovod.torch.mpi_ops": "allreduce_async_ synchronize poll rank size Average ProcessSet HorovodInternalError",
    "horovod.torch.optimizer": "DistributedOptimizer",
    "horovod.torch.sync_batch_norm": "SyncBatchNorm",
}


@pytest.mark.parametrize("path", PATHS)
def test_import_paths(path: str) -> None:
    module = importlib.import_module(path)
    for name in PATHS[path].split():
        assert hasattr(module, name)


@pytest.mark.parametrize("name", ["spark", "spark.torch", "ray", "mxnet"])
def test_what_is_not_there_says_so(name: str) -> None:
    with pytest.raises(ImportError, match=rf"horovod\.{name.split('.')[0]} is not part of Rueda: .*migrating"):
        importlib.import_module(f"horovod.{name}")


def test_front_ends_that_rueda_lacks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from horovod._absent import front_end

    with pytest.raises(ImportError, match="horovod.other needs rueda.other, which this Rueda does not have"):
        front_end("horovod.other", "rueda.other")


def python(code: str, *paths: Path) -> subprocess.CompletedProcess:
    path = os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_real_horovod_beside_is_reported(tmp_path: Path) -> None:
    quiet = python("import horovod")
    assert quiet.returncode == 0 and "real Horovod" not in quiet.stderr
    folder = tmp_path / "horovod-0.27.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.27.0\n")
    loud = python("import horovod", tmp_path)
    assert loud.returncode == 0
    assert "a real Horovod is installed too (the distribution horovod 0.27.0)" in loud.stderr
    assert "pip uninstall horovod rueda-horovod" in loud.stderr


def test_util_answers_for_rueda() -> None:
    assert util.extension_available("torch") and not util.extension_available("mxnet")
    assert [util.num_rank_is_power_2(n) for n in (0, 1, 3, 8)] == [False, True, False, True]
    assert util.split_list(list(range(7)), 3) == [[0, 1, 2], [3, 4], [5, 6]]
    assert util.is_iterable([]) and not util.is_iterable(1)
    before = dict(os.environ)
    with util.env(RUEDA_TEST_VARIABLE="1", PATH=None):
        assert os.environ["RUEDA_TEST_VARIABLE"] == "1"
    assert dict(os.environ) == before
