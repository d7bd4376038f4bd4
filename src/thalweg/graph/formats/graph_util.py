"""tf.graph_util: GraphDef in, GraphDef out: subgraphs, pruning for inference, and variables frozen to constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions.op_registry import export, flow_of
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.formats.import_graph_def import checked_graph_def
from thalweg.graph.messages.attr_values import write_attr
from thalweg.graph.operation import Operation
from thalweg.graph.tensor_shape import TensorShape
from thalweg.platform import logging

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph

_REF_VARIABLES: Final = frozenset(("Variable", "VariableV2"))
# Not from the registry: `must_run_on_cpu` answers what TensorFlow's does, which knows just these names.
_VARIABLE_OPS: Final = frozenset(("Assign", "AssignAdd", "AssignSub", "Queue", "ScatterAdd", "ScatterSub",
                                  "ScatterUpdate", "TruncatedNormal", "Variable", "VariableV2"))  # fmt: skip
# Ops that read a resource variable, and those that compute the same of its value.
_OF_VALUE: Final = {
    "ReadVariableOp": "Identity",
    "VariableShape": "Shape",
    "ResourceGather": "GatherV2",
    "ResourceGatherNd": "GatherNd",
}


def _node_name(text: str) -> str:
    """The node that an input names."""
    return text.removeprefix("^").partition(":")[0]


@export("graph_util.extract_sub_graph")
def extract_sub_graph(graph_def: Any, dest_nodes: Sequence[str]) -> Any:
    """Returns a GraphDef with the nodes that `dest_nodes` need, and these.

    Raises:
        TypeError: If `graph_def` is not a GraphDef, or `dest_nodes` a string.
        AssertionError: If a node is not in the graph.
    """
    graph_def = checked_graph_def(graph_def)
    if isinstance(dest_nodes, str):
        raise TypeError(f"dest_nodes must be a list of names, got the string '{dest_nodes}'.")
    inputs = {node.name: [_node_name(text) for text in node.input] for node in graph_def.node}
    for name in dest_nodes:
        if name not in inputs:
            raise AssertionError(f"{name} is not in graph")
    needed: set[str] = set()
    stack = list(dest_nodes)
    while stack:
        name = stack.pop()
        if name not in needed and name in inputs:
            needed.add(name)
            stack.extend(inputs[name])
    return _with_nodes(graph_def, [node for node in graph_def.node if node.name in needed])


def _with_nodes(graph_def: Any, nodes: Iterable[Any]) -> Any:
    library, versions = (getattr(graph_def, n) if graph_def.HasField(n) else None for n in ("library", "versions"))
    return type(graph_def)(node=nodes, library=library, versions=versions)


@export("graph_util.remove_training_nodes")
def remove_training_nodes(input_graph: Any, protected_nodes: Sequence[str] | None = None) -> Any:
    """Returns a GraphDef without CheckNumerics nodes, and without Identity nodes that only forward a tensor.

    Control edges from a CheckNumerics go. An Identity that has or is a control input stays; so do the nodes named
    in `protected_nodes`.
    """
    keep = set(protected_nodes or ())
    checks = {node.name for node in input_graph.node if node.op == "CheckNumerics" and node.name not in keep}
    for node in input_graph.node:
        controls = [_node_name(text) for text in node.input if text[:1] == "^" and text[1:] not in checks]
        keep.update(controls)
        if node.name not in checks and (controls or node.op != "Identity"):
            keep.add(node.name)
    replaced = {node.name: node.input[0] for node in input_graph.node if node.name not in keep and node.input}
    result = []
    for node in input_graph.node:
        if node.name in replaced:
            continue
        copy = type(node)()
        copy.CopyFrom(node)
        copy.ClearField("input")
        copy.input.extend(text for text in node.input if not (text[:1] == "^" and text[1:] in checks))
        for i, text in enumerate(copy.input):
            seen: set[str] = set()
            while text in replaced and text not in seen:
                seen.add(text)
                text = replaced[text]
            copy.input[i] = text
        result.append(copy)
    return _with_nodes(input_graph, result)


@export("graph_util.convert_variables_to_constants")
def convert_variables_to_constants(
    sess: Any,
    input_graph_def: Any,
    output_node_names: Sequence[str],
    variable_names_whitelist: Iterable[str] | None = None,
    variable_names_blacklist: Iterable[str] | None = None,
) -> Any:
    """Returns the part of a graph that some nodes need, with its variables replaced by their values in a session.

    Args:
        sess: The session that holds the values.
        input_graph_def: The GraphDef, of the session's graph or a part of it.
        output_node_names: Names of the nodes to keep.
        variable_names_whitelist: Names of the variables to convert; all if None.
        variable_names_blacklist: Names of variables to leave.

    Returns:
        A GraphDef.

    Raises:
        tf.errors.FailedPreconditionError: If a variable has no value.
    """
    graph_def = extract_sub_graph(input_graph_def, output_node_names)
    freezer = _Freezer(graph_def, variable_names_whitelist, variable_names_blacklist)
    values = freezer.read_values(sess)
    logging.info("Froze %d variables.", len(values))
    return freezer.with_constants(values)


class _Freezer:
    """Replaces the variables of a GraphDef by constants."""

    def __init__(self, graph_def: Any, allowed: Iterable[str] | None, refused: Iterable[str] | None) -> None:
        self._graph_def = graph_def
        self._nodes = {node.name: node for node in graph_def.node}
        included = None if allowed is None else set(allowed)
        excluded = set(refused or ())
        self._refs: list[str] = []
        self._handles: list[str] = []
        for node in graph_def.node:
            if node.name in excluded or (included is not None and node.name not in included):
                continue
            if node.op in _REF_VARIABLES:
                self._refs.append(node.name)
            elif node.op == "VarHandleOp":
                self._handles.append(node.name)

    def read_values(self, sess: Any) -> dict[str, np.ndarray[Any, Any]]:
        """The values of the variables, by name, read in one step."""
        fetches: dict[str, Any] = {name: f"{name}:0" for name in self._refs}
        for name in self._handles:
            fetches[name] = _read_of(sess.graph, name)
        values: dict[str, np.ndarray[Any, Any]] = sess.run(fetches) if fetches else {}
        return values

    def with_constants(self, values: dict[str, np.ndarray[Any, Any]]) -> Any:
        """The GraphDef with constants in place of the variables."""
        result: list[Any] = []
        for node in self._graph_def.node:
            if node.name in values:
                result.append(_constant(node, np.asarray(values[node.name])))
                continue
            variable = self._variable_behind(node)
            if variable is None or variable not in values:
                result.append(node)
            else:
                dtype = self._nodes[variable].attr["dtype"].type
                result.extend(_value_node(node, dtype))
        return _with_nodes(self._graph_def, result)

    def _variable_behind(self, node: Any) -> str | None:
        """The variable whose handle is the first input of a node."""
        if not flow_of(node.op).passes_input and node.op not in _OF_VALUE:
            return None
        seen: set[str] = set()
        while node.op != "VarHandleOp":
            if not node.input or node.name in seen or node.input[0][:1] == "^":
                return None
            seen.add(node.name)
            node = self._nodes.get(_node_name(node.input[0]))
            if node is None or not (flow_of(node.op).passes_input or node.op == "VarHandleOp"):
                return None
        name: str = node.name
        return name


def _read_of(graph: Graph, name: str) -> Any:
    """A tensor with the value of the resource variable `name`: of a read that the graph has, or of a new one."""
    handle = graph._exact_element(f"{name}:0")
    for consumer in handle.consumers():
        if consumer.type == "ReadVariableOp" and not consumer.control_inputs:
            return consumer.outputs[0]
    with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
        return apply_one("ReadVariableOp", handle, dtype=handle.op.get_attr("dtype"), name=f"{name}/frozen")


def _constant(node: Any, value: np.ndarray[Any, Any]) -> Any:
    constant = type(node)(name=node.name, op="Const", device=node.device)
    dtype = as_dtype(node.attr["dtype"].type).base_dtype
    constant.attr["dtype"].type = dtype.as_datatype_enum
    write_attr(constant.attr["value"], "tensor", value.astype(dtype.as_numpy_dtype, copy=False))
    return constant


def _value_node(node: Any, dtype: int) -> list[Any]:
    """The nodes that replace a node with a handle input, if it gets the value instead."""
    copy = type(node)()
    copy.CopyFrom(node)
    if flow_of(node.op).passes_input:
        copy.attr["T"].type = dtype
        if "_output_shapes" in copy.attr:
            del copy.attr["_output_shapes"]
        return [copy]
    for name in list(copy.attr):
        if not name.startswith("_"):
            del copy.attr[name]
    copy.op = _OF_VALUE[node.op]
    if node.op == "ReadVariableOp":
        copy.attr["T"].type = dtype
        return [copy]
    if node.op == "VariableShape":
        copy.attr["T"].type = dtype
        copy.attr["out_type"].type = node.attr["out_type"].type or 3
        return [copy]
    copy.attr["Tparams"].type = dtype
    copy.attr["Tindices"].type = node.attr["Tindices"].type
    if node.op == "ResourceGatherNd":
        return [copy]
    axis = type(node)(name=f"{node.name}/axis", op="Const", device=node.device)
    axis.attr["dtype"].type = 3
    write_attr(axis.attr["value"], "tensor", np.array(0, np.int32))
    copy.input.insert(2, axis.name)
    copy.attr["Taxis"].type = 3
    copy.attr["batch_dims"].i = node.attr["batch_dims"].i
    return [axis, copy]


@export("graph_util.must_run_on_cpu")
def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether a node (an Operation or a NodeDef) has to run on the CPU: those of strings, and small integer work."""
    node_def = node.node_def if isinstance(node, Operation) else node
    if pin_variables_on_cpu and node_def.op in _VARIABLE_OPS:
        return True
    host_types = (3, 7)  # int32 and string
    if node_def.op == "Const":
        return node_def.attr["dtype"].type in host_types
    if node_def.op in ("DynamicStitch", "ParallelDynamicStitch"):
        return bool(node_def.attr["T"].type == 3)
    if node_def.op == "Cast":
        return 3 in (node_def.attr["SrcT"].type, node_def.attr["DstT"].type)
    return False


@export("graph_util.tensor_shape_from_node_def_name")
def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> TensorShape:
    """The static shape of the tensor that a NodeDef's input names ('x' means 'x:0')."""
    return graph.get_tensor_by_name(input_name if ":" in input_name else f"{input_name}:0").shape
