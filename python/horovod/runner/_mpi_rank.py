"""One rank of ``horovod.run(use_mpi=True)``: ``python -m horovod.runner._mpi_rank FOLDER``."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from rueda import _worker

from horovod.runner.common.util.env import get_env_rank_and_size


def main(folder: Path) -> int:
    """Makes the call; its result gets its name when it is whole."""
    rank, _ = get_env_rank_and_size()
    outcome = _worker.make_call((folder / "call").read_bytes())
    draft = folder / f"draft.{rank}"
    draft.write_bytes(pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL))
    draft.rename(folder / f"result.{rank}")
    return 0 if outcome[0] else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
