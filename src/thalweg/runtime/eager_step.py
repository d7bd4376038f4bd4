"""EagerStep: the general way to run one op: a step of one node, planned and installed like those of a Session.

For ops that call functions: the functions are inlined, fused and compiled as they are in a graph. And for devices whose
memory the host cannot read, to which values must be sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from thalweg import errors
from thalweg._native import core
from thalweg.graph.default_graph import eager_graph
from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.definitions.op_registry import OpDef, op_def
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.dtypes import DType
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.runtime.eager_context import EagerContext
from thalweg.runtime.native_errors import with_operation

_numbers = itertools.count()


class EagerStep:
    """A compiled step that is fed with the inputs of one op, and fetches its outputs."""

    def __init__(
        self, context: EagerContext, definition: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any],
        types: Sequence[DType], device: str,
    ) -> None:  # fmt: skip
        """Plans and installs the step."""
        graph = self._graph = Graph()
        graph._functions = eager_graph()._functions
        feeds = []
        with default_graph_scope(graph):
            for tensor, shape in zip(inputs, self._shapes(definition, inputs, attrs), strict=True):
                fed = {"dtype": tensor.dtype, "shape": shape}
                name = graph.unique_name("input")
                feed = graph.add_operation(op_def("Placeholder"), (), fed, name, (tensor.dtype,)).outputs[0]
                feed._handle_data = tensor._handle_data
                feeds.append(feed)
            with graph.device(device):
                # The session keeps the kernels of stateful nodes by name, those of an inlined function behind this one.
                op = graph.add_operation(definition, feeds, attrs, f"{definition.name}_{next(_numbers)}", types)
        self._many = len(op.outputs) != 1
        targets = [] if op.outputs else [op]
        self._step = context.engine.install(graph, feeds, op.outputs, targets).compiled

    @staticmethod
    def _shapes(definition: OpDef, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> list[TensorShape]:
        """What is known of the inputs in every run: the shapes that a called function declares."""
        reference = attrs.get("f")
        if isinstance(reference, NameAttrList) and len(definition.inputs) == 1:
            function = eager_graph()._functions.get(reference.name)
            arguments = getattr(function, "inputs", ())
            if len(arguments) == len(inputs):
                return [argument.shape for argument in arguments]
        return [TensorShape(None)] * len(inputs)

    def run(self, inputs: Sequence[Any]) -> Any:
        """Runs the step: the output, or a list if there is not exactly one."""
        try:
            values = self._step.run_values([tensor._native for tensor in inputs])
        except errors.OpError as e:
            raise with_operation(e, self._graph) from None
        made = [core.eager_from_native(value) for value in values]
        return made if self._many else made[0]
