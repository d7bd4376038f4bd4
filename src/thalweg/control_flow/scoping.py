"""Creating ops in a given context, and control edges that cross into loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thalweg.graph.control_flow_context import ControlFlowContext
from thalweg.graph.operation import Operation
from thalweg.graph.scopes import Controller, Scope

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


def in_context(graph: Graph, context: ControlFlowContext | None, after: list[Operation] | None = None) -> Scope:
    """A block whose ops are created in `context`, after `after` and after nothing else."""
    controllers = (Controller(after),) if after else ()
    return Scope(graph._scopes, lambda: ({"controllers": controllers, "context": context}, None))


def without_controllers(graph: Graph) -> Scope:
    """A block without the control dependencies of the blocks around it."""
    return Scope(graph._scopes, lambda: ({"controllers": ()}, None))


def is_within(inner: ControlFlowContext | None, outer: ControlFlowContext | None) -> bool:
    """Whether `inner` is `outer` or nested in it; everything is within None, the top."""
    while inner is not outer:
        if inner is None:
            return False
        inner = inner.outer_context
    return True


def local_control_inputs(context: ControlFlowContext, control_inputs: list[Operation]) -> list[Operation]:
    """Control inputs as ops in `context` can have them: those from outside of its loop come in through a gate.

    Raises:
        ValueError: If one of them is inside a loop that `context` is not nested in.
    """
    if not control_inputs:
        return []
    loop = context.enclosing_while()
    result: dict[Operation, None] = {}
    for op in control_inputs:
        source = op._control_flow_context
        source_loop = None if source is None else source.enclosing_while()
        if source_loop is not loop:
            if loop is None or not is_within(loop, source_loop):
                raise ValueError(
                    f"'{op.name}' cannot be a control dependency here: it is inside a while loop that does not contain "
                    "the ops that would wait for it."
                )
            op = loop.gate(op)  # type: ignore[attr-defined]
        result[op] = None
    return list(result)


def hide(op: Operation) -> None:
    """Forbids feeding and fetching: inside a branch or a loop a tensor has no single value in a step."""
    graph = op.graph
    graph.prevent_fetching(op)
    for output in op.outputs:
        graph.prevent_feeding(output)
        graph.prevent_fetching(output)
