"""Reductions by segment: rows that carry the same id are combined. Sorted, unsorted, and of chosen rows (sparse)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_REALS = "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}"
_NUMBERS = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, complex128, half, uint32, uint64}"
)
_FLOATS = "{bfloat16, half, float, double}"


def _sorted_shape(c: ShapeContext) -> TensorShape:
    data, ids = shapes.with_rank_at_least(c.input(0), 1), shapes.with_rank(c.input(1), 1)
    dims = data.dims_tuple
    if dims is None:
        return shapes.UNKNOWN
    assert ids.dims_tuple is not None
    shapes.merge_dims(dims[0], ids.dims_tuple[0])
    return TensorShape._of((None, *dims[1:]))


def _number_of_segments(c: ShapeContext, index: int) -> int | None:
    shapes.with_rank(c.input(index), 0)
    value = c.constant(index)
    if value is not None and int(value) < 0:
        raise ValueError(f"Dimension size, given by scalar input {index}, must be non-negative but is {int(value)}")
    return None if value is None else int(value)


def _unsorted_shape(c: ShapeContext) -> TensorShape:
    data, ids = c.dims(0), c.dims(1)
    segments = _number_of_segments(c, 2)
    if ids is None or data is None:
        return shapes.UNKNOWN
    if len(ids) > len(data):
        raise ValueError(f"Shape must be at least rank {len(ids)} but is rank {len(data)}")
    for x, y in zip(data, ids, strict=False):
        shapes.merge_dims(x, y)
    return TensorShape._of((segments, *data[len(ids) :]))


def _sparse_dims(c: ShapeContext, segments: int | None) -> TensorShape:
    data = shapes.with_rank_at_least(c.input(0), 1)
    shapes.merge(shapes.with_rank(c.input(1), 1), shapes.with_rank(c.input(2), 1))
    dims = data.dims_tuple
    return shapes.UNKNOWN if dims is None else TensorShape._of((segments, *dims[1:]))


def _sparse_shape(c: ShapeContext) -> TensorShape:
    return _sparse_dims(c, None)


def _numbered_sparse_shape(c: ShapeContext) -> TensorShape:
    return _sparse_dims(c, _number_of_segments(c, 3))


for _kind, _types in (("Sum", _NUMBERS), ("Mean", _NUMBERS), ("Prod", _NUMBERS), ("Min", _REALS), ("Max", _REALS)):
    define(
        f"Segment{_kind}",
        "data: T, segment_ids: Tindices -> output: T",
        f"T: {_types}, Tindices: {{int32, int64}}",
        shape=_sorted_shape,
    )
    if _kind != "Mean":
        define(
            f"UnsortedSegment{_kind}",
            "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
            f"T: {_types}, Tindices: {{int32, int64}}, Tnumsegments: {{int32, int64}} = int32",
            shape=_unsorted_shape,
        )
_INDICES = "Tidx: {int32, int64} = int32, Tsegmentids: {int32, int64} = int32"
for _kind in ("Sum", "Mean", "SqrtN"):
    _types = _REALS if _kind == "Sum" else _FLOATS
    define(
        f"SparseSegment{_kind}",
        "data: T, indices: Tidx, segment_ids: Tsegmentids -> output: T",
        f"T: {_types}, {_INDICES}, sparse_gradient: bool = false",
        shape=_sparse_shape,
    )
    define(
        f"SparseSegment{_kind}WithNumSegments",
        "data: T, indices: Tidx, segment_ids: Tsegmentids, num_segments: Tnumsegments -> output: T",
        f"T: {_types}, {_INDICES}, Tnumsegments: {{int32, int64}} = int32, sparse_gradient: bool = false",
        shape=_numbered_sparse_shape,
    )
    define(
        f"SparseSegment{_kind}Grad",
        "grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: int32 -> output: T",
        f"T: {_FLOATS}, {_INDICES}",
        shape=_numbered_sparse_shape,
    )


def _export_sorted(op_type: str, name: str, summary: str) -> Callable[..., Tensor]:
    def function(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
        return apply_one(op_type, data, segment_ids, name=name)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"""{summary}

    Args:
        data: A tensor; its rows belong to segments.
        segment_ids: The segment of each row: a vector of non-negative integers in ascending order.
        name: The node's name.

    Returns:
        A tensor with one row per segment, up to the largest id.
    """
    return export(name, f"math.{name}")(function)


segment_sum = _export_sorted("SegmentSum", "segment_sum", "Adds up the rows of each segment.")
segment_mean = _export_sorted("SegmentMean", "segment_mean", "Averages the rows of each segment.")
segment_prod = _export_sorted("SegmentProd", "segment_prod", "Multiplies the rows of each segment.")
segment_min = _export_sorted("SegmentMin", "segment_min", "Finds the smallest elements of each segment's rows.")
segment_max = _export_sorted("SegmentMax", "segment_max", "Finds the largest elements of each segment's rows.")


def _export_unsorted(op_type: str, name: str, summary: str) -> Callable[..., Tensor]:
    def function(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
        return apply_one(op_type, data, segment_ids, num_segments, name=name)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"""{summary}

    Args:
        data: A tensor.
        segment_ids: The segment of each row, in any order; its shape is the beginning of the shape of `data`. Rows with
            negative ids are left out.
        num_segments: How many segments there are.
        name: The node's name.

    Returns:
        A tensor with one row per segment.
    """
    return export(name, f"math.{name}")(function)


unsorted_segment_sum = _export_unsorted(
    "UnsortedSegmentSum", "unsorted_segment_sum", "Adds up the rows of each segment."
)
unsorted_segment_prod = _export_unsorted(
    "UnsortedSegmentProd", "unsorted_segment_prod", "Multiplies the rows of each segment."
)
unsorted_segment_min = _export_unsorted(
    "UnsortedSegmentMin", "unsorted_segment_min", "Finds the smallest elements of each segment's rows."
)
unsorted_segment_max = _export_unsorted(
    "UnsortedSegmentMax", "unsorted_segment_max", "Finds the largest elements of each segment's rows."
)


def _counts(data: Tensor, segment_ids: Tensor, num_segments: Any) -> Tensor:
    """How many rows each segment has, at least 1, in a shape that broadcasts against the result."""
    ones = apply_one("Fill", apply_one("Shape", segment_ids), apply_one("Cast", 1, DstT=data.dtype.base_dtype))
    counts = unsorted_segment_sum(ones, segment_ids, num_segments)
    trailing = apply_one("Sub", apply_one("Rank", data), apply_one("Rank", segment_ids))
    shape = apply_one(
        "ConcatV2", [apply_one("Shape", counts), apply_one("Fill", apply_one("ExpandDims", trailing, 0), 1)], 0
    )
    return apply_one("Maximum", apply_one("Reshape", counts, shape), apply_one("Cast", 1, DstT=data.dtype.base_dtype))


@export("unsorted_segment_mean", "math.unsorted_segment_mean")
def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Averages the rows of each segment; segments without rows give 0. See tf.unsorted_segment_sum."""
    with name_scope(name, "UnsortedSegmentMean", [data, segment_ids, num_segments]):
        data, segment_ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        total = unsorted_segment_sum(data, segment_ids, num_segments)
        return apply_one("RealDiv", total, _counts(data, segment_ids, num_segments))


@export("unsorted_segment_sqrt_n", "math.unsorted_segment_sqrt_n")
def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Adds up the rows of each segment and divides by the square root of their number."""
    with name_scope(name, "UnsortedSegmentSqrtN", [data, segment_ids, num_segments]):
        data, segment_ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        total = unsorted_segment_sum(data, segment_ids, num_segments)
        root = apply_one("Sqrt", _counts(data, segment_ids, num_segments))
        return apply_one("RealDiv", total, root)


def _sparse_segment(
    kind: str, data: Any, indices: Any, segment_ids: Any, num_segments: Any, name: str | None
) -> Tensor:
    op_type = f"SparseSegment{kind}"
    if num_segments is None:
        return apply_one(op_type, data, indices, segment_ids, name=name)
    numbered = f"{op_type}WithNumSegments"
    return apply_one(numbered, data, indices, segment_ids, num_segments, name=name)


@export("sparse_segment_sum", "sparse.segment_sum")
def sparse_segment_sum(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Tensor:
    """Adds up rows `indices` of `data` by segment.

    Args:
        data: A tensor.
        indices: Which rows to take, a vector.
        segment_ids: The segment of each of them, in ascending order.
        name: The node's name.
        num_segments: How many segments there are; up to the largest id if None.

    Returns:
        A tensor with one row per segment, zero where a segment has none.
    """
    return _sparse_segment("Sum", data, indices, segment_ids, num_segments, name)


@export("sparse_segment_mean", "sparse.segment_mean")
def sparse_segment_mean(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Tensor:
    """Averages rows `indices` of `data` by segment. See tf.sparse_segment_sum for the arguments."""
    return _sparse_segment("Mean", data, indices, segment_ids, num_segments, name)


@export("sparse_segment_sqrt_n", "sparse.segment_sqrt_n")
def sparse_segment_sqrt_n(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
) -> Tensor:
    """Adds up rows `indices` of `data` by segment, divided by the root of their number. See tf.sparse_segment_sum."""
    return _sparse_segment("SqrtN", data, indices, segment_ids, num_segments, name)
