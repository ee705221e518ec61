"""horovod.run: hosts, elastic words, MPI, and how it fails; horovod.data; what scripts ask the launcher's modules."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import horovod
import pytest
import rueda
from horovod.common import basics, util
from horovod.data import AsyncDataLoaderMixin, BaseDataLoader
from horovod.runner.common.util.env import get_env_rank_and_size
from horovod.runner.util.threads import in_thread
from ranks import program
from rueda.exceptions import WorkerError


@pytest.fixture(autouse=True)
def launcher_in_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(program()), prepend=os.pathsep)


def who(more: int = 0) -> Tuple[int, int]:
    rueda.init()
    return rueda.rank() + more, rueda.size()


def fail_on_1() -> None:
    if who()[0] == 1:
        raise KeyError("a mistake")


def die_on_1() -> None:
    if who()[0] == 1:
        os._exit(7)
    rueda.numpy.allreduce(1.0)


def write_script(folder: Path, *lines: str) -> str:
    path = folder / "hosts.sh"
    path.write_text("#!/bin/sh\n" + "".join(f"echo {line}\n" for line in lines))
    path.chmod(0o755)
    return str(path)


def test_interfaces() -> None:
    for name in ("network_interfaces", "network_interface"):
        assert horovod.run(who, (10,), num_proc=2, **{name: "lo"}) == [(10, 2), (11, 2)]


def test_hosts_of_a_script(tmp_path: Path) -> None:
    script = write_script(tmp_path, "localhost:3")
    with pytest.warns(RuntimeWarning, match="keeps its 2 ranks; hosts that come or go later are not followed"):
        assert horovod.run(who, num_proc=2, host_discovery_script=script) == [(0, 2), (1, 2)]


def test_an_elastic_job_takes_what_is_there(tmp_path: Path) -> None:
    script = write_script(tmp_path, "localhost")
    with pytest.warns(RuntimeWarning, match="keeps its 2 ranks"):
        results = horovod.run(
            who, num_proc=4, min_num_proc=2, max_num_proc=8, slots=2, reset_limit=3, host_discovery_script=script
        )
    assert results == [(0, 2), (1, 2)]


def refused() -> List[Dict[str, Any]]:
    return [
        {"hosts": "a:1", "hostfile": "b"},
        {"hosts": "a:1", "host_discovery_script": "b"},
        {"host_discovery_script": "echo localhost:1", "num_proc": 2},
        {"host_discovery_script": "exit 3"},
        {"host_discovery_script": "true"},
        {"num_proc": 4, "max_num_proc": 2},
        {"use_mpi": True, "use_gloo": True},
        {"mpi_args": "-v"},
    ]


@pytest.mark.parametrize("arguments", refused(), ids=str)
def test_what_cannot_be_is_refused(arguments: Dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="horovod.run: "):
        horovod.run(print, **arguments)


FAILED_AT_ALL = "Horovod detected that one or more processes exited with non-zero status"
FAILED = rf"{FAILED_AT_ALL}.*rank 1 .*\n(.*\n)*.*a mistake"


def test_a_rank_that_fails() -> None:
    with pytest.raises(RuntimeError, match=FAILED) as caught:
        horovod.run(fail_on_1, num_proc=2)
    assert isinstance(caught.value, WorkerError) and caught.value.rank == 1
    assert isinstance(caught.value.exception, KeyError)


def test_a_rank_that_dies_is_named_and_not_the_one_that_lost_it() -> None:
    with pytest.raises(WorkerError, match=f"{FAILED_AT_ALL}.*rank 1 .*exited with 7") as caught:
        horovod.run(die_on_1, num_proc=2)
    assert caught.value.rank == 1


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun")
def test_mpi(capfd: pytest.CaptureFixture) -> None:
    assert horovod.run(who, (5,), num_proc=2, use_mpi=True) == [(5, 2), (6, 2)]
    assert "Warning" not in capfd.readouterr().err
    with pytest.raises(WorkerError, match=f"{FAILED_AT_ALL}.*rank 1 ") as caught:
        horovod.run(die_on_1, num_proc=2, use_mpi=True)
    assert caught.value.rank == 1
    with pytest.raises(WorkerError, match=FAILED):
        horovod.run(fail_on_1, num_proc=2, use_mpi=True)


def test_mpi_built_agrees_with_the_doctor() -> None:
    lines = subprocess.run([program(), "doctor", "--json"], capture_output=True, text=True, timeout=60).stdout
    verdicts = {each["check"]: each["verdict"] for each in map(json.loads, lines.splitlines())}
    assert basics.mpi_built() is util.mpi_built() is (verdicts["MPI plug-in"] == "ok")


def test_rank_and_size_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOROVOD", "OMPI_COMM_WORLD", "PMI"):
        for word in ("RANK", "SIZE"):
            monkeypatch.delenv(f"{name}_{word}", raising=False)
    assert get_env_rank_and_size() == (0, 1)
    monkeypatch.setenv("PMI_RANK", "2")
    with pytest.raises(RuntimeError, match="PMI_SIZE"):
        get_env_rank_and_size()
    monkeypatch.setenv("PMI_SIZE", "4")
    assert get_env_rank_and_size() == (2, 4)


def test_threads_and_versions() -> None:
    said: List[int] = []
    in_thread(said.append, (1,)).join()
    in_thread(lambda: 1 / 0, silent=True).join()
    assert said == [1]
    with pytest.raises(ValueError, match="tuple"):
        in_thread(print, [1])  # type: ignore[arg-type]
    assert util.is_version_greater_equal_than("2.12.0", "2.9.1")
    assert not util.is_version_greater_equal_than("1.15.0rc1", "2.0.0")
    with pytest.raises(ValueError):
        util.is_version_greater_equal_than("2", "2.0.0")
    doubled = util._cache(lambda x: said.append(x) or 2 * x)
    assert [doubled(4), doubled(4)] == [8, 8] and said == [1, 4]


class Numbers(BaseDataLoader):
    """Fails at the batch ``bad``."""

    def __init__(self, count: int, bad: int = -1) -> None:
        self.count, self.bad = count, bad

    def __len__(self) -> int:
        return self.count

    def _iterate(self) -> Iterator[int]:
        for i in range(self.count):
            if i == self.bad:
                raise RuntimeError("a bad batch")
            yield i

    def _process_batch(self, batch: int) -> int:
        return 10 * batch


class AheadNumbers(AsyncDataLoaderMixin, Numbers):
    pass


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_loaders(ahead: int) -> None:
    wanted = [10 * i for i in range(20)]
    loader = AheadNumbers(ahead, 20)
    assert list(Numbers(20)) == list(loader) == list(loader) == wanted  # a second epoch, too
    first = iter(loader)
    assert next(first) == 0
    loader.close_async_loader()  # in the middle
    assert list(loader) == wanted
    with pytest.raises(RuntimeError, match="a bad batch"):
        list(AheadNumbers(ahead, 20, bad=3))
