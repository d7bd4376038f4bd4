"""The feature columns of tf.contrib.layers: today's columns under the names and arguments of that time."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

columns: Any = tf.feature_column


@export("contrib.layers.real_valued_column")
def real_valued_column(
    column_name: str, dimension: int = 1, default_value: Any = None, dtype: Any = tf.float32, normalizer: Any = None
) -> Any:
    """A column of `dimension` numbers."""
    return columns.numeric_column(column_name, (dimension,), default_value, dtype, normalizer)


@export("contrib.layers.bucketized_column")
def bucketized_column(source_column: Any, boundaries: Any) -> Any:
    """A column of numbers as the interval that each is in."""
    return columns.bucketized_column(source_column, boundaries)


@export("contrib.layers.sparse_column_with_hash_bucket")
def sparse_column_with_hash_bucket(
    column_name: str, hash_bucket_size: int, combiner: str = "sum", dtype: Any = tf.string, hash_keys: Any = None
) -> Any:
    """A column of values by the bucket that each is hashed to."""
    return columns.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


@export("contrib.layers.sparse_column_with_keys")
def sparse_column_with_keys(
    column_name: str, keys: Any, default_value: int = -1, combiner: str = "sum", dtype: Any = tf.string
) -> Any:
    """A column of values of a list."""
    return columns.categorical_column_with_vocabulary_list(column_name, keys, dtype, default_value)


@export("contrib.layers.sparse_column_with_integerized_feature")
def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: Any = tf.int64
) -> Any:
    """A column of integers below `bucket_size`."""
    return columns.categorical_column_with_identity(column_name, bucket_size)


@export("contrib.layers.sparse_column_with_vocabulary_file")
def sparse_column_with_vocabulary_file(
    column_name: str, vocabulary_file: str, num_oov_buckets: int = 0, vocab_size: int | None = None,
    default_value: int = -1, combiner: str = "sum", dtype: Any = tf.string,
) -> Any:  # fmt: skip
    """A column of values of the lines of a file."""
    return columns.categorical_column_with_vocabulary_file(
        column_name, vocabulary_file, vocab_size, num_oov_buckets, None if num_oov_buckets else default_value, dtype
    )


@export("contrib.layers.weighted_sparse_column")
def weighted_sparse_column(sparse_id_column: Any, weight_column_name: str, dtype: Any = tf.float32) -> Any:
    """A column of values, each with a weight of another feature."""
    return columns.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


@export("contrib.layers.one_hot_column")
def one_hot_column(sparse_id_column: Any) -> Any:
    """A categorical column as rows of zeros and ones."""
    return columns.indicator_column(sparse_id_column)


@export("contrib.layers.embedding_column")
def embedding_column(
    sparse_id_column: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
    ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None, max_norm: float | None = None,
    trainable: bool = True,
) -> Any:  # fmt: skip
    """A categorical column as the mean (or 'sum', or 'sqrtn') of learned vectors."""
    return columns.embedding_column(
        sparse_id_column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable
    )


@export("contrib.layers.shared_embedding_columns")
def shared_embedding_columns(
    sparse_id_columns: Any, dimension: int, combiner: str = "mean", shared_embedding_name: str | None = None,
    initializer: Any = None, ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None, trainable: bool = True,
) -> Any:  # fmt: skip
    """Several categorical columns with one table of learned vectors."""
    return columns.shared_embedding_columns(
        sparse_id_columns, dimension, combiner, initializer, shared_embedding_name, ckpt_to_load_from,
        tensor_name_in_ckpt, max_norm, trainable,
    )  # fmt: skip


@export("contrib.layers.crossed_column")
def crossed_column(
    columns_: Any, hash_bucket_size: int, combiner: str = "sum", ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None, hash_key: int | None = None,
) -> Any:  # fmt: skip
    """The combinations of several columns, hashed: of values, not of the numbers that columns give them."""
    keys = [_feature_of(each) for each in columns_]
    return columns.crossed_column(keys, hash_bucket_size, hash_key)


def _feature_of(column: Any) -> Any:
    """The name of the feature whose values a column numbers; a column of buckets, or of a cross, itself."""
    return column if isinstance(column, str) or not hasattr(column, "key") else column.key


@export("contrib.layers.create_feature_spec_for_parsing")
def create_feature_spec_for_parsing(feature_columns: Any) -> dict[str, Any]:
    """What `tf.parse_example` needs to parse the features of columns."""
    spec: dict[str, Any] = columns.make_parse_example_spec(list(feature_columns))
    return spec


@export("contrib.layers.input_from_feature_columns")
def input_from_feature_columns(
    columns_to_tensors: dict[Any, Any], feature_columns: Any, weight_collections: Any = None, trainable: bool = True,
    scope: Any = None, cols_to_outs: Any = None,
) -> Any:  # fmt: skip
    """The columns side by side: [batch, size]."""
    values = list(columns_to_tensors.values())
    with tf.variable_scope(
        scope, "input_from_feature_columns", values, custom_getter=_getter_without("input_layer", {})
    ):
        return columns.input_layer(
            columns_to_tensors, list(feature_columns), weight_collections, trainable, cols_to_outs
        )


@export("contrib.layers.weighted_sum_from_feature_columns")
def weighted_sum_from_feature_columns(
    columns_to_tensors: dict[Any, Any], feature_columns: Any, num_outputs: int, weight_collections: Any = None,
    trainable: bool = True, scope: Any = None,
) -> Any:  # fmt: skip
    """A linear model of columns: its output, and its variables by column, and the bias."""
    to_vars: dict[Any, Any] = {}
    numbers = {each.name for each in feature_columns if each.__class__ is type(real_valued_column("x"))}
    with tf.variable_scope(
        scope, "weighted_sum_from_feature_columns", list(columns_to_tensors.values()),
        custom_getter=_getter_without("linear_model", numbers),
    ):  # fmt: skip
        output = columns.linear_model(
            columns_to_tensors, list(feature_columns), num_outputs, "sum", weight_collections, trainable, to_vars
        )
    return output, {key: value for key, value in to_vars.items() if key != "bias"}, to_vars.get("bias")


_OLD_NAMES = {"bias_weights": "bias_weight", "embedding_weights": "weights"}


def _getter_without(layer: str, numbers: Any) -> Any:
    """A custom getter of the names of that time: without the layer's own scope, and `weight` for columns of numbers."""

    def renamed(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        scope, _, rest = name.rpartition(f"{layer}/")
        column, _, short = rest.rpartition("/")
        slash = "/" if column or (short == "weights" and "" in numbers) else ""
        short = "weight" if column in numbers and short == "weights" else _OLD_NAMES.get(short, short)
        return getter(scope + column + slash + short, *args, **kwargs)

    return renamed


@export("contrib.layers.parse_feature_columns_from_examples")
def parse_feature_columns_from_examples(
    serialized: Any, feature_columns: Any, name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Parses serialized Examples into the features of columns."""
    spec = create_feature_spec_for_parsing(feature_columns)
    parsed: dict[str, Any] = tf.parse_example(serialized, spec, name, example_names)
    return parsed
