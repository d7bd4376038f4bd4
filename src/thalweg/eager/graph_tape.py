"""The part of a tape that is for graphs: which operations were made while it recorded, and gradients through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.autodiff.gradients import gradients
from thalweg.graph import dtypes
from thalweg.graph.collections import GraphKeys
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

_END = 1 << 62


class GraphTape:
    """The ranges of operations, by number, that were made in each graph while the tape recorded."""

    def __init__(self, watches_variables: bool) -> None:
        """Starts without any."""
        self._watches_variables = watches_variables
        self._ranges: dict[Graph, list[tuple[int, int]]] = {}
        self._watched: dict[int, Tensor] = {}
        self._variables: dict[int, Any] = {}

    def begin(self, graph: Graph) -> None:
        """From now on the tape records."""
        if not graph._executes:
            self._ranges.setdefault(graph, []).append((graph._last_id, _END))

    def end(self, graph: Graph) -> None:
        """From now on it does not."""
        ranges = self._ranges.get(graph)
        if ranges and ranges[-1][1] == _END:
            ranges[-1] = (ranges[-1][0], graph._last_id)

    def watch(self, tensor: Tensor, variable: Any = None) -> None:
        """Notes a tensor or the handle of a variable."""
        self._watched[id(tensor)] = tensor
        if variable is not None:
            self._variables[id(variable)] = variable

    def _recorded(self, op: Operation) -> bool:
        return any(first <= op._id < last for first, last in self._ranges.get(op.graph, ()))

    def variables(self, graph: Graph) -> list[Any]:
        """The variables that are watched: those that recorded operations of the graph read."""
        found = dict(self._variables)
        if self._watches_variables and not graph._executes:
            trainable = {id(v.handle): v for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
            outside = {id(inner): outer for outer, inner in getattr(graph, "captures", {}).items()}
            for op in graph.get_operations():
                if not self._recorded(op):
                    continue
                for tensor in op.inputs:
                    if tensor.dtype.base_dtype is dtypes.resource:
                        handle = outside.get(id(tensor), tensor)
                        variable = trainable.get(id(handle))
                        if variable is None:
                            variable = _variable_of(handle)
                        if variable is not None:
                            found[id(variable)] = variable
        return list(found.values())

    def gradient(
        self, targets: Sequence[Tensor], sources: Sequence[Tensor], given: Sequence[Any], graph: Graph
    ) -> list[Any]:
        """The gradients by the operations that were recorded."""
        if isinstance(graph, FuncGraph):
            targets = [graph.capture(target) for target in targets]
            inside = [graph.captures.get(s, s) if type(s) is EagerTensor else s for s in sources]
        else:
            inside = list(sources)
        known = [i for i, tensor in enumerate(inside) if type(tensor) is Tensor and self._watches(sources[i], tensor)]
        results: list[Any] = [None] * len(sources)
        if not known:
            return results
        stops = self._stops(targets)
        found = gradients(targets, [inside[i] for i in known], list(given), stop_gradients=stops)
        for i, grad in zip(known, found, strict=True):
            results[i] = grad
        return results

    def _watches(self, source: Tensor, tensor: Tensor) -> bool:
        """Whether a source is watched, or depends on something that is."""
        if id(source) in self._watched or id(tensor) in self._watched:
            return True
        if tensor.dtype.base_dtype is dtypes.resource:
            if not self._watches_variables:
                return False
            if type(source) is EagerTensor:
                return _variable_of(source) is not None
            trainable = tensor.graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)
            return any(variable.handle is source for variable in trainable)
        seen: set[Operation] = set()
        stack = [tensor.op]
        while stack:
            op = stack.pop()
            if op in seen or not self._recorded(op):
                continue
            seen.add(op)
            for before in op.inputs:
                if id(before) in self._watched or before.dtype.base_dtype is dtypes.resource:
                    return True
                stack.append(before.op)
        return False

    def _stops(self, targets: Sequence[Tensor]) -> list[Tensor]:
        """The tensors behind which nothing was recorded."""
        stops: list[Tensor] = []
        seen: set[Operation] = set()
        stack = [target.op for target in targets]
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen.add(op)
            if self._recorded(op):
                stack.extend(tensor.op for tensor in op.inputs)
            else:
                stops.extend(op.outputs)
        return stops


def _variable_of(handle: Any) -> Any:
    reference = handle.__dict__.get("trainable_variable") if type(handle) is EagerTensor else None
    return None if reference is None else reference()
