"""Adding up the gradients that reach one tensor along several paths, dense or as IndexedSlices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import colocate_with, device
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor


@export("AggregationMethod")
class AggregationMethod:
    """How gradients that reach one tensor are added: all at once (ADD_N) or as they come (the others)."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def aggregate(grads: Sequence[Any], method: int | None = None, colocate: bool = False) -> Any:
    """The sum of gradients; None if there are none. Slices stay slices as long as all of them are.

    Args:
        grads: The gradients.
        method: A constant of AggregationMethod.
        colocate: Whether gradients are placed beside the ops that they are gradients of: then their sum is, too.
    """
    present = [grad for grad in grads if grad is not None]
    if len(present) <= 1:
        return present[0] if present else None
    # Gradients that are all on one device are added there: colocated ones of a variable's look-ups are beside it, and
    # would travel to the worker and back.
    tensors = [grad.values if isinstance(grad, IndexedSlices) else grad for grad in present]
    devices = {tensor.device for tensor in tensors}
    if colocate and len(devices) == 1:
        with colocate_with(tensors[0], ignore_existing=True):
            return _sum(present, method)
    with device(devices.pop()) if len(devices) == 1 and any(devices) else nullcontext():
        return _sum(present, method)


def _sum(present: Sequence[Any], method: int | None) -> Any:
    if all(isinstance(grad, IndexedSlices) for grad in present):
        values = apply_one("ConcatV2", [grad.values for grad in present], 0)
        indices = apply_one("ConcatV2", [_as_int64(present, grad.indices) for grad in present], 0)
        shape = next((grad.dense_shape for grad in present if grad.dense_shape is not None), None)
        return IndexedSlices(values, indices, shape)
    dense = [convert_to_tensor(grad) for grad in present]
    if method == AggregationMethod.EXPERIMENTAL_TREE:
        while len(dense) > 1:
            pairs = [sum_of_two(a, b) for a, b in zip(dense[::2], dense[1::2], strict=False)]
            dense = pairs + ([dense[-1]] if len(dense) % 2 else [])
        return dense[0]
    return apply_one("AddN", dense)


def sum_of_two(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two dense gradients, of lists of tensors, too."""
    return apply_one("AddN", [a, b]) if a.dtype.base_dtype is dtypes.variant else apply_one("AddV2", a, b)


def _as_int64(grads: Sequence[Any], indices: Any) -> Any:
    """Row numbers in a type that all of them share."""
    if len({grad.indices.dtype for grad in grads}) == 1:
        return indices
    return apply_one("Cast", indices, DstT=dtypes.int64)
