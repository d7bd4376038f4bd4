"""How losses and metrics fit weights and labels to predictions: checks, broadcasting, dropping dimensions of one."""

from __future__ import annotations

from typing import Any

from thalweg.control_flow.cond import cond
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import identity
from thalweg.ops.array.shapes_of_tensors import rank, shape, squeeze
from thalweg.ops.flow.checks import all_true
from thalweg.ops.flow.printing import Assert
from thalweg.ops.math.arithmetic import multiply

_REFUSED = "weights can not be broadcast to values."


def assert_broadcastable(weights: Tensor, values: Tensor) -> list[Operation]:
    """Checks that weights are a scalar, or have the rank of the values and in each dimension their size or 1.

    This is stricter than broadcasting elsewhere: a forgotten dimension must not silently weigh the wrong elements.

    Returns:
        The assertions that are left for the step: none where static shapes decide.

    Raises:
        ValueError: If the static shapes cannot fit.
    """
    given, wanted = weights.shape.dims_tuple, values.shape.dims_tuple
    if given == ():
        return []
    if given is not None and wanted is not None:
        if len(given) != len(wanted):
            raise ValueError(
                f"{_REFUSED} values.rank={len(wanted)}. weights.rank={len(given)}. "
                f"values.shape={values.shape}. weights.shape={weights.shape}."
            )
        pairs = list(zip(given, wanted, strict=True))
        for i, (w, v) in enumerate(pairs):
            if w is not None and w != 1 and v is not None and w != v:
                raise ValueError(
                    f"{_REFUSED} Mismatch at dim {i}. values.shape={values.shape}. weights.shape={weights.shape}."
                )
        if all(w == 1 or (w is not None and w == v) for w, v in pairs):
            return []
    with name_scope("assert_broadcastable"):
        return [_assert_at_run_time(weights, values)]


def _assert_at_run_time(weights: Tensor, values: Tensor) -> Operation:
    given, wanted = shape(weights), shape(values)
    given_rank, wanted_rank = rank(weights), rank(values)
    is_scalar = apply_one("Equal", given_rank, 0, name="is_scalar")
    data = [_REFUSED, "weights.shape=", given, "values.shape=", wanted, "is_scalar=", is_scalar]
    right_rank = apply_one("LogicalOr", is_scalar, apply_one("Equal", given_rank, wanted_rank))
    with control_dependencies([Assert(right_rank, data)]):
        # In front of the sizes of a scalar, which has none, stand as many ones as the values have dimensions.
        missing = apply_one("ExpandDims", apply_one("Sub", wanted_rank, given_rank), 0)
        sizes = apply_one("ConcatV2", [apply_one("Fill", missing, 1), given], 0)
        fits = apply_one("LogicalOr", apply_one("Equal", sizes, 1), apply_one("Equal", sizes, wanted))
        return Assert(all_true(fits), data)


def broadcast_weights(weights: Any, values: Any) -> Tensor:
    """Returns the weights in the shape of the values, after the checks of `assert_broadcastable`."""
    with name_scope(None, "broadcast_weights", [weights, values]) as scope:
        full = convert_to_tensor(values, name="values")
        given = convert_to_tensor(weights, dtype=full.dtype.base_dtype, name="weights")
        if given.shape.is_fully_defined() and full.shape.is_fully_defined() and given.shape == full.shape:
            return given
        with control_dependencies(assert_broadcastable(given, full)):
            return multiply(given, apply_one("OnesLike", full), name=scope)


def remove_squeezable_dimensions(
    labels: Any, predictions: Any, expected_rank_diff: int = 0, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Drops a last dimension of 1 from the one of the two whose rank is one more than expected.

    Args:
        labels: The true values.
        predictions: The predicted ones.
        expected_rank_diff: By how much the rank of `predictions` should exceed that of `labels`.
        name: A name scope.

    Returns:
        `labels` and `predictions`.
    """
    with name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions = convert_to_tensor(predictions)
        labels = convert_to_tensor(labels)
        p, q = predictions.shape.ndims, labels.shape.ndims
        if p is not None and q is not None:
            if p - q == expected_rank_diff + 1 and predictions.shape[-1].is_compatible_with(1):
                predictions = squeeze(predictions, [-1])
            elif p - q == expected_rank_diff - 1 and labels.shape[-1].is_compatible_with(1):
                labels = squeeze(labels, [-1])
            return labels, predictions
        difference = apply_one("Sub", rank(predictions), rank(labels))
        if p is None or (p >= 1 and predictions.shape[-1].is_compatible_with(1)):
            predictions = _squeezed_if(apply_one("Equal", difference, expected_rank_diff + 1), predictions)
        if q is None or (q >= 1 and labels.shape[-1].is_compatible_with(1)):
            labels = _squeezed_if(apply_one("Equal", difference, expected_rank_diff - 1), labels)
        return labels, predictions


def _squeezed_if(condition: Tensor, x: Tensor) -> Tensor:
    result: Tensor = cond(condition, lambda: squeeze(x, [-1]), lambda: identity(x))
    return result


def fit_weights(weights: Any, predictions: Tensor) -> Tensor:
    """Drops or adds a last dimension of 1, so that the rank of the weights is that of the predictions, or 0."""
    given: Tensor = convert_to_tensor(weights)
    w, p = given.shape.ndims, predictions.shape.ndims
    if w == 0:
        return given
    if w is not None and p is not None:
        if w - p == 1:
            return squeeze(given, [-1])
        if p - w == 1:
            return apply_one("ExpandDims", given, -1)
        return given
    weights_rank = rank(given)
    difference = apply_one("Sub", weights_rank, rank(predictions))

    def maybe_expand() -> Any:
        return cond(
            apply_one("Equal", difference, -1), lambda: apply_one("ExpandDims", given, -1), lambda: identity(given)
        )

    def fitted() -> Any:
        may_shrink = w is None or (w >= 1 and given.shape[-1].is_compatible_with(1))
        if not may_shrink:
            return maybe_expand()
        return cond(apply_one("Equal", difference, 1), lambda: squeeze(given, [-1]), maybe_expand)

    result: Tensor = cond(apply_one("Equal", weights_rank, 0), lambda: identity(given), fitted)
    return result
