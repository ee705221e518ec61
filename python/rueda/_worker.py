"""The other end of ``rueda.run``: one rank. Reads a call from the standard input, makes it, and writes its
outcome to the descriptor that the launcher carries back: a pickle of (fine, pickled value, traceback)."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from typing import Any, Optional, Tuple

from ._run import pickler

_FAILED = 1


def _read_input() -> bytes:
    """All of the standard input, which is empty from then on."""
    data = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return data


def make_call(data: bytes) -> Tuple[bool, Optional[bytes], str]:
    """Makes the call that ``_run`` has packed; modules are found as where it comes from. The outcome: whether
    it is fine, the pickled value (or exception), the traceback."""
    path, sys.argv, call = pickle.loads(data)
    sys.path += [each for each in path if each not in sys.path]
    return _make(call)


def _portable(error: BaseException) -> Optional[bytes]:
    """The exception as a pickle; None if it would not arrive."""
    try:
        data = pickler().dumps(error)
        pickle.loads(data)
        return data
    except Exception:
        return None


def _make(call: bytes) -> Tuple[bool, Optional[bytes], str]:
    try:
        fn, args, kwargs = pickle.loads(call)
        return (True, pickler().dumps(fn(*args, **kwargs)), "")
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        error.__traceback__ = _without_us(error)
        return (False, _portable(error), "".join(traceback.format_exception(type(error), error, error.__traceback__)))


def _without_us(error: BaseException) -> Any:
    """The traceback from the function on."""
    trace = error.__traceback__
    return trace.tb_next if trace is not None and trace.tb_next is not None else trace


def main() -> int:
    """The exit code: 0, or 1 if the function failed. What it raised is shown where the call comes from."""
    descriptor = int(os.environ.pop("RUEDA_RESULTS_FD"))
    os.set_inheritable(descriptor, False)
    outcome = make_call(_read_input())
    with os.fdopen(descriptor, "wb") as results:
        pickle.dump(outcome, results, protocol=pickle.HIGHEST_PROTOCOL)
    return 0 if outcome[0] else _FAILED


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = _FAILED
    sys.exit(code)
