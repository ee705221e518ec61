"""What scripts ask about their Horovod, answered for Rueda."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from typing import Any, Iterator, List, Optional, Sequence

import rueda

EXTENSIONS = ["tensorflow", "torch", "mxnet"]


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether ``horovod.<ext_base_name>`` can be imported here. Imports it."""
    try:
        importlib.import_module(f"horovod.{ext_base_name}")
    except ImportError as error:
        if verbose:
            print(error)
        return False
    return True


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Nothing is built for a framework, so there is nothing to find; raises if the module is not there."""
    importlib.import_module(ext_name)


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether the framework sees a GPU."""
    if ext_base_name == "torch" and importlib.util.find_spec("torch") is not None:
        return bool(importlib.import_module("torch").cuda.is_available())
    return False


def mpi_built(verbose: bool = False) -> bool:
    """Whether there is an engine for MPI."""
    return rueda.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """Whether there is our own engine: always."""
    return rueda.gloo_built()


def nccl_built(verbose: bool = False) -> int:
    """Version of NCCL; 0: not there."""
    return rueda.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    """An engine that is not there."""
    return rueda.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """An engine that is not there."""
    return rueda.ccl_built()


@contextlib.contextmanager
def env(**kwargs: Optional[str]) -> Iterator[None]:
    """Environment variables for a while; None leaves one as it is."""
    wanted = {name: value for name, value in kwargs.items() if value is not None}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether it is 1, 2, 4, …. Rueda's Adasum takes any number of ranks."""
    return num_rank > 0 and num_rank.bit_count() == 1


def split_list(l: Sequence[Any], n: int) -> List[Sequence[Any]]:  # noqa: E741
    """``n`` parts whose lengths differ by one at most, the longer ones first."""
    whole, rest = divmod(len(l), n)
    ends = [whole * (i + 1) + min(i + 1, rest) for i in range(n)]
    return [l[start:end] for start, end in zip([0, *ends], ends)]


def is_iterable(x: Any) -> bool:
    """Whether ``for each in x`` works."""
    try:
        iter(x)
    except TypeError:
        return False
    return True


def check_installed_version(name: str, version: str, exception: Optional[BaseException] = None) -> None:
    """Nothing is built for one version of a framework, so all are right."""
