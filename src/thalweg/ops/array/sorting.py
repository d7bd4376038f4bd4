"""Order within rows: the k largest, the nth smallest, sorting, and whether a class is among the most probable."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def _top_k_shape(c: ShapeContext) -> list[TensorShape]:
    if c.num_inputs == 2:
        shapes.with_rank(c.input(1), 0)
        given = c.constant(1)
        k = None if given is None else int(given)
    else:
        k = c.attr("k")
    dims = shapes.with_rank_at_least(c.input(0), 1).dims_tuple
    if k is not None and k < 0:
        raise ValueError(f"Need k >= 0, got {k}")
    if dims is None:
        return [shapes.UNKNOWN] * 2
    if k is not None and dims[-1] is not None and dims[-1] < k:
        raise ValueError(f"input must have last dimension >= k = {k} but is {dims[-1]}")
    return [TensorShape._of((*dims[:-1], k))] * 2


define(
    "TopK", "input: T -> values: T, indices: int32", "k: int >= 0, sorted: bool = true, T: realnumbertype",
    shape=_top_k_shape,
)  # fmt: skip
define(
    "TopKV2", "input: T, k: Tk -> values: T, indices: index_type",
    "sorted: bool = true, T: realnumbertype, Tk: {int16, int32, int64} = int32, "
    "index_type: {int16, int32, int64} = int32",
    shape=_top_k_shape,
)  # fmt: skip


@export("nn.top_k", "math.top_k")
def top_k(input: Any, k: Any = 1, sorted: bool = True, name: str | None = None) -> Any:
    """Returns the `k` largest elements of each row, and where they stand.

    Of equal elements the one with the lower index comes first; NaN comes behind all numbers.

    Args:
        input: Tensor of rank 1 or more with at least `k` elements in the last dimension.
        k: How many.
        sorted: Whether the result must be in descending order.
        name: A name for the operation.

    Returns:
        A namedtuple (values, indices).

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.nn.top_k([1.0, 5.0, 3.0], k=2)).indices.tolist()
        [1, 2]
    """
    return apply("TopKV2", input, k, sorted=sorted, name=name)


work(works.sorting, "TopK", "TopKV2")


@gradient("TopK", "TopKV2")
def _top_k_grad(op: Operation, grad: Any, _: Any) -> Any:
    rest = [None] * (len(op.inputs) - 1)
    if grad is None:
        return [None, *rest]
    x, indices = op.inputs[0], op.outputs[1]
    where = apply_one("Cast", indices, DstT="int64")
    if x.shape.is_fully_defined() and indices.shape.is_fully_defined():
        sizes: Any = x.shape.as_list()
        rows = int(np.prod(sizes[:-1]))
        starts: Any = np.reshape(np.arange(rows, dtype=np.int64) * sizes[-1], (*sizes[:-1], 1))
        where = apply_one("Reshape", apply_one("AddV2", where, starts), [-1, 1])
        flat = apply_one("ScatterNd", where, apply_one("Reshape", grad, [-1]), np.array([rows * sizes[-1]], np.int64))
        return [apply_one("Reshape", flat, sizes), *rest]
    sizes = apply_one("Shape", x, out_type="int64")
    total = apply_one("Prod", sizes, [0], keep_dims=True)
    width = apply_one("StridedSlice", sizes, [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    k = apply_one("StridedSlice", apply_one("Shape", indices), [-1], [0], [1], end_mask=1)
    where = apply_one("Reshape", where, apply_one("ConcatV2", [[-1], k], 0))
    count = apply_one("StridedSlice", apply_one("Shape", where, out_type="int64"), [0], [1], [1], shrink_axis_mask=1)
    starts = apply_one("Range", np.int64(0), count, np.int64(1))
    starts = apply_one("ExpandDims", apply_one("Mul", starts, width), 1)
    where = apply_one("Reshape", apply_one("AddV2", where, starts), [-1, 1])
    flat = apply_one("ScatterNd", where, apply_one("Reshape", grad, [-1]), total)
    return [apply_one("Reshape", flat, sizes), *rest]


def _in_top_k_shape(c: ShapeContext) -> TensorShape:
    predictions, targets = shapes.with_rank(c.input(0), 2).dims_tuple, shapes.with_rank(c.input(1), 1).dims_tuple
    assert predictions is not None and targets is not None
    if c.num_inputs == 3:
        shapes.with_rank(c.input(2), 0)
    return TensorShape._of((shapes.merge_dims(predictions[0], targets[0]),))


define(
    "InTopK", "predictions: float, targets: T -> precision: bool", "k: int, T: {int32, int64} = int32",
    shape=_in_top_k_shape,
)  # fmt: skip
define(
    "InTopKV2", "predictions: float, targets: T, k: T -> precision: bool", "T: {int32, int64} = int32",
    shape=_in_top_k_shape,
)  # fmt: skip
not_differentiable("InTopK", "InTopKV2")


@export("nn.in_top_k", "math.in_top_k")
def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Returns, for each row, whether the class `targets[i]` is among the `k` largest of `predictions[i]`.

    Classes that tie with the last of them count as inside; a row with a value that is not finite is never.

    Args:
        predictions: float32 matrix, a row of scores per example.
        targets: Vector of class numbers.
        k: How many.
        name: A name for the operation.

    Returns:
        A vector of bool.
    """
    with name_scope(name, "in_top_k"):
        return apply_one("InTopKV2", predictions, targets, k)


def _nth_element_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank_at_least(c.input(0), 1).dims_tuple
    shapes.with_rank(c.input(1), 0)
    n = c.constant(1)
    if n is not None and n < 0:
        raise ValueError(f"n must not be negative, got {n}")
    if dims is None:
        return shapes.UNKNOWN
    if n is not None and dims[-1] is not None and dims[-1] <= n:
        raise ValueError(f"Input must have last dimension > n = {n} but is {dims[-1]}")
    return TensorShape._of(dims[:-1])


define(
    "NthElement", "input: T, n: int32 -> values: T", "reverse: bool = false, T: realnumbertype",
    shape=_nth_element_shape,
)  # fmt: skip


@export("contrib.nn.nth_element", "nn.nth_element")
def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """Returns the `n`-th smallest element of each row, counted from 0; the `n`-th largest with `reverse`."""
    return apply_one("NthElement", input, n, reverse=reverse, name=name)


@gradient("NthElement")
def _nth_element_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    chosen = apply_one("Cast", apply_one("Equal", apply_one("ExpandDims", op.outputs[0], -1), x), DstT=grad.dtype)
    share = apply_one("RealDiv", chosen, apply_one("Sum", chosen, [-1], keep_dims=True))
    return apply_one("Mul", share, apply_one("ExpandDims", grad, -1)), None


@export("sort", "contrib.framework.sort")
def sort(values: Any, axis: Any = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Sorts along one axis.

    Args:
        values: Tensor of numbers, of rank 1 or more.
        axis: The axis, known when the graph is built.
        direction: 'ASCENDING' or 'DESCENDING'.
        name: A name for the operation.

    Returns:
        A Tensor of the same shape. NaN comes last in either direction.

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.sort([3, 1, 2])).tolist()
        [1, 2, 3]
    """
    with name_scope(name, "sort"):
        return _sorted(values, axis, direction, 0)


@export("argsort", "contrib.framework.argsort")
def argsort(
    values: Any, axis: Any = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """Returns the int32 positions that sort `values` along one axis; see `sort`.

    Args:
        values: Tensor of numbers, of rank 1 or more.
        axis: The axis, known when the graph is built.
        direction: 'ASCENDING' or 'DESCENDING'.
        stable: Whether equal elements keep their order. They do in any case.
        name: A name for the operation.

    Returns:
        A Tensor of the same shape.
    """
    with name_scope(name, "argsort"):
        return _sorted(values, axis, direction, 1)


def _sorted(values: Any, axis: Any, direction: str, which: int) -> Tensor:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction should be either 'ASCENDING' or 'DESCENDING', got {direction!r}.")
    x = convert_to_tensor(values)
    axis = constant_value(axis) if isinstance(axis, Tensor) else axis
    if axis is None or np.ndim(axis) != 0:
        raise ValueError("axis must be a constant scalar.")
    axis = int(axis)
    rank = x.shape.ndims
    if rank == 0:
        raise ValueError("sort and argsort need at least a vector, got a scalar.")
    if rank is not None:
        axis = shapes.normalize_axis(axis, rank)
    if axis in (-1, None if rank is None else rank - 1):
        return _sorted_rows(x, direction, which)
    if rank is not None:
        order: Any = np.arange(rank, dtype=np.int32)
        order[axis], order[-1] = rank - 1, axis
    else:
        order = _swapped_with_last(x, axis)
    return apply_one("Transpose", _sorted_rows(apply_one("Transpose", x, order), direction, which), order)


def _swapped_with_last(x: Tensor, axis: int) -> Tensor:
    """The permutation that swaps an axis with the last, for a rank that only the step knows."""
    rank = apply_one("Rank", x)
    place = apply_one("AddV2", rank, axis) if axis < 0 else convert_to_tensor(axis)
    last = apply_one("Sub", rank, 1)
    order = apply_one("Range", 0, rank, 1)
    is_place, is_last = apply_one("Equal", order, place), apply_one("Equal", order, last)
    fill = apply_one("Shape", order)
    order = apply_one("Select", is_place, apply_one("Fill", fill, last), order)
    return apply_one("Select", is_last, apply_one("Fill", fill, place), order)


def _sorted_rows(x: Tensor, direction: str, which: int) -> Tensor:
    dims = x.shape.dims_tuple
    k: int | Tensor | None = dims[-1] if dims else None
    if k is None:
        k = apply_one("StridedSlice", apply_one("Shape", x), [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    if direction == "DESCENDING":
        tensor: Tensor = apply("TopKV2", x, k)[which]
        return tensor
    # Ascending order is descending order of the mirrored values. Integers are mirrored by their complement, which
    # unlike the negative exists for all of them.
    mirror = "Invert" if x.dtype.is_integer else "Neg"
    found = apply("TopKV2", apply_one(mirror, x), k)
    return found.indices if which else apply_one(mirror, found.values)
