"""What a worker reads from its environment."""

from __future__ import annotations

import os
from typing import Tuple

__all__ = ["get_env_rank_and_size"]

_PAIRS = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def get_env_rank_and_size() -> Tuple[int, int]:
    """Our rank and the number of ranks, without ``init()``; a process started alone is rank 0 of 1."""
    for rank, size in _PAIRS:
        given = [os.environ.get(name) for name in (rank, size)]
        if given.count(None) == 1:
            raise RuntimeError(f"only one of {rank} and {size} is in the environment: give both or none")
        if None not in given:
            return int(given[0] or 0), int(given[1] or 1)
    return 0, 1
