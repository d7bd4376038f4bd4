"""Lets a step feed variables: ops on a handle become ops on the value that is fed in its place.

A fed variable is an `_Arg` of its value's type, with readers that expect a handle (see `passes/prune.py`). Reads of all
kinds are replaced by the ops that do the same with a tensor; an update of a variable that is fed is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph import dtypes
from thalweg.graph.dtypes import DType
from thalweg.passes.step_graph import Node, StepGraph, failed_node


def lower_fed_variables(graph: StepGraph) -> StepGraph:
    """Returns the step with fed variables as values; one that feeds none is returned as it is.

    Raises:
        errors.InvalidArgumentError: If an op changes a variable that is fed, or is no known way to read one.
    """
    feeds = [node for node in graph.nodes.values() if node.op == "_Arg"]
    if not any(node.output_dtypes[0] is not dtypes.resource for node in feeds):
        return graph
    values = {(node.name, 0) for node in feeds if node.output_dtypes[0] is not dtypes.resource}
    nodes: dict[str, Node] = {}
    for node in graph.nodes.values():
        places = [
            i
            for i, edge in enumerate(node.inputs)
            if edge in values and node.input_dtypes[i].base_dtype is dtypes.resource
        ]
        if not places:
            nodes[node.name] = node
            continue
        source = node.inputs[places[0]][0]
        lowered = _lowered(node, places, _value_type(nodes, graph, source, node.inputs[places[0]][1]), nodes)
        nodes[node.name] = lowered
        if lowered.op == node.op:  # It passes the value on to readers that expect a handle.
            values.update(
                (node.name, i) for i, dtype in enumerate(node.output_dtypes) if dtype.base_dtype is dtypes.resource
            )
    return graph.with_nodes(nodes).reachable()


def _value_type(nodes: dict[str, Node], graph: StepGraph, source: str, output: int) -> DType:
    return nodes.get(source, graph.nodes[source]).output_dtypes[output]


def _lowered(node: Node, places: list[int], dtype: DType, nodes: dict[str, Node]) -> Node:
    definition = node.op_def
    kept = {name: value for name, value in node.attrs.items() if name.startswith("_")}
    if definition is not None and definition.flow.passes_input:
        return node._replace(
            attrs={**node.attrs, "T": dtype},
            input_dtypes=tuple(_of_value(t, dtype) for t in node.input_dtypes),
            output_dtypes=tuple(_of_value(t, dtype) for t in node.output_dtypes),
            shapes=(),
        )
    if places != [0]:
        raise _fed_error(node)
    types = (dtype, *node.input_dtypes[1:])
    if node.op == "ReadVariableOp":
        return node._replace(op="Identity", attrs={**kept, "T": dtype}, input_dtypes=types)
    if node.op == "VariableShape":
        attrs = {**kept, "T": dtype, "out_type": node.attrs["out_type"]}
        return node._replace(op="Shape", attrs=attrs, input_dtypes=types)
    if node.op == "VarIsInitializedOp":
        attrs = {**kept, "value": np.array(True), "dtype": dtypes.bool}
        return node._replace(op="Const", attrs=attrs, inputs=(), input_dtypes=())
    if node.op == "ResourceGatherNd":
        attrs = {**kept, "Tparams": dtype, "Tindices": node.attrs["Tindices"]}
        return node._replace(op="GatherNd", attrs=attrs, input_dtypes=types)
    if node.op == "ResourceGather":
        batch_dims = node.attrs["batch_dims"]
        axis = _constant(f"{node.name}/_axis", np.array(batch_dims, np.int32), node)
        nodes[axis.name] = axis
        attrs = {**kept, "Tparams": dtype, "Tindices": node.attrs["Tindices"], "Taxis": dtypes.int32,
                 "batch_dims": batch_dims}  # fmt: skip
        return node._replace(
            op="GatherV2", attrs=attrs, inputs=(*node.inputs, (axis.name, 0)), input_dtypes=(*types, dtypes.int32)
        )
    raise _fed_error(node)


def _of_value(found: DType, dtype: DType) -> DType:
    return dtype if found.base_dtype is dtypes.resource else found


def _constant(name: str, value: Any, beside: Node) -> Node:
    return Node(name, "Const", {"value": value, "dtype": dtypes.int32}, (), (), beside.device, (), (dtypes.int32,))


def _fed_error(node: Node) -> errors.OpError:
    return errors.InvalidArgumentError(
        failed_node(node),
        None,
        f"Node '{node.name}' (op {node.op}) needs a variable, but the value of the variable is fed in this step: it "
        "can only be read.",
    )
