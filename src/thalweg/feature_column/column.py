"""The base classes of feature columns, and the cache of the tensors made of one dict of features."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor, convert_to_tensor_or_sparse_tensor
from thalweg.graph.dtypes import int64, string
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.gather import gather_nd
from thalweg.ops.array.shapes_of_tensors import expand_dims, shape
from thalweg.ops.sparse.tensors import sparse_reshape


class FeatureColumn:
    """A column: it has a name, describes the features to parse, and makes tensors of them.

    Columns are values: the annotations of a subclass are its fields, in order, as in a frozen dataclass (which would
    cost every import of the package some milliseconds). Equal columns are one to the TransformationCache.
    """

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Collects the fields."""
        own = [name for name in cls.__annotations__ if not name.startswith("_")]
        cls._fields = (*cls._fields, *own)

    def __init__(self, *values: Any) -> None:
        """Takes a value for each field."""
        for field, value in zip(self._fields, values, strict=True):
            object.__setattr__(self, field, value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Columns never change."""
        raise AttributeError(f"can't set attribute '{name}' of {self!r}")

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field) for field in self._fields)

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class, with equal fields."""
        return type(other) is type(self) and other._values() == self._values()

    def __hash__(self) -> int:
        """Equal columns have one hash."""
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({fields})"

    @property
    def name(self) -> str:
        """Identifies the column, and names its variables."""
        raise NotImplementedError

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The `features` argument of `parse_example` for this column."""
        raise NotImplementedError

    def transform_feature(self, cache: TransformationCache) -> Any:
        """The tensor of the column, from raw features; used by way of `cache.get(column)`."""
        raise NotImplementedError


class IdWeightPair(NamedTuple):
    """Ids of categories, and their weights or None: two SparseTensors with the same indices."""

    id_tensor: SparseTensor
    weight_tensor: SparseTensor | None


class CategoricalColumn(FeatureColumn):
    """A column of ids in [0, num_buckets)."""

    @property
    def num_buckets(self) -> int:
        """How many ids there are."""
        raise NotImplementedError

    def get_sparse_tensors(self, cache: TransformationCache) -> IdWeightPair:
        """Ids and weights of the examples."""
        return IdWeightPair(cache.get(self), None)


class DenseColumn(FeatureColumn):
    """A column of numbers, as many for each example."""

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of the numbers of an example."""
        raise NotImplementedError

    @property
    def var_scope_name(self) -> str:
        """The variable scope for the variables of the column."""
        return self.name

    def get_dense_tensor(self, cache: TransformationCache, weights: WeightMaker) -> Tensor:
        """The numbers of all examples: `[batch] + variable_shape`."""
        raise NotImplementedError


class SequenceDenseColumn(FeatureColumn):
    """A column of numbers for each step of a sequence."""

    def get_sequence_dense_tensor(self, cache: TransformationCache, weights: WeightMaker) -> tuple[Tensor, Tensor]:
        """The numbers, `[batch, steps] + variable_shape`, and the number of steps of each example."""
        raise NotImplementedError


class WeightMaker(NamedTuple):
    """How the variables of columns are made: in which collections, and whether they can be trained."""

    collections: list[str]
    trainable: bool


class TransformationCache:
    """Features and the tensors of columns: each is made once, however many columns use it."""

    def __init__(self, features: dict[Any, Any]) -> None:
        """Takes the raw features by their keys."""
        self._features = dict(features)
        self._made: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """The raw feature with that key, as a Tensor or SparseTensor of rank 2 at least, or the tensor of a column.

        Raises:
            ValueError: If there is no such feature.
        """
        if key not in self._made:
            self._made[key] = self._raw(key) if isinstance(key, str) else key.transform_feature(self)
        return self._made[key]

    def _raw(self, key: str) -> Any:
        if key not in self._features:
            raise ValueError(f"Feature {key} is not in features dictionary.")
        feature = convert_to_tensor_or_sparse_tensor(self._features[key])
        rank = feature.shape.ndims
        if rank == 0:
            raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {feature}")
        if rank != 1:
            return feature
        # One value per example.
        if isinstance(feature, SparseTensor):
            return sparse_reshape(feature, apply_one("ConcatV2", [feature.dense_shape, [1]], 0))
        return expand_dims(feature, -1)


def as_sparse_input(feature: Any, ignored: Any = None) -> SparseTensor:
    """A feature as a SparseTensor; of a dense one without the elements that mean nothing ('' and -1)."""
    if isinstance(feature, SparseTensor):
        return feature
    if ignored is None:
        ignored = "" if feature.dtype.base_dtype is string else -1
    indices = apply_one("Where", apply_one("NotEqual", feature, ignored), name="indices")
    return SparseTensor(indices, gather_nd(feature, indices, name="values"), shape(feature, out_type=int64))


def check_key(key: Any) -> None:
    """Keys of features are strings.

    Raises:
        ValueError: If the key is not a string.
    """
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")
