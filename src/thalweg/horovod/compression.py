"""Compression: fewer bits for tensors on their way."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.casting import cast


class Compressor:
    """The base class: tensors travel as they are."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """The tensor that travels, and what `decompress` needs to know."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        """The tensor in its own type again."""
        return tensor


class _CastCompressor(Compressor):
    dtype: DType

    @classmethod
    def compress(cls, tensor: Tensor) -> tuple[Tensor, Any]:
        if tensor.dtype.is_floating and tensor.dtype.size > 2:
            return cast(tensor, cls.dtype), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: Any) -> Tensor:
        return tensor if ctx is None else cast(tensor, ctx)


class FP16Compressor(_CastCompressor):
    """Floating-point tensors travel, and are added up, as float16."""

    dtype = dtypes.float16


class BF16Compressor(_CastCompressor):
    """Floating-point tensors travel, and are added up, as bfloat16."""

    dtype = dtypes.bfloat16


class Compression:
    """The algorithms to choose from."""

    none = Compressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
