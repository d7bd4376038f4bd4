"""TensorArray and Stack as ops, with their gradients. `tensor_array.py` has the class that programs use."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import control_dependencies
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.gradient_source import current_computation, is_repeated
from thalweg.graph.op_effects import Effect, Flow
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.state.tensor_array import TensorArray

define(
    "TensorArrayV3",
    "size: int32 -> handle: resource, flow: float",
    "dtype: type, element_shape: shape = unknown, dynamic_size: bool = false, clear_after_read: bool = true, "
    "identical_element_shapes: bool = false, tensor_array_name: string = ''",
    shape=shapes.scalar,
    effect=Effect.STEP,
)
define(
    "TensorArrayGradV3",
    "handle: resource, flow_in: float -> grad_handle: resource, flow_out: float",
    "source: string",
    shape=shapes.scalar,
    effect=Effect.STEP,
)
define(
    "TensorArrayGradWithShape",
    "handle: resource, flow_in: float, shape_to_prepend: int32 -> grad_handle: resource, flow_out: float",
    "source: string",
    shape=shapes.scalar,
    effect=Effect.STEP,
)
define(
    "TensorArrayWriteV3",
    "handle: resource, index: int32, value: T, flow_in: float -> flow_out: float",
    "T: type",
    shape=shapes.scalar,
    effect=Effect.STEP,
)
define(
    "TensorArrayReadV3",
    "handle: resource, index: int32, flow_in: float -> value: dtype",
    "dtype: type",
    shape=shapes.unknown,
    effect=Effect.STEP,
)


def _gather_shape(c: ShapeContext) -> TensorShape:
    count = shapes.with_rank(c.input(1), 1).dims_tuple
    element = c.attr("element_shape").dims_tuple
    assert count is not None
    return shapes.UNKNOWN if element is None else TensorShape._of((count[0], *element))


define(
    "TensorArrayGatherV3",
    "handle: resource, indices: int32, flow_in: float -> value: dtype",
    "dtype: type, element_shape: shape = unknown",
    shape=_gather_shape,
    effect=Effect.STEP,
)


def _scatter_shape(c: ShapeContext) -> TensorShape:
    count = shapes.with_rank(c.input(1), 1).dims_tuple
    rows = shapes.with_rank_at_least(c.input(2), 1).dims_tuple
    if rows is not None and count is not None:
        shapes.merge_dims(count[0], rows[0])
    return shapes.SCALAR


define(
    "TensorArrayScatterV3",
    "handle: resource, indices: int32, value: T, flow_in: float -> flow_out: float",
    "T: type",
    shape=_scatter_shape,
    effect=Effect.STEP,
)


def _concat_shape(c: ShapeContext) -> list[TensorShape]:
    rest = c.attr("element_shape_except0").dims_tuple
    return [shapes.UNKNOWN if rest is None else TensorShape._of((None, *rest)), shapes.ANY_VECTOR]


define(
    "TensorArrayConcatV3",
    "handle: resource, flow_in: float -> value: dtype, lengths: int64",
    "dtype: type, element_shape_except0: shape = unknown",
    shape=_concat_shape,
    effect=Effect.STEP,
)
define(
    "TensorArraySplitV3",
    "handle: resource, value: T, lengths: int64, flow_in: float -> flow_out: float",
    "T: type",
    shape=shapes.scalar,
    effect=Effect.STEP,
)
define("TensorArraySizeV3", "handle: resource, flow_in: float -> size: int32", shape=shapes.scalar, effect=Effect.STEP)
define("TensorArrayCloseV3", "handle: resource ->", shape=shapes.no_outputs, effect=Effect.STEP)
not_differentiable(
    "TensorArrayV3", "TensorArrayGradV3", "TensorArrayGradWithShape", "TensorArraySizeV3", "TensorArrayCloseV3"
)

define(
    "StackV2",
    "max_size: int32 -> handle: resource",
    "elem_type: type, stack_name: string = ''",
    shape=shapes.scalar,
    effect=Effect.STEP,
)
define(
    "StackPushV2",
    "handle: resource, elem: T -> output: T",
    "T: type, swap_memory: bool = false",
    shape=shapes.same_as(1),
    effect=Effect.STEP,
)
define("StackPopV2", "handle: resource -> elem: elem_type", "elem_type: type", shape=shapes.unknown, effect=Effect.STEP)
define("StackCloseV2", "handle: resource ->", shape=shapes.no_outputs, effect=Effect.STEP)
not_differentiable("StackV2", "StackPopV2", "StackCloseV2")


@gradient("StackPushV2")
def _push_grad(op: Operation, grad: Any) -> Any:
    return None, grad


def _gradient_array(op: Operation, dtype: Any, grad: Tensor, flow: Tensor) -> Any:
    """The array that collects the gradients of the one that `op` uses."""
    origin = op.inputs[0].op
    while origin.op_def.flow in (Flow.ENTER, Flow.SWITCH, Flow.FORWARD):
        origin = origin.inputs[0].op
    if is_repeated(origin):
        raise NotImplementedError(
            f"Cannot take gradients through TensorArray '{origin.name}' inside of a loop that does not contain it: the "
            "iterations would share its gradients. Call tf.gradients outside of the loop."
        )
    return TensorArray(dtype, handle=op.inputs[0], flow=flow).grad(gradient_source(grad.op.name), flow)


def gradient_source(name: str) -> str:
    """Which gradient computation a node belongs to: the one under construction, or else the one in its name.

    Each gradient computation has its own gradient arrays: those of second derivatives are not those of first ones.
    """
    current = current_computation()
    if current is not None:
        return current
    tokens = name.split("/")
    places = [i for i, token in enumerate(tokens) if token.startswith("gradients")]
    if not places:
        raise ValueError(
            f"Expected op/tensor name to start with gradients (excluding scope), got: {name}. This means that a "
            "TensorArray gradient was taken outside of tf.gradients."
        )
    return "/".join(tokens[: places[-1] + 1])


def _after_write(op: Operation, flow: Tensor) -> Tensor:
    """The flow that reads gradients: after the forward write, which tells the gradient array its shapes."""
    written = apply_one("Identity", op.outputs[0], name="flow_out")
    with control_dependencies([written]):
        return apply_one("Identity", flow, name="write_barrier")


@gradient("TensorArrayReadV3")
def _read_grad(op: Operation, grad: Tensor) -> Any:
    array = _gradient_array(op, op.attrs["dtype"], grad, op.inputs[2])
    return None, None, array.write(op.inputs[1], grad).flow


@gradient("TensorArrayWriteV3")
def _write_grad(op: Operation, flow: Tensor) -> Any:
    array = _gradient_array(op, op.attrs["T"], flow, _after_write(op, flow))
    return None, None, array.read(op.inputs[1]), flow


@gradient("TensorArrayGatherV3")
def _gather_grad(op: Operation, grad: Tensor) -> Any:
    array = _gradient_array(op, op.attrs["dtype"], grad, op.inputs[2])
    return None, None, array.scatter(op.inputs[1], grad).flow


@gradient("TensorArrayScatterV3")
def _scatter_grad(op: Operation, flow: Tensor) -> Any:
    array = _gradient_array(op, op.attrs["T"], flow, _after_write(op, flow))
    value = array.gather(op.inputs[1])
    value.set_shape(op.inputs[2].shape)
    return None, None, value, flow


@gradient("TensorArrayConcatV3")
def _concat_grad(op: Operation, grad: Tensor, unused_lengths: Any) -> Any:
    array = _gradient_array(op, op.attrs["dtype"], grad, op.inputs[1])
    return None, array.split(grad, op.outputs[1]).flow


@gradient("TensorArraySplitV3")
def _split_grad(op: Operation, flow: Tensor) -> Any:
    array = _gradient_array(op, op.attrs["T"], flow, _after_write(op, flow))
    value = array.concat()
    value.set_shape(op.inputs[1].shape)
    return None, value, None, flow
