"""Padding tensors: with a constant, or with a mirror image of their edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import is_tensor_like
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.shapes_of_tensors import reshape, sizes_of


def _dims_and_paddings(c: ShapeContext) -> tuple[shapes.Dims, np.ndarray[Any, Any] | None]:
    """The dimensions of the input (the paddings may tell its rank), and the paddings if they are constant."""
    dims, matrix = c.dims(0), shapes.with_rank(c.input(1), 2).dims_tuple
    assert matrix is not None
    shapes.merge_dims(matrix[1], 2)
    rank = shapes.merge_dims(None if dims is None else len(dims), matrix[0])
    paddings = c.constant(1)
    if paddings is not None and (paddings < 0).any():
        raise ValueError(f"Paddings must be non-negative: {paddings.tolist()}")
    return ((None,) * rank if dims is None and rank is not None else dims), paddings


def _pad_shape(c: ShapeContext) -> TensorShape:
    dims, paddings = _dims_and_paddings(c)
    if dims is None or paddings is None:
        return shapes.UNKNOWN if dims is None else TensorShape._of((None,) * len(dims))
    edges = paddings.astype(object).sum(axis=1).tolist() if len(dims) else []
    return TensorShape._of(tuple([None if d is None else d + e for d, e in zip(dims, edges, strict=True)]))


def _mirror_pad_grad_shape(c: ShapeContext) -> TensorShape:
    dims, paddings = _dims_and_paddings(c)
    if dims is None or paddings is None:
        return shapes.UNKNOWN if dims is None else TensorShape._of((None,) * len(dims))
    edges = paddings.astype(object).sum(axis=1).tolist() if len(dims) else []
    sizes = [None if d is None else d - e for d, e in zip(dims, edges, strict=True)]
    if any(size is not None and size < 0 for size in sizes):
        raise ValueError(f"The paddings {paddings.tolist()} exceed the shape {shapes.short(c.input(0))}")
    return TensorShape._of(tuple(sizes))


_ATTRS = "T: type, Tpaddings: {int32, int64} = int32"
_MODE = "mode: {'REFLECT', 'SYMMETRIC'}"
define("Pad", "input: T, paddings: Tpaddings -> output: T", _ATTRS, shape=_pad_shape)
define("PadV2", "input: T, paddings: Tpaddings, constant_values: T -> output: T", _ATTRS, shape=_pad_shape)
define("MirrorPad", "input: T, paddings: Tpaddings -> output: T", f"{_ATTRS}, {_MODE}", shape=_pad_shape)
define(
    "MirrorPadGrad", "input: T, paddings: Tpaddings -> output: T", f"{_ATTRS}, {_MODE}", shape=_mirror_pad_grad_shape
)


@export("pad")
def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0
) -> Tensor:
    """Adds elements before and after a tensor along each dimension.

    Args:
        tensor: A Tensor.
        paddings: A matrix with two columns: how many elements to add before and after, for each dimension.
        mode: 'CONSTANT', 'REFLECT' (a mirror image without the edge) or 'SYMMETRIC' (with the edge).
        name: The node's name.
        constant_values: The scalar to pad with in mode 'CONSTANT'.

    Returns:
        A Tensor.

    Raises:
        ValueError: If there is no such mode.

    Example:
        >>> tf.pad(tf.zeros([2, 3]), [[1, 1], [2, 2]]).shape.as_list()
        [4, 7]
    """
    kind = str(mode).upper()
    if kind in ("REFLECT", "SYMMETRIC"):
        return apply_one("MirrorPad", tensor, paddings, mode=kind, name=name)
    if kind != "CONSTANT":
        raise ValueError(f"Unknown padding mode: {mode}. Expected 'CONSTANT', 'REFLECT' or 'SYMMETRIC'.")
    if not is_tensor_like(constant_values) and np.ndim(constant_values) == 0 and not constant_values:
        return apply_one("Pad", tensor, paddings, name=name)
    return apply_one("PadV2", tensor, paddings, constant_values, name=name)


@gradient("Pad")
def _pad_grad(op: Operation, grad: Tensor) -> Any:
    return _interior(op, grad), None


@gradient("PadV2")
def _pad_v2_grad(op: Operation, grad: Tensor) -> Any:
    inside = _interior(op, grad)
    return inside, None, apply_one("Sub", _sum_of_all(grad), _sum_of_all(inside))


def _sum_of_all(x: Tensor) -> Tensor:
    return apply_one("Sum", reshape(x, [-1]), [0])


def _interior(op: Operation, grad: Tensor) -> Tensor:
    x, paddings = op.inputs[0], op.inputs[1]
    known = constant_value(paddings)
    if known is not None and known.ndim == 2:
        before: Any = np.ascontiguousarray(known[:, 0])
    else:
        before = apply_one(
            "StridedSlice", paddings, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2
        )
    return apply_one("Slice", grad, before, sizes_of(x, paddings.dtype))


@gradient("MirrorPad")
def _mirror_pad_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("MirrorPadGrad", grad, op.inputs[1], mode=op.attrs["mode"]), None


@gradient("MirrorPadGrad")
def _mirror_pad_grad_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("MirrorPad", grad, op.inputs[1], mode=op.attrs["mode"]), None
