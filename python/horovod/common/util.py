"""What scripts ask about their Horovod, answered for Rueda."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import re
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from horovod.common import basics

EXTENSIONS = ["tensorflow", "torch", "mxnet"]


def _cache(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which is asked only once for the same arguments."""
    return functools.lru_cache(maxsize=None)(function)


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
    return basics.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """Whether there is our own engine: always."""
    return basics.gloo_built()


def nccl_built(verbose: bool = False) -> int:
    """Version of NCCL; 0: not there."""
    return basics.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    """An engine that is not there."""
    return basics.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """An engine that is not there."""
    return basics.ccl_built()


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


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether version ``ver`` is ``target`` or newer. Both have three parts, such as 2.12.0; what comes behind
    the numbers (rc1, +cpu) does not count."""
    return _three_numbers(ver) >= _three_numbers(target)


def _three_numbers(version: str) -> Tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version) if isinstance(version, str) else None
    if found is None:
        raise ValueError(f"{version!r} is no version of three numbers, such as 2.12.0")
    return tuple(int(part) for part in found.groups())
