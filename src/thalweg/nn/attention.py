"""Attention as a function: each query gets the average of the values, weighted by how well the keys fit it."""

from __future__ import annotations

import math
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.nn.dropout import dropout
from thalweg.ops.array.diagonals import matrix_band_part
from thalweg.ops.array.select import where_v2
from thalweg.ops.array.shapes_of_tensors import reshape, size_of_axis
from thalweg.ops.array.transpose import transpose
from thalweg.ops.math.matmul import matmul
from thalweg.ops.nn.softmax import softmax

# In place of minus infinity: fits float16, and a row that is masked entirely gives no NaN.
_MASKED = -65504.0


@export("nn.scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_rate: Any = 0.0,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Returns `softmax(query @ key^T * scale) @ value` (Vaswani et al., 2017).

    Args:
        query: [..., queries, size].
        key: [..., keys, size].
        value: [..., keys, value_size].
        mask: bools that broadcast to [..., queries, keys], True where a query may attend; or floats, added to scores.
        is_causal: Whether query i may attend to the keys 0 to i only.
        scale: The factor of the scores; 1 / sqrt(size) if None.
        dropout_rate: Of the weights.
        seed: The seed of the dropout.
        name: The name scope.

    Returns:
        A tensor [..., queries, value_size].

    Raises:
        ValueError: If sizes do not fit, or the size of the queries is unknown and there is no `scale`.

    Example:
        >>> x = tf.ones([1, 4, 8])
        >>> tf.nn.scaled_dot_product_attention(x, x, x, is_causal=True).shape.as_list()
        [1, 4, 8]
    """
    with name_scope(name, "scaled_dot_product_attention", [query, key, value, mask]):
        q, k, v = (convert_to_tensor(tensor) for tensor in (query, key, value))
        if scale is None:
            size = q.shape.as_list()[-1] if q.shape.ndims else None
            if size is None:
                raise ValueError(f"The last size of query must be known if there is no scale; its shape is {q.shape}.")
            scale = 1.0 / math.sqrt(size)
        # Scaling the queries touches fewer elements than scaling the scores.
        scores = matmul(apply_one("Mul", q, scale, name="scaled"), k, transpose_b=True)
        if mask is not None:
            scores = _masked(scores, convert_to_tensor(mask))
        if is_causal:
            scores = _masked(scores, _lower_triangle(scores))
        weights = softmax(scores)
        if not (isinstance(dropout_rate, (int, float)) and dropout_rate == 0):
            weights = dropout(weights, rate=dropout_rate, seed=seed)
        return matmul(weights, v)


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype.is_bool:
        return where_v2(mask, scores, convert_to_tensor(_MASKED, scores.dtype))
    return apply_one("AddV2", scores, mask, name="add")


def _lower_triangle(scores: Tensor) -> Tensor:
    sizes = scores.shape.as_list()[-2:]
    shape: Any = sizes
    if None in sizes:
        whole = apply_one("Shape", scores)
        shape = apply_one("StridedSlice", whole, [-2], [0], [1], end_mask=1)
    ones = apply_one("Fill", shape, 1.0)
    return apply_one("Greater", matrix_band_part(ones, -1, 0), 0.0)


@export("nn.multi_head_attention")
def multi_head_attention(
    query: Any,
    key: Any,
    value: Any,
    num_heads: int,
    mask: Any = None,
    is_causal: bool = False,
    dropout_rate: Any = 0.0,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Attends with several heads, each to its own part of the last axis; projections are left to the caller.

    Args:
        query: [batch, queries, size].
        key: [batch, keys, size].
        value: [batch, keys, value_size].
        num_heads: Divides both sizes.
        mask: As in `scaled_dot_product_attention`; broadcasts to [batch, heads, queries, keys].
        is_causal: Whether query i may attend to the keys 0 to i only.
        dropout_rate: Of the weights.
        seed: The seed of the dropout.
        name: The name scope.

    Returns:
        A tensor [batch, queries, value_size].

    Raises:
        ValueError: If a rank is not 3, or a size is unknown or not a multiple of `num_heads`.
    """
    with name_scope(name, "multi_head_attention", [query, key, value, mask]):
        q, k, v = (_heads(convert_to_tensor(tensor), num_heads) for tensor in (query, key, value))
        result = scaled_dot_product_attention(q, k, v, mask, is_causal, None, dropout_rate, seed)
        size = result.shape.as_list()[-1]
        assert size is not None
        merged = transpose(result, [0, 2, 1, 3])
        return reshape(merged, [*_batch_and_time_sizes(merged), num_heads * size])


def _batch_and_time_sizes(tensor: Tensor) -> list[Any]:
    """The first two sizes for a reshape: numbers where they are known, -1 for one that is not."""
    sizes: list[Any] = tensor.shape.as_list()[:2]
    if sizes.count(None) == 1:
        return [-1 if size is None else size for size in sizes]
    return [size if size is not None else size_of_axis(tensor, i) for i, size in enumerate(sizes)]


def _heads(tensor: Tensor, num_heads: int) -> Tensor:
    sizes = tensor.shape.as_list() if tensor.shape.ndims == 3 else None
    if sizes is None or sizes[2] is None or num_heads < 1 or sizes[2] % num_heads:
        raise ValueError(
            f"Attention with {num_heads} heads needs tensors [batch, time, size] with a size that they divide, got "
            f"{tensor.shape}."
        )
    split = reshape(tensor, [*_batch_and_time_sizes(tensor), num_heads, sizes[2] // num_heads])
    return transpose(split, [0, 2, 1, 3])
