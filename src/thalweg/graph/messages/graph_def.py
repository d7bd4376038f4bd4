"""A graph, or a node of it, as TensorFlow's GraphDef and NodeDef protobufs. `import_graph_def` is the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thalweg.graph.dtypes import DType, resource, string
from thalweg.graph.messages.attr_values import write_any, write_attr
from thalweg.graph.tensor_shape import TensorShape

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph
    from thalweg.graph.operation import Operation
    from thalweg.graph.tensor import Tensor


def is_handle(tensor: Tensor) -> bool:
    """Whether a tensor stands for a resource.

    Its shape says nothing, and is left out of files: those of TensorFlow have two elements for some kinds of resources
    (arrays of tensors, stacks, barriers, accumulators), ours are scalars.
    """
    dtype = tensor.dtype.base_dtype
    return dtype is resource or (dtype is string and tensor.op.op_def.outputs[0].name == "handle")


def node_def_of(op: Operation) -> Any:
    """The NodeDef of an operation."""
    from tensorboard.compat.proto.node_def_pb2 import NodeDef  # Start-up time: protobuf is slow to import.

    return _Writer(NodeDef).write(op)


def as_graph_def(graph: Graph, from_version: int | None = None, add_shapes: bool = False) -> Any:
    """The GraphDef of a graph.

    Args:
        graph: The graph.
        from_version: Only nodes that were added after the graph had this `version`.
        add_shapes: Whether nodes get their static output shapes as an attribute `_output_shapes`.

    Returns:
        A GraphDef.
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef  # Start-up time: protobuf is slow to import.
    from tensorboard.compat.proto.node_def_pb2 import NodeDef

    writer = _Writer(NodeDef)
    with graph._lock:
        operations = graph._operations if from_version is None else graph._operations[max(from_version, 0) :]
        nodes = [writer.write(op, add_shapes) for op in operations]
        functions = list(graph._functions.values())
    result = GraphDef(node=nodes, versions=graph.graph_def_versions)
    for function in functions:
        result.library.function.append(function.definition)
        if function.grad_func_name is not None:
            result.library.gradient.add(function_name=function.name, gradient_func=function.grad_func_name)
    return result


class _Writer:
    """Writes many nodes. Most attributes take one of very few values: each such AttrValue is built once and shared."""

    def __init__(self, node_def: Callable[..., Any]) -> None:
        from tensorboard.compat.proto.attr_value_pb2 import AttrValue  # Start-up time: protobuf is slow to import.

        self._node_def = node_def
        self._attr_value = AttrValue
        self._shared: dict[Any, Any] = {}

    def write(self, op: Operation, add_shapes: bool = False) -> Any:
        inputs = [
            tensor.op.name if tensor.value_index == 0 else f"{tensor.op.name}:{tensor.value_index}"
            for tensor in op.inputs
        ]
        if op.control_inputs:
            inputs.extend([f"^{control.name}" for control in op.control_inputs])
        declared = op.op_def.attrs
        attrs = {}
        for name, value in op.attrs.items():
            attr = declared.get(name)
            attrs[name] = self._attr(None if attr is None else attr.kind, value)
        if add_shapes and op.outputs:
            shapes = [TensorShape(None) if is_handle(tensor) else tensor.shape for tensor in op.outputs]
            attrs["_output_shapes"] = self._attr("list(shape)", shapes)
        return self._node_def(name=op.name, op=op.type, input=inputs, device=op.device, attr=attrs)

    def _attr(self, kind: str | None, value: Any) -> Any:
        if isinstance(value, (DType, bool, int, bytes)):
            key = (kind, type(value), value)
            found = self._shared.get(key)
            if found is None:
                found = self._shared[key] = self._new(kind, value)
            return found
        return self._new(kind, value)

    def _new(self, kind: str | None, value: Any) -> Any:
        proto = self._attr_value()
        if kind is None:
            write_any(proto, value)
        else:
            write_attr(proto, kind, value)
        return proto
