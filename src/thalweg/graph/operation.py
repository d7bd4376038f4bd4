"""Operation: one vertex of the graph, with its type, attributes, inputs, control inputs and requested device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from thalweg.graph import source_location
from thalweg.graph.default_stack import AnySession
from thalweg.graph.definitions.op_registry import OpDef, export
from thalweg.graph.device_spec import canonical
from thalweg.graph.dtypes import DType
from thalweg.graph.messages.attr_values import read_any
from thalweg.graph.messages.graph_def import node_def_of
from thalweg.graph.tensor import Tensor, _session_for

if TYPE_CHECKING:
    from thalweg.graph.control_flow_context import ControlFlowContext
    from thalweg.graph.graph import Graph


@export("Operation")
class Operation:
    """A node of the graph. Created only by the graph itself, on behalf of `graph.apply`.

    Attributes:
        graph: The Graph that contains it.
        name: Its unique name.
        type: The op type, such as 'MatMul'.
        op_def: The definition of that type.
        inputs: The tensors it consumes.
        control_inputs: Operations that must run before it.
        outputs: The tensors it produces.
        attrs: Attributes in canonical form: DType, TensorShape, bytes, int, float, bool, read-only ndarray,
            NameAttrList, or a list of one of these.
        device: The device requested for it: a full or partial device string, or ''.
    """

    __slots__ = (
        "__weakref__", "_captured", "_control_flow_context", "_id", "_original_op", "_python_data", "attrs",
        "control_inputs", "device", "graph", "inputs", "name", "op_def", "outputs", "type",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        op_def: OpDef,
        name: str,
        inputs: tuple[Tensor, ...],
        attrs: dict[str, Any],
        captured: source_location.Capture,
    ) -> None:
        """Used by the graph only."""
        self.graph = graph
        self.op_def = op_def
        self.type = op_def.name
        self.name = name
        self.inputs = inputs
        self.attrs = attrs
        self.control_inputs: list[Operation] = []
        self.outputs: list[Tensor] = []
        self.device = ""
        self._captured = captured
        self._control_flow_context: ControlFlowContext | None = None
        self._original_op: Operation | None = None
        self._python_data: Any = None  # For the layer that made it: py_func's function, a loop's bookkeeping.
        self._id = -1

    @property
    def traceback(self) -> list[tuple[str, int, str, str]]:
        """The call stack at creation: (file, line, function, text) per frame, outermost first."""
        return source_location.resolve(self._captured)

    def values(self) -> tuple[Tensor, ...]:
        """The outputs, as a tuple."""
        return tuple(self.outputs)

    @property
    def _output_types(self) -> list[DType]:
        return [output.dtype for output in self.outputs]

    @property
    def _input_types(self) -> list[DType]:
        return [tensor.dtype.base_dtype for tensor in self.inputs]

    def get_attr(self, name: str) -> Any:
        """Returns the value of an attribute; a shape comes as a TensorShape.

        Raises:
            ValueError: If the operation has no such attribute.
        """
        try:
            return self.attrs[name]
        except KeyError:
            raise ValueError(
                f"Operation '{self.name}' (op: '{self.type}') has no attr named '{name}'. It has: "
                f"{', '.join(sorted(self.attrs)) or 'none'}."
            ) from None

    def colocation_groups(self) -> list[bytes]:
        """The names of its colocation groups: `[b'loc:@name']` of itself when it was not put beside another op."""
        groups = [group for group in self.attrs.get("_class", ()) if group.startswith(b"loc:@")]
        return groups or [b"loc:@" + self.name.encode()]

    @property
    def _outputs(self) -> list[Tensor]:
        return self.outputs  # As programs that edit graphs spell it, and so below.

    @property
    def _inputs(self) -> tuple[Tensor, ...]:
        return self.inputs

    @property
    def node_def(self) -> Any:
        """The NodeDef protobuf of this operation."""
        return node_def_of(self)

    def run(self, feed_dict: Any = None, session: AnySession | None = None) -> None:
        """Runs it in `session`, or in the default session."""
        _session_for(self, session, "execute operation", "run").run(self, feed_dict)

    # The rest changes a finished node. The counter of mutations tells sessions that compiled steps are out of date.

    def _set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute, given as a value or, as in TensorFlow, an AttrValue."""
        if hasattr(value, "WhichOneof"):
            value = read_any(value)
        with self.graph._lock:
            self.attrs[name] = value
            self.graph._mutations += 1

    def _set_device(self, device: Any) -> None:
        self.device = canonical(device)

    def _add_control_input(self, op: Operation) -> None:
        self._add_control_inputs([op])

    def _add_control_inputs(self, ops: Iterable[Operation]) -> None:
        with self.graph._lock:
            for op in ops:
                if not isinstance(op, Operation):
                    raise TypeError(f"op must be an Operation, got {op!r}.")
                if op.graph is not self.graph:
                    raise ValueError(f"Operation '{op.name}' is from another graph than '{self.name}'.")
                if op not in self.control_inputs:
                    self.control_inputs.append(op)
            self.graph._mutations += 1

    def _remove_all_control_inputs(self) -> None:
        with self.graph._lock:
            self.control_inputs.clear()
            self.graph._mutations += 1

    def _update_input(self, index: int, tensor: Tensor) -> None:
        """Replaces one data input: how the back edge of a loop reaches its Merge."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"tensor must be a Tensor, got {tensor!r}.")
        if tensor.graph is not self.graph:
            raise ValueError(f"Tensor '{tensor.name}' is from another graph than operation '{self.name}'.")
        with self.graph._lock:
            if not 0 <= index < len(self.inputs):
                raise IndexError(f"Operation '{self.name}' has {len(self.inputs)} inputs; there is no input {index}.")
            old = self.inputs[index]
            if tensor.dtype.base_dtype is not old.dtype.base_dtype:
                raise TypeError(
                    f"Input {index} of operation '{self.name}' has type {old.dtype.name}; cannot replace it with "
                    f"'{tensor.name}' of type {tensor.dtype.name}."
                )
            assert old._consumers is not None
            old._consumers.remove(self)
            self.inputs = (*self.inputs[:index], tensor, *self.inputs[index + 1 :])
            tensor._add_consumer(self)
            self.graph._mutations += 1

    def _get_control_flow_context(self) -> ControlFlowContext | None:
        return self._control_flow_context

    def _set_control_flow_context(self, context: ControlFlowContext | None) -> None:
        self._control_flow_context = context

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"

    def __str__(self) -> str:
        try:
            return str(self.node_def)
        except ImportError:
            return repr(self)
