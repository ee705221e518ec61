"""Functions on threads of their own."""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional, Tuple

__all__ = ["in_thread"]


def in_thread(
    target: Callable[..., Any],
    args: Tuple[Any, ...] = (),
    name: Optional[str] = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Starts ``target(*args)`` on a thread and gives the thread. ``silent``: what it raises is not told."""
    if not isinstance(args, tuple):
        raise ValueError(f"args must be a tuple, not {type(args).__name__}; for one argument write (arg,)")

    def quiet(*args: Any) -> None:
        try:
            target(*args)
        except Exception:
            pass

    thread = threading.Thread(target=quiet if silent else target, args=args, name=name, daemon=daemon)
    thread.start()
    return thread
