"""A rank of a job that runs cases; see ranks.py. Started by ``rueda run``."""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import socket
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any, Dict, Optional

import rueda


def remove_process_sets() -> None:
    """The next case finds none, whatever this one has made; all ranks know the same."""
    for number in rueda.process_set_ids()[1:] if rueda.is_initialized() else []:
        rueda.remove_process_set(rueda.get_process_set_by_id(number))


def run_case(module: str, name: Optional[str], arguments: Dict[str, Any]) -> Optional[str]:
    """None, or what went wrong. Without a name it only imports the module."""
    try:
        cases = importlib.import_module(module)
        if name is None:
            return None
        case = getattr(cases, name)
        rueda.init()  # a case may have left the job
        case.body(**arguments)
        remove_process_sets()
        return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # pytest.fail and pytest.skip are no Exceptions
        if type(error).__name__ == "Skipped":
            return f"Skipped: {error}"
        return traceback.format_exc()


def main() -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
    rueda.init()
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(os.environ["RANKS_SOCKET"])
    link = Connection(stream.detach())
    link.send((rueda.rank(), os.getpid()))
    try:
        while True:
            link.send(run_case(*link.recv()))
    except EOFError:
        rueda.shutdown()


if __name__ == "__main__":
    main()
