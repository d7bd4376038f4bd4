"""How much work a node of a step does, with guesses for what is not known before the step runs."""

from __future__ import annotations

import math
from typing import Final

from thalweg.graph import dtypes
from thalweg.graph.definitions.op_registry import flow_of
from thalweg.graph.definitions.work import Shape, Work, WorkContext, one_pass
from thalweg.graph.dtypes import DType
from thalweg.graph.op_effects import Flow
from thalweg.graph.tensor_shape import TensorShape
from thalweg.passes.step_graph import Edge, Node, StepGraph

_GUESSED_DIM: Final = 32  # A dimension that is not known is most often that of the batch.
_STRING: Final = 32  # bytes


def work_of(graph: StepGraph, node: Node) -> Work:
    """The work of one run of a node."""
    definition = node.op_def
    rule = (definition.work if definition is not None else None) or one_pass
    inputs = [guessed(graph.shape(edge).dims_tuple) for edge in node.inputs]
    outputs = [guessed(graph.shape((node.name, i)).dims_tuple) for i in range(len(node.output_dtypes))]
    if not node.output_dtypes and dtypes.resource in node.input_dtypes:
        # An update writes the variable behind its handle.
        inputs = [_variable_shape(graph, edge) or shape for edge, shape in zip(node.inputs, inputs, strict=True)]
    input_bytes = [bytes_of(shape, dtype) for shape, dtype in zip(inputs, node.input_dtypes, strict=True)]
    output_bytes = [bytes_of(shape, dtype) for shape, dtype in zip(outputs, node.output_dtypes, strict=True)]
    try:
        return rule(WorkContext(node.attrs, inputs, outputs, input_bytes, output_bytes))
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
    ):  # An imported graph may have any shapes and attributes.
        return one_pass(WorkContext(node.attrs, inputs, outputs, input_bytes, output_bytes))


def guessed(dims: tuple[int | None, ...] | None) -> Shape:
    """A shape with guesses for unknown dimensions."""
    if dims is None:
        return (_GUESSED_DIM,)
    return tuple([_GUESSED_DIM if dim is None else dim for dim in dims])


def bytes_of(shape: Shape, dtype: DType) -> int:
    """The size of a tensor of that shape."""
    if dtype is dtypes.resource:
        return 0
    return math.prod(shape) * (dtype.base_dtype.size or _STRING)


def _variable_shape(graph: StepGraph, edge: Edge) -> Shape | None:
    """The shape of the variable that a handle refers to, if its creation is in the step."""
    node = graph.nodes[edge[0]]
    while flow_of(node.op) in (Flow.FORWARD, Flow.ENTER, Flow.SWITCH) and node.inputs:
        node = graph.nodes[node.inputs[0][0]]
    shape = node.attrs.get("shape") if node.op == "VarHandleOp" else None
    return guessed(shape.dims_tuple) if isinstance(shape, TensorShape) else None
