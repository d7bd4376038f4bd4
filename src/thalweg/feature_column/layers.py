"""From columns to a model: the layer of inputs, the linear model, and the parsing spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from thalweg.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    SequenceDenseColumn,
    TransformationCache,
    WeightMaker,
)
from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import float32, int64
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.joining import concat
from thalweg.ops.array.shapes_of_tensors import reshape
from thalweg.ops.math.arithmetic import add_n
from thalweg.ops.math.casting import cast
from thalweg.ops.math.matmul import matmul
from thalweg.ops.nn.bias import bias_add
from thalweg.ops.nn.embedding import safe_embedding_lookup_sparse
from thalweg.ops.sparse.tensors import sparse_reshape
from thalweg.state.initializers import Zeros
from thalweg.state.partitioned_variable import PartitionedVariable
from thalweg.state.variable_scope import get_variable, variable_scope


def _checked_columns(feature_columns: Any) -> list[Any]:
    """A list of different columns."""
    if isinstance(feature_columns, Mapping):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    columns = [feature_columns] if isinstance(feature_columns, FeatureColumn) else list(feature_columns or ())
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    known: dict[str, Any] = {}
    for column in columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                f"Items of feature_columns must be a _FeatureColumn. Given (type {type(column)}): {column}."
            )
        if column.name in known:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and {known[column.name]}. This usually "
                "means that these columns refer to same base feature. Either one must be discarded or a duplicated "
                "but renamed item must be inserted in features dict."
            )
        known[column.name] = column
    return columns


def _by_name(columns: list[Any]) -> Iterator[Any]:
    return iter(sorted(columns, key=lambda column: column.name))


def _weight_maker(weight_collections: Any, trainable: bool) -> WeightMaker:
    collections = list(weight_collections or [])
    for collection in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES):
        if collection not in collections:
            collections.append(collection)
    return WeightMaker(collections, trainable)


class _RecordedVariables:
    """Records the variables that a column creates or finds."""

    def __init__(self, into: dict[Any, Any] | None, column: Any) -> None:
        self._into = into
        self._column = column
        self._found: list[Any] = []

    def __enter__(self) -> _RecordedVariables:
        return self

    def record(self, getter: Any, *args: Any, **kwargs: Any) -> Any:
        """A custom getter that records the variables."""
        variable = getter(*args, **kwargs)
        pieces = list(variable) if isinstance(variable, PartitionedVariable) else [variable]
        self._found.extend(piece for piece in pieces if all(piece is not known for known in self._found))
        return variable

    def __exit__(self, *unused: object) -> None:
        if self._into is not None:
            self._into[self._column] = self._found


def _rows(tensor: Tensor, width: int) -> Tensor:
    """One row of `width` numbers per example."""
    batch = tensor.shape.dims_tuple[0] if tensor.shape.dims_tuple else None
    if batch is not None:
        return reshape(tensor, [batch, width])
    rows = apply_one("StridedSlice", apply_one("Shape", tensor), [0], [1], [1])
    flat = reshape(tensor, apply_one("ConcatV2", [rows, [width]], 0))
    flat.set_shape([None, width])
    return flat


@export("feature_column.input_layer")
def input_layer(
    features: Any,
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Tensor:
    """The dense columns of a batch of features beside each other, ordered by name: a matrix `[batch, numbers]`.

    Args:
        features: From keys to tensors, as `parse_example` returns them.
        feature_columns: Dense columns.
        weight_collections: Collections for the variables of embeddings.
        trainable: Whether these can be trained.
        cols_to_vars: Filled with the variables of each column.
        cols_to_output_tensors: Filled with the tensor of each column.

    Raises:
        ValueError: If a column is not dense, or a feature is missing.

    Example:
        >>> columns = [tf.feature_column.numeric_column("age"),
        ...            tf.feature_column.indicator_column(
        ...                tf.feature_column.categorical_column_with_vocabulary_list("colour", ["red", "blue"]))]
        >>> inputs = tf.feature_column.input_layer({"age": [[29.0]], "colour": [["blue"]]}, columns)
        >>> with tf.Session() as sess:
        ...     sess.run(tf.tables_initializer())
        ...     print(sess.run(inputs))
        [[29.  0.  1.]]
    """
    columns = _checked_columns(feature_columns)
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical column with an "
                f"embedding_column or indicator_column. Given: {column}"
            )
    weights = _weight_maker(weight_collections, trainable)
    outputs = []
    with variable_scope(None, default_name="input_layer"):
        cache = TransformationCache(features)
        for column in _by_name(columns):
            with (
                _RecordedVariables(cols_to_vars, column) as seen,
                variable_scope(None, default_name=column.var_scope_name, custom_getter=seen.record),
            ):
                tensor = column.get_dense_tensor(cache, weights)
                outputs.append(_rows(tensor, int(column.variable_shape.num_elements() or 0)))
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = outputs[-1]
        return concat(outputs, 1)


@export("feature_column.linear_model")
def linear_model(
    features: Any,
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Tensor:
    """A weighted sum of all columns and a bias: a matrix `[batch, units]`. Categorical columns need no embedding.

    Args:
        features: From keys to tensors, as `parse_example` returns them.
        feature_columns: Dense and categorical columns.
        units: The number of sums.
        sparse_combiner: How several categories of one column count: 'sum', 'mean' or 'sqrtn'.
        weight_collections: Collections for the weights.
        trainable: Whether these can be trained.
        cols_to_vars: Filled with the weights of each column, and of 'bias'.

    Raises:
        ValueError: If a column is neither dense nor categorical, or a feature is missing.
    """
    columns = _checked_columns(feature_columns)
    for column in columns:
        if not isinstance(column, (DenseColumn, CategoricalColumn)):
            raise ValueError(
                f"Items of feature_columns must be either a _DenseColumn or _CategoricalColumn. Given: {column}"
            )
    weights = _weight_maker(weight_collections, trainable)
    with variable_scope(None, default_name="linear_model"):
        cache = TransformationCache(features)
        sums = []
        for column in _by_name(columns):
            with (
                _RecordedVariables(cols_to_vars, column) as seen,
                variable_scope(
                    None, default_name=getattr(column, "var_scope_name", column.name), custom_getter=seen.record
                ),
            ):
                sums.append(_weighted_sum(column, cache, units, sparse_combiner, weights))
        total = add_n(sums, name="weighted_sum_no_bias")
        with _RecordedVariables(cols_to_vars, "bias") as seen:
            bias = seen.record(
                get_variable, "bias_weights", [units], float32, Zeros(), trainable=trainable,
                collections=weights.collections,
            )  # fmt: skip
        return bias_add(total, bias, name="weighted_sum")


def _weighted_sum(column: Any, cache: TransformationCache, units: int, combiner: str, weights: WeightMaker) -> Tensor:
    def weight(rows: int) -> Any:
        return get_variable(
            "weights", (rows, units), float32, Zeros(), trainable=weights.trainable, collections=weights.collections
        )

    if not isinstance(column, CategoricalColumn):
        width = int(column.variable_shape.num_elements() or 0)
        matrix = weight(width)
        return matmul(_rows(column.get_dense_tensor(cache, weights), width), matrix, name="weighted_sum")
    ids, id_weights = column.get_sparse_tensors(cache)
    batch = apply_one("StridedSlice", ids.dense_shape, [0], [1], [1])
    flat = apply_one("ConcatV2", [batch, cast([-1], int64)], 0)
    total = safe_embedding_lookup_sparse(
        weight(column.num_buckets), sparse_reshape(ids, flat),
        None if id_weights is None else sparse_reshape(id_weights, flat), combiner=combiner, name="weighted_sum",
    )  # fmt: skip
    total.set_shape([None, units])
    return total


@export("feature_column.sequence_input_layer", "contrib.feature_column.sequence_input_layer")
def sequence_input_layer(
    features: Any, feature_columns: Any, weight_collections: Any = None, trainable: bool = True
) -> tuple[Tensor, Tensor]:
    """Like `input_layer`, for columns of sequences: `[batch, steps, numbers]`, and the steps of each example.

    Raises:
        ValueError: If a column is not one of sequences.
    """
    columns = _checked_columns(feature_columns)
    for column in columns:
        if not isinstance(column, SequenceDenseColumn):
            raise ValueError(f"All feature_columns must be of type _SequenceDenseColumn. Given: {column}")
    weights = _weight_maker(weight_collections, trainable)
    outputs, lengths = [], []
    with variable_scope(None, default_name="sequence_input_layer"):
        cache = TransformationCache(features)
        for column in _by_name(columns):
            with variable_scope(None, default_name=getattr(column, "var_scope_name", column.name)):
                tensor, length = column.get_sequence_dense_tensor(cache, weights)
                width = int(column.variable_shape.num_elements() or 0)
                outer = apply_one("StridedSlice", apply_one("Shape", tensor), [0], [2], [1])
                outputs.append(reshape(tensor, apply_one("ConcatV2", [outer, [width]], 0)))
                outputs[-1].set_shape([None, None, width])
                lengths.append(length)
        return concat(outputs, -1), lengths[0]


@export("feature_column.make_parse_example_spec")
def make_parse_example_spec(feature_columns: Any) -> dict[str, Any]:
    """The `features` argument of `parse_example` that gives all features of the columns.

    Raises:
        ValueError: If two columns have different specs for one feature.
    """
    result: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(f"All feature_columns must be _FeatureColumn instances. Given: {column}")
        for key, wanted in column.parse_example_spec.items():
            if result.setdefault(key, wanted) != wanted:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {wanted} and {result[key]}"
                )
    return result
