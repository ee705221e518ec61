"""Starting jobs: ``horovod.run`` for functions, ``horovodrun`` for programs."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple

import rueda

__all__ = ["run"]


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
) -> List[Any]:
    """Runs ``func(*args, **kwargs)`` on ``num_proc`` ranks and gives their results by rank.

    Blocks until all have ended. When one fails, ``rueda.exceptions.WorkerError`` (a ``RuntimeError``) names
    the rank and has its traceback. MPI and elastic jobs are refused (``ValueError``);
    ``np`` is the old name of ``num_proc``.
    """
    elastic = (min_num_proc, max_num_proc, slots, reset_limit, cooldown_range, min_np, max_np)
    if any(each is not None for each in elastic):
        raise ValueError("horovod.run: elastic jobs are not built yet; give num_proc alone")
    if use_mpi or mpi_args:
        raise ValueError("horovod.run: functions run without MPI; start a script by horovodrun --mpi")
    if hosts is not None and hostfile is not None:
        raise ValueError("horovod.run: hosts come from hosts or from hostfile, not from both")
    options = _list_options(
        start_timeout=start_timeout,
        ssh_port=ssh_port,
        ssh_identity_file=ssh_identity_file,
        output_filename=output_filename,
        network_interfaces=network_interface,
    )
    return rueda.run(
        func,
        args,
        kwargs,
        num_proc if np is None or num_proc != 1 else np,
        hosts,
        hostfile=hostfile,
        python=executable,
        options=options + (["--verbose"] if verbose else []),
    )


def _list_options(**values: Optional[object]) -> List[str]:
    """As the launcher reads them."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]
