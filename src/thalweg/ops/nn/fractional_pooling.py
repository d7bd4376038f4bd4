"""Fractional pooling: the largest or average element of regions of random sizes, and the gradients."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_TYPES = "T: {float, double, int32, int64}"
_ATTRS = (
    "pooling_ratio: list(float) >= 4, pseudo_random: bool = false, overlapping: bool = false, "
    f"deterministic: bool = false, seed: int = 0, seed2: int = 0, {_TYPES}"
)


def _fractional_pool_shape(c: ShapeContext) -> list[TensorShape]:
    dims = shapes.with_rank(c.input(0), 4).dims_tuple
    assert dims is not None
    ratio = c.attr("pooling_ratio")
    if len(ratio) != 4:
        raise ValueError(f"pooling_ratio must hold 4 numbers, got {ratio}")
    if not min(ratio) >= 1:
        raise ValueError(f"pooling_ratio cannot be smaller than 1, got: {min(ratio)}")
    rows, columns = (None if size is None else int(size / r) for size, r in zip(dims[1:3], ratio[1:3], strict=True))
    # The sequences have one element more than rows and columns. TensorFlow declares one less than it returns, and
    # rejects a graph with the right length: so it stays unknown.
    sequence = TensorShape._of((None,))
    return [TensorShape._of((dims[0], rows, columns, dims[3])), sequence, sequence]


for _kind in ("Max", "Avg"):
    define(
        f"Fractional{_kind}Pool",
        "value: T -> output: T, row_pooling_sequence: int64, col_pooling_sequence: int64",
        _ATTRS,
        shape=_fractional_pool_shape,
    )
define(
    "FractionalMaxPoolGrad",
    "orig_input: T, orig_output: T, out_backprop: T, row_pooling_sequence: int64, col_pooling_sequence: int64 -> "
    "output: T",
    f"overlapping: bool = false, {_TYPES}",
    shape=lambda c: shapes.with_rank(c.input(0), 4),
)
define(
    "FractionalAvgPoolGrad",
    "orig_input_tensor_shape: int64, out_backprop: T, row_pooling_sequence: int64, col_pooling_sequence: int64 -> "
    "output: T",
    f"overlapping: bool = false, {_TYPES}",
    shape=lambda c: shapes.with_rank(c.constant_as_shape(0), 4),
)


def _pool(kind: str, value: Any, ratio: Any, name: str | None, **attrs: Any) -> Any:
    return apply(f"Fractional{kind}Pool", value, pooling_ratio=ratio, name=name, **attrs)


@export("nn.fractional_max_pool")
def fractional_max_pool(
    value: Any, pooling_ratio: Any, pseudo_random: bool = False, overlapping: bool = False,
    deterministic: bool = False, seed: int = 0, seed2: int = 0, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the largest element of each of the random regions into which the images are cut.

    Args:
        value: A Tensor `[batch, rows, columns, channels]`.
        pooling_ratio: How many times smaller the result is along each dimension: `[1, rows, columns, 1]`, from 1 up.
        pseudo_random: Whether a single random number decides on all regions, instead of one for each.
        overlapping: Whether regions share their edges.
        deterministic: Whether the regions stay the same from step to step.
        seed: Seed of the regions; needs `deterministic`.
        seed2: A second seed.
        name: The node's name.

    Returns:
        A tuple: `output`, and where regions begin: `row_pooling_sequence` and `col_pooling_sequence`.
    """
    return _pool(
        "Max", value, pooling_ratio, name, pseudo_random=pseudo_random, overlapping=overlapping,
        deterministic=deterministic, seed=seed, seed2=seed2,
    )  # fmt: skip


@export("nn.fractional_avg_pool")
def fractional_avg_pool(
    value: Any, pooling_ratio: Any, pseudo_random: bool = False, overlapping: bool = False,
    deterministic: bool = False, seed: int = 0, seed2: int = 0, name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the average of each of the random regions into which the images are cut; see `fractional_max_pool`."""
    return _pool(
        "Avg", value, pooling_ratio, name, pseudo_random=pseudo_random, overlapping=overlapping,
        deterministic=deterministic, seed=seed, seed2=seed2,
    )  # fmt: skip


@gradient("FractionalMaxPool")
def _fractional_max_pool_grad(op: Operation, grad: Tensor, *rest: Any) -> Any:
    output, rows, columns = op.outputs
    return apply_one(
        "FractionalMaxPoolGrad", op.inputs[0], output, grad, rows, columns, overlapping=op.get_attr("overlapping")
    )


@gradient("FractionalAvgPool")
def _fractional_avg_pool_grad(op: Operation, grad: Tensor, *rest: Any) -> Any:
    _, rows, columns = op.outputs
    shape = apply_one("Shape", op.inputs[0], out_type="int64")
    return apply_one("FractionalAvgPoolGrad", shape, grad, rows, columns, overlapping=op.get_attr("overlapping"))


@gradient("FractionalMaxPoolGrad", "FractionalAvgPoolGrad")
def _no_second_gradient(op: Operation, grad: Tensor) -> Any:
    raise LookupError(f"No gradient defined for operation '{op.name}' (op type: {op.type}).")
