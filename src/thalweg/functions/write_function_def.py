"""GraphFunction to FunctionDef: TensorFlow's form of a function in the library of a GraphDef."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from thalweg.functions.signatures import arg_ranges
from thalweg.graph.handle_data import handle_data
from thalweg.graph.messages.attr_values import write_any, write_attr
from thalweg.graph.messages.graph_def import node_def_of
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

if TYPE_CHECKING:
    from thalweg.functions.graph_function import GraphFunction


class _Names:
    """Makes names unique, first come first served."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, name: str) -> str:
        result, number = name, 0
        while result in self._taken:
            result, number = f"{name}_{number}", number + 1
        self._taken.add(result)
        return result


def argument_name(name: str) -> str:
    """A name as those of arguments must be: lower case letters, digits and underscores, a letter first."""
    text = re.sub(r"[^a-z0-9_]", "_", name.lower()).lstrip("_0123456789")
    return text or "unknown"


def write_function_def(function: GraphFunction, keep_node_names: bool = False) -> Any:
    """The FunctionDef of a function.

    Args:
        function: The function.
        keep_node_names: Whether nodes keep their names, instead of arguments and results theirs.
    """
    from tensorboard.compat.proto.function_pb2 import FunctionDef  # Start-up time: protobuf is slow to import.

    proto = FunctionDef()
    proto.signature.name = function.name
    names = _Names()
    arguments: dict[Tensor, str] = {}
    for index, tensor in enumerate(function.inputs):
        name = names.unique(f"_arg_{index}" if keep_node_names else argument_name(tensor.op.name))
        arguments[tensor] = name
        proto.signature.input_arg.add(name=name, type=tensor.dtype.base_dtype.as_datatype_enum)
        _write_argument_shape(proto.arg_attr[index].attr, tensor)
    results = []
    for index, tensor in enumerate(function.outputs):
        wanted = function.output_names[index] if function.output_names else argument_name(tensor.op.name)
        results.append(names.unique(f"_result_{index}" if keep_node_names else wanted))
        proto.signature.output_arg.add(name=results[-1], type=tensor.dtype.base_dtype.as_datatype_enum)
    given = {tensor.op for tensor in function.inputs if tensor.op.type == "Placeholder"}
    operations = [op for op in function.operations if op not in given]
    nodes = {op: names.unique(op.name) for op in operations}
    proto.signature.is_stateful = function.stateful
    for op in operations:
        _write_node(proto.node_def.add(), op, nodes, arguments)
    for name, tensor in zip(results, function.outputs, strict=True):
        proto.ret[name] = _source(tensor, nodes, arguments)
    for name, op in function.control_outputs.items():
        if op in nodes:
            proto.control_ret[name] = nodes[op]
            proto.signature.control_output.append(name)
    for name, value in function.attrs.items():
        write_any(proto.attr[name], value)
    return proto


def _write_argument_shape(attrs: Any, tensor: Tensor) -> None:
    write_attr(attrs["_output_shapes"], "list(shape)", [tensor.shape])
    data = handle_data(tensor)
    if data is not None:
        write_attr(attrs["_handle_dtypes"], "list(type)", [data.dtype])
        write_attr(attrs["_handle_shapes"], "list(shape)", [data.shape])


def _write_node(proto: Any, op: Operation, nodes: dict[Operation, str], arguments: dict[Tensor, str]) -> None:
    proto.CopyFrom(node_def_of(op))
    proto.name = nodes[op]
    del proto.input[:]
    proto.input.extend(_source(tensor, nodes, arguments) for tensor in op.inputs)
    # Arguments are ready before the body runs: control edges from them are dropped.
    proto.input.extend(f"^{nodes[control]}" for control in op.control_inputs if control in nodes)
    groups = op.attrs.get("_class")
    if groups:
        renamed = {f"loc:@{other.name}".encode(): f"loc:@{name}".encode() for other, name in nodes.items()}
        inside = [renamed[group] for group in groups if group in renamed]
        del proto.attr["_class"]
        if inside:
            write_attr(proto.attr["_class"], "list(string)", inside)


def _source(tensor: Tensor, nodes: dict[Operation, str], arguments: dict[Tensor, str]) -> str:
    argument = arguments.get(tensor)
    if argument is not None:
        return argument
    op = tensor.op
    for name, places in arg_ranges(op.op_def.outputs, op.attrs).items():
        if tensor.value_index in places:
            return f"{nodes[op]}:{name}:{tensor.value_index - places.start}"
    raise AssertionError(f"'{tensor.name}' is not an output of its op")
