"""Feature crosses: all combinations of the features of several columns, as strings or as hash buckets."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply
from thalweg.graph.composite import SparseTensor, is_sparse
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import int64, string
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.casting import cast
from thalweg.ops.sparse.tensors import as_sparse

# TensorFlow's hash key, so that buckets agree.
_DEFAULT_KEY = 0xDECAFCAFFE


def _cross_shape(c: ShapeContext) -> list[TensorShape]:
    count, types = c.attr("N"), len(c.attr("sparse_types"))
    if types != count:
        raise ValueError(f"SparseCross got {count} lists of indices and shapes, but {types} lists of values")
    for i in range(count):
        shapes.merge(c.input(i), TensorShape._of((None, 2)))
        shapes.with_rank(c.input(count + i), 1)
        shapes.merge(c.input(2 * count + i), TensorShape._of((2,)))
    for i in range(3 * count, c.num_inputs):
        shapes.with_rank(c.input(i), 2)
    return [TensorShape._of((None, 2)), shapes.ANY_VECTOR, TensorShape._of((2,))]


define(
    "SparseCross",
    "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types -> "
    "output_indices: int64, output_values: out_type, output_shape: int64",
    "N: int >= 0, hashed_output: bool, num_buckets: int >= 0, hash_key: int, sparse_types: list({int64, string}) >= 0, "
    "dense_types: list({int64, string}) >= 0, out_type: {int64, string}, internal_type: {int64, string}",
    shape=_cross_shape,
)
not_differentiable("SparseCross")


def _cross(inputs: Any, hashed: bool, num_buckets: int, hash_key: int | None, name: str | None) -> SparseTensor:
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise TypeError(f"Inputs must be a list of tensors and sparse tensors, got {inputs!r}")
    sparse = [as_sparse(x) for x in inputs if is_sparse(x)]
    dense = [convert_to_tensor(x) for x in inputs if not is_sparse(x)]
    kind = int64 if hashed else string
    crossed = apply(
        "SparseCross",
        [x.indices for x in sparse],
        [_as_feature(x.values) for x in sparse],
        [x.dense_shape for x in sparse],
        [_as_feature(x) for x in dense],
        N=len(sparse),
        hashed_output=hashed,
        num_buckets=num_buckets,
        hash_key=_DEFAULT_KEY if hash_key is None else hash_key,
        out_type=kind,
        internal_type=kind,
        name=name,
    )
    return SparseTensor(crossed.output_indices, crossed.output_values, crossed.output_shape)


def _as_feature(x: Any) -> Any:
    return x if x.dtype.base_dtype is string else cast(x, int64)


@export("sparse.cross")
def sparse_cross(inputs: Any, name: str | None = None) -> SparseTensor:
    """Joins every combination of features, one of each input, to a string such as 'a_X_b_X_7'.

    Args:
        inputs: Matrices `[batch, features]`, sparse or dense, of strings or integers. In the result the features of
            sparse inputs come first.
        name: The node's name.

    Returns:
        A SparseTensor `[batch, combinations]` of strings; the features of the last input change fastest.

    Example:
        >>> with tf.Session() as s:
        ...     print(s.run(tf.sparse.cross([[["a", "b"]], [[1]]])).values.tolist())
        [b'a_X_1', b'b_X_1']
    """
    return _cross(inputs, False, 0, None, name)


@export("sparse.cross_hashed")
def sparse_cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """The same as `sparse.cross`, with a hash bucket in the place of each string.

    Args:
        inputs: As for `sparse.cross`.
        num_buckets: The number of buckets; 0 for all of the positive int64.
        hash_key: The key of the hash function.
        name: The node's name.

    Returns:
        A SparseTensor `[batch, combinations]` of int64.
    """
    return _cross(inputs, True, num_buckets, hash_key, name)
