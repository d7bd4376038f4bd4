"""Importer: creates the nodes of a GraphDef in a graph, all of them or, after an error, none.

The nodes are created inputs first, in the given order where that allows it. Only the edge from NextIteration to Merge
may close a cycle: such a Merge is created with another of its inputs in that place, and gets the right one at the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from thalweg import errors
from thalweg.graph.device_spec import canonical
from thalweg.graph.formats.import_nodes import (
    ImportedNode,
    NodeReader,
    Source,
    node_error,
    parse_tensor_name,
)
from thalweg.graph.messages.graph_def import is_handle
from thalweg.graph.op_effects import Flow
from thalweg.graph.operation import Operation
from thalweg.graph.scopes import apply_devices
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.variable_values import exchanged

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


def _no_library(graph: Graph, library: Any) -> list[str]:
    raise NotImplementedError("No reader of function libraries is installed: see set_library_reader.")


_add_library: Callable[[Graph, Any], list[str]] = _no_library


def set_library_reader(reader: Callable[[Graph, Any], list[str]]) -> None:
    """Installs the function that adds a FunctionDefLibrary to a graph and returns the names: functions/ is higher."""
    global _add_library
    _add_library = reader


class Importer:
    """One import.

    Attributes:
        uniquify: Without a prefix: whether a name that the graph already has gets a number, or is an error.
        may_leave_unused: Whether the input map may have tensors that no node reads.
        may_join_nodes: Whether nodes may be colocated with nodes that the graph has already.
    """

    def __init__(
        self,
        graph: Graph,
        graph_def: Any,
        scope: str,
        input_map: dict[str, Any],
        return_elements: list[str],
        producer_op_list: Any,
    ) -> None:
        self._graph = graph
        self._graph_def = graph_def
        self._scope = scope
        self._return_elements = return_elements
        self._nodes: dict[str, ImportedNode] = {}
        self._names: dict[str, str] = {}
        self._ops: dict[str, Operation] = {}
        self._producer_op_list = producer_op_list
        self._mapped: dict[Source, Tensor] = {}
        self._mapped_controls: dict[str, Operation] = {}
        self._used: set[Any] = set()
        self.uniquify = True
        self.may_leave_unused = False
        self.may_join_nodes = False
        for key, value in input_map.items():
            self._map(key, value)

    def _map(self, key: str, value: Any) -> None:
        if key[:1] == "^":
            self._mapped_controls[key[1:]] = value if isinstance(value, Operation) else value.op
        elif isinstance(value, Operation):
            raise TypeError(f"`input_map` maps the tensor '{key}' to the operation '{value.name}': give a Tensor.")
        else:
            self._mapped[parse_tensor_name(key)] = value

    def run(self) -> None:
        """Reads the nodes and adds them to the graph."""
        added = self._add_functions()
        try:
            self._add_nodes()
        except BaseException:
            for name in added:
                self._graph._functions.pop(name, None)
            raise

    def _add_functions(self) -> list[str]:
        """Puts the functions of the GraphDef into the graph's library; the names of those that are new."""
        if not self._graph_def.library.function:
            return []
        return _add_library(self._graph, self._graph_def.library)

    def _add_nodes(self) -> None:
        reader = NodeReader(self._graph._functions, self._producer_op_list, self._graph_def.versions.producer)
        for node_def in self._graph_def.node:
            node = reader.read(node_def)
            if node.name in self._nodes:
                raise ValueError(f"Node '{node.name}' is not unique: the GraphDef has two nodes of this name.")
            self._nodes[node.name] = node
        order, back_edges = self._creation_order()
        if not self.may_leave_unused:
            self._check_input_map()
        graph = self._graph
        with graph._lock, _undone_on_error(graph):
            self._choose_names()
            for node in order:
                self._create(node)
            for name, index in back_edges:
                self._close_loop(name, index)
            for text in self._return_elements:
                self.element(text)
            self._adopt_graph_properties()

    def _choose_names(self) -> None:
        taken = self._graph._operations_by_name
        for name in self._nodes:
            full = self._scope + name
            if full in taken:
                if self._scope or not self.uniquify:
                    raise ValueError(f"Node name '{full}' already exists in the graph.")
                number = 1
                while f"{full}_{number}" in taken or f"{full}_{number}" in self._nodes:
                    number += 1
                full = f"{full}_{number}"
            self._names[name] = full

    # Order.

    def _creation_order(self) -> tuple[list[ImportedNode], list[tuple[str, int]]]:
        """The nodes, inputs first, and the inputs (node, index) that close loops."""
        consumers: dict[str, list[int]] = {}
        nodes = list(self._nodes.values())
        waiting = [0] * len(nodes)
        back_edges: list[tuple[str, int]] = []
        for position, node in enumerate(nodes):
            for source in self._sources(node, back_edges):
                consumers.setdefault(source, []).append(position)
                waiting[position] += 1
        ready = [position for position, count in enumerate(waiting) if count == 0]
        order: list[ImportedNode] = []
        while ready:
            node = nodes[heapq.heappop(ready)]
            order.append(node)
            for position in consumers.get(node.name, ()):
                waiting[position] -= 1
                if waiting[position] == 0:
                    heapq.heappush(ready, position)
        if len(order) < len(nodes):
            stuck = [nodes[position].name for position, count in enumerate(waiting) if count]
            some = ", ".join(stuck[:5]) + (", ..." if len(stuck) > 5 else "")
            raise ValueError(
                f"{len(stuck)} nodes in a cycle, or behind one: {some}. "
                "Only the edge from NextIteration to Merge may close one."
            )
        return order, back_edges

    def _sources(self, node: ImportedNode, back_edges: list[tuple[str, int]]) -> Iterator[str]:
        is_merge = node.op_def.flow is Flow.MERGE
        for index, source in enumerate(node.inputs):
            if source in self._mapped:
                self._used.add(source)
                continue
            producer = self._nodes.get(source[0])
            if producer is None:
                raise node_error(node.name, _unknown_input(source))
            if source[1] >= len(producer.output_types):
                raise node_error(
                    node.name,
                    f"Connecting to invalid output {source[1]} of source node {source[0]} which has "
                    f"{len(producer.output_types)} outputs",
                )
            if is_merge and producer.op_def.flow is Flow.NEXT_ITERATION:
                back_edges.append((node.name, index))
            else:
                yield source[0]
        for control in node.controls:
            if control in self._mapped_controls:
                self._used.add("^" + control)
            elif control not in self._nodes:
                raise node_error(node.name, f"Unknown input node '^{control}'")
            else:
                yield control

    # Creation.

    def _tensor(self, source: Source) -> Tensor | None:
        """The tensor for an input; None if its node does not exist yet."""
        mapped = self._mapped.get(source)
        if mapped is not None:
            return mapped
        op = self._ops.get(source[0])
        return None if op is None else op.outputs[source[1]]

    def _create(self, node: ImportedNode) -> None:
        found = [self._tensor(source) for source in node.inputs]
        stand_in = next((tensor for tensor in found if tensor is not None), None)
        has_back_edge = None in found
        if has_back_edge and stand_in is None:
            raise node_error(
                node.name, f"every input of this {node.op_def.name} closes a loop, so that it never starts"
            )
        name = self._names[node.name]
        inputs: list[Tensor] = []
        for index, tensor in enumerate(found):
            actual = tensor if tensor is not None else stand_in
            assert actual is not None
            self._check_type(node, index, actual)
            inputs.append(actual)
        self._rewrite_colocation(node)
        self._rename_frame(node)
        graph = self._graph
        try:
            op = graph.add_operation(node.op_def, inputs, node.attrs, name, node.output_types, skip_frames=5)
        except (errors.OpError, ValueError):
            raise
        except Exception as e:  # A shape function that did not expect such attributes.
            raise node_error(node.name, f"op '{node.op_def.name}' cannot be created: {type(e).__name__}: {e}") from e
        self._ops[node.name] = op
        graph._names_in_use.setdefault(name.lower(), 1)
        self._set_device(op, node)
        for control in node.controls:
            before = self._mapped_controls.get(control) or self._ops[control]
            if before not in op.control_inputs:
                op.control_inputs.append(before)
        if has_back_edge:
            # The value may change its shape from one iteration to the next.
            op.outputs[0]._shape = TensorShape._of(None)
        if node.shape_hints:
            _apply_hints(node, op)

    def _check_type(self, node: ImportedNode, index: int, tensor: Tensor) -> None:
        expected = node.input_types[index]
        if tensor.dtype is not expected and (expected._is_ref_dtype or tensor.dtype.base_dtype is not expected):
            raise ValueError(
                f"Input {index} of node {self._names[node.name]} was passed {tensor.dtype.name} from {tensor.name} "
                f"incompatible with expected {expected.name}."
            )

    def _rename_frame(self, node: ImportedNode) -> None:
        """Keeps the loops of two imports of one graph apart."""
        frame = node.attrs.get("frame_name")
        if self._scope and isinstance(frame, bytes):
            node.attrs["frame_name"] = self._scope.encode() + frame

    def _rewrite_colocation(self, node: ImportedNode) -> None:
        groups = node.attrs.get("_class")
        if groups is None:
            return
        if not isinstance(groups, list) or not all(isinstance(group, bytes) for group in groups):
            raise node_error(node.name, "attr '_class' must be a list of strings")
        renamed = []
        for group in groups:
            if group.startswith(b"loc:@"):
                target = group[5:].decode(errors="replace")
                if target not in self._names and not (
                    self.may_join_nodes and target in self._graph._operations_by_name
                ):
                    raise ValueError(f"Node '{node.name}' expects to be colocated with unknown node '{target}'")
                group = b"loc:@" + self._names.get(target, target).encode()
            renamed.append(group)
        node.attrs["_class"] = renamed

    def _set_device(self, op: Operation, node: ImportedNode) -> None:
        devices = self._graph._scopes.devices
        if not node.device:
            return
        try:
            op.device = canonical(node.device)
        except ValueError as e:
            raise node_error(node.name, e) from None
        if devices:
            apply_devices(devices, op)

    def _close_loop(self, name: str, index: int) -> None:
        node = self._nodes[name]
        tensor = self._tensor(node.inputs[index])
        assert tensor is not None
        self._check_type(node, index, tensor)
        self._ops[name]._update_input(index, tensor)

    def _adopt_graph_properties(self) -> None:
        graph = self._graph
        versions = self._graph_def.versions
        if versions.producer:
            graph._producer_version = min(graph._producer_version, versions.producer)
        graph._min_consumer = max(graph._min_consumer, versions.min_consumer)

    @property
    def operations(self) -> dict[str, Operation]:
        """The new operations, by their names in the GraphDef."""
        return self._ops

    # Results.

    def _check_input_map(self) -> None:
        """Refuses keys of `input_map` that the GraphDef does not have."""
        missing = []
        for source in self._mapped:
            node = self._nodes.get(source[0])
            if source not in self._used and (node is None or source[1] >= len(node.output_types)):
                missing.append(f"{source[0]}:{source[1]}")
        for control in self._mapped_controls:
            if "^" + control not in self._used and control not in self._nodes:
                missing.append("^" + control)
        if missing:
            raise ValueError(f"Attempted to map inputs that were not found in graph_def: [{', '.join(missing)}]")

    def element(self, text: str) -> Any:
        """The operation or tensor of a name in the GraphDef."""
        if ":" not in text:
            if text not in self._ops:
                raise ValueError(f"Requested return node '{text}' not found in graph def")
            return self._ops[text]
        source = parse_tensor_name(text)
        if ":" in source[0]:
            raise ValueError(f"Cannot convert '{text}' to a tensor name: it must have the form 'name:output'.")
        mapped = self._mapped.get(source)
        if mapped is not None:
            return mapped
        op = self._ops.get(source[0])
        if op is None:
            raise ValueError(f"Requested return tensor '{text}' not found in graph def")
        if source[1] >= len(op.outputs):
            raise ValueError(
                f"Invalid return output {source[1]} of node '{source[0]}', which has {len(op.outputs)} output(s)"
            )
        return exchanged(op.outputs[source[1]], wants_handle=False)


def import_nodes_into(graph: Graph, nodes: list[Any], arguments: dict[str, Tensor]) -> dict[str, Operation]:
    """Adds nodes to the body of a function.

    Args:
        graph: The body; it must be the default graph.
        nodes: NodeDefs, with inputs as graphs have them.
        arguments: Tensors that the nodes may read, by the names that they use ('x:0').

    Returns:
        The operations, by their names in the NodeDefs.
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef  # Start-up time: protobuf is slow to import.

    importer = Importer(graph, GraphDef(node=nodes), "", arguments, [], None)
    importer.may_leave_unused = True
    importer.run()
    return importer.operations


def _unknown_input(source: Source) -> str:
    name, index = source
    text = name if index == 0 else f"{name}:{index}"
    if ":" in name:
        return (
            f"Unknown input node '{text}:{index}'. Names of the form 'node:output:index' belong to the bodies of "
            "functions; in a graph it is 'node' or 'node:index'."
        )
    return f"Unknown input node '{text}'"


def _apply_hints(node: ImportedNode, op: Operation) -> None:
    """Adds the output shapes that the GraphDef states."""
    assert node.shape_hints is not None
    if len(node.shape_hints) != len(op.outputs):
        raise node_error(
            node.name, f"attr '_output_shapes' has {len(node.shape_hints)} shapes for {len(op.outputs)} outputs"
        )
    for index, (tensor, hint) in enumerate(zip(op.outputs, node.shape_hints, strict=True)):
        if is_handle(tensor):
            continue
        if op.type.startswith("FusedBatchNormGrad") and index >= 3:
            continue  # Nobody reads these outputs, and versions of TensorFlow state different shapes for them.
        if op.type == "ExtractVolumePatches":
            # TensorFlow states four dimensions for the five, also for what follows.
            tensor._shape = TensorShape._of(None)
            continue
        try:
            tensor.set_shape(hint)
        except ValueError as e:
            raise node_error(
                node.name, f"has an _output_shapes attribute inconsistent with the GraphDef for output #{index}: {e}"
            ) from None


@contextmanager
def _undone_on_error(graph: Graph) -> Iterator[None]:
    """A block that restores the graph if it fails. The caller holds the graph's lock."""
    count, version = len(graph._operations), graph._version
    names = dict(graph._names_in_use)
    try:
        yield
    except BaseException:
        # A loop or branch may have captured tensors for the new nodes, which cannot be undone.
        if graph._scopes.context is None:
            for op in graph._operations[count:]:
                del graph._operations_by_name[op.name]
                for tensor in op.inputs:
                    if tensor.op._id < count and tensor._consumers is not None:
                        tensor._consumers.remove(op)
            del graph._operations[count:]
            graph._version = version
            graph._mutations += 1
            graph._names_in_use = names
        raise
