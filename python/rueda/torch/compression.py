"""Smaller tensors on the wire.

A compressor is any class with static ``compress(tensor) -> (tensor, context)`` and
``decompress(tensor, context) -> tensor``; users may write their own.
"""

from __future__ import annotations

from typing import Any, Tuple

import torch


class Compressor:
    """What a compressor looks like; this one changes nothing."""

    #: The type on the wire, where all that happens is a conversion; None: something else happens.
    wire_dtype: Any = None

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class NoneCompressor(Compressor):
    """Nothing is changed."""


class _CastCompressor(Compressor):
    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        if not tensor.is_floating_point():
            return tensor, None
        return tensor.to(cls.wire_dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_CastCompressor):
    """Floating-point tensors travel as float16: fine steps, small range."""

    wire_dtype = torch.float16


class BF16Compressor(_CastCompressor):
    """Floating-point tensors travel as bfloat16: the range of float32, coarse steps."""

    wire_dtype = torch.bfloat16


class Compression:
    """The compressors that come with the package."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
