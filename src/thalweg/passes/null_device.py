"""The null device: schedules everything and computes nothing.

An operation there becomes a `_Null` node, which has the same edges and whose outputs are zeros of the right type and
shape, without memory. Nodes that control flow and shapes depend on stay real, so that loops end: control flow,
operations on integers, booleans and strings only, on scalars only, on shapes, and the state of variables. So the time
of a step on the null device is what scheduling it costs.
"""

from __future__ import annotations

import base64
import functools
import re
from typing import Any

from thalweg import errors
from thalweg.graph.definitions.op_registry import flow_of
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import DType
from thalweg.graph.tensor_shape import TensorShape
from thalweg.passes.node_def import read_node, write_node
from thalweg.passes.step_graph import Node, StepGraph

NULL = "NULL"

# Ops that forward tensors, read their shapes, or keep state that other ops read.
_REAL = frozenset({
    "_Arg", "_Send", "_Recv", "Const", "NoOp", "ControlTrigger", "Identity", "IdentityN", "StopGradient",
    "Shape", "ShapeN", "Size", "Rank", "Reshape", "ExpandDims", "Squeeze",
    "AssignVariableOp", "ReadVariableOp", "VarIsInitializedOp", "VariableShape", "TensorArrayWriteV3",
    "TensorArrayReadV3", "StackPushV2", "StackPopV2",
})  # fmt: skip
# Ops that check or write values, which were not computed here.
_NEVER = frozenset({"Assert", "CheckNumerics", "Print", "Save", "SaveSlices", "SaveV2", "PrintV2"})
_UPDATES = re.compile(r"Resource(Sparse)?Apply|ResourceScatter|Assign(Add|Sub)Variable")


def compute_nothing(graph: StepGraph) -> StepGraph:
    """Returns the part of a step as the null device runs it."""
    nodes = {}
    for name, node in graph.nodes.items():
        nodes[name] = node if _is_real(graph, node) else _null(graph, node)
    return graph.with_nodes(nodes)


def _is_real(graph: StepGraph, node: Node) -> bool:
    if node.op in _REAL or flow_of(node.op).is_primitive:
        return True
    if node.op in _NEVER:
        return False
    types = (*node.input_dtypes, *node.output_dtypes)
    if not any(_is_numeric(dtype) for dtype in types):
        return True
    if _UPDATES.match(node.op):
        return False
    edges = (*node.inputs, *((node.name, i) for i in range(len(node.output_dtypes))))
    return all(graph.shape(edge).rank == 0 for edge in edges)


def _is_numeric(dtype: DType) -> bool:
    return dtype.is_floating or dtype.is_complex or dtype.is_quantized


def _null(graph: StepGraph, node: Node) -> Node:
    shapes = [graph.shape((node.name, i)) for i in range(len(node.output_dtypes))]
    key = b""
    if node.op_def is not None and not all(shape.is_fully_defined() for shape in shapes):
        from tensorboard.compat.proto.node_def_pb2 import NodeDef  # Start-up time: protobuf is slow to import.

        proto = NodeDef()
        write_node(proto, node._replace(inputs=(), controls=()))
        key = base64.b64encode(proto.SerializeToString())
    return node._replace(op="_Null", attrs={"shapes": shapes, "key": key})


@functools.lru_cache(maxsize=4096)
def _decoded(key: str) -> Node:
    """The node whose output shapes are to be inferred: the core keeps its NodeDef as opaque text."""
    from tensorboard.compat.proto.node_def_pb2 import NodeDef  # Start-up time: see `_null`.

    return read_node(NodeDef.FromString(base64.b64decode(key)))


class _Input:
    """An input of an operation as it is in a running step; to shape functions, a tensor."""

    def __init__(self, shape: TensorShape, dtype: DType, value: Any) -> None:
        self._shape = shape
        self.dtype = dtype
        self.value = value


class _RunningContext(ShapeContext):
    """The inputs of a shape function when the step runs: full shapes, and the values of small integer inputs."""

    __slots__ = ()

    def constant(self, index: int, partial: bool = False) -> Any:
        return self._inputs[index].value  # type: ignore[attr-defined]

    def constant_as_shape(self, index: int) -> TensorShape:
        value = self.constant(index)
        if value is None:
            return TensorShape(None)
        return TensorShape([None if dim < 0 else int(dim) for dim in value.reshape(-1)])

    def handle_data(self, index: int) -> Any:
        return None


def output_shapes(key: str, inputs: list[tuple[list[int], Any]]) -> list[list[int]]:
    """The shapes of a null operation's outputs, from the shapes and values of its inputs; for the core.

    A dimension that depends on values which were not computed (how many elements are true, say) is 0.
    """
    node = _decoded(key) if key else None
    if node is None or node.op_def is None:
        raise errors.UnimplementedError(None, None, "its output shapes are not known, and cannot be inferred")
    given = [
        _Input(TensorShape(shape), dtype, value)
        for (shape, value), dtype in zip(inputs, node.input_dtypes, strict=True)
    ]
    count = len(node.output_dtypes)
    shapes = list(node.shapes) or [TensorShape(None)] * count
    if node.op_def.shape is not None:
        found = node.op_def.shape(_RunningContext(node.op_def, given, node.attrs, count))  # type: ignore[arg-type]
        found = [found] if isinstance(found, TensorShape) else list(found)
        shapes = [known.merge_with(new) for known, new in zip(shapes, found, strict=True)]
    for shape in shapes:
        if shape.rank is None:
            raise errors.UnimplementedError(
                None, None, f"the null device cannot know the shape that {node.op} gives without computing it"
            )
    return [[0 if dim is None else int(dim) for dim in shape.as_list()] for shape in shapes]
