"""Columns of numbers: as they are, and cut into buckets."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from thalweg.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    IdWeightPair,
    TransformationCache,
    WeightMaker,
    check_key,
)
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype, float32, int64
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.patches import one_hot
from thalweg.ops.array.shapes_of_tensors import reshape, sizes_of
from thalweg.ops.math.casting import cast
from thalweg.ops.text.parsing_features import FixedLenFeature


class NumericColumn(DenseColumn):
    """Made by `numeric_column`."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: DType
    normalizer_fn: Any

    @property
    def name(self) -> str:
        """The key of the feature."""
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """A dense feature."""
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of an example's numbers."""
        return TensorShape(self.shape)

    def transform_feature(self, cache: TransformationCache) -> Tensor:
        """The numbers, as float32."""
        feature = cache.get(self.key)
        if isinstance(feature, SparseTensor):
            raise ValueError(
                f"The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. "
                f"key: {self.key}"
            )
        if self.normalizer_fn is not None:
            feature = self.normalizer_fn(feature)
        tensor: Tensor = cast(feature, float32)
        return tensor

    def get_dense_tensor(self, cache: TransformationCache, weights: WeightMaker) -> Tensor:
        """The numbers."""
        tensor: Tensor = cache.get(self)
        return tensor


@export("feature_column.numeric_column")
def numeric_column(
    key: str, shape: Any = (1,), default_value: Any = None, dtype: Any = float32, normalizer_fn: Any = None
) -> NumericColumn:
    """A column of real numbers.

    Args:
        key: The key of the feature.
        shape: How many numbers an example has.
        default_value: A number, or as many as `shape` says, for examples without the feature.
        dtype: The type of the feature.
        normalizer_fn: Applied to the numbers before anything else.

    Raises:
        ValueError: If `shape`, `default_value` or `dtype` is not valid.
        TypeError: If they are of the wrong type.
    """
    check_key(key)
    dims = _checked_shape(shape, key)
    dtype = as_dtype(dtype)
    if not (dtype.is_integer or dtype.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return NumericColumn(key, dims, checked_default(default_value, dims, dtype, key), dtype, normalizer_fn)


def _checked_shape(shape: Any, key: str) -> tuple[int, ...]:
    dims = tuple(shape) if isinstance(shape, (list, tuple, TensorShape)) else (shape,)
    for dim in dims:
        if not isinstance(dim, (int, np.integer)):
            raise TypeError(f"shape dimensions must be integer. shape: {dims}, key: {key}")
        if dim < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {dims}, key: {key}")
    return tuple(int(dim) for dim in dims)


def checked_default(value: Any, dims: tuple[int, ...], dtype: DType, key: str) -> Any:
    """A default value as nested tuples of the given shape, from one number for all or from all of them.

    Raises:
        ValueError: If the value has another shape.
        TypeError: If it has another type.
    """
    if value is None:
        return None
    given = np.asarray(value)
    whole = given.dtype.kind in "iub" or (given.dtype.kind == "f" and np.all(given == np.round(given)))
    if given.dtype.kind not in "iubf" or (dtype.is_integer and not whole):
        raise TypeError(
            f"default_value must be compatible with dtype. default_value: {value}, dtype: {dtype}, key: {key}"
        )
    if given.ndim and given.shape != dims:
        raise ValueError(
            f"The shape of default_value must be equal to given shape. default_value: {value}, shape: {dims}, "
            f"key: {key}"
        )
    return _as_tuples(np.broadcast_to(given, dims).astype(int if dtype.is_integer else float).tolist())


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else value


class BucketizedColumn(DenseColumn, CategoricalColumn):
    """Made by `bucketized_column`."""

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        """The name of the source column, with the suffix '_bucketized'."""
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing spec of the source column."""
        return self.source_column.parse_example_spec

    @property
    def variable_shape(self) -> TensorShape:
        """For each number, one place per bucket."""
        return TensorShape([*self.source_column.shape, len(self.boundaries) + 1])

    @property
    def num_buckets(self) -> int:
        """Every number of an example has buckets of its own."""
        return (len(self.boundaries) + 1) * self.source_column.shape[0]

    def transform_feature(self, cache: TransformationCache) -> Tensor:
        """The bucket of each number."""
        return apply_one("Bucketize", cache.get(self.source_column), boundaries=list(self.boundaries))

    def get_dense_tensor(self, cache: TransformationCache, weights: WeightMaker) -> Tensor:
        """One-hot vectors of the buckets."""
        return one_hot(cast(cache.get(self), int64), depth=len(self.boundaries) + 1, on_value=1.0, off_value=0.0)

    def get_sparse_tensors(self, cache: TransformationCache) -> IdWeightPair:
        """Buckets as ids, counted through all numbers of an example."""
        buckets = cache.get(self)
        width = self.source_column.shape[0]
        batch = sizes_of(buckets)[0]
        rows = reshape(apply_one("Tile", apply_one("ExpandDims", apply_one("Range", 0, batch, 1), 1), [1, width]), [-1])
        columns = apply_one("Tile", apply_one("Range", 0, width, 1), apply_one("Pack", [batch]))
        ids = apply_one("AddV2", reshape(buckets, [-1]), apply_one("Mul", columns, len(self.boundaries) + 1))
        indices = cast(apply_one("Pack", [rows, columns], axis=1), int64)
        dense_shape = cast(apply_one("Pack", [batch, width]), int64)
        return IdWeightPair(SparseTensor(indices, cast(ids, int64), dense_shape), None)


@export("feature_column.bucketized_column")
def bucketized_column(source_column: Any, boundaries: Any) -> BucketizedColumn:
    """A column of buckets: `boundaries` [0, 1, 2] make four, up to 0, [0, 1), [1, 2) and from 2 on.

    Raises:
        ValueError: If the source is no one-dimensional numeric column, or the boundaries are not sorted.
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(f"source_column must be a column generated with numeric_column(). Given: {source_column}")
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    if not isinstance(boundaries, (list, tuple)) or any(a >= b for a, b in itertools.pairwise(boundaries)):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))
