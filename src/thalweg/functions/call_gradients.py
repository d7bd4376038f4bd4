"""Gradients of the ops that call functions: they call the gradients of the functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.autodiff.zeros import dense, value_spec, zeros_for
from thalweg.control_flow.while_loop import while_loop
from thalweg.functions.function_gradient import (
    Backward,
    backward,
    call,
    called_function,
    forward_with,
    gradient_function,
    has_own_gradient,
    no_gradient,
)
from thalweg.functions.graph_function import GraphFunction, add_entry, find_function
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.definitions.op_registry import gradient
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.dtypes import DType
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.state.tensor_array import TensorArray


@gradient("PartitionedCall", "StatefulPartitionedCall")
def _call_grad(op: Operation, *grads: Any) -> list[Any]:
    """The gradient of a call; also that of a node whose op type is a function."""
    function = called_function(op)
    if function.python_grad_func is not None:
        found = function.python_grad_func(op, *grads)
        return list(found) if isinstance(found, (list, tuple)) else [found]
    if function.grad_func_name is not None:
        return _symbolic_gradient(op, function, op.inputs, grads)
    found = backward(function)
    by_name = op.type == function.name
    if by_name and not found.values and not found.function.captures:
        return _symbolic_gradient(op, function, op.inputs, grads)
    return _call_backward(op, function, found, op.inputs, grads)


@gradient("RemoteCall")
def _remote_call_grad(op: Operation, *grads: Any) -> list[Any]:
    function = called_function(op)
    return [None, *_symbolic_gradient(op, function, op.inputs[1:], grads)]


@gradient("SymbolicGradient")
def _symbolic_gradient_grad(op: Operation, *grads: Any) -> list[Any]:
    """Second derivatives: the gradient is a function, too."""
    function = gradient_function(called_function(op))
    return _symbolic_gradient(op, function, op.inputs, grads)


def _symbolic_gradient(
    op: Operation, function: GraphFunction, arguments: Sequence[Tensor], grads: Sequence[Any]
) -> list[Any]:
    incoming = _complete(op.outputs, grads)
    types = [value_spec(tensor)[0] for tensor in arguments]
    results = apply_list(
        "SymbolicGradient", [*arguments, *incoming], Tout=types, f=NameAttrList(function.name), name="SymbolicGradient"
    )
    return [grad if _may_have_gradient(tensor) else None for tensor, grad in zip(arguments, results, strict=True)]


def _may_have_gradient(tensor: Tensor) -> bool:
    return has_own_gradient(tensor) or tensor.dtype.base_dtype is dtypes.resource


def _complete(outputs: Sequence[Tensor], grads: Sequence[Any]) -> list[Tensor]:
    """One tensor per output: its gradient, or a tensor of its type that the gradient function ignores."""
    complete = []
    for tensor, grad in zip(outputs, grads, strict=True):
        if grad is not None:
            complete.append(dense(grad))
        elif tensor.dtype.base_dtype in (dtypes.string, dtypes.resource):
            complete.append(tensor)
        else:
            complete.append(no_gradient(tensor))
    return complete


def _call_backward(
    op: Operation, function: GraphFunction, found: Backward, arguments: Sequence[Tensor], grads: Sequence[Any]
) -> list[Any]:
    values = _values_of(op, function, found)
    incoming = _complete([op.outputs[i] for i in found.results], [grads[i] for i in found.results])
    inner = found.function
    add_entry(op.graph, inner)
    results = call(inner, [*arguments, *values, *incoming, *inner.captures], NameAttrList(inner.name))
    return [None if places is None else _assembled([results[i] for i in places]) for places in found.grads]


def _assembled(parts: list[Tensor]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return IndexedSlices(parts[0], parts[1], parts[2] if len(parts) > 2 else None)


def _values_of(op: Operation, function: GraphFunction, found: Backward) -> list[Tensor]:
    """The tensors of the body that the gradient needs; the call is changed to return them."""
    if not found.values:
        return []
    known = {tensor: op.outputs[i] for i, tensor in enumerate(function.outputs)}
    if any(tensor not in known for tensor in found.values):
        forward = forward_with(function, [tensor for tensor in found.values if tensor not in known])
        add_entry(op.graph, forward)
        _replace_function(op, forward)
        known = dict(zip(forward.outputs, op.outputs, strict=True))
    return [known[tensor] for tensor in found.values]


def _replace_function(op: Operation, function: GraphFunction) -> None:
    """Makes a node call a function with more results."""
    graph = op.graph
    with graph._lock:
        if op.type in graph._functions:
            op.type, op.op_def = function.name, function.signature
        else:
            op.attrs = {**op.attrs, "f": NameAttrList(function.name), "Tout": function.output_dtypes}
        for i in range(len(op.outputs), len(function.outputs)):
            tensor = function.outputs[i]
            op.outputs.append(Tensor(op, i, tensor.dtype.base_dtype, tensor.shape))
        graph._version += 1
        graph._mutations += 1


# Branches: the gradient of the one that was taken.


@gradient("If", "StatelessIf")
def _if_grad(op: Operation, *grads: Any) -> list[Any]:
    branches = [find_function(op.graph, op.attrs[name]) for name in ("then_branch", "else_branch")]
    then, otherwise = [gradient_function(branch) for branch in branches]
    arguments = op.inputs[1:]
    results = apply_list(
        op.type,
        op.inputs[0],
        [*arguments, *_complete(op.outputs, grads)],
        then_branch=NameAttrList(then.name),
        else_branch=NameAttrList(otherwise.name),
        Tout=_gradient_types(arguments),
    )
    return [None, *_argument_gradients(arguments, results)]


@gradient("Case", "StatelessCase")
def _case_grad(op: Operation, *grads: Any) -> list[Any]:
    branches = [gradient_function(find_function(op.graph, branch)) for branch in op.attrs["branches"]]
    arguments = op.inputs[1:]
    results = apply_list(
        op.type,
        op.inputs[0],
        [*arguments, *_complete(op.outputs, grads)],
        branches=[NameAttrList(branch.name) for branch in branches],
        Tout=_gradient_types(arguments),
    )
    return [None, *_argument_gradients(arguments, results)]


def _gradient_types(arguments: Sequence[Tensor]) -> list[DType]:
    return [value_spec(tensor)[0] for tensor in arguments]


def _argument_gradients(arguments: Sequence[Tensor], results: Sequence[Tensor]) -> list[Any]:
    for tensor, grad in zip(arguments, results, strict=True):
        if tensor.dtype.base_dtype is not dtypes.resource:
            grad.set_shape(tensor.shape)
    return [grad if _may_have_gradient(tensor) else None for tensor, grad in zip(arguments, results, strict=True)]


# Loops: they run once more, keeping the values of every iteration, and then backwards.


@gradient("While", "StatelessWhile")
def _while_grad(op: Operation, *grads: Any) -> list[Any]:
    cond = find_function(op.graph, op.attrs["cond"])
    body = find_function(op.graph, op.attrs["body"])
    return _loop_grad(
        op.inputs,
        grads,
        lambda _, values: _call(cond, values)[0],
        lambda _, values: _call(body, values),
        lambda _, values, incoming: _call(gradient_function(body), [*values, *incoming]),
    )


@gradient("For")
def _for_grad(op: Operation, *grads: Any) -> list[Any]:
    start, limit, delta = op.inputs[:3]
    body = find_function(op.graph, op.attrs["body"])

    def number(i: Tensor) -> Tensor:
        return apply_one("AddV2", start, apply_one("Mul", i, delta))

    def goes_on(i: Tensor, _: Sequence[Tensor]) -> Tensor:
        left = apply_one("Mul", apply_one("Sub", limit, number(i)), apply_one("Sign", delta))
        return apply_one("Greater", left, 0)

    found = _loop_grad(
        op.inputs[3:],
        grads,
        goes_on,
        lambda i, values: _call(body, [number(i), *values]),
        lambda i, values, incoming: _call(gradient_function(body), [number(i), *values, *incoming])[1:],
    )
    return [None, None, None, *found]


def _call(function: GraphFunction, arguments: Sequence[Tensor]) -> list[Tensor]:
    return apply_list(
        "StatefulPartitionedCall" if function.stateful else "PartitionedCall",
        list(arguments),
        f=NameAttrList(function.name),
        Tout=function.output_dtypes,
    )


def _loop_grad(initial: Sequence[Tensor], grads: Sequence[Any], cond: Any, body: Any, body_grad: Any) -> list[Any]:
    # Handles stay what they are; everything else has a value for each iteration.
    fixed = [tensor.dtype.base_dtype is dtypes.resource for tensor in initial]
    changing = [tensor for tensor, is_fixed in zip(initial, fixed, strict=True) if not is_fixed]

    def values_of(current: Sequence[Tensor]) -> list[Tensor]:
        left = iter(current)
        return [tensor if is_fixed else next(left) for tensor, is_fixed in zip(initial, fixed, strict=True)]

    arrays = [
        TensorArray(tensor.dtype.base_dtype, size=0, dynamic_size=True, clear_after_read=False, infer_shape=False)
        for tensor in changing
    ]

    def forward(i: Any, written_before: Any, current: Any) -> Any:
        written = [array.write(i, tensor) for array, tensor in zip(written_before, current, strict=True)]
        after = body(i, values_of(current))
        return i + 1, written, [tensor for tensor, is_fixed in zip(after, fixed, strict=True) if not is_fixed]

    unknown = TensorShape(None)
    count, arrays, _ = while_loop(
        lambda i, _, current: cond(i, values_of(current)),
        forward,
        (np.int32(0), arrays, changing),
        shape_invariants=(TensorShape([]), [unknown] * len(changing), [unknown] * len(changing)),
    )

    def backwards(i: Any, incoming: Any) -> Any:
        current = [array.read(i) for array in arrays]
        for tensor, value in zip(changing, current, strict=True):
            value.set_shape(unknown if tensor.shape.ndims is None else [None] * tensor.shape.ndims)
        left = iter(incoming)
        # The gradient of a handle adds up; in its place the body gets the handle itself, which it ignores.
        sums = [next(left) for _ in initial]
        passed = [tensor if is_fixed else total for tensor, total, is_fixed in zip(initial, sums, fixed, strict=True)]
        found = body_grad(i, values_of(current), passed)
        return i - 1, [
            total + grad if is_fixed else grad for total, grad, is_fixed in zip(sums, found, fixed, strict=True)
        ]

    start = [
        zeros_for(tensor) if is_fixed else grad
        for tensor, is_fixed, grad in zip(
            initial, fixed, _complete(initial, _without_handles(initial, grads)), strict=True
        )
    ]
    _, result = while_loop(
        lambda i, _: i >= 0,
        backwards,
        (count - 1, start),
        shape_invariants=(TensorShape([]), [unknown] * len(start)),
    )
    for tensor, grad, is_fixed in zip(initial, result, fixed, strict=True):
        if not is_fixed:
            grad.set_shape(tensor.shape)
    return [grad if _may_have_gradient(tensor) else None for tensor, grad in zip(initial, result, strict=True)]


def _without_handles(initial: Sequence[Tensor], grads: Sequence[Any]) -> list[Any]:
    return [
        None if tensor.dtype.base_dtype is dtypes.resource else grad
        for tensor, grad in zip(initial, grads, strict=True)
    ]
