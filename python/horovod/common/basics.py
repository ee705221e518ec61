"""The life of a job and who we are in it, in Horovod's words, and what it is built of, in Horovod's terms."""

from __future__ import annotations

import functools
import json
import subprocess
from typing import Any, Callable, Optional, Sequence, TypeVar, Union

import rueda
from rueda import Adasum, Average, Max, Min, ProcessSet, Product, Sum, is_initialized, shutdown
from rueda._run import find_program

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "Sum",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]

_Call = TypeVar("_Call", bound=Callable[..., Any])


def init(comm: Optional[Any] = None, process_sets: Optional[Union[str, Sequence[ProcessSet]]] = None) -> None:
    """Joins the job; see ``rueda.init``. ``process_sets="dynamic"``: sets can always be added later, so it changes
    nothing."""
    if isinstance(process_sets, str):
        if process_sets not in ("", "dynamic"):
            raise ValueError(f"init(process_sets={process_sets!r}): a list of ProcessSet, or 'dynamic'")
        process_sets = None
    rueda.init(comm, process_sets)


def _needs_init(function: _Call) -> _Call:
    """The same function, whose error before ``init()`` is the sentence that Horovod's users know."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not is_initialized():
            raise ValueError("Horovod has not been initialized; use hvd.init().")
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


size = _needs_init(rueda.size)
local_size = _needs_init(rueda.local_size)
cross_size = _needs_init(rueda.cross_size)
rank = _needs_init(rueda.rank)
local_rank = _needs_init(rueda.local_rank)
cross_rank = _needs_init(rueda.cross_rank)
is_homogeneous = _needs_init(rueda.is_homogeneous)
start_timeline = _needs_init(rueda.start_timeline)
stop_timeline = _needs_init(rueda.stop_timeline)


@_needs_init
def mpi_threads_supported() -> bool:
    """Whether the MPI engine may be used from several threads; without MPI there is nothing to support."""
    return mpi_enabled()


def mpi_enabled() -> bool:
    """Whether MPI moves the data of this job."""
    return is_initialized() and rueda.transport() == "mpi"


def mpi_built() -> bool:
    """Whether this installation has a plug-in for an MPI, as ``rueda doctor`` finds it;
    ``rueda doctor --build-mpi`` makes one where the MPI is. ``mpi_enabled`` tells whether it is in use."""
    return mpi_enabled() or _has_mpi_plugin()


@functools.lru_cache(maxsize=None)
def _has_mpi_plugin() -> bool:
    said = subprocess.run([find_program(), "doctor", "--json"], stdout=subprocess.PIPE, text=True).stdout
    findings = [json.loads(line) for line in said.splitlines()]
    return any(each["check"] == "MPI plug-in" and each["verdict"] == "ok" for each in findings)


def gloo_enabled() -> bool:
    """Whether Rueda's own engine (shared memory, tcp) moves the data of this job."""
    return not mpi_enabled()


def gloo_built() -> bool:
    """Whether there is Rueda's own engine: always."""
    return True


def nccl_built() -> int:
    """Version of NCCL; 0: not there."""
    return 0


def ddl_built() -> bool:
    """An engine of Horovod's that is not there."""
    return False


def ccl_built() -> bool:
    """An engine of Horovod's that is not there."""
    return False


def cuda_built() -> bool:
    """Whether tensors are combined in GPU memory; now they go through the host."""
    return False


def rocm_built() -> bool:
    """As :func:`cuda_built`, for AMD."""
    return False
