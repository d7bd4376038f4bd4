"""How much arithmetic a traced node did: the ops' own rules (graph/definitions/work.py), with the shapes of the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thalweg.graph.definitions.op_work import work_of
from thalweg.graph.definitions.work import Shape
from thalweg.graph.tensor import Tensor
from thalweg.profiler.step_records import Record


class Flops:
    """Floating-point operations of the nodes of one graph."""

    def __init__(self, graph: Any) -> None:
        """Takes the graph, for the inputs of nodes and the static shapes."""
        self._operations = graph._operations_by_name
        self._shapes: dict[tuple[str, int], Shape] = {}
        self._counted: dict[tuple[str, Shape | None], float] = {}
        self._fused_shapes: dict[str, Shape] = {}  # the output shape of each fused node

    def record_shapes(self, records: Iterable[Record]) -> None:
        """Notes the shapes that tensors had in a run."""
        for record in records:
            for output in record.outputs:
                self._shapes[(record.node, output.slot)] = output.shape
            if record.kernel and record.outputs:
                self._fused_shapes[record.kernel] = record.outputs[0].shape

    def of(self, record: Record) -> float:
        """The number of floating-point operations of a run; 0 if the op states none, or shapes are not known."""
        operation = self._operations.get(record.node)
        if operation is None or operation.type != record.op:
            return 0.0
        made = record.outputs[0].shape if record.outputs else self._fused_shapes.get(record.kernel)
        key = (record.node, made)
        if key not in self._counted:

            def shape_of(tensor: Tensor) -> Shape | None:
                found = self._shapes.get((tensor.op.name, tensor.value_index))
                if found is None and tensor.op is operation and tensor.value_index == 0:
                    found = made  # The output of a member of a fused node has the shape of the fused node's.
                return found or static_shape(tensor)

            work = work_of(operation, shape_of, count_default=False)
            self._counted[key] = work.flops if work is not None else 0.0
        return self._counted[key]


def static_shape(tensor: Tensor) -> Shape | None:
    """The shape of a tensor if it is known without running anything."""
    return assumed_shape(tensor, None)


def assumed_shape(tensor: Tensor, size: int | None) -> Shape | None:
    """The static shape of a tensor, with `size` in the place of sizes that are not known; None if some are left."""
    dims = [size if dim is None else dim for dim in tensor.shape.as_list()] if tensor.shape.rank is not None else [None]
    known = tuple(dim for dim in dims if dim is not None)
    return known if len(known) == len(dims) else None
