"""What the operations must know of a framework's tensors."""

from __future__ import annotations

import abc
from typing import Any, Generic, Optional, Sequence, Tuple, TypeVar

from . import _native

#: What users may give as a tensor, and what they get.
Given = TypeVar("Given")
Tensor = TypeVar("Tensor")


class Tensors(abc.ABC, Generic[Given, Tensor]):
    """What a front end knows of its framework's tensors."""

    @abc.abstractmethod
    def readable(self, tensor: Given, name: Optional[str]) -> Tensor:
        """The tensor itself, or a copy where the engine can read it. ``ValueError``: it cannot be combined."""

    @abc.abstractmethod
    def writable(self, tensor: Given, name: Optional[str]) -> Tensor:
        """The tensor itself, which is to be changed in place. ``ValueError``: it cannot be."""

    @abc.abstractmethod
    def empty_like(self, source: Tensor) -> Tensor:
        """A new tensor for a result like ``source``, which is readable."""

    @abc.abstractmethod
    def native(self, source: Tensor) -> Any:
        """A readable tensor as ``_native.submit`` takes it."""

    @abc.abstractmethod
    def beside(self, given: Given, result: Tensor) -> Tensor:
        """The result on the device of what the user has given."""

    @abc.abstractmethod
    def fill(self, target: Tensor, result: Tensor) -> Tensor:
        """The user's tensor, with the result in it."""

    @abc.abstractmethod
    def from_output(self, request: _native.Request, source: Tensor) -> Tuple[Tensor, Tuple[int, ...]]:
        """The output that the engine has allocated, of the type of ``source``, and alltoall's received splits."""

    @abc.abstractmethod
    def counts(self, numbers: Sequence[int]) -> Tensor:
        """Small whole numbers as a tensor."""
