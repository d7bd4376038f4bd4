"""How much work an operation of a graph does, given the shapes of its inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from thalweg.graph.definitions.op_registry import is_defined, op_def
from thalweg.graph.definitions.work import Shape, Work, WorkContext, free, one_pass

if TYPE_CHECKING:
    from thalweg.graph.operation import Operation
    from thalweg.graph.tensor import Tensor


def work_of(
    operation: Operation, shape_of: Callable[[Tensor], Shape | None], count_default: bool = True
) -> Work | None:
    """The work of one run; None if a shape is not known, or the op's rule does not accept the shapes.

    Args:
        operation: The operation.
        shape_of: The shapes of its inputs and outputs.
        count_default: Whether ops that state no rule count as one pass over their elements; if not, they have None too.
    """
    rule = op_def(operation.type).work if is_defined(operation.type) else None
    if rule is None and not count_default:
        return None
    inputs, outputs = _shapes(operation.inputs, shape_of), _shapes(operation.outputs, shape_of)
    if inputs is None or outputs is None:
        return None
    context = WorkContext(
        operation.attrs, inputs, outputs, _bytes(operation.inputs, inputs), _bytes(operation.outputs, outputs)
    )
    try:
        return (rule or one_pass)(context)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None


def states_work(operation: Operation) -> bool:
    """Whether the op type has a rule for its work, and that rule counts arithmetic."""
    rule = op_def(operation.type).work if is_defined(operation.type) else None
    return rule is not None and rule is not free


def _shapes(tensors: Sequence[Tensor], shape_of: Callable[[Tensor], Shape | None]) -> list[Shape] | None:
    found = [shape_of(tensor) for tensor in tensors]
    known = [shape for shape in found if shape is not None]
    return known if len(known) == len(found) else None


def _bytes(tensors: Sequence[Tensor], shapes: Sequence[Shape]) -> list[int]:
    return [
        math.prod(shape) * int(tensor.dtype.base_dtype.size or 0) for tensor, shape in zip(tensors, shapes, strict=True)
    ]
