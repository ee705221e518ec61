"""``num_groups=``: Horovod's old way to say ``groups``."""

from __future__ import annotations

from typing import Any


def resolve_groups(groups: Any, num_groups: int) -> Any:
    """What both say together: ``groups`` counts where it is given."""
    if num_groups < 0:
        raise ValueError(f"num_groups is {num_groups}; it must be 0 or more")
    return num_groups or None if groups is None else groups
