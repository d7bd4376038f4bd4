"""UnsortedSegmentJoin: strings joined by the segment that each belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import require, require_memory


def _shape(c: ShapeContext) -> TensorShape:
    inputs, ids = c.input(0), c.input(1)
    shapes.with_rank(c.input(2), 0)
    if inputs.rank is None or ids.rank is None:
        return TensorShape(None)
    count = c.constant(2)
    return TensorShape([None if count is None else int(count)]).concatenate(inputs[ids.rank :])


define(
    "UnsortedSegmentJoin",
    "inputs: string, segment_ids: Tindices, num_segments: Tnumsegments -> output: string",
    "separator: string = '', Tindices: {int32, int64}, Tnumsegments: {int32, int64} = int32",
    shape=_shape,
)
not_differentiable("UnsortedSegmentJoin")


# Of an empty string: a reference in the array, and the element of the tensor that is made of it.
_STRING_BYTES = 8 + 24


@python_kernel("UnsortedSegmentJoin")
def _kernel(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    strings, ids, count = np.asarray(inputs[0], object), np.asarray(inputs[1]), np.asarray(inputs[2])
    require(count.ndim == 0 and int(count) >= 0, f"num_segments must be a scalar that is not negative, got {count}")
    rows = ids.shape
    require(
        strings.shape[: ids.ndim] == rows,
        f"segment_ids must have the shape of the first dimensions of inputs: {list(rows)}, {list(strings.shape)}",
    )
    segments = int(count)
    inside = ids.size == 0 or (int(ids.min()) >= 0 and int(ids.max()) < segments)
    require(inside, f"segment_ids must not exceed num_segments or be negative: {ids.tolist()}, {segments}")
    inner = strings.shape[ids.ndim :]
    flat = strings.reshape(ids.size, -1)
    separator = attrs["separator"]
    separator = separator if isinstance(separator, bytes) else separator.encode()
    found: dict[tuple[int, int], list[bytes]] = {}
    for segment, row in zip(ids.ravel().tolist(), flat, strict=True):
        for place, value in enumerate(row):
            found.setdefault((segment, place), []).append(value)
    require_memory(segments * flat.shape[1] * _STRING_BYTES)
    out = np.full((segments, flat.shape[1]), b"", object)
    for where, parts in found.items():
        out[where] = separator.join(parts)
    return out.reshape((segments, *inner))


@export("strings.unsorted_segment_join")
def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Tensor:
    """Joins the strings of each segment, in their order.

    Example:
        >>> with tf.Session() as s:
        ...     print(s.run(tf.strings.unsorted_segment_join(["a", "b", "c"], [1, 0, 1], 2, "-")))
        [b'b' b'a-c']
    """
    return apply_one("UnsortedSegmentJoin", inputs, segment_ids, num_segments, separator=separator, name=name)
