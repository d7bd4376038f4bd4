"""FuncGraph: the graph of a function's body. Tensors of the graphs around it become arguments when they are used."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.default_stack import default_graph_scope, default_graphs
from thalweg.graph.definitions.op_registry import OpDef, export, op_def
from thalweg.graph.dtypes import DType
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.graph import Graph
from thalweg.graph.handle_data import handle_data
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.scopes import Scope
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_NO_SCOPES: dict[str, Any] = {
    "name_stack": "", "context": None, "controllers": (), "devices": (), "colocation": (), "attr_map": {}
}  # fmt: skip


class FuncGraph(Graph):
    """The body of a function under construction, or finished.

    While it is the default graph, every op goes here, whatever graph its inputs are from: a tensor of a graph around
    this one is captured, which gives the function one more argument. Variables belong to the outermost graph; the body
    captures their handles. The library of functions, too, is that of the outermost graph.

    Attributes:
        name: The name of the function.
        outer_graph: The graph in which it is used.
        inputs: The placeholders of the arguments, without the captured ones.
        captures: From captured tensors to the placeholders that stand for them.
    """

    _building_function = True
    _is_special = True

    def __init__(
        self,
        name: str,
        outer_graph: Graph | None = None,
        capture_by_value: bool = False,
        allowed_stateful: Container[str] = (),
    ) -> None:
        """Starts an empty body inside `outer_graph`, or the default graph.

        Args:
            name: The name of the function.
            outer_graph: The graph around it.
            capture_by_value: Whether to copy the operations behind a captured tensor, instead of adding an argument.
            allowed_stateful: Types of stateful operations that may be copied.
        """
        super().__init__()
        outer = get_default_graph() if outer_graph is None else outer_graph
        self.name = name
        self.outer_graph = outer
        self.inputs: list[Tensor] = []
        self.captures: dict[Tensor, Tensor] = {}
        self._by_value = capture_by_value
        self._allowed_stateful = allowed_stateful
        self._copies: dict[Operation, Operation] = {}
        self.num_variables_made = 0  # While its body was built; see `state.creators`.
        self.seed = outer.seed
        self._producer_version = outer._producer_version
        # Shared by the whole program: functions, variables by name, Python functions that must stay alive.
        self._functions = outer._functions
        self._attachments = outer._attachments
        with outer._lock:
            self._collections = {key: list(items) for key, items in outer._collections.items()}
            for key in GraphKeys._VARIABLE_COLLECTIONS:
                self._collections[key] = outer._collections.setdefault(key, [])

    @property
    def building_function(self) -> bool:
        """True: this is the body of a function."""
        return True

    def add_argument(self, dtype: DType, shape: Any = None, name: str = "arg") -> Tensor:
        """Adds an argument, and returns the placeholder that stands for it."""
        tensor = self.placeholder(dtype, TensorShape(shape), name)
        self.inputs.append(tensor)
        return tensor

    def placeholder(self, dtype: DType, shape: TensorShape, name: str) -> Tensor:
        """A tensor that has no value of its own, outside of all scopes."""
        definition = op_def("Placeholder")
        # An argument exists from the start: the scopes at its first use do not apply to it.
        with Scope(self._scopes, lambda: (dict(_NO_SCOPES), None)):
            attrs = {"dtype": dtype, "shape": shape}
            op = super().add_operation(definition, (), attrs, self.unique_name(name), (dtype,), skip_frames=4)
        return op.outputs[0]

    def add_operation(
        self,
        op_def: OpDef,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        name: str,
        output_dtypes: Sequence[DType],
        *,
        shapes: list[TensorShape] | None = None,
        skip_frames: int = 2,
    ) -> Operation:
        """Adds one node, whose inputs may be tensors of outer graphs; see `Graph.add_operation`."""
        for tensor in inputs:
            if tensor.op.graph is not self:
                inputs = [self.capture(tensor) for tensor in inputs]
                break
        if self not in default_graphs.stack:
            self._refuse(name, inputs)
        return super().add_operation(
            op_def, inputs, attrs, name, output_dtypes, shapes=shapes, skip_frames=skip_frames + 1
        )

    def _refuse(self, name: str, inputs: Sequence[Tensor]) -> NoReturn:
        """Says that what is in the body cannot be used outside of it."""
        used = f"'{inputs[0].name}'" if inputs else "an operation"
        raise TypeError(
            f"'{name}' cannot use {used} of the body of function '{self.name}' out of it: there it has no value. Let "
            "the function return it, or keep it in a tf.Variable."
        )

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """The tensor by which the body sees `tensor`: itself, or the placeholder of a new argument.

        Raises:
            ValueError: If it is from a graph that is not around this one.
        """
        if type(tensor) is EagerTensor:
            return self._tensor_of_value(tensor)
        if tensor.op.graph is self:
            return tensor
        found = self.captures.get(tensor)
        if found is None:
            if not self.is_inside(tensor.op.graph):
                raise ValueError(
                    f"Cannot capture '{tensor.name}' in function '{self.name}': it is from another graph "
                    f"({tensor.op.graph}) than those around the function. Values leave a function as its results."
                )
            if self._by_value:
                return self._copy(tensor.op).outputs[tensor.value_index]
            name = name or tensor.op.name.rpartition("/")[2] or "capture"
            found = self.placeholder(tensor.dtype.base_dtype, tensor.shape, name)
            found._handle_data = handle_data(tensor)
            self.captures[tensor] = found
        return found

    def _tensor_of_value(self, value: EagerTensor) -> Tensor:
        if self._by_value:
            return super()._tensor_of_value(value)
        found = self.captures.get(value)
        if found is None:
            found = self.captures[value] = self.placeholder(value.dtype.base_dtype, value.shape, "capture")
            found._handle_data = value._handle_data
        return found

    def _copy(self, wanted: Operation) -> Operation:
        """Copies an operation of an outer graph, and all that it needs, into the body."""
        stack = [wanted]
        while stack:
            op = stack[-1]
            missing = [t.op for t in op.inputs if t.op not in self._copies]
            missing.extend(control for control in op.control_inputs if control not in self._copies)
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if op not in self._copies:
                self._copies[op] = self._copy_one(op)
        return self._copies[wanted]

    def _copy_one(self, op: Operation) -> Operation:
        if op.op_def.effect is Effect.FED:
            raise ValueError(f"Cannot capture a placeholder (name: '{op.name}', type: {op.type}) by value.")
        if op.op_def.stateful and op.type not in self._allowed_stateful:
            raise ValueError(f"Cannot capture a stateful node (name: '{op.name}', type: {op.type}) by value.")
        if op._control_flow_context is not None:
            raise ValueError(f"Cannot capture '{op.name}' by value: it is in a loop or branch.")
        inputs = [self._copies[tensor.op].outputs[tensor.value_index] for tensor in op.inputs]
        attrs = {key: value for key, value in op.attrs.items() if key != "_class"}
        types = [tensor.dtype for tensor in op.outputs]
        with Scope(self._scopes, lambda: (dict(_NO_SCOPES), None)):
            copy = super().add_operation(op.op_def, inputs, attrs, self.unique_name(op.name), types)
        copy._python_data = op._python_data
        copy.control_inputs = [self._copies[control] for control in op.control_inputs]
        return copy

    def is_inside(self, graph: Graph) -> bool:
        """Whether `graph` is this one or around it."""
        inner: Graph = self
        while inner is not graph:
            if not isinstance(inner, FuncGraph):
                return False
            inner = inner.outer_graph
        return True

    def control_dependencies(self, control_inputs: Any) -> Scope:
        """See `Graph.control_dependencies`; operations of outer graphs have run before the function is called."""
        if control_inputs is not None:
            control_inputs = [element for element in control_inputs if self._may_wait_for(element)]
        return super().control_dependencies(control_inputs)

    def _may_wait_for(self, element: Any) -> bool:
        op = element if isinstance(element, Operation) else getattr(element, "op", None)
        return not isinstance(op, Operation) or op.graph is self or not self.is_inside(op.graph)

    def _control_operation(self, element: Any) -> Operation:
        # An op can be colocated with a captured tensor, too.
        if isinstance(element, (Tensor, Operation)) or isinstance(getattr(element, "op", None), Operation):
            op: Operation = element if isinstance(element, Operation) else element.op
            if op.graph is not self and self.is_inside(op.graph) and op.outputs:
                return self.capture(op.outputs[0]).op
        return super()._control_operation(element)


def outermost(graph: Graph) -> Graph:
    """The graph around all functions that `graph` is in."""
    while isinstance(graph, FuncGraph):
        graph = graph.outer_graph
    return graph


@export("init_scope")
@contextmanager
def init_scope() -> Iterator[None]:
    """A block whose ops are created outside of all functions, loops and branches, without control dependencies."""
    inner = get_default_graph()
    graph = outermost(inner)
    scope = inner.get_name_scope()
    with default_graph_scope(graph), graph.control_dependencies(None), graph.name_scope(f"{scope}/" if scope else ""):
        yield
