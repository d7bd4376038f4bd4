"""EagerOperation: an op that has run, in the form that gradient functions and programs know operations in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from thalweg.graph.default_graph import eager_graph
from thalweg.graph.definitions.op_registry import OpDef
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


class EagerOperation(Operation):
    """An op that has run: type, attributes, inputs and outputs. It is in no graph, and cannot run again."""

    __slots__ = ()

    def __init__(
        self, op_def: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any], outputs: Sequence[Tensor], name: str = ""
    ) -> None:
        """Used by the executor."""
        self.graph = eager_graph()
        self.op_def = op_def
        self.type = op_def.name
        self.name = name or op_def.name
        self.inputs = tuple(inputs)
        self.attrs = attrs
        self.control_inputs = []
        self.outputs = list(outputs)
        self.device = ""
        self._captured = None  # type: ignore[assignment]
        self._control_flow_context = None
        self._original_op = None
        self._python_data = None
        self._id = -1

    @property
    def traceback(self) -> list[tuple[str, int, str, str]]:
        """Nothing: errors are raised where the op is called."""
        return []

    def run(self, feed_dict: Any = None, session: Any = None) -> NoReturn:
        """Refused: it has run."""
        raise NotImplementedError("Operation.run is not supported when eager execution is enabled: it has run.")

    @property
    def node_def(self) -> NoReturn:
        """Not there: it is no node."""
        raise NotImplementedError(f"The operation '{self.name}' has run: it is no node of a graph.")

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}, which has run>"
