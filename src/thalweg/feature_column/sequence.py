"""Columns of sequences: categories and numbers for each of an example's steps."""

from __future__ import annotations

from typing import Any

from thalweg.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)
from thalweg.feature_column.column import (
    CategoricalColumn,
    IdWeightPair,
    SequenceDenseColumn,
    TransformationCache,
    WeightMaker,
    as_sparse_input,
)
from thalweg.feature_column.numeric import numeric_column
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, float32, int64, string
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.shapes_of_tensors import reshape
from thalweg.ops.math.casting import cast
from thalweg.ops.sparse.tensors import sparse_reshape, sparse_tensor_to_dense
from thalweg.ops.text.parsing_features import VarLenFeature


class SequenceCategoricalColumn(CategoricalColumn):
    """A categorical column for each step: ids are `[batch, steps, categories of a step]`."""

    categorical_column: Any

    @property
    def name(self) -> str:
        """The name of the categorical column."""
        result: str = self.categorical_column.name
        return result

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing spec of the categorical column."""
        result: dict[str, Any] = self.categorical_column.parse_example_spec
        return result

    @property
    def num_buckets(self) -> int:
        """The number of buckets of the categorical column."""
        result: int = self.categorical_column.num_buckets
        return result

    def transform_feature(self, cache: TransformationCache) -> Any:
        """Ids, as the categorical column makes them."""
        return self.categorical_column.transform_feature(cache)

    def get_sparse_tensors(self, cache: TransformationCache) -> IdWeightPair:
        """Ids and weights; a feature of rank 2 has one category a step."""
        pair = self.categorical_column.get_sparse_tensors(cache)
        weights = pair.weight_tensor
        return IdWeightPair(_with_rank_3(pair.id_tensor), None if weights is None else _with_rank_3(weights))


def _with_rank_3(value: SparseTensor) -> SparseTensor:
    if value.shape.ndims == 3:
        return value
    return sparse_reshape(value, apply_one("ConcatV2", [value.dense_shape, [1]], 0))


def sequence_lengths(ids: SparseTensor) -> Tensor:
    """The number of steps of each example: one more than the last that has a value."""
    rows, steps = (apply_one("StridedSlice", ids.indices, [0, i], [0, i + 1], [1, 1], begin_mask=1, end_mask=1,
                         shrink_axis_mask=2) for i in (0, 1))  # fmt: skip
    batch = apply_one("StridedSlice", ids.dense_shape, [0], [1], [1], shrink_axis_mask=1)
    last = apply_one("UnsortedSegmentMax", apply_one("AddV2", steps, 1), rows, batch)
    return apply_one("Maximum", last, 0)


@export("feature_column.sequence_categorical_column_with_identity")
def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Like `categorical_column_with_identity`, for each step of a sequence."""
    return SequenceCategoricalColumn(categorical_column_with_identity(key, num_buckets, default_value))


@export("feature_column.sequence_categorical_column_with_hash_bucket")
def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = string
) -> SequenceCategoricalColumn:
    """Like `categorical_column_with_hash_bucket`, for each step of a sequence."""
    return SequenceCategoricalColumn(categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


@export("feature_column.sequence_categorical_column_with_vocabulary_file")
def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = string,
) -> SequenceCategoricalColumn:
    """Like `categorical_column_with_vocabulary_file`, for each step of a sequence."""
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )


@export("feature_column.sequence_categorical_column_with_vocabulary_list")
def sequence_categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> SequenceCategoricalColumn:
    """Like `categorical_column_with_vocabulary_list`, for each step of a sequence."""
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_list(key, vocabulary_list, dtype, default_value, num_oov_buckets)
    )


class SequenceNumericColumn(SequenceDenseColumn):
    """Made by `sequence_numeric_column`."""

    key: str
    shape: tuple[int, ...]
    default_value: float
    dtype: DType
    normalizer_fn: Any

    @property
    def name(self) -> str:
        """The key of the feature."""
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """A sparse feature."""
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of a step's numbers."""
        return TensorShape(self.shape)

    def transform_feature(self, cache: TransformationCache) -> SparseTensor:
        """The numbers, normalized."""
        feature = as_sparse_input(cache.get(self.key), ignored=self.default_value)
        if self.normalizer_fn is not None:
            feature = self.normalizer_fn(feature)
        return feature

    def get_sequence_dense_tensor(self, cache: TransformationCache, weights: WeightMaker) -> tuple[Tensor, Tensor]:
        """The numbers of each step, filled up with the default value."""
        feature = cache.get(self)
        width = int(TensorShape(self.shape).num_elements() or 1)
        dense = sparse_tensor_to_dense(feature, default_value=self.default_value)
        batch = apply_one("StridedSlice", apply_one("Shape", dense), [0], [1], [1])
        numbers = reshape(dense, apply_one("ConcatV2", [batch, [-1], list(self.shape)], 0))
        lengths = sequence_lengths(feature)
        if feature.shape.ndims == 2 and width > 1:
            # A step has several values: its number is that of its first.
            lengths = cast(apply_one("FloorDiv", apply_one("AddV2", lengths, width - 1), width), int64)
        return cast(numbers, float32), lengths


@export("feature_column.sequence_numeric_column")
def sequence_numeric_column(
    key: str, shape: Any = (1,), default_value: float = 0.0, dtype: Any = float32, normalizer_fn: Any = None
) -> SequenceNumericColumn:
    """Like `numeric_column`, for each step of a sequence; `default_value` fills sequences up."""
    checked = numeric_column(key, shape, None, dtype, normalizer_fn)
    return SequenceNumericColumn(key, checked.shape, default_value, checked.dtype, normalizer_fn)
