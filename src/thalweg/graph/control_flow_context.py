"""What the graph asks of a control-flow construct (a branch, a loop body) while ops are created inside of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph
    from thalweg.graph.operation import Operation
    from thalweg.graph.tensor import Tensor


class ControlFlowContext:
    """Base of the contexts: does nothing by itself.

    While a context is current in a thread (between `enter` and `exit`), `graph.apply` calls, for each op it creates:
    `capture` for every data input, then `control_inputs` once, then, when the op stands in the graph, `op_added`. All
    three run without the graph's lock, and may create ops; a context that does so first leaves itself (`exit`).
    """

    def __init__(self, graph: Graph | None = None) -> None:
        """Creates a context of `graph` (the default graph if None), nested in the current one."""
        if graph is None:
            from thalweg.graph.default_graph import get_default_graph

            graph = get_default_graph()
        self.graph = graph
        self.outer_context: ControlFlowContext | None = graph._get_control_flow_context()
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
