"""Starting jobs: ``horovod.run`` for functions, ``horovodrun`` for programs."""

from __future__ import annotations

import warnings
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import rueda
from rueda.exceptions import WorkerError

from horovod.runner._hosts import discover_hosts, pick_ranks
from horovod.runner._mpi import run_by_mpi

__all__ = ["run"]

#: What scripts look for in the error of a job.
_FAILED = (
    "Horovod detected that one or more processes exited with non-zero status, thus causing the job to be terminated"
)


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    num_proc: int = 1,
    min_num_proc: Optional[int] = None,
    max_num_proc: Optional[int] = None,
    slots: Optional[int] = None,
    reset_limit: Optional[int] = None,
    cooldown_range: Optional[Tuple[int, int]] = None,
    hosts: Optional[str] = None,
    hostfile: Optional[str] = None,
    start_timeout: Optional[int] = None,
    ssh_port: Optional[int] = None,
    ssh_identity_file: Optional[str] = None,
    disable_cache: Optional[bool] = None,
    output_filename: Optional[str] = None,
    verbose: Optional[bool] = None,
    use_gloo: Optional[bool] = None,
    use_mpi: Optional[bool] = None,
    mpi_args: Optional[str] = None,
    network_interface: Optional[str] = None,
    executable: Optional[str] = None,
    np: Optional[int] = None,
    min_np: Optional[int] = None,
    max_np: Optional[int] = None,
    network_interfaces: Optional[str] = None,
    host_discovery_script: Optional[str] = None,
) -> List[Any]:
    """Runs ``func(*args, **kwargs)`` on ``num_proc`` ranks and gives their results by rank.

    Blocks until all have ended. When one fails, ``rueda.exceptions.WorkerError`` (a ``RuntimeError``) names
    the rank and has its traceback. ``np``, ``min_np`` and ``max_np`` are old names.

    Elastic: ``host_discovery_script`` is run once and prints a line ``host:slots`` for each host (``slots`` for
    those without a number). With fewer slots than ``num_proc``, but ``min_num_proc``, the job is so small. It
    keeps its size: what changes later is not followed, which a warning says.

    ``use_mpi``: mpirun starts the ranks, with ``mpi_args``; then the function and the results are files in a
    folder, made in the current one where there are other hosts, which must have it, too.
    """
    ranks = num_proc if np is None or num_proc != 1 else np
    fewest, most = min_num_proc or min_np, max_num_proc or max_np
    if sum(each is not None for each in (hosts, hostfile, host_discovery_script)) > 1:
        raise ValueError("horovod.run: hosts come from hosts, hostfile or host_discovery_script: give one of them")
    if use_gloo and use_mpi or mpi_args and not use_mpi:
        raise ValueError("horovod.run: use_mpi, with which mpi_args goes, or use_gloo: give one of them")
    if host_discovery_script is not None:
        hosts = discover_hosts(host_discovery_script, slots)
    if any(each is not None for each in (fewest, most, slots, reset_limit, cooldown_range, host_discovery_script)):
        ranks = pick_ranks(ranks, fewest, most, hosts)
        warnings.warn(
            f"horovod.run: the job keeps its {ranks} ranks; hosts that come or go later are not followed",
            RuntimeWarning,
            stacklevel=2,
        )
    options = _list_options(
        start_timeout=start_timeout,
        ssh_port=ssh_port,
        ssh_identity_file=ssh_identity_file,
        output_filename=output_filename,
        network_interfaces=network_interfaces or network_interface,
    )
    options += ["--verbose"] if verbose else []
    try:
        if use_mpi:
            options += ["--mpi-args", mpi_args] if mpi_args else []
            return run_by_mpi(func, args, kwargs, ranks, hosts, hostfile, executable, options)
        return rueda.run(func, args, kwargs, ranks, hosts, hostfile=hostfile, python=executable, options=options)
    except WorkerError as error:
        raise WorkerError(error.rank, f"{_FAILED}: {error}", "", error.exception) from error


def _list_options(**values: Optional[object]) -> List[str]:
    """As the launcher reads them."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]
