"""Scattering values into a new tensor, or into a copy of one, by tuples of indices."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.gather import POLICY, gather_nd


def check_updates(shape: TensorShape, indices: TensorShape, updates: TensorShape) -> None:
    """Raises ValueError where updates cannot have the shape that the indices ask for."""
    dims, index_dims = shape.dims_tuple, shapes.with_rank_at_least(indices, 1).dims_tuple
    if dims is None or index_dims is None or index_dims[-1] is None:
        return
    if index_dims[-1] > len(dims):
        raise ValueError(
            f"The inner dimension of indices, {index_dims[-1]}, must be <= the rank of the shape {shapes.short(shape)}"
        )
    wanted = TensorShape._of((*index_dims[:-1], *dims[index_dims[-1] :]))
    try:
        shapes.merge(updates, wanted)
    except ValueError:
        raise ValueError(
            f"Dimensions of updates {shapes.short(updates)} must be {shapes.short(wanted)}, for indices of shape "
            f"{shapes.short(indices)} into the shape {shapes.short(shape)}"
        ) from None


def _scatter_nd_shape(c: ShapeContext) -> TensorShape:
    shape = c.constant_as_shape(2)
    if shape.num_elements() == 0 and any((c.input(i).num_elements() or 0) > 0 for i in (0, 1)):
        raise ValueError(f"Indices and updates specified for empty output of shape {shape}")
    check_updates(shape, c.input(0), c.input(1))
    return shape


def _tensor_scatter_shape(c: ShapeContext) -> TensorShape:
    check_updates(c.input(0), c.input(1), c.input(2))
    return c.input(0)


_ALL = "{numbertype, bool}"
define(
    "ScatterNd",
    "indices: Tindices, updates: T, shape: Tindices -> output: T",
    f"T: type, Tindices: {{int16, int32, int64}}, {POLICY}",
    shape=_scatter_nd_shape,
)
define(
    "ScatterNdNonAliasingAdd",
    "input: T, indices: Tindices, updates: T -> output: T",
    f"T: {_ALL}, Tindices: {{int32, int64}}, {POLICY}",
    shape=_tensor_scatter_shape,
)
for _name, _indices in (
    ("Update", "{int16, int32, int64, uint16}"),
    ("Add", "{int32, int64}"),
    ("Sub", "{int32, int64}"),
    ("Min", "{int32, int64}"),
    ("Max", "{int32, int64}"),
):
    define(
        f"TensorScatter{_name}",
        "tensor: T, indices: Tindices, updates: T -> output: T",
        f"T: type, Tindices: {_indices}, {POLICY}",
        shape=_tensor_scatter_shape,
    )


@export("scatter_nd", "manip.scatter_nd")
def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    """Returns zeros of the given shape with `updates` added at `indices`.

    Args:
        indices: The last dimension holds tuples of indices into `shape`.
        updates: A value or slice for every tuple; those for equal tuples are added up.
        shape: A vector of the type of `indices`.
        name: The node's name.

    Returns:
        A Tensor.

    Example:
        >>> tf.scatter_nd([[4], [3]], [9.0, 10.0], [8]).shape.as_list()
        [8]
    """
    return apply_one("ScatterNd", indices, updates, shape, name=name)


@export("tensor_scatter_nd_update", "tensor_scatter_update")
def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Returns a copy of `tensor` with the slices that `indices` name replaced by `updates`."""
    return apply_one("TensorScatterUpdate", tensor, indices, updates, name=name)


@export("tensor_scatter_nd_add", "tensor_scatter_add")
def tensor_scatter_nd_add(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Returns a copy of `tensor` with `updates` added to the slices that `indices` name."""
    return apply_one("TensorScatterAdd", tensor, indices, updates, name=name)


@export("tensor_scatter_nd_sub", "tensor_scatter_sub")
def tensor_scatter_nd_sub(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Returns a copy of `tensor` with `updates` subtracted from the slices that `indices` name."""
    return apply_one("TensorScatterSub", tensor, indices, updates, name=name)


@export("tensor_scatter_nd_min")
def tensor_scatter_nd_min(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Returns a copy of `tensor` with the slices that `indices` name lowered to `updates` where those are smaller."""
    return apply_one("TensorScatterMin", tensor, indices, updates, name=name)


@export("tensor_scatter_nd_max")
def tensor_scatter_nd_max(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """Returns a copy of `tensor` with the slices that `indices` name raised to `updates` where those are larger."""
    return apply_one("TensorScatterMax", tensor, indices, updates, name=name)


@gradient("ScatterNd")
def _scatter_nd_grad(op: Operation, grad: Tensor) -> Any:
    return None, gather_nd(grad, op.inputs[0]), None


@gradient("ScatterNdNonAliasingAdd", "TensorScatterAdd")
def _add_grad(op: Operation, grad: Tensor) -> Any:
    return grad, None, gather_nd(grad, op.inputs[1])


@gradient("TensorScatterSub")
def _sub_grad(op: Operation, grad: Tensor) -> Any:
    return grad, None, apply_one("Neg", gather_nd(grad, op.inputs[1]))


@gradient("TensorScatterUpdate")
def _update_grad(op: Operation, grad: Tensor) -> Any:
    indices, updates = op.inputs[1], op.inputs[2]
    kept = apply_one("TensorScatterUpdate", grad, indices, apply_one("ZerosLike", updates))
    return kept, None, gather_nd(grad, indices)


@gradient("TensorScatterMin", "TensorScatterMax")
def _extremum_grad(op: Operation, grad: Tensor) -> Any:
    """Elements and updates that equal the extremum share its gradient equally."""
    tensor, indices, updates = op.inputs
    result = op.outputs[0]
    tensor_won = apply_one("Cast", apply_one("Equal", result, tensor), DstT=tensor.dtype)
    update_won = apply_one("Cast", apply_one("Equal", gather_nd(result, indices), updates), DstT=tensor.dtype)
    winners = apply_one("TensorScatterAdd", tensor_won, indices, update_won)
    share = apply_one("RealDiv", grad, winners)
    return apply_one("Mul", share, tensor_won), None, apply_one("Mul", gather_nd(share, indices), update_won)
