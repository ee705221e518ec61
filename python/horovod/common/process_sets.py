"""Process sets: parts of the ranks that combine among themselves."""

from rueda import (
    ProcessSet,
    add_process_set,
    get_process_set_by_id,
    global_process_set,
    process_set_ids,
    remove_process_set,
)

__all__ = [
    "ProcessSet",
    "add_process_set",
    "get_process_set_by_id",
    "global_process_set",
    "process_set_ids",
    "remove_process_set",
]
