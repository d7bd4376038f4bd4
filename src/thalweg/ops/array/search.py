"""Finding elements: Where, insertion points in sorted sequences, distinct elements, differences of lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype, int32
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def _where_shape(c: ShapeContext) -> TensorShape:
    dims = c.dims(0)
    return TensorShape._of((None, None if dims is None else len(dims)))


# tf.where with one argument; the function is in select.py, beside the op with three.
define("Where", "input: T -> index: int64", "T: {numbertype, bool} = bool", shape=_where_shape)
not_differentiable("Where")


def _search_shape(c: ShapeContext) -> TensorShape:
    rows, values = shapes.with_rank(c.input(0), 2).dims_tuple, shapes.with_rank(c.input(1), 2).dims_tuple
    assert rows is not None and values is not None
    return TensorShape._of((shapes.merge_dims(rows[0], values[0]), values[1]))


for _op in ("LowerBound", "UpperBound"):
    define(
        _op, "sorted_inputs: T, values: T -> output: out_type", "T: type, out_type: {int32, int64} = int32",
        shape=_search_shape,
    )  # fmt: skip
    not_differentiable(_op)


@export("searchsorted")
def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = int32, name: str | None = None
) -> Tensor:
    """Returns where each value would have to be inserted to keep the innermost dimension sorted.

    Args:
        sorted_sequence: Tensor whose innermost dimension ascends.
        values: Tensor with the same outer dimensions.
        side: 'left' for the first such place, 'right' for the last.
        out_type: int32 or int64.
        name: A name for the operation.

    Returns:
        A Tensor of the shape of `values`.

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.searchsorted([1.0, 3.0, 5.0], [3.0, 4.0])).tolist()
        [1, 2]
    """
    op_type = {"left": "LowerBound", "right": "UpperBound"}.get(side)
    if op_type is None:
        raise ValueError(f"side must be either 'right' or 'left'.  Saw: {side}.")
    with name_scope(name, "searchsorted", [sorted_sequence, values]):
        sequence = convert_to_tensor(sorted_sequence)
        wanted = convert_to_tensor(values, sequence.dtype)
        flat = [_as_matrix(sequence), _as_matrix(wanted)]
        found = apply_one(op_type, *flat, out_type=as_dtype(out_type))
        static = wanted.shape
        shape = static.as_list() if static.is_fully_defined() else apply_one("Shape", wanted)
        return apply_one("Reshape", found, shape)


def _as_matrix(x: Tensor) -> Tensor:
    """Joins all dimensions but the last."""
    dims = x.shape.dims_tuple
    if dims is not None and len(dims) == 2:
        return x
    if dims and dims[-1]:
        return apply_one("Reshape", x, [-1, dims[-1]])
    # A width of 0 leaves -1 undetermined, so that both sizes are computed.
    sizes = apply_one("Shape", x)
    outer = apply_one("Prod", apply_one("StridedSlice", sizes, [0], [-1], [1], begin_mask=1), [0], keep_dims=True)
    last = apply_one("StridedSlice", sizes, [-1], [0], [1], end_mask=1)
    return apply_one("Reshape", x, apply_one("ConcatV2", [outer, last], 0))


define(
    "Bucketize", "input: T -> output: int32", "T: {int32, int64, float, double}, boundaries: list(float)",
    shape=shapes.unchanged,
)  # fmt: skip
not_differentiable("Bucketize")


def _unique_shape(c: ShapeContext) -> list[TensorShape]:
    counts = [shapes.ANY_VECTOR] if c.num_outputs == 3 else []
    dims = c.dims(0)
    axis = 0
    if c.num_inputs == 2:
        given = c.constant(1)
        if given is None:
            y = shapes.UNKNOWN if dims is None else TensorShape._of((None,) * len(dims))
            return [y, shapes.ANY_VECTOR, *counts]
        if given.size > 1 or given.ndim != 1:
            raise ValueError(f"axis must be a vector with at most one element, got {given.tolist()}")
        if given.size == 1:
            if dims is None:
                return [shapes.UNKNOWN, shapes.ANY_VECTOR, *counts]
            axis = shapes.normalize_axis(int(given[0]), len(dims))
            y = TensorShape._of((*dims[:axis], None, *dims[axis + 1 :]))
            return [y, TensorShape._of((dims[axis],)), *counts]
    vector = shapes.with_rank(c.input(0), 1)
    return [shapes.ANY_VECTOR, vector, *counts]


_OUT_IDX = "out_idx: {int32, int64} = int32"
_TAXIS = "Taxis: {int32, int64} = int64"
define("Unique", "x: T -> y: T, idx: out_idx", f"T: type, {_OUT_IDX}", shape=_unique_shape)
define("UniqueV2", "x: T, axis: Taxis -> y: T, idx: out_idx", f"T: type, {_TAXIS}, {_OUT_IDX}", shape=_unique_shape)
define(
    "UniqueWithCounts", "x: T -> y: T, idx: out_idx, count: out_idx", f"T: type, {_OUT_IDX}", shape=_unique_shape
)  # fmt: skip
define(
    "UniqueWithCountsV2", "x: T, axis: Taxis -> y: T, idx: out_idx, count: out_idx",
    f"T: type, {_TAXIS}, {_OUT_IDX}", shape=_unique_shape,
)  # fmt: skip
not_differentiable("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")


@export("unique")
def unique(x: Any, out_idx: Any = int32, name: str | None = None) -> Any:
    """Returns the distinct elements of a vector in the order of their first appearance.

    Args:
        x: A vector.
        out_idx: The type of `idx`: int32 or int64.
        name: A name for the operation.

    Returns:
        A namedtuple (y, idx) such that `y[idx[i]] == x[i]`.
    """
    return apply("Unique", x, out_idx=out_idx, name=name)


@export("unique_with_counts")
def unique_with_counts(x: Any, out_idx: Any = int32, name: str | None = None) -> Any:
    """Returns the distinct elements of a vector, and how often each of them occurs.

    Args:
        x: A vector.
        out_idx: The type of `idx` and `count`: int32 or int64.
        name: A name for the operation.

    Returns:
        A namedtuple (y, idx, count) such that `y[idx[i]] == x[i]`.
    """
    return apply("UniqueWithCounts", x, out_idx=out_idx, name=name)


def _list_diff_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(0), 1)
    shapes.with_rank(c.input(1), 1)
    return [shapes.ANY_VECTOR, shapes.ANY_VECTOR]


define("ListDiff", "x: T, y: T -> out: T, idx: out_idx", f"T: type, {_OUT_IDX}", shape=_list_diff_shape)
not_differentiable("ListDiff")


@export("setdiff1d", deprecated=("listdiff", "list_diff"))
def setdiff1d(x: Any, y: Any, index_dtype: Any = None, name: str | None = None, out_idx: Any = None) -> Any:
    """Returns the elements of `x` that are not in `y`, in order, and where they stand in `x`.

    Args:
        x: A vector.
        y: A vector: the elements to leave out.
        index_dtype: The type of the positions: int32, unless another is given.
        name: A name for the operation.
        out_idx: The older spelling of `index_dtype`.

    Returns:
        A namedtuple (out, idx).
    """
    return apply("ListDiff", x, y, out_idx=index_dtype or out_idx, name=name)


@export("confusion_matrix", "math.confusion_matrix", "contrib.metrics.confusion_matrix")
def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """Counts how often each label (row) was predicted as each class (column).

    Args:
        labels: Vector of true classes.
        predictions: Vector of predicted classes.
        num_classes: The size of the result; one more than the largest number if None.
        dtype: The type of the counts.
        name: A name for the operation.
        weights: What each prediction counts, instead of 1.

    Returns:
        A matrix `[num_classes, num_classes]`.
    """
    with name_scope(name, "confusion_matrix", [labels, predictions]):
        truth, guess = (apply_one("Cast", _as_vector(x), DstT="int64") for x in (labels, predictions))
        kind = as_dtype(dtype)
        if num_classes is None:
            largest = apply_one("Maximum", apply_one("Max", truth, [0]), apply_one("Max", guess, [0]))
            size = apply_one("AddV2", largest, np.int64(1))
        else:
            size = apply_one("Cast", convert_to_tensor(num_classes), DstT="int64")
        if weights is None:
            counts = apply_one("OnesLike", apply_one("Cast", guess, DstT=kind))
        else:
            counts = apply_one("Cast", convert_to_tensor(weights), DstT=kind)
        places = apply_one("Pack", [truth, guess], axis=1)
        return apply_one("ScatterNd", places, counts, apply_one("Pack", [size, size], axis=0))


def _as_vector(x: Any) -> Tensor:
    """Drops a last dimension of 1, which one-column labels have."""
    tensor = convert_to_tensor(x)
    dims = tensor.shape.dims_tuple
    if dims is not None and len(dims) == 2 and dims[1] == 1:
        return apply_one("Squeeze", tensor, squeeze_dims=[-1])
    return tensor
