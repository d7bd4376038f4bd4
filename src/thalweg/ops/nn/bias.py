"""Adding a vector along the channel dimension, and the squared norm as a loss."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.arithmetic import multiply
from thalweg.ops.math.element_types import FLOATS, NUMBERS
from thalweg.ops.math.operators import unary

_FORMAT = "data_format: {'NHWC', 'NCHW'} = 'NHWC'"


def _channels(c: ShapeContext) -> int:
    return 1 if c.op_type != "BiasAddV1" and c.attr("data_format") == b"NCHW" else -1


def _bias_add_shape(c: ShapeContext) -> TensorShape:
    value, bias = shapes.with_rank_at_least(c.input(0), 2), shapes.with_rank(c.input(1), 1)
    dims = value.dims_tuple
    if dims is None:
        return value
    axis = _channels(c) % len(dims)
    size = shapes.merge_dims(dims[axis], bias.dims_tuple[0] if bias.dims_tuple else None)
    return TensorShape._of((*dims[:axis], size, *dims[axis + 1 :]))


def _bias_add_grad_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank_at_least(c.input(0), 2).dims_tuple
    return shapes.ANY_VECTOR if dims is None else TensorShape._of((dims[_channels(c)],))


define("BiasAdd", "value: T, bias: T -> output: T", f"T: {NUMBERS}, {_FORMAT}", shape=_bias_add_shape)
define("BiasAddV1", "value: T, bias: T -> output: T", f"T: {NUMBERS}", shape=_bias_add_shape)
define("BiasAddGrad", "out_backprop: T -> output: T", f"T: {NUMBERS}, {_FORMAT}", shape=_bias_add_grad_shape)


@export("nn.bias_add")
def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Adds a vector to every position of a tensor, along its channels.

    Args:
        value: Tensor of rank 2 or more.
        bias: Vector with as many elements as there are channels.
        data_format: 'N...C' (the default) for channels last, 'NC...' for channels in dimension 1.
        name: The node's name.

    Returns:
        A tensor like `value`.

    Raises:
        ValueError: If `data_format` is neither.
    """
    if data_format is not None:
        if data_format.startswith("NC"):
            data_format = "NCHW"
        elif data_format.startswith("N") and data_format.endswith("C"):
            data_format = "NHWC"
        else:
            raise ValueError(f"data_format must be of the form `N...C` or `NC...`, got {data_format!r}.")
    with name_scope(name, "BiasAdd", [value, bias]) as scope:
        value = convert_to_tensor(value, name="input")
        bias = convert_to_tensor(bias, dtype=value.dtype.base_dtype, name="bias")
        return apply_one("BiasAdd", value, bias, data_format=data_format, name=scope)


@gradient("BiasAdd", "BiasAddV1")
def _bias_add_grad(op: Operation, grad: Tensor) -> Any:
    return grad, apply_one("BiasAddGrad", grad, data_format=op.attrs.get("data_format"))


@gradient("BiasAddGrad")
def _bias_add_grad_grad(op: Operation, grad: Tensor) -> Any:
    value = op.inputs[0]
    if op.get_attr("data_format") == b"NCHW":
        rank = value.shape.ndims
        ones = [1] * (rank - 2) if rank is not None else apply_one("OnesLike", apply_one("Shape", value)[2:])
        sizes = [-1, *ones] if isinstance(ones, list) else apply_one("ConcatV2", [[-1], ones], 0)
        grad = apply_one("Reshape", grad, sizes)
    return apply_one("BroadcastTo", grad, apply_one("Shape", value))


define("L2Loss", "t: T -> output: T", f"T: {FLOATS}", shape=shapes.scalar)


@export("nn.l2_loss")
def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Returns half the sum of the squares of all elements."""
    return unary("L2Loss", t, name)


@gradient("L2Loss")
def _l2_loss_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(op.inputs[0], grad)
