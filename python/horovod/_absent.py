"""Parts of Horovod that are not there, told in one sentence at import."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NoReturn

_DOC = "see docs/migrating-from-horovod.md"


def say_absent(module: str, instead: str) -> NoReturn:
    """``instead``: what to do without it."""
    raise ImportError(f"{module} is not part of Rueda: {instead}; {_DOC}", name=module)


def front_end(module: str, served_by: str) -> ModuleType:
    """The front end of Rueda that serves a module, or an ``ImportError`` that says there is none yet."""
    try:
        return importlib.import_module(served_by)
    except ModuleNotFoundError as error:
        if error.name is None or not served_by.startswith(error.name):
            raise  # the framework itself is missing: its own words are the best
        raise ImportError(f"{module} needs {served_by}, which this Rueda does not have; {_DOC}", name=module) from None
