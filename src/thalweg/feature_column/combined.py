"""Categorical columns made of categorical columns: with weights, and crossed."""

from __future__ import annotations

from typing import Any

from thalweg.feature_column.categorical import HashedCategoricalColumn
from thalweg.feature_column.column import (
    CategoricalColumn,
    IdWeightPair,
    TransformationCache,
    as_sparse_input,
)
from thalweg.graph.composite import SparseTensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype, float32, string
from thalweg.ops.math.casting import cast
from thalweg.ops.sparse.cross import sparse_cross_hashed
from thalweg.ops.text.parsing_features import VarLenFeature


class WeightedCategoricalColumn(CategoricalColumn):
    """Made by `weighted_categorical_column`."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: DType

    @property
    def name(self) -> str:
        """The names of both features."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing specs of both features."""
        spec = dict(self.categorical_column.parse_example_spec)
        if self.weight_feature_key in spec:
            raise ValueError(
                f"Parse config {spec[self.weight_feature_key]} already exists for {self.weight_feature_key}."
            )
        spec[self.weight_feature_key] = VarLenFeature(self.dtype)
        return spec

    @property
    def num_buckets(self) -> int:
        """The number of buckets of the categories."""
        return self.categorical_column.num_buckets

    def transform_feature(self, cache: TransformationCache) -> IdWeightPair:
        """Ids and weights."""
        weights = cache.get(self.weight_feature_key)
        if weights is None:
            raise ValueError(f"Missing weights {self.weight_feature_key}.")
        if self.dtype != weights.dtype.base_dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        weights = as_sparse_input(weights, ignored=0.0 if self.dtype.is_floating else 0)
        if not self.dtype.is_floating:
            weights = weights.with_values(cast(weights.values, float32))
        return IdWeightPair(cache.get(self.categorical_column), weights)

    def get_sparse_tensors(self, cache: TransformationCache) -> IdWeightPair:
        """Ids and weights."""
        result: IdWeightPair = cache.get(self)
        return result


@export("feature_column.weighted_categorical_column")
def weighted_categorical_column(
    categorical_column: Any, weight_feature_key: str, dtype: Any = float32
) -> WeightedCategoricalColumn:
    """A categorical column whose categories have weights, which are another feature with the same indices.

    Raises:
        ValueError: If the weights are no numbers.
    """
    if dtype is None or not (as_dtype(dtype).is_integer or as_dtype(dtype).is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, as_dtype(dtype))


class CrossedColumn(CategoricalColumn):
    """Made by `crossed_column`."""

    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None

    @property
    def name(self) -> str:
        """The names of all crossed columns."""
        return "_X_".join(sorted(key if isinstance(key, str) else key.name for key in _leaves(self)))

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing specs of all crossed columns."""
        spec: dict[str, Any] = {}
        for key in self.keys:
            spec.update({key: VarLenFeature(string)} if isinstance(key, str) else key.parse_example_spec)
        return spec

    @property
    def num_buckets(self) -> int:
        """The number of hash buckets."""
        return self.hash_bucket_size

    def transform_feature(self, cache: TransformationCache) -> SparseTensor:
        """The hash bucket of every combination of an example's categories."""
        inputs = []
        for key in _leaves(self):
            if isinstance(key, str):
                inputs.append(cache.get(key))
                continue
            pair = key.get_sparse_tensors(cache)
            if pair.weight_tensor is not None:
                raise ValueError(
                    f"crossed_column does not support weight_tensor, but the given column populates weight_tensor. "
                    f"Given column: {key.name}"
                )
            inputs.append(pair.id_tensor)
        return sparse_cross_hashed(inputs, self.hash_bucket_size, self.hash_key)


def _leaves(column: CrossedColumn) -> list[Any]:
    """The keys and columns that a crossed column crosses; nested crossed columns are expanded."""
    leaves: list[Any] = []
    for key in column.keys:
        leaves.extend(_leaves(key) if isinstance(key, CrossedColumn) else [key])
    return leaves


@export("feature_column.crossed_column")
def crossed_column(keys: Any, hash_bucket_size: int, hash_key: int | None = None) -> CrossedColumn:
    """A column of combinations of categories, hashed into buckets.

    Args:
        keys: At least two: keys of string features, or categorical columns other than hashed ones.
        hash_bucket_size: The number of buckets.
        hash_key: The key of the hash function.

    Raises:
        ValueError: If the arguments are not valid.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column except "
                f"HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing will "
                "increase probability of collision. Instead, use the feature name as a string. "
                f"Given: {key}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)
