"""DynamicPartition and DynamicStitch: distributing rows over several tensors, and merging them again."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def _merge_prefix(data: TensorShape, prefix: TensorShape) -> tuple[int | None, ...] | None:
    """The dimensions of `data` behind `prefix`, which must be its beginning; None if not known."""
    d, p = data.dims_tuple, prefix.dims_tuple
    if d is None or p is None:
        return None
    if len(p) > len(d) or any(a is not None and b is not None and a != b for a, b in zip(d, p, strict=False)):
        raise ValueError(f"data.shape must start with the shape of its indices, got {data} and {prefix}")
    return d[len(p) :]


def _partition_shape(c: ShapeContext) -> list[TensorShape]:
    rest = _merge_prefix(c.input(0), c.input(1))
    return [shapes.UNKNOWN if rest is None else TensorShape._of((None, *rest))] * c.num_outputs


define(
    "DynamicPartition", "data: T, partitions: int32 -> outputs: num_partitions * T",
    "num_partitions: int >= 1, T: type", shape=_partition_shape,
)  # fmt: skip


@export("dynamic_partition")
def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """Distributes the rows of `data` over tensors: row i goes to tensor number `partitions[i]`.

    Args:
        data: Tensor whose shape starts with that of `partitions`.
        partitions: int32 tensor with values in `[0, num_partitions)`.
        num_partitions: How many tensors.
        name: A name for the operation.

    Returns:
        A list of tensors, each with its rows in order.

    Example:
        >>> with tf.Session() as s:
        ...     [part.tolist() for part in s.run(tf.dynamic_partition([1, 2, 3], [1, 0, 1], 2))]
        [[2], [1, 3]]
    """
    return apply_list("DynamicPartition", data, partitions, num_partitions=num_partitions, name=name)


@gradient("DynamicPartition")
def _dynamic_partition_grad(op: Operation, *grads: Any) -> Any:
    data, partitions = op.inputs
    given = [apply_one("ZerosLike", op.outputs[i]) if grad is None else grad for i, grad in enumerate(grads)]
    sizes = apply_one("Shape", partitions)
    numbers = apply_one("Reshape", apply_one("Range", 0, apply_one("Size", partitions), 1), sizes)
    places = dynamic_partition(numbers, partitions, op.attrs["num_partitions"])
    rows = apply_one("ParallelDynamicStitch", places, given)
    return apply_one("Reshape", rows, apply_one("Shape", data)), None


def _stitch_shape(c: ShapeContext) -> TensorShape:
    n = c.attr("N")
    rest = shapes.UNKNOWN
    last: int | None = -1
    for i in range(n):
        dims = _merge_prefix(c.input(n + i), c.input(i))
        if dims is not None:
            rest = shapes.merge(rest, TensorShape._of(dims))
        indices = c.constant(i)
        if indices is None:
            last = None
        elif last is not None and indices.size:
            last = max(last, int(indices.max()))
    dims = rest.dims_tuple
    return shapes.UNKNOWN if dims is None else TensorShape._of((None if last is None else last + 1, *dims))


for _op in ("DynamicStitch", "ParallelDynamicStitch"):
    define(_op, "indices: N * int32, data: N * T -> merged: T", "N: int >= 1, T: type", shape=_stitch_shape)


@export("dynamic_stitch")
def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """Merges rows: `merged[indices[m][i]] = data[m][i]`; of equal indices, the last one wins.

    Args:
        indices: List of int32 tensors.
        data: List of tensors; the shape of each starts with that of its indices.
        name: A name for the operation.

    Returns:
        A Tensor with as many rows as the largest index says. Rows that no index names are zero.
    """
    return apply_one("DynamicStitch", indices, data, name=name)


@gradient("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch_grad(op: Operation, grad: Tensor) -> Any:
    n = op.attrs["N"]
    return [None] * n + [apply_one("GatherV2", grad, indices, 0) for indices in op.inputs[:n]]
