"""StringNGrams: runs of neighbouring strings, joined."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import require
from thalweg.ops.text.unicode import check_splits

_MOST_NGRAMS = 2**27


def _ngrams_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(0), 1)
    return [shapes.ANY_VECTOR, shapes.with_rank(c.input(1), 1)]


define(
    "StringNGrams",
    "data: string, data_splits: Tsplits -> ngrams: string, ngrams_splits: Tsplits",
    "separator: string, ngram_widths: list(int) >= 0, left_pad: string, right_pad: string, pad_width: int, "
    "preserve_short_sequences: bool, Tsplits: {int32, int64} = int64",
    shape=_ngrams_shape,
)
not_differentiable("StringNGrams")


@python_kernel("StringNGrams")
def _ngrams_kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    data, splits = np.asarray(inputs[0], dtype=object), inputs[1]
    require(data.ndim == 1, f"data must be a vector, got shape {list(data.shape)}")
    ends = [0] if splits.size == 0 and data.size == 0 and splits.ndim == 1 else check_splits(splits, data.size)
    widths = [int(width) for width in attrs["ngram_widths"]]
    require(all(width > 0 for width in widths), f"ngram_widths must contain positive values, got {widths}")
    most = max(widths, default=1) + max(attrs["pad_width"], 0)
    require(most * max(len(ends), data.size) * max(len(widths), 1) <= _MOST_NGRAMS, f"widths {widths} are too large")
    found: list[bytes] = []
    out = [0]
    for start, end in itertools.pairwise(ends):
        found.extend(_row_ngrams(data[start:end].tolist(), widths, attrs))
        out.append(len(found))
    ngrams = np.empty(len(found), dtype=object)
    ngrams[:] = found
    return [ngrams, np.array(out[: splits.size] if splits.size else out[:0], as_dtype(attrs["Tsplits"]).as_numpy_dtype)]


def _row_ngrams(row: list[bytes], widths: list[int], attrs: dict[str, Any]) -> list[bytes]:
    separator, pad_width = attrs["separator"], attrs["pad_width"]

    def padded(pad: int) -> list[bytes]:
        return [attrs["left_pad"]] * pad + row + [attrs["right_pad"]] * pad

    ngrams: list[bytes] = []
    for width in widths:
        full = padded(width - 1 if pad_width < 0 else min(width - 1, pad_width))
        ngrams.extend(separator.join(full[i : i + width]) for i in range(len(full) - width + 1))
    if not ngrams and row and attrs["preserve_short_sequences"]:
        # Too short for any width: the sequence as a whole.
        return [separator.join(padded(max(pad_width, 0)))]
    return ngrams
