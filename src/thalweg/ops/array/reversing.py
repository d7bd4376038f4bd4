"""The same elements in another order along some dimensions: reverse, reverse_sequence, roll."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.platform.deprecation import deprecated_argument_lookup

_TYPES = (
    "T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, half, float, double, complex64, "
    "complex128, string}"
)


def _reverse_shape(c: ShapeContext) -> TensorShape:
    dims, flags = c.dims(0), shapes.with_rank(c.input(1), 1).dims_tuple
    if dims is not None and flags is not None:
        shapes.merge_dims(len(dims), flags[0])
    return c.input(0)


def _reverse_v2_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 1)
    dims, axes = c.dims(0), c.constant(1)
    if dims is not None and axes is not None:
        seen = set()
        for axis in axes.tolist():
            if not -len(dims) <= axis < len(dims):
                raise ValueError(f"'axis' {axis} is out of valid range [{-len(dims)}, {len(dims) - 1}]")
            if axis % len(dims) in seen:
                raise ValueError(f"axis {axis} specified more than once")
            seen.add(axis % len(dims))
    return c.input(0)


define("Reverse", "tensor: T, dims: bool -> output: T", _TYPES, shape=_reverse_shape)
define(
    "ReverseV2",
    "tensor: T, axis: Tidx -> output: T",
    f"Tidx: {{int32, int64}} = int32, {_TYPES}",
    shape=_reverse_v2_shape,
)


@export("reverse", "reverse_v2", "manip.reverse")
def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Reverses the order of elements along the dimensions in `axis`."""
    return apply_one("ReverseV2", tensor, axis, name=name)


@gradient("Reverse", "ReverseV2")
def _reverse_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one(op.type, grad, op.inputs[1]), None


def _reverse_sequence_shape(c: ShapeContext) -> TensorShape:
    dims, lengths = c.dims(0), shapes.with_rank(c.input(1), 1).dims_tuple
    if dims is None or lengths is None:
        return c.input(0)
    rank, seq, batch = len(dims), c.attr("seq_dim"), c.attr("batch_dim")
    for what, axis in (("seq_dim", seq), ("batch_dim", batch)):
        if not -rank <= axis < rank:
            raise ValueError(f"{what} must be < input rank, got {axis} for rank {rank}")
    if seq % rank == batch % rank:
        raise ValueError(f"seq_dim and batch_dim must differ, both are {seq % rank}")
    size = shapes.merge_dims(dims[batch], lengths[0])
    return TensorShape._of(tuple([size if i == batch % rank else d for i, d in enumerate(dims)]))


define(
    "ReverseSequence",
    "input: T, seq_lengths: Tlen -> output: T",
    "seq_dim: int, batch_dim: int = 0, T: type, Tlen: {int32, int64} = int64",
    shape=_reverse_sequence_shape,
)


@export("reverse_sequence")
def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Tensor:
    """Reverses the first `seq_lengths[i]` elements of entry i of a batch; the rest stays.

    Args:
        input: A Tensor.
        seq_lengths: A vector with one length per entry of the batch.
        seq_axis: The dimension to reverse along.
        batch_axis: The dimension of the batch; 0 if None.
        name: The node's name.
        seq_dim: Deprecated name of `seq_axis`.
        batch_dim: Deprecated name of `batch_axis`.

    Returns:
        A Tensor.
    """
    seq = deprecated_argument_lookup("seq_axis", seq_axis, "seq_dim", seq_dim)
    batch = deprecated_argument_lookup("batch_axis", batch_axis, "batch_dim", batch_dim)
    return apply_one(
        "ReverseSequence", input, seq_lengths, seq_dim=seq, batch_dim=0 if batch is None else batch, name=name
    )


@gradient("ReverseSequence")
def _reverse_sequence_grad(op: Operation, grad: Tensor) -> Any:
    dims = {"seq_dim": op.attrs["seq_dim"], "batch_dim": op.attrs["batch_dim"]}
    return apply_one("ReverseSequence", grad, op.inputs[1], **dims), None


def _roll_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank_at_least(c.input(0), 1)
    shapes.with_rank_at_most(c.input(1), 1)
    shapes.with_rank_at_most(c.input(2), 1)
    shapes.merge(c.input(1), c.input(2))
    return c.input(0)


define(
    "Roll",
    "input: T, shift: Tshift, axis: Taxis -> output: T",
    "T: type, Tshift: {int32, int64}, Taxis: {int32, int64}",
    shape=_roll_shape,
)


@export("roll", "manip.roll")
def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Shifts elements along dimensions; those that leave at one end enter at the other.

    Args:
        input: A Tensor.
        shift: By how much, towards larger indices: a scalar, or a vector with one entry per axis.
        axis: Along which dimensions; shifts along one that occurs twice add up.
        name: The node's name.

    Returns:
        A Tensor.
    """
    return apply_one("Roll", input, shift, axis, name=name)


@gradient("Roll")
def _roll_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("Roll", grad, apply_one("Neg", op.inputs[1]), op.inputs[2]), None, None
