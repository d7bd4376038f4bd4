"""The nodes of the backward walk: an operation, a whole conditional, or a whole loop.

A walk runs at a *level*: the context in which gradients() was called, or a branch or body that is being differentiated.
Operations of that context and of those around it are visible; anything in another context is hidden inside of the
conditional or loop that contains it, whose inputs and outputs are at a visible place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thalweg.control_flow.cond_context import CondContext, Conditional, conditional_of
from thalweg.control_flow.while_context import WhileContext, loop_of
from thalweg.graph.control_flow_context import ControlFlowContext
from thalweg.graph.op_effects import Flow
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

Node = Operation | Conditional | WhileContext


def backpropagates(tensor: Tensor) -> bool:
    """Whether a gradient can pass through a tensor: numbers that are not integers, and handles of variables."""
    dtype = tensor.dtype.base_dtype
    return dtype.is_floating or dtype.is_complex or dtype.name in ("resource", "variant")


class Level:
    """A place in the nesting of contexts, and the nodes that are seen from there."""

    def __init__(self, context: ControlFlowContext | None) -> None:
        """The level of a context; None is the top."""
        self.context = context
        self.visible: set[ControlFlowContext | None] = {None}
        while context is not None:
            self.visible.add(context)
            context = context.outer_context

    def node(self, op: Operation) -> Node:
        """The node that an operation belongs to."""
        context = op._control_flow_context
        if context is None or context in self.visible:
            if op._python_data is None:
                return op
            loop = loop_of(op)
            if loop is not None:
                return op if loop in self.visible else loop
            conditional = conditional_of(op)
            if (
                conditional is None
                or conditional.branches[0] in self.visible
                or conditional.branches[1] in self.visible
            ):
                return op
            return conditional
        while context.outer_context not in self.visible:
            context = context.outer_context
            assert context is not None
        if isinstance(context, CondContext):
            assert context.conditional is not None
            return context.conditional
        assert isinstance(context, WhileContext)
        return context

    def sees(self, tensor: Tensor) -> bool:
        """Whether a tensor is at a visible place."""
        return tensor.op._control_flow_context in self.visible

    def reached_from(self, tensors: Iterable[Tensor]) -> set[Node]:
        """The nodes whose outputs may depend on any of `tensors`, without the back edges of visible loops."""
        reached: set[Node] = set()
        stack: list[Tensor] = list(tensors)
        while stack:
            tensor = stack.pop()
            if tensor._consumers is None or not backpropagates(tensor):
                continue
            for consumer in tensor._consumers:
                node = self.node(consumer)
                if node in reached or (node is consumer and self._closes_loop(consumer)):
                    continue
                reached.add(node)
                stack.extend(outputs(node))
        return reached

    def _closes_loop(self, op: Operation) -> bool:
        return op.op_def.flow is Flow.NEXT_ITERATION and op._control_flow_context in self.visible

    def leading_to(self, tensors: Iterable[Tensor], within: set[Node]) -> set[Tensor]:
        """The tensors on which `tensors` depend, following only nodes of `within`; themselves included."""
        found: set[Tensor] = set()
        done: set[Node] = set()
        stack = list(tensors)
        while stack:
            tensor = stack.pop()
            if tensor in found:
                continue
            found.add(tensor)
            node = self.node(tensor.op)
            if node in within and node not in done:
                done.add(node)
                stack.extend(inputs(node))
        return found


def inputs(node: Node) -> list[Tensor]:
    """The tensors that a node reads."""
    if isinstance(node, Operation):
        return list(node.inputs)
    if isinstance(node, Conditional):
        return node.inputs()
    return [variable.initial for variable in node.variables] + list(node.captures)


def outputs(node: Node) -> list[Tensor]:
    """The tensors that a node computes."""
    if isinstance(node, Operation):
        return node.outputs
    if isinstance(node, Conditional):
        return list(node.outputs)
    # A loop that is still being built, or whose building failed, has no exits: nothing depends on it.
    return [variable.exit for variable in node.variables if hasattr(variable, "exit")]


def name_of(node: Any) -> str:
    """A name for the node's scope."""
    if isinstance(node, Operation):
        return node.name
    if isinstance(node, Conditional):
        return str(node.branches[1].name).rpartition("/")[0] or "cond"
    return str(node.name).rpartition("/")[0] or str(node.name)
