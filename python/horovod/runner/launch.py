"""``horovodrun``: an alias of ``rueda run``, which knows its options."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Dict, List, NoReturn, Sequence

import rueda
from rueda._run import find_program

from horovod._beside import find_real_horovod
from horovod.common import util


def _find_front_ends(frameworks: Sequence[str]) -> Dict[str, bool]:
    """Which of them can be imported. In processes of their own: frameworks print what nobody has asked for."""
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-c", f"import horovod.{name}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for name in frameworks
        if importlib.util.find_spec(name) is not None
    }
    return {name: name in processes and processes[name].wait() == 0 for name in frameworks}


def check_build() -> str:
    """What ``horovodrun --check-build`` prints."""

    def box(there: object) -> str:
        return "[X]" if there else "[ ]"

    front_ends = _find_front_ends(["tensorflow", "torch"])
    from horovod import __version__

    beside = "".join(f"\nBeside it, and their files mix: {sign}\n" for sign in find_real_horovod())
    return f"""Horovod v{__version__}, served by Rueda {rueda.__version__}:

Available Frameworks:
    {box(front_ends["tensorflow"])} TensorFlow
    {box(front_ends["torch"])} PyTorch
    [ ] MXNet

Available Controllers:
    {box(util.mpi_built())} MPI
    {box(util.gloo_built())} Gloo

Available Tensor Operations:
    {box(util.nccl_built())} NCCL
    {box(util.ddl_built())} DDL
    {box(util.ccl_built())} CCL
    {box(util.mpi_built())} MPI
    {box(util.gloo_built())} Gloo

Gloo stands for Rueda's own engine: shared memory inside a host, tcp between hosts.
{beside}"""


def main(arguments: List[str]) -> NoReturn:
    """Becomes ``rueda run``, so that signals, the terminal and the exit code are its own."""
    if arguments[:1] in (["-cb"], ["--check-build"]):
        print(check_build(), end="")
        sys.exit(0)
    if arguments[:1] in (["-v"], ["--version"]):
        from horovod import __version__

        print(__version__)
        sys.exit(0)
    program = find_program()
    os.execv(program, [program, "run", "--horovodrun", *arguments])


def run_commandline() -> NoReturn:
    """The program ``horovodrun``."""
    main(sys.argv[1:])


if __name__ == "__main__":
    run_commandline()
