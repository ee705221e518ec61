"""How values are combined."""

from __future__ import annotations

import enum

__all__ = ["Adasum", "Average", "Max", "Min", "Product", "ReduceOp", "Sum", "adasum"]


class ReduceOp(enum.IntEnum):
    """How values are combined; the numbers are those of ``rueda.h``, and of Horovod.

    >>> import rueda
    >>> print(rueda.Average, rueda.Average == 0)
    Average True
    """

    #: The sum, divided by the number of ranks.
    Average = 0
    Sum = 1
    #: Adds what is orthogonal and averages what is parallel.
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


Average, Sum, Adasum, Min, Max, Product = ReduceOp
#: Another spelling, as users of other tools write it.
adasum = Adasum
