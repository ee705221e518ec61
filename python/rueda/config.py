"""How to build C programs with the library that this package carries:

    cc train.c $(python -m rueda.config --cflags --libs) -o train
    rueda run -np 4 ./train

The program finds the library where it is now; build it anew when the package moves.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import List, Optional, Sequence

_PACKAGE = Path(__file__).resolve().parent


def include_directory() -> str:
    """The folder of ``rueda.h``. ``FileNotFoundError``: this package was not installed from a wheel."""
    if not (_PACKAGE / "include" / "rueda.h").exists():
        raise FileNotFoundError(f"{_PACKAGE} holds no rueda.h: it was not installed from a wheel")
    return str(_PACKAGE / "include")


def library() -> str:
    """The path of the shared library; errors as :func:`include_directory`."""
    found = sorted((_PACKAGE / "lib").glob("librueda.so.*"))
    if not found:
        raise FileNotFoundError(f"{_PACKAGE} holds no librueda: it was not installed from a wheel")
    return str(found[0])


def compile_flags() -> List[str]:
    """What the compiler must be told."""
    return [f"-I{include_directory()}"]


def link_flags() -> List[str]:
    """What the linker must be told; the program then finds the library by itself."""
    path = Path(library())
    return [f"-L{path.parent}", f"-Wl,-rpath,{path.parent}", f"-l:{path.name}"]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Prints the flags in one line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m rueda.config", description="Flags to build C programs with rueda.")
    parser.add_argument("--cflags", action="store_true", help="for the compiler")
    parser.add_argument("--libs", action="store_true", help="for the linker")
    asked = parser.parse_args(arguments)
    if not asked.cflags and not asked.libs:
        parser.error("what? write --cflags, --libs or both")
    try:
        flags = (compile_flags() if asked.cflags else []) + (link_flags() if asked.libs else [])
    except FileNotFoundError as error:
        parser.exit(1, f"rueda.config: {error}\n")
    print(shlex.join(flags))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
