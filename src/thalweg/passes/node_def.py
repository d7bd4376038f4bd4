"""Nodes of a step as NodeDefs and back, so that a step can be looked at, compared and sent to another process.

What a NodeDef has no field for travels in attributes that begin with an underscore: the types of inputs and outputs,
output shapes (under TensorFlow's name for them), the requested device, whether the node is in a loop or branch, and the
line of the program that created it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from thalweg.graph.definitions.op_registry import find_op
from thalweg.graph.messages.attr_values import read_any, write_any
from thalweg.graph.source_location import source_line
from thalweg.passes.step_graph import Edge, Node

_INPUT_TYPES: Final = "_input_types"
_OUTPUT_TYPES: Final = "_output_types"
_SHAPES: Final = "_output_shapes"
_REQUESTED: Final = "_requested_device"
_IN_CONTROL_FLOW: Final = "_in_control_flow"
_SOURCE: Final = "_source_line"
_FIELDS: Final = frozenset({_INPUT_TYPES, _OUTPUT_TYPES, _SHAPES, _REQUESTED, _IN_CONTROL_FLOW, _SOURCE})


def write_node(proto: Any, node: Node) -> None:
    """Writes all fields of a node into a NodeDef.

    Raises:
        TypeError: If an attribute has no form in a NodeDef, as lowered loops have none.
    """
    proto.name, proto.op, proto.device = node.name, node.op, node.device
    proto.input.extend(edge_text(edge) for edge in node.inputs)
    proto.input.extend(f"^{name}" for name in node.controls)
    attr = proto.attr
    for name, value in node.attrs.items():
        if name not in _FIELDS:  # The program's graph may have been imported from a step that was written.
            _write_attr(attr[name], value)
    write_any(attr[_INPUT_TYPES], node.input_dtypes)
    write_any(attr[_OUTPUT_TYPES], node.output_dtypes)
    if node.shapes:
        write_any(attr[_SHAPES], node.shapes)
    if node.requested_device is not None:
        attr[_REQUESTED].s = node.requested_device.encode()
    if node.in_control_flow:
        attr[_IN_CONTROL_FLOW].b = True
    line = source_line(node.source)
    if line is not None:
        attr[_SOURCE].s = line.encode("utf-8", "surrogateescape")


def read_node(proto: Any) -> Node:
    """The node that `write_node` has written.

    Raises:
        ValueError: If the NodeDef has an invalid value, or lacks an attribute that every node of a step has.
    """
    fields = {name: read_any(proto.attr[name]) for name in _FIELDS if name in proto.attr}
    attrs = {name: _read_attr(proto.op, name, value) for name, value in proto.attr.items() if name not in _FIELDS}
    inputs = tuple(read_edge(text) for text in proto.input if not text.startswith("^"))
    controls = tuple(text[1:] for text in proto.input if text.startswith("^"))
    if _INPUT_TYPES not in fields or _OUTPUT_TYPES not in fields:
        raise ValueError(f"Node '{proto.name}' does not say which types its inputs and outputs have.")
    if inputs and len(fields[_INPUT_TYPES]) != len(inputs):
        raise ValueError(f"Node '{proto.name}' has {len(inputs)} inputs and types for {len(fields[_INPUT_TYPES])}.")
    requested = fields.get(_REQUESTED)
    return Node(
        proto.name, proto.op, attrs, inputs, controls, proto.device, tuple(fields[_INPUT_TYPES]),
        tuple(fields[_OUTPUT_TYPES]), tuple(fields.get(_SHAPES, ())), None if requested is None else requested.decode(),
        bool(fields.get(_IN_CONTROL_FLOW)), fields.get(_SOURCE, b"").decode("utf-8", "surrogateescape"),
    )  # fmt: skip


def edge_text(edge: Edge) -> str:
    """A tensor as the inputs of NodeDefs name it."""
    return edge[0] if edge[1] == 0 else f"{edge[0]}:{edge[1]}"


def read_edge(text: str) -> Edge:
    """The tensor that an input of a NodeDef names.

    Raises:
        ValueError: If the output is not a number.
    """
    name, colon, output = text.rpartition(":")
    if not colon:
        return text, 0
    if not output.isdecimal():
        raise ValueError(f"'{text}' does not name a tensor: its output is not a number.")
    return name, int(output)


# An AttrValue holds floats of 32 bits, and the attributes of a graph in memory have 64: a float that would be rounded,
# and so could change the bits of a result, travels as a tensor.


def _write_attr(proto: Any, value: Any) -> None:
    if isinstance(value, float) and not (value != value or float(np.float32(value)) == value):
        value = np.array(value, np.float64)
    elif isinstance(value, list) and any(isinstance(item, float) for item in value):
        rounded = np.array(value, np.float32)
        if not np.array_equal(rounded.astype(np.float64), np.array(value, np.float64), equal_nan=True):
            value = np.array(value, np.float64)
    write_any(proto, value)


def _read_attr(op: str, name: str, proto: Any) -> Any:
    value = read_any(proto)
    if isinstance(value, np.ndarray):
        definition = find_op(op)
        attr = definition.attrs.get(name) if definition is not None else None
        if attr is not None and attr.kind in ("float", "list(float)"):
            return value.tolist()
    return value
