"""The interface of a control-flow construct (a branch, a loop body) to the graph, for ops created inside of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph
    from thalweg.graph.operation import Operation
    from thalweg.graph.tensor import Tensor


class ControlFlowContext:
    """Base of the contexts: does nothing by itself.

    While a context is current in a thread (between `enter` and `exit`), `graph.apply` calls, for each op it creates:
    `capture_inputs` (`capture` for every data input), then `control_inputs` once, then, when the op stands in the
    graph, `op_added`. All three run without the graph's lock, and may create ops; a context that does so first leaves
    itself (`exit`).
    """

    def __init__(self, graph: Graph) -> None:
        """Creates a context of `graph`, nested in the current one."""
        self.graph = graph
        self.outer_context: ControlFlowContext | None = graph._get_control_flow_context()
        self.effects_done: Operation | None = None  # Outside of it: runs when all effects in it have happened.
        self._entered_from: list[ControlFlowContext | None] = []

    def enter(self) -> None:
        """Makes this the current context of the graph in this thread."""
        self._entered_from.append(self.graph._get_control_flow_context())
        self.graph._set_control_flow_context(self)

    def exit(self) -> None:
        """Returns to the context that was current at `enter`."""
        self.graph._set_control_flow_context(self._entered_from.pop())

    def __enter__(self) -> ControlFlowContext:
        self.enter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.exit()

    def capture(self, tensor: Tensor) -> Tensor:
        """Returns the tensor by which ops inside the context see `tensor` (a Switch output, an Enter, or itself)."""
        return tensor

    def capture_inputs(self, op_type: str, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Captures all data inputs of a new op."""
        return [self.capture(tensor) for tensor in inputs]

    def contains(self, element: Tensor | Operation) -> bool:
        """Whether an op, or the op of a tensor, is in this context or in one nested in it."""
        op: Any = getattr(element, "op", element)
        context = op._control_flow_context
        while context is not None:
            if context is self:
                return True
            context = context.outer_context
        return False

    def control_inputs(self, control_inputs: list[Operation], inputs: Sequence[Tensor]) -> list[Operation]:
        """Returns the control inputs that a new op with these (captured) data inputs gets.

        An op without data inputs must be tied to the context's pivot here, or it would run outside of it.
        """
        return control_inputs

    def op_added(self, op: Operation) -> None:
        """Called after `op` was added to the graph inside this context."""

    def back_prop_enabled(self) -> bool:
        """Whether gradients may be taken through the context."""
        return True

    def is_while_context(self) -> bool:
        """Whether this is the body or condition of a loop."""
        return False

    def is_cond_context(self) -> bool:
        """Whether this is a branch of a cond."""
        return False

    def enclosing_while(self) -> ControlFlowContext | None:
        """The innermost loop that contains ops of this context: itself, or one further out."""
        context: ControlFlowContext | None = self
        while context is not None and not context.is_while_context():
            context = context.outer_context
        return context


def check_visible(tensor: Tensor, context: ControlFlowContext | None, name: str) -> None:
    """Refuses a tensor from inside a loop as the input of a node outside of that loop.

    Raises:
        ValueError: If the loop of `tensor` is not among those that `context` is nested in.
    """
    source = tensor.op._control_flow_context
    loop = None if source is None else source.enclosing_while()
    while loop is not None and context is not None and context is not loop:
        context = context.outer_context
    if loop is not None and context is not loop:
        raise ValueError(
            f"Cannot use '{tensor.op.name}' as input to '{name}' because '{tensor.op.name}' is in a while loop. Values "
            "leave a loop as its results: make it a loop variable."
        )
