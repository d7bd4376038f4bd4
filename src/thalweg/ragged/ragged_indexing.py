"""Indexing of RaggedTensors: rows, ranges of rows, and ranges within rows."""

from __future__ import annotations

from typing import Any

import thalweg
from thalweg.ragged.ragged_tensor import RaggedTensor

tf: Any = thalweg  # The public names are bound at run time.


def gather_rows(rt: RaggedTensor, indices: Any) -> RaggedTensor:
    """Some rows, by their numbers."""
    indices = tf.convert_to_tensor(indices, name="indices")
    rank = rt.ragged_rank + indices.shape.ndims - 1
    found = tf.raw_ops.RaggedGather(
        params_nested_splits=list(rt.nested_row_splits), params_dense_values=rt.flat_values, indices=indices,
        OUTPUT_RAGGED_RANK=rank,
    )  # fmt: skip
    return RaggedTensor.from_nested_row_splits(  # type: ignore[no-any-return]
        found.output_dense_values, found.output_nested_splits, validate=False
    )


def select(rt: RaggedTensor, key: Any) -> Any:
    """`rt[key]`.

    Raises:
        ValueError: If the key is of a kind that ragged tensors do not take.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    if not keys:
        return rt
    if keys[0] is Ellipsis:
        if len(keys) == 1:
            return rt
        raise ValueError("Ellipsis before other indices is not supported for RaggedTensors.")
    first, rest = keys[0], keys[1:]
    if isinstance(first, slice):
        rows = _rows(rt, first)
        return _inner(rows, rest) if rest else rows
    if first is None:
        raise ValueError("tf.newaxis is not supported here: use tf.expand_dims.")
    index = tf.cast(tf.convert_to_tensor(first), rt.row_splits.dtype)
    index = tf.where(index < 0, index + rt.nrows(), index)
    begin, end = rt.row_splits[:-1][index], rt.row_splits[1:][index]
    row = _range(rt.values, begin, end)
    if not rest:
        return row
    return row[tuple(rest)]


def _range(values: Any, begin: Any, end: Any) -> Any:
    if isinstance(values, RaggedTensor):
        return gather_rows(values, tf.range(begin, end))
    return values[begin:end]


def _rows(rt: RaggedTensor, key: slice) -> RaggedTensor:
    if key == slice(None):
        return rt
    numbers = tf.range(rt.nrows())
    return gather_rows(rt, numbers[key.start : key.stop : key.step])


def _inner(rt: RaggedTensor, keys: list[Any]) -> Any:
    """Applies keys to each row."""
    first, rest = keys[0], keys[1:]
    kind = rt.row_splits.dtype
    lengths, starts = rt.row_lengths(), rt.row_starts()
    if isinstance(first, slice):
        if first.step not in (None, 1):
            raise ValueError("Steps within the rows of a RaggedTensor are not supported.")
        begin = _bound(first.start, lengths, tf.zeros_like(lengths), kind)
        end = tf.maximum(_bound(first.stop, lengths, lengths, kind), begin)
        sizes = end - begin
        places = tf.raw_ops.RaggedRange(
            starts=starts + begin, limits=starts + end, deltas=tf.ones([], kind), Tsplits=kind
        )
        picked = _pick(rt.values, places.rt_dense_values)
        out = RaggedTensor.from_row_lengths(picked, sizes, validate=False)
        if not rest:
            return out
        if isinstance(out.values, RaggedTensor):
            return out.with_values(_inner(out.values, rest))
        return out.with_values(out.values[(slice(None), *rest)])
    index = tf.cast(tf.convert_to_tensor(first), kind)
    place = tf.where(index < 0, lengths + index, tf.fill(tf.shape(lengths), index))
    inside = tf.logical_and(place >= 0, place < lengths)
    check = tf.Assert(tf.reduce_all(inside), ["index out of range in a row of a RaggedTensor:", first])
    with tf.control_dependencies([check]):
        column = _pick(rt.values, starts + place)
    return column[(slice(None), *rest)] if rest else column


def _pick(values: Any, places: Any) -> Any:
    return gather_rows(values, places) if isinstance(values, RaggedTensor) else tf.gather(values, places)


def _bound(bound: Any, lengths: Any, default: Any, kind: Any) -> Any:
    if bound is None:
        return default
    given = tf.cast(tf.convert_to_tensor(bound), kind)
    shifted = tf.where(given < 0, lengths + given, tf.fill(tf.shape(lengths), given))
    return tf.minimum(tf.maximum(shifted, 0), lengths)
