"""Tests that run on ranks: one job of N ranks runs many cases.

    @on_ranks(1, 2, 4)
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_sum(dtype):            # runs on every rank, after hvd.init()
        assert ...

A job is started once by ``rueda run`` and asked for one case after the other over a socket; pytest sorts the
cases by job. A case that fails or does not end in time costs its job, and the next case gets a new one. Arguments
of a case are pickled.

Importing a framework costs seconds, so the ranks of a file that uses one are forked from a Python that has imported
it (fork_server.py); with RANKS_ANEW in the environment they begin anew, as those of a user do.

``run_script`` is for what cannot share a job: it starts one for a script of its own.
"""

from __future__ import annotations

import inspect
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import pytest

HERE = Path(__file__).resolve().parent
START_SECONDS = 120  # importing a framework on a busy machine
CASE_SECONDS = 240  # a case may be the first to import its framework
GRACE_SECONDS = 5  # for the other ranks after one has failed
END_SECONDS = 20
TAIL_CHARACTERS = 6000  # of what a job has printed
BACKLOG = 64  # ranks that ask a server while it still imports

Variables = Tuple[Tuple[str, str], ...]
Modules = Tuple[str, ...]
Key = Tuple[int, Variables, Modules]

#: What a server imports for a file with modules of such names; PyTorch takes a second more for its first optimizer.
#: Not TensorFlow: nobody promises that it can be forked, and its tests take their time for other things.
FRAMEWORKS = {"torch": ("torch", "torch._dynamo")}


def program() -> str:
    """The launcher: RUEDA_PROGRAM, the one beside this Python, or the one in the path."""
    beside = Path(sys.executable).with_name("rueda")
    found = os.environ.get("RUEDA_PROGRAM") or (str(beside) if beside.exists() else shutil.which("rueda"))
    if not found:
        pytest.skip("no program `rueda`: install the package, or set RUEDA_PROGRAM")
    return found


def environment(more: Mapping[str, str] = {}) -> Dict[str, str]:
    """Of a worker: one thread each, and the tests can be imported."""
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    ours = {name: value for name, value in os.environ.items() if name != "RUEDA_PROGRAM"}
    return {**ours, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}


def frameworks(names: Mapping[str, Any]) -> Modules:
    """What a file with these names has imported of the frameworks, and a server can import once for all ranks."""
    words = {word for each in names.values() if isinstance(each, ModuleType) for word in each.__name__.split(".")}
    return tuple(dict.fromkeys(module for name in FRAMEWORKS if name in words for module in FRAMEWORKS[name]))


def forking_python(framework: str) -> List[str]:
    """The command in the place of ``python`` for a script that uses a framework and need not begin anew."""
    return Server.python((), FRAMEWORKS.get(framework, ()))


class Server:
    """A Python that has imported some modules and forks ranks; one for each environment, until the tests end."""

    _all: Dict[Tuple[Variables, Modules], Server] = {}

    def __init__(self, variables: Variables, modules: Modules) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fork-")
        self._socket = f"{self._folder.name}/socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._socket)
            listener.listen(BACKLOG)
            command = [sys.executable, str(HERE / "fork_server.py"), str(listener.fileno()), *modules]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, env=environment(dict(variables)), pass_fds=[listener.fileno()]
            )

    @classmethod
    def python(cls, variables: Variables, modules: Modules) -> List[str]:
        """The command in the place of ``python`` for a rank with these modules."""
        if not modules or os.environ.get("RANKS_ANEW"):
            return [sys.executable]
        key = (variables, modules)
        if key not in cls._all:
            cls._all[key] = cls(*key)
        return [sys.executable, "-I", "-S", str(HERE / "fork_client.py"), cls._all[key]._socket]

    @classmethod
    def stop_all(cls) -> None:
        """Ends them, and what they have forked."""
        for server in cls._all.values():
            server._process.communicate()
            server._folder.cleanup()
        cls._all.clear()


def on_ranks(
    *sizes: int, long: Sequence[int] = (), timeout: float = CASE_SECONDS, env: Mapping[str, str] = {}
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test on every rank of a job of each of these sizes, each within ``timeout`` seconds. ``long``: more
    sizes, in the long tier."""
    variables = tuple(sorted(env.items()))

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        modules = frameworks(body.__globals__)
        keys = [
            pytest.param(
                (size, variables, modules),
                id=f"np{size}" + "".join(f"-{k}={v}" for k, v in variables),
                marks=[pytest.mark.long] if size in long else [],
            )
            for size in (*sizes, *long)
        ]

        def test(job: Job, **arguments: Any) -> None:
            job.run(body.__module__, body.__name__, arguments, timeout)

        parameters = list(inspect.signature(body).parameters.values())
        job_parameter = inspect.Parameter("job", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([job_parameter, *parameters])  # type: ignore[attr-defined]
        test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__
        test.__dict__.update(body.__dict__)
        test.body = body  # type: ignore[attr-defined]
        return pytest.mark.parametrize("job", keys, indirect=True, scope="session")(test)

    return decorate


class Job:
    """Some ranks that run cases; started when the first case comes."""

    def __init__(self, key: Key) -> None:
        self.size, self._variables, self._modules = key
        self._process: Optional[subprocess.Popen] = None
        self._links: List[Connection] = []
        self._pids: List[int] = []
        self._imported: Set[str] = set()

    def run(self, module: str, name: str, arguments: Dict[str, Any], timeout: float) -> None:
        """Runs a case on all ranks; fails with the traceback of the rank that failed first."""
        if self._process is None:
            self._start()
        try:
            trouble = None
            if module not in self._imported:  # takes its time, which is not the case's
                trouble = self._ask((module, None, {}), START_SECONDS)
                self._imported.add(module)
            trouble = trouble or self._ask((module, name, arguments), timeout)
        except BaseException:
            self.stop(kill=True)
            raise
        if trouble is not None:
            self.stop(kill=True)
            if trouble.startswith("Skipped: "):
                pytest.skip(trouble[len("Skipped: ") :])
            pytest.fail(f"{trouble}\n{self._tail()}", pytrace=False)

    def _ask(self, message: Tuple[str, Optional[str], Dict[str, Any]], timeout: float) -> Optional[str]:
        """What the first rank with trouble says, or None."""
        for link in self._links:
            link.send(message)
        until = time.monotonic() + timeout
        waiting = {link: rank for rank, link in enumerate(self._links)}
        trouble = None
        while waiting:
            ready = wait(list(waiting), max(0.0, until - time.monotonic()))
            if not ready:
                return trouble or self._describe_hang(sorted(waiting.values()), timeout)
            for link in ready:
                rank = waiting.pop(link)  # type: ignore[index]
                try:
                    answer = link.recv()  # type: ignore[union-attr]
                except (EOFError, OSError):
                    answer = "the process has ended"
                if answer is not None and trouble is None:
                    trouble = answer if answer.startswith("Skipped: ") else f"rank {rank} of {self.size}:\n{answer}"
                    until = min(until, time.monotonic() + GRACE_SECONDS)
        return trouble

    def _describe_hang(self, ranks: List[int], timeout: float) -> str:
        for rank in ranks:
            os.kill(self._pids[rank], signal.SIGUSR1)  # faulthandler prints the stacks
        time.sleep(1)
        return f"after {timeout:g} s these ranks had not ended: {ranks}; their stacks are below"

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-")
        folder = Path(self._folder.name)
        self._output = folder / "output"
        with socket.socket(socket.AF_UNIX) as listener, open(self._output, "wb") as output:
            listener.bind(str(folder / "socket"))
            listener.listen(self.size)
            python = Server.python(self._variables, self._modules)
            command = [program(), "run", "-np", str(self.size), *python, str(HERE / "rank_worker.py")]
            variables = environment({**dict(self._variables), "RANKS_SOCKET": str(folder / "socket")})
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=variables, start_new_session=True
            )
            self._meet(listener)

    def _meet(self, listener: socket.socket) -> None:
        until = time.monotonic() + START_SECONDS
        links: Dict[int, Tuple[Connection, int]] = {}
        listener.settimeout(0.5)
        assert self._process is not None
        while len(links) < self.size:
            if self._process.poll() is not None or time.monotonic() > until:
                self.stop(kill=True)
                pytest.fail(f"a job of {self.size} ranks did not start\n{self._tail()}", pytrace=False)
            try:
                link = Connection(listener.accept()[0].detach())
            except TimeoutError:
                continue
            rank, pid = link.recv()
            links[rank] = (link, pid)
        self._links = [links[rank][0] for rank in range(self.size)]
        self._pids = [links[rank][1] for rank in range(self.size)]

    def _tail(self) -> str:
        text = self._output.read_text(errors="replace")
        return f"--- the job printed:\n{text[-TAIL_CHARACTERS:]}" if text else ""

    def stop(self, kill: bool = False) -> None:
        """Ends the job: friendly, or at once."""
        if self._process is None:
            return
        for link in self._links:
            link.close()
        try:
            if kill:
                self._process.terminate()
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in self._pids:
                _kill(pid)
            _kill(self._process.pid)
            self._process.wait()
        self._process, self._links, self._pids = None, [], []
        self._imported.clear()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Finished:
    """How a script has ended: ``code``, ``out`` and ``err``."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"code {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


def horovodrun() -> Tuple[str, ...]:
    """The launcher under its other name; give it to ``run_script`` as ``launcher``."""
    path = f"{Path(program()).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return ("env", f"PATH={path}", sys.executable, "-m", "horovod.runner.launch")


def start_script(
    size: int, script: Path, *arguments: str, env: Mapping[str, str] = {}, launcher: Sequence[str] = ()
) -> subprocess.Popen:
    """Starts a Python script on ``size`` ranks; its own process group. For tests that send signals.
    ``launcher``: another one than ``rueda run``, with its options."""
    starts = launcher or (program(), "run")
    command = [*starts, "-np", str(size), sys.executable, str(script), *arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(env),
        start_new_session=True,
        text=True,
    )


def run_script(
    size: int,
    script: Path,
    *arguments: str,
    timeout: float = CASE_SECONDS,
    env: Mapping[str, str] = {},
    launcher: Sequence[str] = (),
) -> Finished:
    """Runs a Python script on ``size`` ranks and waits for it; fails after ``timeout`` seconds."""
    process = start_script(size, script, *arguments, env=env, launcher=launcher)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            out, err = process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        pytest.fail(f"{script.name} on {size} ranks: not ended after {timeout:g} s\n{out}\n{err}", pytrace=False)
    return Finished(process.returncode, out, err)
