"""Initial values of variables that a function makes while it is traced, where ops run at once outside of it."""

from __future__ import annotations

from typing import Any

from thalweg.graph.default_graph import eager_graph
from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


def value_at_once(value: Any) -> Any:
    """The value of a tensor of a function's body, computed by what the tensor is computed from; others as they are.

    Raises:
        ValueError: If it depends on an argument of the function, on a loop or branch, or on an effect.
    """
    if type(value) is not Tensor or not isinstance(value.graph, FuncGraph):
        return value
    known: dict[Tensor, Any] = {}
    graph: Any = value.graph
    while isinstance(graph, FuncGraph):
        known.update({inner: outer for outer, inner in graph.captures.items()})
        graph = graph.outer_graph
    with default_graph_scope(eager_graph()):
        for op in _needed(value, known):
            inputs = [known[tensor] for tensor in op.inputs]
            types = [tensor.dtype for tensor in op.outputs]
            made = eager_graph().add_operation(op.op_def, inputs, op.attrs, op.name, types)
            known.update(zip(op.outputs, made.outputs, strict=True))
    return known[value]


def _needed(value: Tensor, known: dict[Tensor, Any]) -> list[Operation]:
    """The operations behind a tensor, in an order in which they can run."""
    order: dict[Operation, None] = {}
    stack = [value.op]
    while stack:
        op = stack[-1]
        missing = [t.op for t in op.inputs if t not in known and t.op not in order]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if op in order or all(output in known for output in op.outputs):
            continue
        if op.op_def.effect not in (Effect.NONE, Effect.RANDOM) or op._control_flow_context is not None:
            raise ValueError(
                f"The initial value of a variable depends on '{op.name}' ({op.type}) of the function that makes it: it "
                "must not depend on arguments of the function, nor be made in a loop or branch. Make the variable "
                "before the function is called."
            )
        order[op] = None
    return list(order)
