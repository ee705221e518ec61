"""Rueda for NumPy: the operations on arrays, in one line each.

    import numpy as np
    import rueda.numpy as hvd

    hvd.init()
    mean = hvd.allreduce(np.arange(3.0) * hvd.rank())     # start it with: rueda run -np 4 python this.py
"""

# "as" and "*" tell type checkers that these are for users.
from .._basics import *  # noqa: F401,F403
from .._calls import Handle as Handle
from .._calls import poll as poll
from .._calls import synchronize as synchronize
from .._objects import allgather_object as allgather_object
from .._objects import broadcast_object as broadcast_object
from .._objects import broadcast_object_fn as broadcast_object_fn
from .._process_sets import *  # noqa: F401,F403
from ._ops import *  # noqa: F401,F403
