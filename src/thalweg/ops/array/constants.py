"""Where values enter the graph, and ops that only pass them on: Const, Placeholder, Identity, group, tuple, ..."""

from __future__ import annotations

import builtins
from typing import Any

from thalweg.graph import constant_values, nest
from thalweg.graph.apply import apply_list, apply_one, apply_op
from thalweg.graph.composite import IndexedSlices, SparseTensor, convert_to_tensor_or_indexed_slices
from thalweg.graph.default_graph import colocate_with, control_dependencies, device, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.op_effects import Effect, Flow
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape, as_shape


def _const_shape(c: ShapeContext) -> TensorShape:
    return TensorShape._of(c.attr("value").shape)


define("Const", "-> output: dtype", "value: tensor, dtype: type", shape=_const_shape, doc="A constant.")
work(works.free, "Const")
not_differentiable("Const")


@export("constant")
def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False
) -> Tensor:
    """Creates a constant tensor.

    Args:
        value: A number, string, nested list of these, or an array.
        dtype: The type of the elements; inferred from `value` if None.
        shape: The shape of the result. Its last element is repeated where `value` has too few.
        name: The node's name.
        verify_shape: Whether `value` must have exactly that shape.

    Returns:
        A Tensor.

    Raises:
        TypeError: If `value` cannot be of type `dtype`, or does not have the shape asked for.
        ValueError: If `value` has too many elements, or is a ragged list.

    Example:
        >>> tf.constant(-1.0, shape=[2, 3])
        <tf.Tensor 'Const:0' shape=(2, 3) dtype=float32>
    """
    if _holds_tensor(value):
        raise TypeError(
            f"Expected any non-tensor type, but got a tensor instead: {value}. Use tf.convert_to_tensor or tf.stack."
        )
    array, dtype = constant_values.as_array(value, None if dtype is None else as_dtype(dtype).base_dtype)
    if shape is not None:
        array = constant_values.fill_shape(array, shape, verify_shape)
    return apply_one("Const", value=array, dtype=dtype, name=name)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, builtins.tuple)):
        return any(_holds_tensor(item) for item in value)
    return isinstance(value, (Tensor, SparseTensor, IndexedSlices))


define(
    "Placeholder", "-> output: dtype", "dtype: type, shape: shape = unknown", shape=shapes.from_attr("shape"),
    effect=Effect.FED,
)  # fmt: skip
define(
    "PlaceholderV2", "-> output: dtype", "dtype: type, shape: shape", shape=shapes.from_attr("shape"), effect=Effect.FED
)
work(works.free, "Placeholder", "PlaceholderV2")
not_differentiable("Placeholder", "PlaceholderV2")


@export("placeholder")
def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Creates a tensor whose value every step must be fed.

    Args:
        dtype: The type of its elements.
        shape: The shape that fed values must have; None for any.
        name: The node's name.

    Returns:
        A Tensor.

    Example:
        >>> tf.placeholder(tf.float32, shape=[None, 784]).shape.as_list()
        [None, 784]
    """
    return apply_one("Placeholder", dtype=dtype, shape=as_shape(shape), name=name)


def _with_default_shape(c: ShapeContext) -> TensorShape:
    shape: TensorShape = c.attr("shape")
    shapes.merge(c.input(0), shape)
    return shape  # Not the merged one: a fed value need only have the shape asked for.


define(
    "PlaceholderWithDefault",
    "input: dtype -> output: dtype",
    "dtype: type, shape: shape",
    shape=_with_default_shape,
    effect=Effect.FED,
)


@export("placeholder_with_default")
def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Passes `input` on when the step does not feed its output.

    Args:
        input: The value to use if none is fed.
        shape: The shape that fed values must have; None in it, or for it, leaves that open.
        name: The node's name.

    Returns:
        A Tensor.
    """
    return apply_one("PlaceholderWithDefault", input, shape=TensorShape(shape), name=name)


define("Identity", "input: T -> output: T", "T: type", shape=shapes.unchanged, flow=Flow.FORWARD)
define("IdentityN", "input: T -> output: T", "T: list(type) >= 1", shape=shapes.each_unchanged)
work(works.free, "Identity", "IdentityN")


@export("identity")
@elementwise
def identity(input: Any, name: str | None = None) -> Any:
    """Returns a tensor with the same value: a place for a name, a device or control dependencies."""
    if isinstance(input, SparseTensor):
        with name_scope(name, "Identity", [input]):
            return SparseTensor(identity(input.indices), identity(input.values), identity(input.dense_shape))
    tensor = apply_one("Identity", input, name=name)
    if isinstance(tensor, EagerTensor):
        tensor._handle_data = getattr(input, "_handle_data", None)
    else:
        tensor._handle_data = tensor.op.inputs[0]._handle_data
    return tensor


@export("identity_n")
def identity_n(input: Any, name: str | None = None) -> list[Tensor]:
    """Passes several tensors on at once: none is available before all are."""
    return apply_list("IdentityN", input, name=name)


@gradient("Identity", "PlaceholderWithDefault", "GuaranteeConst", "Snapshot")
def _identity_grad(op: Operation, grad: Any) -> Any:
    return grad


@gradient("IdentityN")
def _identity_n_grad(op: Operation, *grads: Any) -> Any:
    return grads


define("StopGradient", "input: T -> output: T", "T: type", shape=shapes.unchanged, flow=Flow.FORWARD)
work(works.free, "StopGradient")
not_differentiable("StopGradient")


@export("stop_gradient")
def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """Passes the value on, and counts as a constant when gradients are taken."""
    return apply_one("StopGradient", input, name=name)


define(
    "PreventGradient", "input: T -> output: T", "T: type, message: string = ''", shape=shapes.unchanged,
    flow=Flow.FORWARD,
)  # fmt: skip
define("GuaranteeConst", "input: T -> output: T", "T: type", shape=shapes.unchanged)
define("Snapshot", "input: T -> output: T", "T: type", shape=shapes.unchanged)
work(works.free, "PreventGradient", "GuaranteeConst", "Snapshot")


def prevent_gradient(input: Any, message: str = "", name: str | None = None) -> Tensor:
    """Passes the value on, and makes taking a gradient through it an error with `message`."""
    return apply_one("PreventGradient", input, message=message, name=name)


@export("guarantee_const")
def guarantee_const(input: Any, name: str | None = None) -> Tensor:
    """Returns the tensor; says that its value does not change between steps."""
    return apply_one("GuaranteeConst", input, name=name)


@gradient("PreventGradient")
def _prevent_gradient_grad(op: Operation, grad: Any) -> Any:
    raise LookupError(f"Gradient explicitly disabled at '{op.name}'. Reason: {op.get_attr('message').decode()}")


define("NoOp", "->", shape=shapes.no_outputs, doc="Does nothing: a place for control edges to meet.")
work(works.free, "NoOp")
not_differentiable("NoOp")


@export("no_op")
def no_op(name: str | None = None) -> Operation:
    """Creates an operation that does nothing, for the control dependencies of the place where it is created."""
    return apply_op("NoOp", name=name)


def _operation_of(element: Any) -> Operation:
    op = element if isinstance(element, Operation) else getattr(element, "op", None)
    if not isinstance(op, Operation):
        raise TypeError(
            f"Expected tf.group() to get Tensors or Operations, not '{element!r}' of type '{type(element).__name__}'."
        )
    return op


@export("group")
def group(*inputs: Any, **kwargs: Any) -> Operation:
    """Creates an operation that is done when all `inputs` (tensors, operations, nested lists of them) are.

    Args:
        *inputs: What to wait for; None counts as nothing.
        **kwargs: `name`, the node's name.

    Returns:
        An Operation without outputs.
    """
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unknown keyword arguments: {', '.join(kwargs)}")
    by_device: dict[str, list[Operation]] = {}
    for element in nest.flatten(list(inputs)):
        if element is not None and type(element) is not EagerTensor:  # That has run.
            op = _operation_of(element)
            by_device.setdefault(op.device, []).append(op)
    with name_scope(name, "group_deps", [op for ops in by_device.values() for op in ops]) as scope:
        if len(by_device) <= 1:
            return _gate(next(iter(by_device.values()), []), next(iter(by_device), ""), scope)
        # One gate per device first: a single edge then crosses from each device to the last gate.
        gates = [_gate(by_device[place], place, None) for place in sorted(by_device)]
        return _gate(gates, "", scope)


def _gate(ops: list[Operation], device_name: str, name: str | None) -> Operation:
    with control_dependencies(ops):
        if not device_name:
            return no_op(name)
        with device(device_name):
            return no_op(name)


def with_dependencies(dependencies: Any, output: Any, name: str | None = None) -> Any:
    """Returns `output`, available only after `dependencies` have run."""
    with name_scope(name, "control_dependency", [*dependencies, output]) as scope, colocate_with(output):
        with control_dependencies(dependencies):
            output = convert_to_tensor_or_indexed_slices(output)
            if isinstance(output, Tensor):
                return identity(output, name=scope)
            return IndexedSlices(identity(output.values, name=scope), output.indices, output.dense_shape)


@export("tuple")
def tuple(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """Returns tensors of the same values, none of which is available before all of `tensors` are computed.

    Args:
        tensors: A list of tensors, IndexedSlices, operations or None.
        name: A name scope for the new nodes.
        control_inputs: Operations and tensors to wait for as well.

    Returns:
        A list like `tensors`.

    Raises:
        ValueError: If `tensors` holds no tensor.
    """
    elements = [element for element in tensors if element is not None]
    with name_scope(name, "tuple", elements):
        waited_for = elements + [_operation_of(element) for element in control_inputs or ()]
        if not elements:
            raise ValueError(f"Must have at least one Tensor. Received: {tensors}")
        gate = group(*waited_for)
        return [None if element is None else _identity_after(gate, element) for element in tensors]


def _identity_after(gate: Operation, element: Any) -> Any:
    return gate if isinstance(element, Operation) else with_dependencies([gate], element)
