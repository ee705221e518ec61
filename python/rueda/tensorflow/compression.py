"""Smaller tensors on the wire; a class of your own with static ``compress`` and ``decompress`` works, too."""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow as tf


class Compressor:
    """What a compressor looks like; this one changes nothing."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor


class NoneCompressor(Compressor):
    """Nothing is changed."""


class _CastCompressor(Compressor):
    wire_dtype: Any = None

    @classmethod
    def compress(cls, tensor: Any) -> Tuple[Any, Any]:
        if not tensor.dtype.is_floating or tensor.dtype == cls.wire_dtype:
            return tensor, None
        return tf.cast(tensor, cls.wire_dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        return tensor if ctx is None else tf.cast(tensor, ctx)


class FP16Compressor(_CastCompressor):
    """Floating-point tensors travel as float16."""

    wire_dtype = tf.float16


class BF16Compressor(_CastCompressor):
    """Floating-point tensors travel as bfloat16."""

    wire_dtype = tf.bfloat16


class Compression:
    """The compressors that come with the package."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
