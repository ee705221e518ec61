"""Horovod's names of Rueda's exceptions; they are the same classes, so either name catches both."""

from __future__ import annotations

from typing import Optional

from rueda.exceptions import HostsUpdatedInterrupt, VersionMismatchError
from rueda.exceptions import RuedaError as HorovodInternalError

__all__ = [
    "HorovodInternalError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
    "get_version_mismatch_message",
]


def get_version_mismatch_message(name: str, version: str, installed_version: Optional[str]) -> str:
    """What :class:`HorovodVersionMismatchError` says."""
    return f"this part was made for {name} {version}, but {name} {installed_version} is installed: install it again"


class HorovodVersionMismatchError(VersionMismatchError):
    """A framework is of another version than what was built for it. Nothing of Rueda is built for one, so
    it is never raised; scripts that catch it go on working."""

    def __init__(self, name: str, version: str, installed_version: Optional[str]) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name, self.version, self.installed_version = name, version, installed_version
