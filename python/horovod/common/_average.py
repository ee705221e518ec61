"""``average=``: Horovod's old way to say ``op``."""

from __future__ import annotations

from typing import Optional

from rueda import Average, Sum


def resolve_op(average: Optional[bool], op: Optional[int]) -> int:
    """What both say together; neither means ``Average``."""
    if average is not None and op is not None:
        raise ValueError("op and average say the same thing twice: give only op")
    if op is not None:
        return op
    return Sum if average is False else Average
