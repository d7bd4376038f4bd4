"""The descriptions of features in examples (FixedLenFeature, ...), and their form for the parsing ops."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype, int64, string
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


@export("VarLenFeature", "io.VarLenFeature")
class VarLenFeature(NamedTuple):
    """A feature with any number of values: it becomes a SparseTensor."""

    dtype: Any


@export("FixedLenFeature", "io.FixedLenFeature")
class FixedLenFeature(NamedTuple):
    """A feature of one shape: it becomes a dense tensor. Without a default value every example must have it."""

    shape: Any
    dtype: Any
    default_value: Any = None


@export("FixedLenSequenceFeature", "io.FixedLenSequenceFeature")
class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of rows of one shape: a dense tensor, padded to the longest with `default_value`.

    In a SequenceExample, a feature list whose steps have one shape. With `allow_missing` it may be absent: empty.
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


@export("SparseFeature", "io.SparseFeature")
class SparseFeature(NamedTuple):
    """A sparse vector (or tensor) spread over several features: one of values, and one of indices per dimension."""

    index_key: Any
    value_key: Any
    dtype: Any
    size: Any
    already_sorted: bool = False


class ParseSpec:
    """Features, sorted by the kinds that parsing ops distinguish.

    Attributes:
        sparse_keys: The keys that become SparseTensors, and `sparse_types`: their types.
        dense_keys: The keys that become dense tensors, with `dense_types`, `dense_shapes` and `dense_defaults`.
        missing_allowed: Keys of feature lists that may be absent.
    """

    def __init__(self, features: Any, allowed: tuple[type, ...]) -> None:
        """Sorts a dict of features; ValueError for one that is incomplete, or of a kind that is not `allowed`."""
        self.sparse_keys: list[str] = []
        self.sparse_types: list[DType] = []
        self.dense_keys: list[str] = []
        self.dense_types: list[DType] = []
        self.dense_shapes: list[TensorShape] = []
        self.dense_defaults: dict[str, Any] = {}
        self.missing_allowed: set[str] = set()
        for key in sorted(features or {}):
            feature = features[key]
            if not isinstance(feature, allowed):
                raise ValueError(f"Unsupported {type(feature).__name__} {feature} for key '{key}'")
            self._add(key, feature)
        both = set(self.dense_keys) & set(self.sparse_keys)
        if both:
            raise ValueError(
                f"Dense and sparse keys must not intersect; dense_keys: {self.dense_keys}, sparse_keys: "
                f"{self.sparse_keys}, intersection: {both}"
            )

    def _add(self, key: str, feature: Any) -> None:
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}. Received feature={feature}.")
        if isinstance(feature, VarLenFeature):
            self._add_sparse(key, as_dtype(feature.dtype))
        elif isinstance(feature, SparseFeature):
            if not feature.index_key:
                raise ValueError(f"Missing index_key for SparseFeature {feature}.")
            if not feature.value_key:
                raise ValueError(f"Missing value_key for SparseFeature {feature}.")
            for index_key in sorted(index_keys(feature)):
                self._add_sparse(index_key, int64)
            self._add_sparse(feature.value_key, as_dtype(feature.dtype))
        else:
            self._add_dense(key, feature)

    def _add_sparse(self, key: str, dtype: DType) -> None:
        if key in self.sparse_keys:
            known = self.sparse_types[self.sparse_keys.index(key)]
            if known != dtype:
                raise ValueError(f"Conflicting type {known} vs {dtype} for feature {key}.")
            return
        self.sparse_keys.append(key)
        self.sparse_types.append(dtype)

    def _add_dense(self, key: str, feature: Any) -> None:
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}. Received feature={feature}.")
        shape = TensorShape(feature.shape)
        if isinstance(feature, FixedLenFeature):
            dims = shape.dims_tuple or ()
            if dims and dims[0] is None:
                raise ValueError(
                    f"First dimension of shape for feature {key} unknown. Consider using FixedLenSequenceFeature. "
                    f"Received feature={feature}."
                )
            if not shape.is_fully_defined():
                raise ValueError(
                    f"All dimensions of shape for feature {key} need to be known but received {feature.shape}."
                )
        if isinstance(feature, FixedLenSequenceFeature) and feature.allow_missing:
            self.missing_allowed.add(key)
        self.dense_keys.append(key)
        self.dense_types.append(as_dtype(feature.dtype))
        self.dense_shapes.append(shape)
        self.dense_defaults[key] = feature.default_value

    def make_rows_variable(self, features: Any) -> None:
        """Puts an unknown dimension before the shape of the sequence features of plain Examples."""
        for i, key in enumerate(self.dense_keys):
            if isinstance(features[key], FixedLenSequenceFeature):
                if not features[key].allow_missing:
                    raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
                self.dense_shapes[i] = TensorShape([None]).concatenate(self.dense_shapes[i])

    def default_tensors(self) -> list[Tensor]:
        """The default (or padding) of each dense feature, as a tensor; an empty one where the feature is required."""
        result: list[Tensor] = []
        for key, dtype, shape in zip(self.dense_keys, self.dense_types, self.dense_shapes, strict=True):
            default = self.dense_defaults[key]
            dims = shape.dims_tuple
            node = re.sub(r"[^A-Za-z0-9_.\-/]", "_", key)
            if dims and dims[0] is None:
                if default is None:
                    result.append(convert_to_tensor("" if dtype is string else 0, dtype, name="Const"))
                else:
                    padding = convert_to_tensor(default, dtype, name=f"padding_{node}")
                    result.append(apply_one("Reshape", padding, []))
            elif default is None:
                result.append(apply_one("Const", value=_empty(dtype), dtype=dtype))
            else:
                if not isinstance(default, Tensor):
                    default = convert_to_tensor(default, dtype, name=f"key_{node}")
                result.append(apply_one("Reshape", default, shape.as_list()))
        return result


def _empty(dtype: DType) -> Any:
    import numpy as np

    return np.empty(0, object if dtype is string else dtype.as_numpy_dtype)


def index_keys(feature: SparseFeature) -> list[str]:
    """The keys of the indices, of which there may be one that is not in a list."""
    return [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)
