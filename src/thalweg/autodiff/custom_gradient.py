"""tf.custom_gradient: a function of tensors with a gradient of the programmer's own."""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable
from typing import Any

from thalweg.autodiff.recording import VariableWatcher, recorded_by, tapes
from thalweg.graph import dtypes, nest
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly, get_default_graph
from thalweg.graph.definitions.op_registry import _forget_gradient, _set_gradient, export
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

_numbers = itertools.count()


@export("custom_gradient")
def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for functions that return their value and the function of their gradient.

    Args:
        f: Takes tensors, returns `(y, grad_fn)`. `grad_fn` takes the gradients of `y` and returns those of the
            arguments; if `f` uses variables, it also takes the keyword `variables` and returns a pair: the gradients of
            the arguments and a list with those of the variables.

    Returns:
        A function with the same arguments that returns `y`.

    Example:
        >>> @tf.custom_gradient
        ... def log1pexp(x):
        ...     e = tf.exp(x)
        ...     return tf.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))
    """

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if executing_eagerly():
            return _recorded(f, args, kwargs)
        if kwargs:
            raise ValueError(
                "The custom_gradient decorator currently supports keywords arguments only when eager execution is "
                f"enabled; got {', '.join(kwargs)}."
            )
        inputs = [convert_to_tensor(arg) for arg in args]
        before = get_default_graph()._last_id
        result, grad_fn = f(*inputs)
        results = [convert_to_tensor(value) for value in nest.flatten(result)]
        variables = _variables_used(results, before)
        if variables and "variables" not in _keywords(grad_fn):
            raise TypeError(
                "If using @custom_gradient with a function that uses variables, then grad_fn must accept a keyword "
                "argument 'variables'."
            )
        outputs = with_gradient(results, inputs, variables, grad_fn)
        return nest.pack_sequence_as(result, outputs)

    return decorated


def _recorded(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The value of a function where ops run at once; the open tapes record it as one call."""
    inputs = [convert_to_tensor(arg) for arg in args]
    watcher = VariableWatcher()
    with recorded_by(watcher):
        result, grad_fn = f(*inputs, **kwargs)
    # Results that are inputs, or come from elsewhere, are not to be mistaken for them.
    results = [apply_one("Identity", convert_to_tensor(value)) for value in nest.flatten(result)]
    variables = list(watcher.variables.values())
    if variables and "variables" not in _keywords(grad_fn):
        raise TypeError(
            "If using @custom_gradient with a function that uses variables, then grad_fn must accept a keyword "
            "argument 'variables'."
        )
    backward = _input_gradients(grad_fn, len(inputs), variables)
    for tape in tapes.open:
        tape.record_call([*inputs, *(variable.handle for variable in variables)], results, backward)
    return nest.pack_sequence_as(result, results)


def _input_gradients(grad_fn: Any, count: int, variables: list[Any]) -> Callable[..., list[Any]]:
    """From the gradients of the results to those of `count` arguments and of the variables."""

    def found(*grads: Any) -> list[Any]:
        if variables:
            input_grads, variable_grads = grad_fn(*grads, variables=variables)
            variable_grads = nest.flatten(variable_grads)
            if len(variable_grads) != len(variables):
                raise ValueError(f"Must return gradient for each variable: {len(variable_grads)} for {len(variables)}.")
        else:
            input_grads, variable_grads = grad_fn(*grads), []
        input_grads = list(input_grads) if isinstance(input_grads, (list, tuple)) else [input_grads]
        if len(input_grads) != count:
            raise ValueError(f"custom_gradient: grad_fn returned {len(input_grads)} gradients for {count} arguments.")
        return input_grads + variable_grads

    return found


def with_gradient(results: list[Tensor], inputs: list[Tensor], variables: list[Any], grad_fn: Any) -> list[Tensor]:
    """The results, passed through a node whose gradient with respect to inputs and variables is `grad_fn`."""
    backward = _input_gradients(grad_fn, len(inputs), variables)

    def gradient(op: Operation, *grads: Any) -> list[Any]:
        return [None] * len(results) + backward(*grads[: len(results)])

    graph = get_default_graph()
    name = f"CustomGradient-{next(_numbers)}"
    _register_for(graph, name, gradient)
    with graph.gradient_override_map({"IdentityN": name}):
        outputs = apply_list("IdentityN", [*results, *inputs, *(v.handle for v in variables)])
    return list(outputs[: len(results)])


def _register_for(graph: Graph, name: str, gradient: Callable[..., Any]) -> None:
    """Registers a gradient that holds tensors of a graph for as long as the graph lives, without keeping it alive."""
    graph._attachments.setdefault("custom_gradient", []).append(gradient)
    reference = weakref.ref(gradient)

    def call(op: Operation, *grads: Any) -> list[Any]:
        function = reference()
        if function is None:
            raise LookupError(f"The graph whose custom gradient '{op.name}' uses is gone.")
        found: list[Any] = function(op, *grads)
        return found

    _set_gradient(name, call)
    weakref.finalize(graph, _forget_gradient, name).atexit = False


def _keywords(function: Any) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return {"variables"}
    return {p.name for p in parameters}


def _variables_used(results: list[Tensor], first_id: int) -> list[Any]:
    """The trainable variables that the new ops behind `results` read."""
    handles: dict[Tensor, None] = {}
    seen: set[Operation] = set()
    stack = [tensor.op for tensor in results]
    while stack:
        op = stack.pop()
        if op in seen or op._id < first_id:
            continue
        seen.add(op)
        for tensor in op.inputs:
            if tensor.dtype.base_dtype is dtypes.resource and tensor.op.type == "VarHandleOp":
                handles[tensor] = None
            stack.append(tensor.op)
    if not handles:
        return []
    graph = results[0].graph
    by_handle = {v.handle: v for v in graph.get_collection("trainable_variables") if hasattr(v, "handle")}
    return [by_handle[handle] for handle in handles if handle in by_handle]


@export("grad_pass_through")
def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator for functions of one tensor whose gradient is to be that of the identity.

    Example:
        >>> x = tf.constant(1.4)
        >>> dy_dx, = tf.gradients(tf.grad_pass_through(tf.round)(x) * 3.0, x)
    """

    @custom_gradient
    def passing(*args: Any, **kwargs: Any) -> Any:
        def grad(*upstream: Any, variables: Any = None) -> Any:
            if variables is not None:
                return upstream, [None] * len(variables)
            return upstream

        return f(*args, **kwargs), grad

    return passing
