"""The gradient of a function, as another function.

The operations of the gradient are added to the graph of the body. The gradient is a function over that same graph, with
the gradients of the results as further arguments: it computes again the tensors of the body that it needs, which costs
nothing where both are inlined, because equal nodes become one. Tensors that must not be computed twice, such as random
numbers, become further results of the call, and arguments of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from thalweg.autodiff.gradients import gradients
from thalweg.autodiff.recording import tapes
from thalweg.autodiff.zeros import dense, zeros_for
from thalweg.functions.automatic_control import is_repeatable, is_update
from thalweg.functions.graph_function import GraphFunction, add_entry, find_function, library_function
from thalweg.graph.apply import apply_list, apply_one, is_intercepted
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.default_graph import eager_graph, executing_eagerly
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


class Backward(NamedTuple):
    """The gradient of a function.

    Attributes:
        function: It takes the arguments of the function, `values`, and the gradients of `results`.
        values: Tensors of the body that the call must return.
        results: The numbers of the results that can have gradients.
        grads: For each argument None, or which results of `function` are its gradient: one, or the parts of slices.
    """

    function: GraphFunction
    values: list[Tensor]
    results: list[int]
    grads: list[tuple[int, ...] | None]


def has_own_gradient(tensor: Tensor) -> bool:
    """Whether a tensor can have a gradient of its own type: numbers that are not integers, and lists of tensors."""
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex or dtype.name == "variant"


def no_gradient(tensor: Tensor) -> Tensor:
    """What stands for the gradient of an argument or a result that has none: zeros, if it is not a dataset."""
    return apply_one("_VariantZeros", tensor) if tensor.dtype.base_dtype.name == "variant" else zeros_for(tensor)


def _has_gradient(tensor: Tensor) -> bool:
    return has_own_gradient(tensor) or tensor.dtype.base_dtype.name == "resource"


def _differentiate(function: GraphFunction, grads: Sequence[Tensor]) -> list[Any]:
    """The gradients of the arguments, in the graph of the body, given those of the results that can have one."""
    ys = [tensor for tensor in function.outputs if has_own_gradient(tensor)]
    xs = [tensor for tensor in function.inputs if _has_gradient(tensor)]
    found = iter(gradients(ys, xs, list(grads)) if ys and xs else [None] * len(xs))
    return [next(found) if _has_gradient(tensor) else None for tensor in function.inputs]


def _memoized(function: GraphFunction, key: str, make: Callable[[], Any]) -> Any:
    """An object derived from a function, made at the first call."""
    with function.graph._lock:
        if key not in function.derived:
            function.derived[key] = make()
        return function.derived[key]


def backward(function: GraphFunction) -> Backward:
    """The gradient of a function, as a call in a graph uses it."""
    found: Backward = _memoized(function, "backward", lambda: _make_backward(function))
    return found


def _make_backward(function: GraphFunction) -> Backward:
    graph = function.graph
    results = [i for i, tensor in enumerate(function.outputs) if has_own_gradient(tensor)]
    with graph.as_default():
        incoming = [_gradient_argument(graph, function.outputs[i], i) for i in results]
        found = _differentiate(function, incoming)
    outputs: list[Tensor] = []
    grads: list[tuple[int, ...] | None] = []
    for grad in found:
        parts = _parts(grad)
        grads.append(None if grad is None else tuple(range(len(outputs), len(outputs) + len(parts))))
        outputs.extend(parts)
    values = _unrepeatable(function, outputs, incoming)
    name = _free_name(graph, f"{function.name}_backward")
    inputs = [*function.inputs, *values, *incoming]
    made = _subfunction(graph, name, inputs, outputs)
    _check_updates(function, made)
    return Backward(made, values, results, grads)


def _check_updates(function: GraphFunction, made: GraphFunction) -> None:
    """Refuses a gradient that would update a variable once more: where a loop or branch reads what it updates.

    Raises:
        ValueError: If there is such an update.
    """
    own = set(function.operations)
    for op in made.operations:
        if op in own and is_update(op) and op._control_flow_context is not None:
            raise ValueError(
                f"The gradient of function '{function.name}' computes its loops and branches again, and '{op.name}' "
                f"({op.type}) would update its variable once more. Keep in a local variable what the loop or branch "
                "changes and reads, and assign it to the variable afterwards."
            )


def _gradient_argument(graph: FuncGraph, tensor: Tensor, index: int) -> Tensor:
    return graph.placeholder(tensor.dtype.base_dtype, tensor.shape, f"grad_{index}")


def _parts(grad: Any) -> list[Tensor]:
    if grad is None:
        return []
    if isinstance(grad, IndexedSlices):
        parts = [grad.values, grad.indices]
        return parts if grad.dense_shape is None else [*parts, grad.dense_shape]
    return [grad]


def _subfunction(graph: FuncGraph, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> GraphFunction:
    """A function over a part of a body; the tensors of outer graphs that it uses stay captures."""
    known = set(inputs)
    captured = [(outer, inner) for outer, inner in graph.captures.items() if inner not in known]
    function = GraphFunction(name, graph, outputs, inputs=[*inputs, *(inner for _, inner in captured)])
    used = {tensor for op in function.operations for tensor in op.inputs} | set(outputs)
    captured = [pair for pair in captured if pair[1] in used]
    function = GraphFunction(name, graph, outputs, inputs=[*inputs, *(inner for _, inner in captured)])
    function.captures = [outer for outer, _ in captured]
    return function


def _unrepeatable(function: GraphFunction, outputs: list[Tensor], incoming: list[Tensor]) -> list[Tensor]:
    """The tensors of the body that a gradient needs and that would differ if computed again."""
    own = set(function.operations)
    given = {*function.inputs, *incoming}
    found: dict[Tensor, None] = {}
    seen: set[Tensor] = set()
    stack = list(outputs)
    while stack:
        tensor = stack.pop()
        if tensor in seen or tensor in given:
            continue
        seen.add(tensor)
        op = tensor.op
        # Tensors inside of loops have many values: they are computed again.
        if op in own and not is_repeatable(op) and op._control_flow_context is None:
            found[tensor] = None
            continue
        stack.extend(op.inputs)
        stack.extend(control.outputs[0] for control in op.control_inputs if control.outputs)
    return sorted(found, key=lambda tensor: (tensor.op._id, tensor.value_index))


def _free_name(graph: Graph, name: str) -> str:
    result, number = name, 0
    while library_function(graph, result) is not None:
        number += 1
        result = f"{name}_{number}"
    return result


def gradient_function(function: GraphFunction) -> GraphFunction:
    """The function of SymbolicGradient: from arguments and gradients of all results to gradients of all arguments.

    A missing gradient is zero; slices are made dense.
    """
    if function.grad_func_name is not None:
        return find_function(function.graph, NameAttrList(function.grad_func_name))
    found: GraphFunction = _memoized(function, "gradient", lambda: _make_gradient_function(function))
    return found


def _make_gradient_function(function: GraphFunction) -> GraphFunction:
    graph = function.graph
    with graph.as_default():
        incoming = [_gradient_argument(graph, tensor, i) for i, tensor in enumerate(function.outputs)]
        found = _differentiate(function, [grad for grad in incoming if has_own_gradient(grad)])
        outputs = []
        for tensor, grad in zip(function.inputs, found, strict=True):
            if grad is not None:
                outputs.append(dense(grad))
            else:
                outputs.append(apply_one("Identity", tensor) if tensor.dtype.name == "string" else no_gradient(tensor))
    name = _free_name(graph, f"{function.name}_grad")
    result = _subfunction(graph, name, [*function.inputs, *incoming], outputs)
    if result.captures:
        raise ValueError(
            f"The gradient of function '{function.name}' uses '{result.captures[0].name}', which is neither an "
            "argument nor in its body: give it a python_grad_func, or make that an argument."
        )
    add_entry(graph, result)
    return result


def forward_with(function: GraphFunction, values: Sequence[Tensor]) -> GraphFunction:
    """The function with further tensors of its body as results."""

    def make() -> GraphFunction:
        result = GraphFunction(
            _free_name(function.graph, f"{function.name}_forward"), function.graph, [*function.outputs, *values]
        )
        result.operations, result.inputs = function.operations, function.inputs
        result.captures, result.control_outputs = function.captures, function.control_outputs
        result.attrs, result.grad_func_name = function.attrs, function.grad_func_name
        result.python_grad_func = function.python_grad_func
        return result

    found: GraphFunction = _memoized(function, "forward", make)
    return found


def call(function: GraphFunction, inputs: Sequence[Any], reference: Any = None) -> list[Tensor]:
    """Adds a call of a function; the results.

    Where ops run at once, and a tape is open, the call also returns what the gradient will need.

    Args:
        function: The function.
        inputs: Values for all of its arguments, captured ones included.
        reference: What the attribute of the call is to be, if not the function.
    """
    called = function
    at_once = executing_eagerly()
    plain = function.python_grad_func is None and function.grad_func_name is None
    if tapes.open and plain and at_once and any(map(has_own_gradient, function.outputs)):
        found = backward(function)
        outputs = set(function.outputs)
        missing = [tensor for tensor in found.values if tensor not in outputs]
        if missing:
            called = forward_with(function, missing)
            called.derived.setdefault("backward", found)
            add_entry(eager_graph(), called)
    if at_once and not is_intercepted():
        known = eager_graph().run_call(called, inputs)
        if known is not NotImplemented:
            return known[: len(function.outputs)]  # type: ignore[no-any-return]
    results = apply_list(
        "StatefulPartitionedCall" if function.stateful else "PartitionedCall",
        inputs,
        f=reference if called is function and reference is not None else called,
        Tout=called.output_dtypes,
    )
    return results[: len(function.outputs)]


def called_function(op: Operation) -> GraphFunction:
    """The function that a node calls: as its op type, or by its attribute `f`."""
    if op.type in op.graph._functions:
        return find_function(op.graph, NameAttrList(op.type, op.attrs))
    return find_function(op.graph, op.attrs["f"])
