"""Start values and objects that all ranks should share."""

from rueda.tensorflow import allgather_object, broadcast_object, broadcast_object_fn, broadcast_variables

__all__ = ["allgather_object", "broadcast_object", "broadcast_object_fn", "broadcast_variables"]
