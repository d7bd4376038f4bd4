"""Lowers references: ops on variables by reference become ops on resource handles.

A reference edge is replaced by a handle edge. Where an op wants the value, a read is put in front of it with the
control edges of the op itself: TensorFlow, too, dereferences when the op runs. An update forwards its reference; here
its readers take the handle from the update's input, and wait for the update by a control edge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg import errors
from thalweg.graph import dtypes
from thalweg.graph.definitions.op_registry import OpDef, all_ops, is_defined, op_def
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor_shape import TensorShape
from thalweg.passes.step_graph import Edge, Node, StepGraph, failed_node

# Part of the names of inserted reads; error messages cut the name there.
READ_MARK = "/_read/"

# Ops that forward a reference, and the ops that forward a handle in the same way.
_FORWARDING = {
    "_RefHandle": "Identity",
    **{op.name: op.name.removeprefix("Ref") for op in all_ops() if op.flow.passes_input and op.name.startswith("Ref")},
}
_READING = {"CountUpTo": "ResourceCountUpTo", "IsVariableInitialized": "VarIsInitializedOp",
            "DestroyTemporaryVariable": "ReadVariableOp"}  # fmt: skip
_UPDATING = {"Assign": "AssignVariableOp", "AssignAdd": "AssignAddVariableOp", "AssignSub": "AssignSubVariableOp"}


class Handle(NamedTuple):
    """The replacement of a reference: a handle, and the updates to wait for before using it."""

    edge: Edge
    after: tuple[str, ...]


def lower_references(graph: StepGraph) -> StepGraph:
    """Returns the step without references; one that has none is returned as it is.

    Raises:
        errors.InvalidArgumentError: If an update would change a value that is fed.
        errors.UnimplementedError: If an op has no counterpart that works on resources.
    """
    if not any(dtype._is_ref_dtype for node in graph.nodes.values() for dtype in node.output_dtypes):
        return graph
    lowering = _Lowering(graph)
    for node in graph.nodes.values():
        lowering.lower(node)
    return lowering.finish()


class _Lowering:
    def __init__(self, graph: StepGraph) -> None:
        self._graph = graph
        self._nodes: dict[str, Node] = {}
        self._handles: dict[Edge, Handle] = {}

    def lower(self, node: Node) -> None:
        """Adds the lowered form of one node."""
        definition = node.op_def
        refs = [self._is_reference(edge) for edge in node.inputs]
        if not any(refs) and not any(dtype._is_ref_dtype for dtype in node.output_dtypes):
            # The type of a fed reference stays behind in its readers.
            self._nodes[node.name] = _with_base_types(node)
            return
        wants = _wants_references(definition, node)
        if node.op in ("Identity", "Snapshot") and refs[0]:
            self._add(node, "ReadVariableOp", {"dtype": node.output_dtypes[0].base_dtype}, wants=[True])
        elif node.op in ("Variable", "VariableV2"):
            self._add(node, "VarHandleOp", _handle_attrs(node), [])
        elif node.op == "TemporaryVariable":
            self._add(node, node.op, node.attrs, [])
        elif node.op in _FORWARDING:
            self._add(node, _FORWARDING[node.op], {**node.attrs, "T": dtypes.resource}, wants)
        elif node.op in _READING:
            self._add(node, _READING[node.op], _resource_attrs(node, _READING[node.op]), wants)
        elif not any(wants) and not any(dtype._is_ref_dtype for dtype in node.output_dtypes):
            self._add(node, node.op, node.attrs, wants)
        else:
            counterpart = _counterpart(node)
            self._add(node, counterpart, _resource_attrs(node, counterpart), wants)

    def _is_reference(self, edge: Edge) -> bool:
        source = self._graph.nodes[edge[0]]
        return source.output_dtypes[edge[1]]._is_ref_dtype

    def _handle(self, edge: Edge) -> Handle:
        """Where the handle behind a reference comes from. Loops end at their RefMerge, so this ends, too."""
        found = self._handles.get(edge)
        if found is None:
            source = self._graph.nodes[edge[0]]
            if source.op in _FORWARDING or not source.inputs:
                found = Handle(edge, ())
            else:
                # An update: the reference that it was given, once it is done.
                position = next((i for i, e in enumerate(source.inputs) if self._is_reference(e)), None)
                if position is None:
                    raise _fed_error(source)
                found = Handle(self._handle(source.inputs[position]).edge, (source.name,))
            self._handles[edge] = found
        return found

    def _add(self, node: Node, op: str, attrs: dict[str, Any], wants: list[bool]) -> None:
        inputs: list[Edge] = []
        types: list[DType] = []
        controls = dict.fromkeys(node.controls)
        for i, edge in enumerate(node.inputs):
            if not self._is_reference(edge):
                if wants[i]:
                    raise _fed_error(node)
                inputs.append(edge)
                types.append(node.input_dtypes[i].base_dtype)
                continue
            handle = self._handle(edge)
            if wants[i]:
                inputs.append(handle.edge)
                types.append(dtypes.resource)
                controls.update(dict.fromkeys(handle.after))
            else:
                inputs.append(self._read(f"{node.name}{READ_MARK}{i}", edge, handle, node.controls))
                types.append(node.input_dtypes[i].base_dtype)
        outputs = [dtypes.resource if dtype._is_ref_dtype else dtype for dtype in node.output_dtypes]
        if is_defined(op) and not op_def(op).outputs:
            outputs = []
        self._nodes[node.name] = node._replace(
            op=op, attrs=attrs, inputs=tuple(inputs), controls=tuple(controls), input_dtypes=tuple(types),
            output_dtypes=tuple(outputs),
        )  # fmt: skip

    def _read(self, name: str, edge: Edge, handle: Handle, controls: tuple[str, ...]) -> Edge:
        dtype = self._graph.nodes[edge[0]].output_dtypes[edge[1]].base_dtype
        after = tuple(dict.fromkeys((*controls, *handle.after)))
        device = self._graph.nodes[handle.edge[0]].device
        self._nodes[name] = Node(
            name, "ReadVariableOp", {"dtype": dtype}, (handle.edge,), after, device, (dtypes.resource,), (dtype,)
        )
        return (name, 0)

    def finish(self) -> StepGraph:
        """The lowered step; references that are fetched are read."""
        fetches = []
        for edge in self._graph.fetches:
            if self._is_reference(edge):
                name = f"{edge[0]}{READ_MARK}fetch{edge[1]}"
                edge = (name, 0) if name in self._nodes else self._read(name, edge, self._handle(edge), ())
            fetches.append(edge)
        return self._graph.with_nodes(self._nodes, tuple(fetches)).reachable()


def _with_base_types(node: Node) -> Node:
    if any(dtype._is_ref_dtype for dtype in node.input_dtypes):
        return node._replace(input_dtypes=tuple(dtype.base_dtype for dtype in node.input_dtypes))
    return node


def _wants_references(definition: OpDef | None, node: Node) -> list[bool]:
    """For each input, whether the op takes it by reference."""
    if definition is None:
        return [False] * len(node.inputs)
    wants: list[bool] = []
    for arg in definition.inputs:
        count = 1
        if arg.number_attr is not None:
            count = node.attrs[arg.number_attr]
        elif arg.type_list_attr is not None:
            count = len(node.attrs[arg.type_list_attr])
        wants.extend([arg.is_ref] * count)
    return wants


def _counterpart(node: Node) -> str:
    """The op on resources that does what an op does by reference."""
    candidates = (_UPDATING.get(node.op), f"Resource{node.op}", f"{node.op}V2", f"_Resource{node.op}")
    for name in candidates:
        if name is not None and is_defined(name):
            return name
    raise errors.UnimplementedError(
        failed_node(node), None,
        f"Op {node.op} (node '{node.name}') works on references, and there is no op on resources in its place.",
    )  # fmt: skip


def _resource_attrs(node: Node, op: str) -> dict[str, Any]:
    """The attributes of the counterpart: those of the same name, and the element type under the name used there."""
    declared = op_def(op).attrs
    attrs = {name: value for name, value in node.attrs.items() if name in declared or name.startswith("_")}
    for name in ("dtype", "T"):
        if name in declared and name not in attrs:
            attrs[name] = node.attrs["T" if name == "dtype" else "dtype"]
    return attrs


def _handle_attrs(node: Node) -> dict[str, Any]:
    shape: TensorShape = node.attrs["shape"]
    return {
        "dtype": node.attrs["dtype"],
        "shape": TensorShape(None) if node.op == "Variable" and shape.ndims == 0 else shape,
        "container": node.attrs.get("container", b""),
        "shared_name": node.attrs.get("shared_name") or node.name.encode(),
    }


def _fed_error(node: Node) -> errors.OpError:
    return errors.InvalidArgumentError(
        failed_node(node),
        None,
        f"Node '{node.name}' (op {node.op}) changes a variable, but its input is fed in this step.",
    )
