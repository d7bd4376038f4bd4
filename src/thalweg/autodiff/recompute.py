"""tf.recompute_grad: gradients that compute the forward values again instead of keeping them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.autodiff.aggregate import aggregate
from thalweg.autodiff.custom_gradient import custom_gradient, with_gradient
from thalweg.autodiff.gradients import gradients
from thalweg.autodiff.recording import recorded_by, tapes
from thalweg.autodiff.replay import Recording, check_repeatable, handles_used, origin
from thalweg.autodiff.zeros import dense
from thalweg.graph import nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly, get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import OpDef, export
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.plain_gradients import recorded


@export("recompute_grad")
def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function with the same value and gradient as `f`, whose inner values are not kept for the gradient.

    A training step keeps what the gradients will need: of a deep network, the values of all layers. Of a function
    wrapped by this, it keeps the arguments only. When the gradient of its result arrives, the function is computed a
    second time. A chain of n layers in about sqrt(n) wrapped pieces needs memory for about 2 sqrt(n) layers instead of
    n, and computes each of them once more.

    `f` is called once when the result is built and once for each gradient. Variables that it makes with
    `tf.get_variable` or `tf.layers` are the same in all calls. Random numbers (dropout) are the same when they are
    computed again; they differ from those without `recompute_grad`.

    Args:
        f: Takes tensors as positional arguments, and anything as keyword arguments; returns a tensor or a structure of
            tensors. It must build the same nodes in each call, and may not change variables or take from queues.

    Returns:
        A function with the arguments of `f`.

    Raises:
        ValueError: When a gradient is built, if `f` cannot be run a second time; says why.

    Example:
        >>> @tf.recompute_grad
        ... def block(x):
        ...     return tf.layers.dense(tf.layers.dense(x, 64, tf.nn.relu), 64)
    """

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if executing_eagerly():
            return custom_gradient(functools.partial(_at_once, f))(*args, **kwargs)
        inputs = [apply_one("Identity", convert_to_tensor(arg)) for arg in args]
        graph = get_default_graph()
        first = graph._last_id
        record = Recording()
        with record.recording():
            result = f(*inputs, **kwargs)
        results = [convert_to_tensor(value) for value in nest.flatten(result)]
        built = _added_since(graph, first)
        trainable = {v.handle: v for v in graph.get_collection("trainable_variables") if hasattr(v, "handle")}
        variables = [trainable[handle] for handle in handles_used(built) if handle in trainable]

        def gradient(*grads: Any, variables: Any = ()) -> Any:
            check_repeatable(_needed_by(results, built))
            return _recomputed(f, kwargs, record, results, inputs, list(variables), grads)

        return nest.pack_sequence_as(result, with_gradient(results, inputs, variables, gradient))

    return decorated


class _UnrepeatableOps:
    """Notes the types of ops that would not do the same again."""

    def __init__(self) -> None:
        self.types: list[str] = []

    def record(self, op_def: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any], outputs: Sequence[Tensor]) -> None:
        """Called for each op."""
        if op_def.effect is Effect.RANDOM or (op_def.effect.must_run and op_def.effect is not Effect.READS):
            self.types.append(op_def.name)

    def record_call(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], backward: Any) -> None:
        """Called for functions with a gradient of their own."""


def _at_once(f: Callable[..., Any], *inputs: Any, **kwargs: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function where ops run at once, and its gradient, which calls the function again.

    The variables that it reads must not have changed until then.
    """
    ops = _UnrepeatableOps()
    with recorded_by(*tapes.open, ops):
        result = f(*inputs, **kwargs)

    def gradient(*grads: Any, variables: Any = ()) -> Any:
        if ops.types:
            raise ValueError(
                f"recompute_grad: {ops.types[0]} would not do the same when the function is computed again: random "
                "numbers, updates of variables and queues are not possible in it where ops run at once."
            )
        again = lambda: [convert_to_tensor(value) for value in nest.flatten(f(*inputs, **kwargs))]  # noqa: E731
        found = recorded(again, [*inputs, *variables])[1](*grads)
        return (found[: len(inputs)], found[len(inputs) :]) if variables else found

    return result, gradient


def _recomputed(
    f: Callable[..., Any], kwargs: dict[str, Any], record: Recording, results: list[Tensor], inputs: list[Tensor],
    variables: list[Any], grads: tuple[Any, ...],
) -> Any:  # fmt: skip
    """The gradients of inputs and variables, from values that are computed again once `grads` are there."""
    given = [None if grad is None else dense(grad) for grad in grads]
    after = [grad.op for grad in given if grad is not None]
    number = len(get_default_graph().get_collection("variables"))
    with name_scope("recomputed"), record.replaying(after) as replay:
        again = [apply_one("Identity", tensor) for tensor in inputs]
        outcome = [convert_to_tensor(value) for value in nest.flatten(f(*again, **kwargs))]
        if len(get_default_graph().get_collection("variables")) != number:
            raise ValueError(
                "recompute_grad: the function made new variables when it was called again. Make them with "
                "tf.get_variable or tf.layers, which find those of the first call, or outside of the function."
            )
    if len(outcome) != len(results):
        raise ValueError(f"recompute_grad: the function returned {len(results)} tensors, then {len(outcome)}.")
    pairs = [(y, grad) for y, grad in zip(outcome, given, strict=True) if grad is not None]
    handles = [_captured_here(variable.handle) for variable in variables]
    reads = [value for _, value in replay.reads]

    xs = [*again, *reads, *handles]
    found: list[Any] = [None] * len(xs)
    if pairs:
        # The walk stops at reads: their gradients, not this path, reach the variables.
        ys, grad_ys = (list(each) for each in zip(*pairs, strict=True))
        found = gradients(ys, xs, grad_ys, "backward", stop_gradients=reads)
    input_grads, read_grads = found[: len(again)], found[len(again) : len(again) + len(reads)]
    handle_grads = found[len(again) + len(reads) :]
    if not variables:
        return input_grads
    variable_grads = []
    for variable, direct in zip(variables, handle_grads, strict=True):
        through = [
            grad
            for (handle, _), grad in zip(replay.reads, read_grads, strict=True)
            if origin(handle) is variable.handle
        ]
        variable_grads.append(aggregate([*through, direct]))
    return input_grads, variable_grads


def _captured_here(tensor: Tensor) -> Tensor:
    """A tensor from outside as the current loop, conditional or function captures it."""
    graph = get_default_graph()
    if isinstance(graph, FuncGraph):
        tensor = graph.capture(tensor)
    context: Any = graph._get_control_flow_context()
    return tensor if context is None else context.capture(tensor)


def _added_since(graph: Any, first: int) -> list[Operation]:
    operations = graph.get_operations()
    at = len(operations)
    while at > 0 and operations[at - 1]._id >= first:
        at -= 1
    return list(operations[at:])


def _needed_by(results: list[Tensor], built: list[Operation]) -> list[Operation]:
    """Those of the built operations that the results need."""
    new, seen = set(built), set()
    stack = [tensor.op for tensor in results]
    while stack:
        op = stack.pop()
        if op in new and op not in seen:
            seen.add(op)
            stack.extend(tensor.op for tensor in op.inputs)
            stack.extend(op.control_inputs)
    return [op for op in built if op in seen]
