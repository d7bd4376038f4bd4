"""A column of categories with open ids: each id has a row of its own, without a vocabulary or buckets."""

from __future__ import annotations

from typing import Any

from thalweg.feature_column.categorical import KeyedCategoricalColumn
from thalweg.feature_column.column import check_key
from thalweg.graph.composite import SparseTensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype, int64, string
from thalweg.ops.math.casting import cast
from thalweg.state.embedding_options import EmbeddingOptions


class OpenCategoricalColumn(KeyedCategoricalColumn):
    """Made by `categorical_column_with_embedding`."""

    key: str
    dtype: Any
    options: EmbeddingOptions | None

    @property
    def num_buckets(self) -> int:
        """Not known: only embedding columns can take it."""
        raise ValueError(f"Column '{self.key}' has open ids: use it in an embedding_column.")

    def ids_of(self, feature: SparseTensor) -> SparseTensor:
        """The values themselves; integers as int64."""
        self._check(feature)
        if self.dtype is string:
            return feature
        return SparseTensor(feature.indices, cast(feature.values, int64), feature.dense_shape)


@export("feature_column.categorical_column_with_embedding")
def categorical_column_with_embedding(
    key: str, dtype: Any = int64, options: EmbeddingOptions | None = None
) -> OpenCategoricalColumn:
    """A column whose ids are the values of a feature, any int64 or string, for `embedding_column`.

    Args:
        key: The feature.
        dtype: The type of its values: int64 or string.
        options: Those of the embedding variable.

    Raises:
        ValueError: If `dtype` is another type.
    """
    check_key(key)
    kind = as_dtype(dtype)
    if kind not in (int64, string):
        raise ValueError(f"dtype must be int64 or string. column_name: {key}, got {kind.name}")
    return OpenCategoricalColumn(key, kind, options)
