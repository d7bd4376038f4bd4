"""Columns of categories: hashed, from a vocabulary, or numbered already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.feature_column.column import CategoricalColumn, TransformationCache, as_sparse_input, check_key
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype, int64, string
from thalweg.ops.math.casting import cast
from thalweg.ops.text.parsing_features import VarLenFeature
from thalweg.ops.text.strings import as_string, string_to_hash_bucket_fast
from thalweg.platform import gfile
from thalweg.platform.file_object import GFile
from thalweg.state.vocabulary_tables import index_table_from_file, index_table_from_tensor


class KeyedCategoricalColumn(CategoricalColumn):
    """A categorical column of one raw feature, `key`, whose values have the type `dtype`."""

    if TYPE_CHECKING:  # The subclasses say where among their fields these two stand.
        key: str
        dtype: Any

    @property
    def name(self) -> str:
        """The key of the feature."""
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """A sparse feature."""
        return {self.key: VarLenFeature(self.dtype)}

    def transform_feature(self, cache: TransformationCache) -> SparseTensor:
        """The ids of the feature."""
        return self.ids_of(as_sparse_input(cache.get(self.key)))

    def ids_of(self, feature: SparseTensor) -> SparseTensor:
        """The ids of the values of a feature."""
        raise NotImplementedError

    def _check(self, feature: SparseTensor) -> None:
        if not (feature.dtype.base_dtype is string or feature.dtype.is_integer):
            raise ValueError(
                f"column_name: {self.key} input_tensor dtype must be string or integer. dtype: {feature.dtype}."
            )
        if self.dtype.is_integer != feature.dtype.is_integer:
            raise ValueError(
                f"Column dtype and SparseTensors dtype must be compatible. key: {self.key}, column dtype: "
                f"{self.dtype}, tensor dtype: {feature.dtype}"
            )


class HashedCategoricalColumn(KeyedCategoricalColumn):
    """Made by `categorical_column_with_hash_bucket`."""

    key: str
    hash_bucket_size: int
    dtype: DType

    @property
    def num_buckets(self) -> int:
        """The number of hash buckets."""
        return self.hash_bucket_size

    def ids_of(self, feature: SparseTensor) -> SparseTensor:
        """The hash bucket of each value."""
        self._check(feature)
        text = feature.values if self.dtype is string else as_string(feature.values)
        return feature.with_values(string_to_hash_bucket_fast(text, self.hash_bucket_size, name="lookup"))


@export("feature_column.categorical_column_with_hash_bucket")
def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = string
) -> HashedCategoricalColumn:
    """A column of strings or integers, spread over a number of buckets by their hash.

    Raises:
        ValueError: If there is no bucket, or `dtype` is neither string nor integer.
    """
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}")
    check_key(key)
    return HashedCategoricalColumn(key, hash_bucket_size, _id_type(dtype, key))


def _id_type(dtype: Any, key: str) -> DType:
    checked = as_dtype(dtype)
    if not (checked is string or checked.is_integer):
        raise ValueError(f"column_name: {key} dtype must be string or integer. dtype: {checked}.")
    return checked


class _VocabularyColumn(KeyedCategoricalColumn):
    """The base class of columns with a vocabulary table."""

    def ids_of(self, feature: SparseTensor) -> SparseTensor:
        """The place of each value in the vocabulary."""
        self._check(feature)
        key_dtype = self.dtype
        if feature.dtype.is_integer:
            key_dtype = int64
            feature = feature.with_values(cast(feature.values, int64))
        ids: SparseTensor = self._table(key_dtype).lookup(feature)
        return ids

    def _table(self, key_dtype: DType) -> Any:
        raise NotImplementedError


class VocabularyListCategoricalColumn(_VocabularyColumn):
    """Made by `categorical_column_with_vocabulary_list`."""

    key: str
    vocabulary_list: tuple[Any, ...]
    dtype: DType
    default_value: int
    num_oov_buckets: int

    @property
    def num_buckets(self) -> int:
        """Words and buckets for words that are not known."""
        return len(self.vocabulary_list) + self.num_oov_buckets

    def _table(self, key_dtype: DType) -> Any:
        words = np.array(self.vocabulary_list, object if self.dtype is string else self.dtype.as_numpy_dtype)
        return index_table_from_tensor(
            words, self.num_oov_buckets, self.default_value, dtype=key_dtype, name=f"{self.key}_lookup"
        )


@export("feature_column.categorical_column_with_vocabulary_list")
def categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> VocabularyListCategoricalColumn:
    """A column of words, whose ids are their places in a list.

    Args:
        key: The key of the feature.
        vocabulary_list: The words, or integers.
        dtype: Their type.
        default_value: The id of words that are not in the list; -1: they count as absent.
        num_oov_buckets: Instead, buckets into which such words are hashed.

    Raises:
        ValueError: If the list is empty or names a word twice, or the other arguments do not fit.
    """
    words = list(vocabulary_list) if vocabulary_list is not None else []
    if not words:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(words)) != len(words):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    kind = np.array(words).dtype.kind
    found = string if kind in "OSU" else as_dtype(np.array(words).dtype)
    _check_buckets(key, num_oov_buckets, default_value, -1)
    check_key(key)
    found = _id_type(found, key)
    dtype = found if dtype is None else _id_type(dtype, key)
    if dtype.is_integer != found.is_integer:
        raise ValueError(f"dtype {dtype} and vocabulary dtype {found} do not match, column_name: {key}")
    return VocabularyListCategoricalColumn(key, tuple(words), dtype, default_value, num_oov_buckets)


def _check_buckets(key: str, num_oov_buckets: int, default_value: Any, unset: Any) -> None:
    if num_oov_buckets:
        if default_value != unset:
            raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
        if num_oov_buckets < 0:
            raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


class VocabularyFileCategoricalColumn(_VocabularyColumn):
    """Made by `categorical_column_with_vocabulary_file`."""

    key: str
    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: DType
    default_value: int

    @property
    def num_buckets(self) -> int:
        """Words and buckets for words that are not known."""
        return self.vocabulary_size + self.num_oov_buckets

    def _table(self, key_dtype: DType) -> Any:
        return index_table_from_file(
            self.vocabulary_file, self.num_oov_buckets, self.vocabulary_size, self.default_value,
            key_dtype=key_dtype, name=f"{self.key}_lookup",
        )  # fmt: skip


@export("feature_column.categorical_column_with_vocabulary_file")
def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = string,
) -> VocabularyFileCategoricalColumn:
    """A column of words, whose ids are the numbers of their lines in a file.

    Args:
        key: The key of the feature.
        vocabulary_file: One word a line.
        vocabulary_size: How many lines count; all of them if None.
        num_oov_buckets: Buckets into which words that are not in the file are hashed.
        default_value: Instead, their id; -1 if None: they count as absent.
        dtype: The type of the words.

    Raises:
        ValueError: If there is no such file, or the other arguments do not fit.
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if vocabulary_size is None:
        if not gfile.Exists(vocabulary_file):
            raise ValueError(f"vocabulary_file in {key} does not exist.")
        with GFile(vocabulary_file, mode="rb") as file:
            vocabulary_size = sum(1 for _ in file)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_buckets(key, num_oov_buckets, default_value, None)
    check_key(key)
    return VocabularyFileCategoricalColumn(
        key, vocabulary_file, vocabulary_size, num_oov_buckets, _id_type(dtype, key),
        -1 if default_value is None else default_value,
    )  # fmt: skip


class IdentityCategoricalColumn(KeyedCategoricalColumn):
    """Made by `categorical_column_with_identity`."""

    key: str
    number_buckets: int
    default_value: int | None

    @property
    def dtype(self) -> DType:
        """Ids are integers."""
        return int64

    @property
    def num_buckets(self) -> int:
        """How many ids there are."""
        return self.number_buckets

    def ids_of(self, feature: SparseTensor) -> SparseTensor:
        """The values, which are ids; the default in the place of those that are out of range."""
        if not feature.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {feature.dtype}")
        values = cast(feature.values, int64)
        if self.default_value is not None:
            outside = apply_one(
                "LogicalOr", apply_one("Less", values, 0), apply_one("GreaterEqual", values, self.number_buckets)
            )
            values = apply_one("SelectV2", outside, np.int64(self.default_value), values)
        return feature.with_values(values)


@export("feature_column.categorical_column_with_identity")
def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """A column of ids in [0, num_buckets), which stand for themselves.

    Raises:
        ValueError: If there is no id, or `default_value` is none.
    """
    check_key(key)
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}")
    return IdentityCategoricalColumn(key, num_buckets, default_value)
