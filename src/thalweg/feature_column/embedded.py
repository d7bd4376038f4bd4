"""Dense columns made of categorical ones: indicators and embeddings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from thalweg.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    IdWeightPair,
    SequenceDenseColumn,
    TransformationCache,
    WeightMaker,
)
from thalweg.feature_column.combined import WeightedCategoricalColumn
from thalweg.feature_column.open_categorical import OpenCategoricalColumn
from thalweg.feature_column.sequence import SequenceCategoricalColumn, sequence_lengths
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.default_graph import get_collection_ref
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import float32, int64
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.patches import one_hot
from thalweg.ops.array.scatter_nd import scatter_nd
from thalweg.ops.math.casting import cast
from thalweg.ops.math.reductions import reduce_sum
from thalweg.ops.nn.embedding import embedding_lookup_sparse, safe_embedding_lookup_sparse
from thalweg.ops.sparse.tensors import sparse_tensor_to_dense
from thalweg.state.get_embedding_variable import get_embedding_variable
from thalweg.state.initializers import TruncatedNormal
from thalweg.state.variable_scope import get_variable
from thalweg.train.checkpoints.init_from_checkpoint import init_from_checkpoint


class _CategoriesColumn(DenseColumn, SequenceDenseColumn):
    """The base class of indicators and embeddings, which have a categorical column."""

    if TYPE_CHECKING:  # The subclasses say where among their fields it stands.
        categorical_column: Any

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The parsing spec of the categories."""
        result: dict[str, Any] = self.categorical_column.parse_example_spec
        return result

    def _ids_and_weights(self, cache: TransformationCache, sequence: bool) -> IdWeightPair:
        if isinstance(self.categorical_column, SequenceCategoricalColumn) != sequence:
            raise ValueError(
                f"In {'sequence_input_layer' if sequence else 'input_layer'}: column {self.name}: categorical_column "
                f"must {'' if sequence else 'not '}be a SequenceCategoricalColumn. Given: {self.categorical_column}"
            )
        result: IdWeightPair = self.categorical_column.get_sparse_tensors(cache)
        return result


class IndicatorColumn(_CategoriesColumn):
    """Made by `indicator_column`."""

    categorical_column: Any

    @property
    def name(self) -> str:
        """The name of the categories, with a suffix."""
        return f"{self.categorical_column.name}_indicator"

    @property
    def variable_shape(self) -> TensorShape:
        """One place per category."""
        return TensorShape([self.categorical_column.num_buckets])

    def transform_feature(self, cache: TransformationCache) -> Tensor:
        """How often, or with which weight, each category occurs."""
        ids, weights = self.categorical_column.get_sparse_tensors(cache)
        depth = self.categorical_column.num_buckets
        if weights is not None:
            return _weights_per_category(ids, weights, depth)
        dense = sparse_tensor_to_dense(ids, default_value=-1)
        counts = reduce_sum(one_hot(dense, depth=depth, on_value=1.0, off_value=0.0), axis=[-2])
        return counts

    def get_dense_tensor(self, cache: TransformationCache, weights: WeightMaker) -> Tensor:
        """How often, or with which weight, each category occurs."""
        self._ids_and_weights(cache, sequence=False)
        tensor: Tensor = cache.get(self)
        return tensor

    def get_sequence_dense_tensor(self, cache: TransformationCache, weights: WeightMaker) -> tuple[Tensor, Tensor]:
        """The counts or weights of the categories of each step."""
        ids = self._ids_and_weights(cache, sequence=True).id_tensor
        return cache.get(self), sequence_lengths(ids)


def _weights_per_category(ids: SparseTensor, weights: SparseTensor, depth: int) -> Tensor:
    """The sum of the weights of each category; ids out of range are left out."""
    known = apply_one("LogicalAnd", apply_one("GreaterEqual", ids.values, 0), apply_one("Less", ids.values, depth))
    kept = apply_one("Squeeze", apply_one("Where", known), squeeze_dims=[1])

    def pick(x: Any) -> Tensor:
        return apply_one("GatherV2", x, kept, 0)

    rows = apply_one("StridedSlice", ids.indices, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
    places = apply_one("ConcatV2", [pick(rows), apply_one("ExpandDims", pick(ids.values), 1)], 1)
    outer = apply_one("StridedSlice", ids.dense_shape, [0], [-1], [1], begin_mask=1)
    shape = apply_one("ConcatV2", [outer, cast([depth], int64)], 0)
    return scatter_nd(places, pick(cast(weights.values, float32)), shape)


@export("feature_column.indicator_column")
def indicator_column(categorical_column: Any) -> IndicatorColumn:
    """A column that has, for each category, how often it occurs in an example.

    Raises:
        ValueError: If the column is not categorical.
    """
    if not isinstance(categorical_column, CategoricalColumn):
        raise ValueError(f"Unsupported input type. Input must be a CategoricalColumn. Given: {categorical_column}")
    return IndicatorColumn(categorical_column)


class EmbeddingColumn(_CategoriesColumn):
    """Made by `embedding_column`."""

    categorical_column: Any
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool
    use_safe_embedding_lookup: bool

    @property
    def name(self) -> str:
        """The name of the categories, with a suffix."""
        return f"{self.categorical_column.name}_embedding"

    @property
    def variable_shape(self) -> TensorShape:
        """The dimension."""
        return TensorShape([self.dimension])

    def transform_feature(self, cache: TransformationCache) -> Any:
        """Ids and weights."""
        return self.categorical_column.get_sparse_tensors(cache)

    def get_dense_tensor(self, cache: TransformationCache, weights: WeightMaker) -> Tensor:
        """The combined rows of an example's categories."""
        return self._look_up(self._ids_and_weights(cache, sequence=False), self._variable(weights))

    def get_sequence_dense_tensor(self, cache: TransformationCache, weights: WeightMaker) -> tuple[Tensor, Tensor]:
        """The combined rows of the categories of each step."""
        pair = self._ids_and_weights(cache, sequence=True)
        return self._look_up(pair, self._variable(weights)), sequence_lengths(pair.id_tensor)

    def _variable(self, weights: WeightMaker) -> Any:
        if isinstance(self.categorical_column, OpenCategoricalColumn):
            return get_embedding_variable(
                "embedding_weights", self.dimension, self.categorical_column.dtype, self.initializer,
                trainable=self.trainable and weights.trainable, collections=weights.collections,
                options=self.categorical_column.options,
            )  # fmt: skip
        shape = (self.categorical_column.num_buckets, self.dimension)
        variable = get_variable(
            "embedding_weights", shape, float32, self.initializer, trainable=self.trainable and weights.trainable,
            collections=weights.collections,
        )  # fmt: skip
        if self.ckpt_to_load_from is not None:
            init_from_checkpoint(self.ckpt_to_load_from, {str(self.tensor_name_in_ckpt): variable})
        return variable

    def _look_up(self, pair: IdWeightPair, variable: Any) -> Tensor:
        rank = pair.id_tensor.shape.ndims
        look_up: Any = safe_embedding_lookup_sparse
        if not self.use_safe_embedding_lookup and rank is not None and rank <= 2:
            look_up = embedding_lookup_sparse
        return look_up(  # type: ignore[no-any-return]
            variable, pair.id_tensor, pair.weight_tensor, combiner=self.combiner, name=f"{self.name}_weights",
            max_norm=self.max_norm,
        )  # fmt: skip


@export("feature_column.embedding_column")
def embedding_column(
    categorical_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """A column that has, for each category, a vector of weights that training finds.

    Args:
        categorical_column: The categories.
        dimension: The length of the vectors.
        combiner: How the vectors of several categories become one: 'mean', 'sqrtn' or 'sum'.
        initializer: Of the weights; a truncated normal one of standard deviation 1 / sqrt(dimension) if None.
        ckpt_to_load_from: A checkpoint with the weights, and
        tensor_name_in_ckpt: their name in it.
        max_norm: Clips each vector to this length.
        trainable: Whether training changes the weights.
        use_safe_embedding_lookup: Whether examples without any valid category get zeros.

    Raises:
        ValueError: If the arguments make no sense.
    """
    _check_embedding(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt, str(categorical_column.name))
    return EmbeddingColumn(
        categorical_column, dimension, combiner, initializer or _default_initializer(dimension), ckpt_to_load_from,
        tensor_name_in_ckpt, max_norm, trainable, use_safe_embedding_lookup,
    )  # fmt: skip


def _check_embedding(dimension: Any, initializer: Any, checkpoint: Any, tensor_name: Any, name: str) -> None:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (checkpoint is None) != (tensor_name is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them.")
    if initializer is not None and not callable(initializer):
        raise ValueError(f"initializer must be callable if specified. Embedding of column_name: {name}")


def _default_initializer(dimension: int) -> TruncatedNormal:
    return TruncatedNormal(mean=0.0, stddev=1 / math.sqrt(dimension))


class SharedEmbeddingColumn(EmbeddingColumn):
    """Made by `shared_embedding_columns`."""

    shared_embedding_collection_name: str

    @property
    def name(self) -> str:
        """The name of the categories, with a suffix."""
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def var_scope_name(self) -> str:
        """The scope of all columns that share the weights."""
        return self.shared_embedding_collection_name

    def _variable(self, weights: WeightMaker) -> Any:
        made = get_collection_ref(self.shared_embedding_collection_name)
        if not made:
            made.append(super()._variable(weights))
        elif len(made) > 1:
            raise ValueError(
                f"Collection {made} can only contain one variable. Suggested fix A: Choose a unique name for this "
                f"collection. Suggested fix B: Do not add any variables to this collection."
            )
        variable, wanted = made[0], [self.categorical_column.num_buckets, self.dimension]
        if variable.shape.as_list() != wanted:
            raise ValueError(
                f"Shared embedding collection {self.shared_embedding_collection_name} contains variable "
                f"{variable.name} of unexpected shape {variable.shape}. Expected shape is {wanted}."
            )
        return variable


@export("feature_column.shared_embedding_columns", "feature_column.shared_embeddings")
def shared_embedding_columns(
    categorical_columns: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Embedding columns over the same weights, one for each of several categorical columns of one kind.

    The arguments are those of `embedding_column`; `shared_embedding_collection_name` names the weights.

    Raises:
        ValueError: If the columns are of different kinds or sizes, or the other arguments make no sense.
    """
    columns = sorted(categorical_columns, key=lambda column: column.name)
    first, buckets = _base_column(columns[0]), columns[0].num_buckets
    for column in columns[1:]:
        if type(_base_column(column)) is not type(first):
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, or be "
                f"weighted_categorical_column or sequence column of the same type. Given column: {first} of type: "
                f"{type(first)} does not match given column: {_base_column(column)} of type: "
                f"{type(_base_column(column))}"
            )
        if column.num_buckets != buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number of buckets. "
                f"Given column: {columns[0]} with buckets: {buckets} does not match column: {column} with buckets: "
                f"{column.num_buckets}"
            )
    if not shared_embedding_collection_name:
        shared_embedding_collection_name = "_".join(c.name for c in columns) + "_shared_embedding"
    _check_embedding(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt, shared_embedding_collection_name)
    initializer = initializer or _default_initializer(dimension)
    return [
        SharedEmbeddingColumn(
            column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable,
            use_safe_embedding_lookup, shared_embedding_collection_name,
        )
        for column in categorical_columns
    ]  # fmt: skip


def _base_column(column: Any) -> Any:
    """The column inside of weighted and sequence columns."""
    while isinstance(column, (WeightedCategoricalColumn, SequenceCategoricalColumn)):
        column = column.categorical_column
    return column
