"""How much arithmetic a traced node did: the rules that ops state (graph/work.py), with the shapes of the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thalweg.graph.op_registry import is_defined, op_def
from thalweg.graph.tensor import Tensor
from thalweg.profiler.step_records import Record

Shape = tuple[int, ...]


class Flops:
    """Floating-point operations of the nodes of one graph."""

    def __init__(self, graph: Any) -> None:
        """Takes the graph; it says what nodes read, and the shapes that are known without running them."""
        self._operations = graph._operations_by_name
        self._shapes: dict[tuple[str, int], Shape] = {}
        self._counted: dict[tuple[str, Shape | None], float] = {}
        self._last: dict[str, Shape] = {}  # what the last member of a fused node returned, by the node

    def look_at(self, records: Iterable[Record]) -> None:
        """Notes the shapes that tensors had in a run."""
        for record in records:
            for output in record.outputs:
                self._shapes[(record.node, output.slot)] = output.shape
            if record.kernel and record.outputs:
                self._last[record.kernel] = record.outputs[0].shape

    def of(self, record: Record) -> float:
        """The number of floating-point operations of a run; 0 if the op states none, or shapes are not known."""
        operation = self._operations.get(record.node)
        if operation is None or operation.type != record.op or not is_defined(record.op):
            return 0.0
        rule = getattr(op_def(record.op), "work", None)
        if rule is None:
            return 0.0
        key = (record.node, record.outputs[0].shape if record.outputs else self._last.get(record.kernel))
        if key not in self._counted:
            self._counted[key] = self._count(operation, rule, key[1])
        return self._counted[key]

    def _count(self, operation: Any, rule: Any, made: Shape | None) -> float:
        from thalweg.graph.work import WorkContext

        inputs = [self._shape(tensor) for tensor in operation.inputs]
        outputs = [self._shape(tensor) for tensor in operation.outputs]
        if outputs and outputs[0] is None:
            outputs[0] = made
        known = [shape for shape in (*inputs, *outputs) if shape is not None]
        if len(known) < len(inputs) + len(outputs):
            return 0.0
        sizes = [tensor.dtype.base_dtype.size or 0 for tensor in (*operation.inputs, *operation.outputs)]
        bytes_of = [_elements(shape) * size for shape, size in zip(known, sizes, strict=True)]
        number = len(inputs)
        try:
            context = WorkContext(operation.attrs, known[:number], known[number:], bytes_of[:number], bytes_of[number:])
            return float(rule(context).flops)
        except (ArithmeticError, IndexError, LookupError, TypeError, ValueError):
            return 0.0  # A rule that cannot do with these shapes: nothing is known.

    def _shape(self, tensor: Tensor) -> Shape | None:
        found = self._shapes.get((tensor.op.name, tensor.value_index))
        if found is not None:
            return found
        dims = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
        known = tuple(dim for dim in dims if dim is not None)
        return known if len(known) == len(dims) else None


def _elements(shape: Shape) -> int:
    count = 1
    for dim in shape:
        count *= dim
    return count
