"""What is done between batches and epochs. Devices say nothing: an operation runs where its tensor is."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import rueda.keras.callbacks as _served
from rueda import ProcessSet, global_process_set
from rueda.keras.callbacks import BestModelCheckpoint, LearningRateScheduleCallback, LearningRateWarmupCallback

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(_served.BroadcastGlobalVariablesCallback):
    """``rueda.keras.callbacks.BroadcastGlobalVariablesCallback``."""

    def __init__(
        self,
        root_rank: int,
        device: str = "",
        local_variables: Optional[Sequence[Any]] = None,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(root_rank, local_variables=local_variables, process_set=process_set)
        self.device = device


class MetricAverageCallback(_served.MetricAverageCallback):
    """``rueda.keras.callbacks.MetricAverageCallback``."""

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__(process_set=process_set)
