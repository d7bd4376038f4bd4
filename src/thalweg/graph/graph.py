"""Graph: the operations, their names, and the scopes in which new ones are created.

Append-only and thread-safe: one re-entrant lock guards the list of operations, the names and the collections. Scopes
are per thread (see `scopes`). Nothing under the lock calls user code.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from thalweg.graph import scopes, source_location
from thalweg.graph.control_flow_context import ControlFlowContext, check_visible
from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.definitions.op_registry import OpDef, export, op_def
from thalweg.graph.definitions.shape_context import infer_shapes
from thalweg.graph.device_spec import canonical
from thalweg.graph.dtypes import DType
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.graph_lookup import CollectionStore, ElementLookup
from thalweg.graph.messages import graph_def
from thalweg.graph.messages.node_values import node_values
from thalweg.graph.operation import Operation
from thalweg.graph.scopes import Controller, Scope
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.platform.forks import watch_lock
from thalweg.platform.version import GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_CONSUMER


@export("Graph")
class Graph(ElementLookup, CollectionStore):
    """A dataflow graph: operations joined by tensors.

    Example:
        >>> graph = tf.Graph()
        >>> with graph.as_default():
        ...     c = tf.constant(30.0)
        >>> c.graph is graph
        True
    """

    _building_function = False  # The same as `building_function`, without the call.
    _executes = False  # Whether operations run at once: of the EagerGraph.
    _is_special = False  # Whether one of the two holds.
    _takes_values = False  # Whether ops on its tensors may take eager tensors, outside of its blocks.

    def __init__(self) -> None:
        """Creates an empty graph."""
        self._lock = threading.RLock()
        watch_lock(self)
        self._operations: list[Operation] = []
        self._operations_by_name: dict[str, Operation] = {}
        self._names_in_use: dict[str, int] = {}
        self._collections: dict[Any, list[Any]] = {}
        self._scopes = scopes.ScopeState()
        self._version = 0
        self._seed_shift = 0
        self._mutations = 0  # Changes to existing nodes: compiled steps made before are out of date.
        self._finalized = False
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Any] = set()
        self._functions: dict[str, Any] = {}  # The library: see functions/graph_function.py.
        self._attachments: dict[str, Any] = {}  # Data of sessions and libraries, by their own keys.
        self.seed: int | None = None
        self._producer_version = GRAPH_DEF_VERSION
        self._min_consumer = GRAPH_DEF_VERSION_MIN_CONSUMER

    # Creating operations.

    def create_op(
        self, op_type: str, inputs: Sequence[Tensor], dtypes: Any = None, input_types: Any = None,
        name: str | None = None, attrs: Any = None, op_def: Any = None, compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Operation:  # fmt: skip
        """Adds one node, given all that a NodeDef holds: the interface of TensorFlow's own op functions.

        Args:
            op_type: The op type.
            inputs: All data inputs, lists flattened.
            dtypes: Ignored: the types of the outputs follow from the attributes.
            input_types: Ignored: the inputs have types.
            name: The node's name, made unique; the op type if None. With a slash at the end: exactly this name.
            attrs: AttrValues by name; those with defaults may be missing.
            op_def: Ignored: the registered definition counts.
            compute_shapes: Ignored: shapes are always inferred.
            compute_device: Ignored: the device of the place counts.

        Returns:
            The operation.

        Raises:
            TypeError: If an input is not a tensor.
            ValueError: If inputs or attributes do not fit the op.
            errors.NotFoundError: If there is no such op.
        """
        for tensor in inputs:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"Input {tensor!r} is not a tensor.")
        definition, values, types = node_values(op_type, inputs, attrs or {})
        full = name[:-1] if name and name.endswith("/") else self.unique_name(name or op_type)
        return self.add_operation(definition, inputs, values, full, types)

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
        """Adds one node. Op functions use `graph.apply.apply` instead.

        Args:
            op_def: The definition of its type.
            inputs: All data inputs, lists flattened, of the right types.
            attrs: Complete attributes in canonical form; the node keeps this dict.
            name: Its full and unique name.
            output_dtypes: One per output.
            shapes: Shapes of the outputs; inferred if None.
            skip_frames: How many frames, counted from here, belong to Thalweg's machinery.

        Returns:
            The operation.
        """
        state = self._scopes
        control_inputs: list[Operation] | None = None
        plain = state.plain
        if not plain:
            inputs, control_inputs = self._inputs_in_scopes(op_def, inputs, name)
        else:
            for tensor in inputs:
                if tensor.op._control_flow_context is not None:
                    check_visible(tensor, None, name)
        if shapes is None:
            shapes = infer_shapes(op_def, inputs, attrs, name, len(output_dtypes))
        op = Operation(self, op_def, name, tuple(inputs), attrs, source_location.capture(skip_frames))
        if len(output_dtypes) == 1:
            op.outputs = [Tensor(op, 0, output_dtypes[0], shapes[0])]
        else:
            op.outputs = [Tensor(op, i, dtype, shapes[i]) for i, dtype in enumerate(output_dtypes)]
        if control_inputs is not None:
            self._set_from_scopes(op, op_def, control_inputs)
        with self._lock:
            if self._finalized:
                self._check_not_finalized()
            if name in self._operations_by_name:
                raise ValueError(f"Duplicate node name in graph: '{name}'")
            op._id = len(self._operations)
            self._operations.append(op)
            self._operations_by_name[name] = op
            self._version += 1
            for tensor in inputs:
                if tensor._consumers is None:
                    tensor._consumers = [op]
                else:
                    tensor._consumers.append(op)
        if not plain:
            for controller in state.controllers:
                controller.seen.add(op)
            if state.context is not None:
                state.context.op_added(op)
        return op

    def _inputs_in_scopes(
        self, op_def: OpDef, inputs: Sequence[Tensor], name: str
    ) -> tuple[Sequence[Tensor], list[Operation]]:
        state = self._scopes
        context = state.context
        controllers = state.controllers
        if context is not None:
            # Ops that a capture creates are named after the op that needs them: 'cond/mul/Switch'.
            outer, state.name_stack = state.name_stack, name
            try:
                inputs = context.capture_inputs(op_def.name, inputs)
            finally:
                state.name_stack = outer
        for tensor in inputs:
            if tensor.op._control_flow_context is not context:
                check_visible(tensor, context, name)
        control_inputs = scopes.control_inputs_for(controllers, inputs) if controllers else []
        if context is not None:
            outer, state.name_stack = state.name_stack, name
            try:
                control_inputs = context.control_inputs(control_inputs, inputs)
            finally:
                state.name_stack = outer
        return inputs, control_inputs

    def _set_from_scopes(self, op: Operation, op_def: OpDef, control_inputs: list[Operation]) -> None:
        state = self._scopes
        op.control_inputs = control_inputs
        op._control_flow_context = state.context
        if state.devices:
            scopes.apply_devices(state.devices, op)
        if state.colocation:
            scopes.apply_colocation(state.colocation, op)
        scopes.apply_scope_attrs(state, op, op_def)

    def _tensor_of_value(self, value: EagerTensor) -> Tensor:
        """A tensor of this graph that has the value of an eager tensor: a constant.

        Raises:
            ValueError: If it is the handle of a resource, which belongs to the eager program.
        """
        array = value._value_now()
        if array is None:
            raise ValueError(
                f"{value!r} belongs to what runs eagerly: a graph cannot use it. Create variables and other state "
                "within `with graph.as_default():`, or pass them to a tf.function."
            )
        attrs = {"value": array, "dtype": value.dtype}
        return self.add_operation(op_def("Const"), (), attrs, self.unique_name("Const"), (value.dtype,)).outputs[0]

    # Names.

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Returns a full name, in the current name scope, that no operation or scope has.

        As in TensorFlow, names that differ only in case count as the same.
        """
        stack = self._scopes.name_stack
        if stack:
            name = f"{stack}/{name}"
        key = name.lower()
        in_use = self._names_in_use
        with self._lock:
            count = in_use.get(key, 0)
            if mark_as_used:
                in_use[key] = count + 1
            if count == 0:
                return name
            base = key
            while key in in_use:
                key = f"{base}_{count}"
                count += 1
            if mark_as_used:
                in_use[key] = 1
            return f"{name}_{count - 1}"

    def name_scope(self, name: str | bytes | None) -> Scope:
        """A block in which names get a prefix.

        Args:
            name: A new scope below the current one, made unique; or, with a slash at the end, exactly that scope,
                opened again; or None or '' for the root.

        Returns:
            A context manager whose value is the full scope name with a slash at the end ('' for the root).
        """
        if isinstance(name, bytes):
            name = name.decode()
        if name is not None and not isinstance(name, str):
            raise TypeError(f"A name scope must be a string or None, got {name!r}.")

        def enter() -> tuple[dict[str, Any], str]:
            if not name:
                return {"name_stack": ""}, ""
            if name[-1] == "/":
                full = name.rstrip("/")
            else:
                self._check_scope_name(name)
                full = self.unique_name(name)
            return {"name_stack": full}, full + "/"

        return Scope(self._scopes, enter)

    def _check_scope_name(self, name: str) -> None:
        pattern = scopes.VALID_SCOPE_NAME if self._scopes.name_stack else scopes.VALID_OP_NAME
        if not pattern.match(name):
            kind = "scope name" if self._scopes.name_stack else "root scope name"
            raise ValueError(
                f"'{name}' is not a valid {kind}. A {kind} has to match the following pattern: {pattern.pattern}"
            )

    def get_name_scope(self) -> str:
        """The current name scope, without a slash at the end."""
        return self._scopes.name_stack

    # Scopes.

    def device(self, device_name_or_function: Any) -> Scope:
        """A block whose ops ask for a device: a name (merged with outer ones), a function of the op, or None."""
        device = device_name_or_function
        entry = device if callable(device) or device is None else canonical(device)
        return Scope(self._scopes, lambda: ({"devices": (*self._scopes.devices, entry)}, None))

    def control_dependencies(self, control_inputs: Any) -> Scope:
        """A block whose ops run only after `control_inputs` (ops, tensors, variables); None clears those outside."""
        if control_inputs is None:
            return Scope(self._scopes, lambda: ({"controllers": (), "context": None}, None))
        controller = Controller([self._control_operation(element) for element in control_inputs])
        return Scope(self._scopes, lambda: ({"controllers": (*self._scopes.controllers, controller)}, controller))

    def _control_operation(self, element: Any) -> Operation:
        # A resource variable stands for its handle, an IndexedSlices for the op of its values.
        if not isinstance(element, (Tensor, Operation, str)) and isinstance(getattr(element, "op", None), Operation):
            element = element.op
        element = self.as_graph_element(element)
        op: Operation = element.op if isinstance(element, Tensor) else element
        return op

    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Scope:
        """A block whose ops are put beside `op`; device blocks outside of it do not count inside."""
        if op is None and not ignore_existing:
            raise ValueError("Trying to reset colocation (op is None) but ignore_existing is not True")
        target = None if op is None else self._control_operation(op)

        def enter() -> tuple[dict[str, Any], None]:
            outer = () if ignore_existing else self._scopes.colocation
            return {"colocation": outer if target is None else (*outer, target), "devices": ()}, None

        return Scope(self._scopes, enter)

    def container(self, container_name: str) -> Scope:
        """A block whose stateful ops keep their state in the container of that name."""
        return Scope(self._scopes, lambda: ({"container": container_name}, container_name))

    def gradient_override_map(self, op_type_map: dict[str, str]) -> Scope:
        """A block whose ops use another registered gradient: `{op type: name given to RegisterGradient}`."""
        return self._map_scope("gradient_map", op_type_map)

    def _kernel_label_map(self, op_to_kernel_label_map: dict[str, str]) -> Scope:
        return self._map_scope("kernel_labels", op_to_kernel_label_map)

    def _map_scope(self, field: str, mapping: dict[str, str]) -> Scope:
        if not isinstance(mapping, dict):
            raise TypeError(f"The mapping must be a dictionary from op type to name, got {mapping!r}.")
        if not all(isinstance(text, str) for item in mapping.items() for text in item):
            raise TypeError(f"The mapping must contain only strings, got {mapping!r}.")
        return Scope(self._scopes, lambda: ({field: {**getattr(self._scopes, field), **mapping}}, None))

    def _attr_scope(self, attr_map: dict[str, Any]) -> Scope:
        """A block whose ops get additional attributes (values in canonical form, functions of the op, or None)."""
        return Scope(self._scopes, lambda: ({"attr_map": {**self._scopes.attr_map, **attr_map}}, None))

    def _get_control_flow_context(self) -> ControlFlowContext | None:
        return self._scopes.context

    def _set_control_flow_context(self, context: ControlFlowContext | None) -> None:
        self._scopes.update({"context": context})

    def switch_to_thread_local(self) -> None:
        """Does nothing: scopes are always per thread."""

    def as_default(self) -> Any:
        """A block in which this is the default graph of the current thread."""
        return default_graph_scope(self)

    # State of the graph as a whole.

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return self._version

    @property
    def _last_id(self) -> int:
        return len(self._operations)

    def _next_seed(self) -> int:
        """The seed of a random op without one of its own: how many operations TensorFlow would have by now."""
        return len(self._operations) + self._seed_shift

    def _shift_seeds(self, count: int) -> None:
        """Says that TensorFlow makes `count` operations that are not made here, or fewer than here."""
        self._seed_shift += count

    @property
    def building_function(self) -> bool:
        """Whether this is the body of a traced function."""
        return False

    @property
    def graph_def_versions(self) -> Any:
        """The VersionDef protobuf of this graph."""
        from tensorboard.compat.proto.versions_pb2 import VersionDef  # Start-up time: protobuf is slow to import.

        return VersionDef(producer=self._producer_version, min_consumer=self._min_consumer)

    @property
    def finalized(self) -> bool:
        """Whether the graph can no longer be changed."""
        return self._finalized

    def finalize(self) -> None:
        """Makes the graph read-only."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    def is_feedable(self, tensor: Any) -> bool:
        """Whether a step may be given a value for `tensor`."""
        return tensor not in self._unfeedable

    def prevent_feeding(self, tensor: Any) -> None:
        """Forbids feeding `tensor`."""
        self._unfeedable.add(tensor)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """Whether a step may return the value of `tensor_or_op`."""
        if isinstance(tensor_or_op, Tensor) and tensor_or_op.op in self._unfetchable:
            return False
        return tensor_or_op not in self._unfetchable

    def prevent_fetching(self, op: Any) -> None:
        """Forbids fetching `op` (or a tensor)."""
        self._unfetchable.add(op)

    def _get_function(self, name: str) -> Any:
        return self._functions.get(name)

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """The graph as a GraphDef protobuf; see `messages.graph_def`."""
        return graph_def.as_graph_def(self, from_version, add_shapes)
