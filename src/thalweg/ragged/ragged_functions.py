"""`tf.ragged`: constants, placeholders, and functions of ragged tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg
from thalweg.graph.definitions.op_registry import export
from thalweg.ragged.ragged_indexing import gather_rows
from thalweg.ragged.ragged_tensor import RaggedTensor, RaggedTensorValue

tf: Any = thalweg  # The public names are bound at run time.


def _parts(pylist: Any, ragged_rank: int | None, inner_shape: Any) -> tuple[list[Any], list[list[int]]]:
    """The innermost values of nested lists, and the splits of their ragged dimensions, outermost first."""
    if not isinstance(pylist, (list, tuple, np.ndarray)):
        raise TypeError(f"pylist must be a nested list, got {pylist!r}.")
    depth, level = 0, [pylist]
    while any(isinstance(item, (list, tuple, np.ndarray)) for item in level):
        depth += 1
        if not all(isinstance(item, (list, tuple, np.ndarray)) for item in level):
            raise ValueError("all scalar values must have the same nesting depth")
        level = [part for item in level for part in item]
    rank = depth - 1 - len(inner_shape or ()) if ragged_rank is None else ragged_rank
    if rank < 0 or rank > max(depth - 1, rank if not level else 0):
        raise ValueError(f"ragged_rank {rank} is not possible for lists nested {depth} deep.")
    nested, rows = [], [pylist]
    rows = list(pylist)
    for _ in builtins.range(rank):
        splits = [0]
        flat: list[Any] = []
        for row in rows:
            flat.extend(row)
            splits.append(len(flat))
        nested.append(splits)
        rows = flat
    return rows, nested


@export("ragged.constant")
def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = None,
) -> Any:
    """A RaggedTensor of nested lists; a Tensor if they are not nested.

    Args:
        pylist: Nested lists.
        dtype: The type of the elements.
        ragged_rank: How many dimensions are ragged; all but the first, and those of `inner_shape`, if None.
        inner_shape: The shape of the dense elements.
        name: A name for the operation.
        row_splits_dtype: int64 if None.

    Raises:
        ValueError: If elements are nested differently.

    Example:
        >>> rt = tf.ragged.constant([[1, 2], [], [3]])
        >>> rt.shape.as_list()
        [3, None]
    """
    rows, nested = _parts(pylist, ragged_rank, inner_shape)
    kind = tf.as_dtype(row_splits_dtype or tf.int64)
    with tf.name_scope(name, "RaggedConstant"):
        if not rows and dtype is None:
            dtype = tf.float32
        shape = None if inner_shape is None else [len(rows), *inner_shape]
        values = tf.constant(rows, dtype, shape=shape, name="values") if rows or shape else tf.constant([], dtype)
        splits = [tf.constant(s, kind, name="row_splits") for s in nested]
        return RaggedTensor.from_nested_row_splits(values, splits, validate=False) if splits else values


@export("ragged.constant_value")
def constant_value(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    row_splits_dtype: Any = "int64",
) -> Any:
    """A RaggedTensorValue of nested lists: what a session feeds a RaggedTensor with."""
    rows, nested = _parts(pylist, ragged_rank, inner_shape)
    kind = None if dtype is None else tf.as_dtype(dtype).as_numpy_dtype if not isinstance(dtype, type) else dtype
    value: Any = np.array(rows, kind)
    if inner_shape is not None:
        value = value.reshape(len(rows), *inner_shape)
    for splits in reversed(nested):
        value = RaggedTensorValue(value, np.array(splits, row_splits_dtype))
    return value


@export("ragged.placeholder")
def placeholder(dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None) -> Any:
    """A RaggedTensor that is fed with a RaggedTensorValue."""
    if ragged_rank == 0:
        return tf.placeholder(dtype, value_shape, name)
    with tf.name_scope(name, "RaggedPlaceholder"):
        shape = None if value_shape is None else [None, *tf.TensorShape(value_shape).as_list()]
        values = tf.placeholder(dtype, shape if shape is not None else [None], "flat_values")
        splits = [tf.placeholder(tf.int64, [None], f"row_splits_{i}") for i in builtins.range(ragged_rank)]
        return RaggedTensor.from_nested_row_splits(values, splits, validate=False)


@export("ragged.range")
def range(
    starts: Any, limits: Any = None, deltas: Any = 1, dtype: Any = None, name: str | None = None,
    row_splits_dtype: Any = None,
) -> RaggedTensor:  # fmt: skip
    """Rows `[start, start + delta, ...)` up to the limits; with one argument from 0.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.ragged.range([3, 0, 2])).to_list())
        [[0, 1, 2], [], [0, 1]]
    """
    if limits is None:
        starts, limits = 0, starts
    with tf.name_scope(name, "RaggedRange", [starts, limits, deltas]):
        limit = tf.convert_to_tensor(limits, dtype=dtype, name="limits")
        start = tf.cast(tf.convert_to_tensor(starts, name="starts"), limit.dtype)
        delta = tf.cast(tf.convert_to_tensor(deltas, name="deltas"), limit.dtype)
        kind = tf.as_dtype(row_splits_dtype or tf.int64)
        found = tf.raw_ops.RaggedRange(starts=start, limits=limit, deltas=delta, Tsplits=kind)
        return RaggedTensor.from_row_splits(found.rt_dense_values, found.rt_nested_splits, validate=False)


@export("ragged.map_flat_values")
def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Applies a function to the innermost values; all ragged arguments must have the same rows.

    Example:
        >>> rt = tf.ragged.constant([[1, 2], [3]])
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.ragged.map_flat_values(lambda x: x * 2, rt)).to_list())
        [[2, 4], [6]]
    """
    ragged = [a for a in (*args, *kwargs.values()) if isinstance(a, RaggedTensor)]
    if not ragged:
        return op(*args, **kwargs)
    first = ragged[0]
    if any(other.ragged_rank != first.ragged_rank for other in ragged):
        raise ValueError(f"All ragged inputs must have the same ragged_rank, got {[o.ragged_rank for o in ragged]}.")
    checks = [
        tf.assert_equal(a, b, message="Inputs must have identical ragged splits")
        for other in ragged[1:]
        for a, b in zip(first.nested_row_splits, other.nested_row_splits, strict=True)
        if a is not b
    ]
    with tf.control_dependencies(checks):
        flat = [a.flat_values if isinstance(a, RaggedTensor) else a for a in args]
        named = {k: a.flat_values if isinstance(a, RaggedTensor) else a for k, a in kwargs.items()}
        return first.with_flat_values(op(*flat, **named))


@export("ragged.boolean_mask")
def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """The elements where the mask is True; the rows stay.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.ragged.boolean_mask([[1, 2], [3, 4]], [[True, False], [True, True]])).to_list())
        [[1], [3, 4]]
    """
    with tf.name_scope(name, "RaggedMask"):
        mask = mask if isinstance(mask, RaggedTensor) else tf.convert_to_tensor(mask, tf.bool)
        data = data if isinstance(data, RaggedTensor) else tf.convert_to_tensor(data)
        if isinstance(mask, tf.Tensor) and mask.shape.ndims == 1:
            if isinstance(data, RaggedTensor):
                return gather_rows(data, tf.where(mask)[:, 0])
            return tf.boolean_mask(data, mask)
        if not isinstance(mask, RaggedTensor):
            mask = RaggedTensor.from_tensor(mask, ragged_rank=(mask.shape.ndims or 2) - 1)
        if not isinstance(data, RaggedTensor):
            data = RaggedTensor.from_tensor(data, ragged_rank=mask.ragged_rank)
        kept = boolean_mask(data.values, mask.values)
        sizes = (
            _segment(tf.unsorted_segment_sum, tf.cast(mask.flat_values, mask.row_splits.dtype), mask)
            if not isinstance(mask.values, RaggedTensor)
            else data.row_lengths()
        )
        return RaggedTensor.from_row_lengths(kept, sizes, validate=False)


def _segment(reduce: Any, values: Any, rt: RaggedTensor) -> Any:
    return reduce(values, rt.value_rowids(), rt.nrows())


def concat(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Joins ragged tensors: rows one after the other (axis 0), or each row of all (axis 1 and inner ones)."""
    parts = [v if isinstance(v, RaggedTensor) else RaggedTensor.from_tensor(v) for v in values]
    with tf.name_scope(name, "RaggedConcat"):
        if axis < 0:
            raise ValueError("axis must not be negative for ragged tensors.")
        if axis > 1:
            inner = concat([p.values for p in parts], axis - 1)
            return parts[0].with_values(inner)
        joined, splits = parts[0].values, parts[0].row_splits
        for part in parts[1:]:
            both = [joined, part.values]
            is_ragged = any(isinstance(v, RaggedTensor) for v in both)
            joined = concat(both, 0) if is_ragged else tf.concat(both, 0)
            splits = tf.concat([splits, part.row_splits[1:] + splits[-1]], 0)
        whole = RaggedTensor.from_row_splits(joined, splits, validate=False)
        if axis == 0:
            return whole
        rows, count = parts[0].nrows(), len(parts)
        checks = [tf.assert_equal(p.nrows(), rows, message="Inputs must have as many rows") for p in parts[1:]]
        with tf.control_dependencies(checks):
            order = tf.reshape(
                tf.transpose(tf.reshape(tf.range(rows * count), tf.stack([tf.cast(count, rows.dtype), rows]))), [-1]
            )
        mixed = gather_rows(whole, order)
        return (
            mixed.with_values(mixed.values)
            if count == 1
            else RaggedTensor(mixed.values, mixed.row_splits[::count], internal=True)
        )


@export("ragged.stack")
def stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Puts ragged tensors beside each other along a new axis 0 or 1."""
    parts = [v if isinstance(v, RaggedTensor) else RaggedTensor.from_tensor(v) for v in values]
    if axis not in (0, 1):
        raise ValueError(f"axis must be 0 or 1 for ragged tensors, got {axis}.")
    with tf.name_scope(name, "RaggedStack"):
        return concat([expand_dims(p, axis) for p in parts], axis)


def expand_dims(input: RaggedTensor, axis: int, name: str | None = None) -> RaggedTensor:
    """Adds a dimension of size 1."""
    kind = input.row_splits.dtype
    if axis == 0:
        return RaggedTensor(input, tf.stack([tf.zeros([], kind), input.nrows()]), internal=True)
    if axis == 1:
        return RaggedTensor(input, tf.range(input.nrows() + 1), internal=True)
    if axis < 0:
        raise ValueError("axis must not be negative for ragged tensors.")
    inner = input.values
    deeper = expand_dims(inner, axis - 1) if isinstance(inner, RaggedTensor) else tf.expand_dims(inner, axis - 1)
    return input.with_values(deeper)


def reduce_rows(name: str, segments: Any, dense: Any, rt: RaggedTensor, axis: Any) -> Any:
    """A reduction: of everything, over the rows, within the rows, or within inner dimensions."""
    if axis is None:
        return dense(rt.flat_values)
    if isinstance(axis, (list, tuple)):
        result: Any = rt
        for each in sorted(axis, reverse=True):
            result = (
                reduce_rows(name, segments, dense, result, each)
                if isinstance(result, RaggedTensor)
                else dense(result, each)
            )
        return result
    if axis < 0:
        raise ValueError(f"axis must not be negative for the {name} of ragged tensors.")
    if axis == 0:
        columns = range(rt.row_lengths()).values
        width = tf.reduce_max(tf.concat([tf.zeros([1], rt.row_splits.dtype), rt.row_lengths()], 0))
        if isinstance(rt.values, RaggedTensor):
            raise ValueError(f"The {name} over axis 0 of a tensor with several ragged dimensions is not supported.")
        return segments(rt.values, tf.cast(columns, tf.int64), width)
    if axis == 1:
        if isinstance(rt.values, RaggedTensor):
            raise ValueError(f"The {name} over axis 1 of a tensor with several ragged dimensions is not supported.")
        return _segment(segments, rt.values, rt)
    inner = rt.values
    if isinstance(inner, RaggedTensor):
        return rt.with_values(reduce_rows(name, segments, dense, inner, axis - 1))
    return rt.with_values(dense(inner, axis - 1))


@export("ragged.row_splits_to_segment_ids")
def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Any:
    """The row of each value: `[0, 2, 3]` gives `[0, 0, 1]`."""
    splits = tf.convert_to_tensor(splits, name="splits", preferred_dtype=tf.int64)
    ids = RaggedTensor.from_row_splits(tf.range(splits[-1]), splits, validate=False).value_rowids()
    return ids if out_type is None else tf.cast(ids, out_type)


@export("ragged.segment_ids_to_row_splits")
def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: Any = None, out_type: Any = None, name: str | None = None
) -> Any:
    """The splits of rows: `[0, 0, 1]` gives `[0, 2, 3]`."""
    ids = tf.convert_to_tensor(segment_ids, preferred_dtype=tf.int64)
    splits = RaggedTensor.from_value_rowids(ids, ids, num_segments, validate=False).row_splits
    return splits if out_type is None else tf.cast(splits, out_type)
