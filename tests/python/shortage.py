"""What the scripts of test_shortage.py share: a step is repeated while its first, second, … call fails."""

from __future__ import annotations

import ctypes
from typing import Callable, Tuple, Type

CALLS_MOST = 1000
REPEATS = 4  # of a call that fails, after the first time: what is lost each time adds up
LOST_MOST = 1 << 20  # bytes in all of them; steps with more than that at a time show what they lose


class Note(ctypes.Structure):
    """As in fail_nth.h."""

    _fields_ = [("failed", ctypes.c_bool), ("call", ctypes.c_char * 24), ("where", ctypes.c_ulong)]


class Heap(ctypes.Structure):
    """What mallinfo2 tells."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


_libc = ctypes.CDLL(None)
_libc.mallinfo2.restype = Heap


def bytes_used() -> int:
    """What this process has taken from malloc and not given back."""
    heap = _libc.mallinfo2()
    return int(heap.uordblks + heap.hblkhd)


class Trials:
    """Runs steps with an extension that was built with fail_nth.c; `errors`: what may be raised."""

    def __init__(self, extension: str, errors: Tuple[Type[BaseException], ...]) -> None:
        self._library = ctypes.CDLL(extension)
        self._errors = errors
        self.failed = 0

    def _run(self, step: Callable[[], None], n: int) -> Note:
        note, raised = Note(), False
        self._library.fail_nth_arm(ctypes.c_long(n), ctypes.c_bool(False), ctypes.byref(note))
        try:
            step()
        except self._errors:
            raised = True
        finally:
            self._library.fail_nth_disarm()
        assert note.failed or not raised, "an error without a reason"
        return note

    def run(self, step: Callable[[], None]) -> None:
        """A step checks what comes out itself; it is right, or an error, and nothing is lost."""
        for n in range(1, CALLS_MOST):
            note = self._run(step, n)
            if not note.failed:
                break
            used = bytes_used()
            for _ in range(REPEATS):
                self._run(step, n)
            lost = bytes_used() - used
            assert lost < LOST_MOST, f"{step.__name__}: {note.call.decode()} at {note.where:#x} loses {lost} bytes"
            self.failed += 1
            step()  # and afterwards all is as before
        else:
            raise AssertionError(f"{step.__name__} needs more than {CALLS_MOST} calls")
