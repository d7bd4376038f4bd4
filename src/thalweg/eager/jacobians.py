"""Jacobians from gradients: one backward walk for each element of the target, or of one example's target.

In a graph whose static shapes do not say how many these are, the walks are the turns of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from thalweg.autodiff.zeros import dense
from thalweg.control_flow.functional import map_fn
from thalweg.graph import dtypes, nest
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.tensor import Tensor

Row = Callable[[Any, Any, Any, Any], Any]
"""Target, sources, seed, unconnected_gradients: the gradients."""


def _shape_of(tensor: Any, what: str) -> Any:
    """The shape: integers where it is known, else a tensor.

    Raises:
        ValueError: If not even the rank is known.
    """
    if tensor.shape.ndims is None:
        raise ValueError(f"A Jacobian needs the rank of its {what}, whose shape is {tensor.shape}.")
    if tensor.shape.is_fully_defined():
        return np.array(tensor.shape.as_list(), np.int32)
    return apply_one("Shape", convert_to_tensor(tensor))


def _joined(*parts: Any) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts).astype(np.int32)
    return apply_one("ConcatV2", [convert_to_tensor(part, dtypes.int32) for part in parts], 0)


def _count(shape: Any) -> Any:
    return int(np.prod(shape, dtype=np.int64)) if isinstance(shape, np.ndarray) else apply_one("Prod", shape, [0])


def _rows(count: Any, axis: int, gradients: Callable[[Any], Sequence[Any]]) -> list[Any]:
    """For each source the gradients for the seeds 0, ..., count - 1, stacked along `axis`; None if there are none."""
    if isinstance(count, int) and count:
        found = [gradients(i) for i in range(count)]
        return [None if row[0] is None else _stacked(row, axis) for row in zip(*found, strict=True)]
    probe = gradients(0)
    present = [i for i, grad in enumerate(probe) if grad is not None]
    stacked: list[Any] = [None] * len(probe)
    if not present:
        return stacked
    wanted = [dense(probe[i]) for i in present]
    if isinstance(count, int):
        for i, grad in zip(present, wanted, strict=True):
            stacked[i] = apply_one("Fill", [0], convert_to_tensor(0, grad.dtype))
        return stacked
    results = map_fn(
        lambda i: [dense(grad) for grad in gradients(i) if grad is not None],
        apply_one("Range", 0, count, 1),
        dtype=[grad.dtype for grad in wanted],
    )
    for i, grads in zip(present, results, strict=True):
        stacked[i] = grads if axis == 0 else apply_one("Transpose", grads, _axis_first(grads, axis))
    return stacked


def _axis_first(tensor: Tensor, axis: int) -> list[int]:
    order = list(range(1, tensor.shape.ndims or 0))
    return [*order[:axis], 0, *order[axis:]]


def _stacked(rows: Sequence[Any], axis: int) -> Tensor:
    return apply_one("Pack", [convert_to_tensor(row) for row in rows], axis=axis)


def _seed(i: Any, count: Any, kind: Any) -> Any:
    """A vector of zeros with a one at place i."""
    if isinstance(count, int) and not isinstance(i, Tensor):
        seed = np.zeros(count, kind.as_numpy_dtype)
        seed[i : i + 1] = 1
        return seed
    return apply_one("OneHot", i, count, convert_to_tensor(1, kind), convert_to_tensor(0, kind))


def jacobian(row: Row, target: Any, sources: Any, unconnected: Any) -> Any:
    """For each source: target.shape + source.shape, or None."""
    target = convert_to_tensor(target)
    shape = _shape_of(target, "target")
    count = _count(shape)
    flat = nest.flatten(sources)
    kind = target.dtype.base_dtype

    def gradients(i: Any) -> Sequence[Any]:
        seed = apply_one("Reshape", _seed(i, count, kind), shape)
        return row(target, flat, [seed], unconnected)  # type: ignore[no-any-return]

    found = [
        None if grads is None else apply_one("Reshape", grads, _joined(shape, _shape_of(source, "source")))
        for source, grads in zip(flat, _rows(count, 0, gradients), strict=True)
    ]
    return nest.pack_sequence_as(sources, found)


def batch_jacobian(row: Row, target: Any, source: Any, unconnected: Any) -> Any:
    """[batch] + target.shape[1:] + source.shape[1:]; zeros if the target does not depend on the source."""
    target = convert_to_tensor(target)
    if not target.shape.ndims or not source.shape.ndims or not target.shape[:1].is_compatible_with(source.shape[:1]):
        raise ValueError(
            f"Need first dimension of target shape ({target.shape}) and source shape ({source.shape}) to match."
        )
    shape, inner = _shape_of(target, "target"), _shape_of(source, "source")
    count = _count(shape[1:])
    kind = target.dtype.base_dtype

    def gradients(i: Any) -> Sequence[Any]:
        # The same element of each example: they do not depend on each other.
        each = np.array([count], np.int32) if isinstance(count, int) else apply_one("Reshape", count, [1])
        seed = apply_one("BroadcastTo", _seed(i, count, kind), _joined(shape[:1], each))
        return [row(target, source, [apply_one("Reshape", seed, shape)], unconnected)]

    grads = _rows(count, 1, gradients)[0]
    result = _joined(shape, inner[1:])
    if grads is None:
        return apply_one("Fill", result, convert_to_tensor(0, kind))
    return apply_one("Reshape", grads, result)
