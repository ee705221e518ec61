"""``horovod.run(use_mpi=True)``: mpirun starts the ranks, and gives the standard input to one of them only. So the
call and the results are files, in a folder that all hosts see; ``_mpi_rank`` is the other end."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, List, Mapping, Optional, Sequence

from rueda import _run
from rueda.exceptions import WorkerError


def run_by_mpi(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Optional[Mapping[str, Any]],
    ranks: int,
    hosts: Optional[str],
    hostfile: Optional[str],
    executable: Optional[str],
    options: Sequence[str],
) -> List[Any]:
    """The results by rank; ``WorkerError`` as from ``rueda.run``."""
    words = ["--mpi", "-np", str(ranks), *options]
    words += ["-H", hosts] if hosts else []
    words += ["--hostfile", hostfile] if hostfile else []
    elsewhere = hosts or hostfile
    with tempfile.TemporaryDirectory(prefix=".rueda-run-", dir="." if elsewhere else None) as name:
        folder = Path(name).absolute()
        (folder / "call").write_bytes(_run._pack(func, args, kwargs))
        command = [_run.find_program(), "run", *words, "--", executable or sys.executable]
        code = _run._launch([*command, "-m", "horovod.runner._mpi_rank", str(folder)], None, sys.stdout, sys.stderr)
        return _read(folder, ranks, code)


def _read(folder: Path, ranks: int, code: int) -> List[Any]:
    written = {rank: folder / f"result.{rank}" for rank in range(ranks)}
    outcomes = {rank: _run._unpack(rank, path.read_bytes()) for rank, path in written.items() if path.exists()}
    failures = [(rank, each) for rank, each in outcomes.items() if isinstance(each, WorkerError)]
    if failures:
        raise _run.find_culprit(failures)
    missing = [rank for rank in range(ranks) if rank not in outcomes]
    if missing:
        raise WorkerError(missing[0], f"rank {missing[0]} ended without a result; mpirun ended with {code}")
    if code != 0:
        raise WorkerError(None, f"mpirun ended with {code}")
    return [outcomes[rank][0] for rank in range(ranks)]
