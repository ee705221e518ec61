"""``rueda.run``: a function on many ranks, and what it returns on each.

The function goes to the ranks, and their results come back, through the launcher (``--input``,
``--results``), which already reaches every host: so there is nothing to share, no port to open and nobody
else who could listen, over ssh as well as here. ``_worker.py`` is the other end.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .exceptions import RuedaError, WorkerError

_EXIT_TIMEOUT = 124


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    np: Optional[int] = None,
    hosts: Union[str, Sequence[str], None] = None,
    *,
    hostfile: Optional[str] = None,
    timeout: Optional[float] = None,
    env: Optional[Mapping[str, str]] = None,
    python: Optional[str] = None,
    options: Sequence[str] = (),
    stdout: Optional[Any] = None,
    stderr: Optional[Any] = None,
) -> List[Any]:
    """Runs ``fn(*args, **kwargs)`` on ``np`` ranks and returns their results, by rank. Blocks until all have
    ended. Works in scripts and in notebooks; functions and results travel as pickles, and lambdas, closures
    and what a notebook defines need the package cloudpickle.

    ``hosts``: ``"node1:4,node2:4"`` or a list of such; other hosts need ssh without questions, and rueda and
    Python (``python``, this one if not said) at the same place. Without ``np`` all their slots are used.
    ``env``: more variables for the ranks. ``timeout``: seconds for the whole job (``TimeoutError``).
    ``options``: more words for ``rueda run``. What ranks print appears as it comes, on ``stdout`` and
    ``stderr`` (files; ``sys.stdout`` and ``sys.stderr`` if not said).

    ``WorkerError``: the function failed on a rank, which it names, with the traceback from there; the other
    ranks were ended. Ctrl-C ends all ranks, too, and so does the end of this process.

    >>> import rueda
    >>> def total(start):
    ...     import rueda.numpy as hvd
    ...     hvd.init()
    ...     return float(hvd.allreduce(start + hvd.rank(), op=hvd.Sum))
    >>> rueda.run(total, args=(10.0,), np=2)
    [21.0, 21.0]
    """
    words = _launch_words(np, hosts, hostfile, timeout, env)
    with tempfile.TemporaryFile() as task, tempfile.TemporaryFile() as results, tempfile.TemporaryFile() as events:
        task.write(_pack(fn, args, kwargs))
        task.flush()
        files = [f"--input={_path(task)}", f"--results={_path(results)}", f"--json-file={_path(events)}"]
        command = [find_program(), "run", *words, *files, *options, "--", python or sys.executable]
        code = _launch([*command, "-m", "rueda._worker"], env, stdout or sys.stdout, stderr or sys.stderr)
        return _judge(code, _read_results(results), list(_read_events(events)), timeout)


# ---- What goes out ----------------------------------------------------------------------------------


def _launch_words(
    np: Optional[int],
    hosts: Union[str, Sequence[str], None],
    hostfile: Optional[str],
    timeout: Optional[float],
    env: Optional[Mapping[str, str]],
) -> List[str]:
    if np is None and hosts is None and hostfile is None:
        raise ValueError("on how many ranks? say np=4, or hosts='node1:4,node2:4'")
    words = ["--with-parent"]
    words += [] if np is None else ["-np", str(np)]
    words += [] if hosts is None else ["-H", hosts if isinstance(hosts, str) else ",".join(hosts)]
    words += [] if hostfile is None else ["--hostfile", hostfile]
    words += [] if timeout is None else ["--timeout", f"{max(timeout, 0.001):f}"]
    for name in env or ():
        words += ["-x", name]  # the value stays off the command line
    return words


def _pack(fn: Callable[..., Any], args: Sequence[Any], kwargs: Optional[Mapping[str, Any]]) -> bytes:
    """The call as the worker reads it: where modules are found, then the call itself."""
    try:
        call = pickler().dumps((fn, tuple(args), dict(kwargs or {})))
        if pickler() is pickle and getattr(fn, "__module__", None) == "__main__":
            raise pickle.PicklingError("it is defined in the script itself")
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        advice = "" if pickler() is not pickle else ": install cloudpickle, or put the function into a module"
        raise ValueError(f"{fn!r} and its arguments cannot be sent to the ranks ({error}){advice}") from error
    path = [os.path.abspath(each) for each in sys.path]
    return pickle.dumps((path, sys.argv[:1], call))


def pickler() -> Any:
    """cloudpickle, where it is installed: it also knows functions that have no module."""
    try:
        import cloudpickle  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        return pickle
    return cloudpickle


def _path(file: IO[bytes]) -> str:
    """A file without a name, for a process of ours; it is gone with us, however we end."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def find_program() -> str:
    """The launcher of this installation."""
    installed = os.path.join(sysconfig.get_path("scripts"), "rueda")
    beside = os.path.join(os.path.dirname(sys.executable), "rueda")
    for path in (installed, beside, shutil.which("rueda")):
        if path is not None and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"there is no program rueda at {installed} or in PATH: install the package rueda again")


# ---- While it runs ----------------------------------------------------------------------------------


def _launch(command: List[str], env: Optional[Mapping[str, str]], stdout: Any, stderr: Any) -> int:
    """The launcher's exit code. It has a session of its own, so that Ctrl-C reaches it from us alone, once
    each time, also where there is no terminal."""
    launcher = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )
    assert launcher.stdout is not None and launcher.stderr is not None
    carriers = [
        threading.Thread(target=_carry, args=(launcher.stdout, stdout), daemon=True),
        threading.Thread(target=_carry, args=(launcher.stderr, stderr), daemon=True),
    ]
    for carrier in carriers:
        carrier.start()
    try:
        return launcher.wait()
    except BaseException:
        _end(launcher)
        raise
    finally:
        for carrier in carriers:
            carrier.join()


def _end(launcher: "subprocess.Popen[bytes]") -> None:
    """Waits until all ranks are gone; who asks again does not want to wait for those that are slow."""
    while True:
        launcher.terminate()
        try:
            launcher.wait()
            return
        except KeyboardInterrupt:
            continue


def _carry(source: IO[bytes], target: Any) -> None:
    with source:
        for line in source:
            try:
                target.write(line.decode(errors="replace"))
                target.flush()
            except (OSError, ValueError):  # closed; the ranks need not know
                pass


# ---- What comes back --------------------------------------------------------------------------------


def _read_results(file: IO[bytes]) -> Dict[int, bytes]:
    """What each rank has written, in the order in which they began to; see ``--results``."""
    parts: Dict[int, List[bytes]] = {}
    file.seek(0)
    while True:
        line = file.readline()
        if not line:
            return {rank: b"".join(each) for rank, each in parts.items()}
        rank, count = (int(word) for word in line.split())
        parts.setdefault(rank, []).append(file.read(count))


def _read_events(file: IO[bytes]) -> Iterator[Dict[str, Any]]:
    file.seek(0)
    for line in file:
        yield json.loads(line)


def _judge(
    code: int, results: Dict[int, bytes], events: List[Dict[str, Any]], timeout: Optional[float]
) -> List[Any]:
    """The results, or what went wrong."""
    start = [event for event in events if event["event"] == "start"]
    end = [event for event in events if event["event"] == "end"]
    if not start or not end:
        raise RuedaError(f"the job could not be started: rueda run ended with {code}; it said why on stderr")
    outcomes = {rank: _unpack(rank, data) for rank, data in results.items()}
    failures = [(rank, outcome) for rank, outcome in outcomes.items() if isinstance(outcome, WorkerError)]
    if failures:
        error = find_culprit(failures, end[0]["cause"])
        raise error from error.exception
    if code == _EXIT_TIMEOUT and timeout is not None:
        raise TimeoutError(f"the function did not end within {timeout:g} s")
    if code != 0:
        cause = end[0]["cause"] or f"rueda run ended with {code}"
        found = re.match(r"rank (\d+) ", cause)
        raise WorkerError(int(found.group(1)) if found else None, cause)
    missing = [rank for rank in range(start[0]["ranks"]) if rank not in outcomes]
    if missing:
        raise WorkerError(missing[0], f"rank {missing[0]} ended without a result")
    return [outcomes[rank][0] for rank in range(start[0]["ranks"])]


def find_culprit(failures: List[Tuple[int, WorkerError]], cause: Optional[str] = None) -> WorkerError:
    """Ranks that lose a peer fail, too; it is the peer's failure that counts, also where it died and left none.
    ``cause``: what the launcher says of it."""
    for _, error in failures:
        if not isinstance(error.exception, RuedaError):
            return error
    first = failures[0][1]
    lost = re.match(r"rank (\d+) is lost", str(first.exception))
    if lost is None or int(lost[1]) in dict(failures):
        return first
    known = cause is not None and cause.startswith(f"rank {lost[1]} ")
    return WorkerError(int(lost[1]), cause if known and cause else f"rank {lost[1]} died", "", first.exception)


def _unpack(rank: int, data: bytes) -> Any:
    """A tuple of the result, or a WorkerError."""
    try:
        fine, value, text = pickle.loads(data)
        value = None if value is None else pickle.loads(value)
    except Exception as error:  # whatever a class of the user's raises, or the worker was killed meanwhile
        return WorkerError(rank, f"the result of rank {rank} cannot be read: {error!r}")
    if fine:
        return (value,)
    return WorkerError(rank, f"rank {rank} failed: {text.strip().splitlines()[-1]}", text, value)
