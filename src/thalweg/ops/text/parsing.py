"""Functions that turn serialized Examples and SequenceExamples into tensors."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import string
from thalweg.graph.tensor import Tensor
from thalweg.ops.flow.printing import Assert
from thalweg.ops.sparse.rows import sparse_merge
from thalweg.ops.text.parsing_features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    ParseSpec,
    SparseFeature,
    VarLenFeature,
    index_keys,
)

_IN_EXAMPLES = (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)


@export("parse_example", "io.parse_example")
def parse_example(serialized: Any, features: Any, name: str | None = None, example_names: Any = None) -> dict[str, Any]:
    """Parses a batch of Examples.

    Args:
        serialized: Vector of serialized Example protos; or one, whose features then have no batch dimension.
        features: From the keys of features to FixedLenFeature, VarLenFeature, SparseFeature or FixedLenSequenceFeature.
        name: A name for the operation.
        example_names: Names of the examples, for error messages.

    Returns:
        From the same keys to Tensors and SparseTensors.

    Raises:
        ValueError: If a feature is incomplete.

    Example:
        >>> example = tf.train.Example()
        >>> example.features.feature["age"].int64_list.value.append(29)
        >>> parsed = tf.parse_example([example.SerializeToString()], {"age": tf.FixedLenFeature([], tf.int64)})
        >>> with tf.Session() as sess:
        ...     print(sess.run(parsed["age"]))
        [29]
    """
    if not features:
        raise ValueError(f"Argument `features` cannot be None or falsy. Got {features}")
    spec = ParseSpec(features, _IN_EXAMPLES)
    spec.make_rows_variable(features)
    tensors = _parse_raw(serialized, [] if example_names is None else example_names, spec, name)
    return _join_sparse_features(features, tensors)


@export("parse_single_example", "io.parse_single_example")
def parse_single_example(
    serialized: Any, features: Any, name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Parses one Example; like `parse_example`, without a batch dimension.

    Raises:
        ValueError: If `serialized` is not a scalar, or a feature is incomplete.
    """
    if not features:
        raise ValueError("Invalid argument: features cannot be None.")
    with name_scope(name, "ParseSingleExample", [serialized, example_names]):
        serialized = _assert_scalar(convert_to_tensor(serialized, string, name="serialized"))
        return parse_example(serialized, features, name, example_names)


def _assert_scalar(value: Tensor) -> Tensor:
    """`value`, which must be a scalar: known while the graph is built, or checked when it runs."""
    if value.shape.ndims is None:
        message = "Input serialized must be a scalar"
        is_scalar = apply_one("Equal", apply_one("Rank", value), 0)
        with name_scope("SerializedIsScalar"):
            check = Assert(is_scalar, [message], name="Assert")
        with control_dependencies([check]):
            value = apply_one("Identity", value, name="serializedDependencies")
            value.set_shape([])
    elif value.shape.ndims != 0:
        raise ValueError("Input serialized must be a scalar")
    return value


def _parse_raw(serialized: Any, names: Any, spec: ParseSpec, name: str | None) -> dict[str, Any]:
    with name_scope(name, "ParseExample", [serialized, names]):
        defaults = spec.default_tensors()
        serialized = convert_to_tensor(serialized, string, name="serialized")
        outputs = apply(
            "ParseExampleV2", serialized, names, spec.sparse_keys, spec.dense_keys, [], defaults,
            num_sparse=len(spec.sparse_keys), sparse_types=spec.sparse_types, ragged_value_types=[],
            ragged_split_types=[], dense_shapes=spec.dense_shapes, name=name,
        )  # fmt: skip
    tensors: dict[str, Any] = _sparse_tensors(
        spec.sparse_keys, outputs.sparse_indices, outputs.sparse_values, outputs.sparse_shapes
    )
    tensors.update(zip(spec.dense_keys, outputs.dense_values, strict=True))
    return tensors


def _sparse_tensors(keys: list[str], indices: Any, values: Any, dense_shapes: Any) -> dict[str, Any]:
    return {key: SparseTensor(*parts) for key, *parts in zip(keys, indices, values, dense_shapes, strict=True)}


def _join_sparse_features(features: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """Makes each SparseFeature from its index and value features, and drops those that were not asked for."""
    joined: dict[str, Any] = {}
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            sizes = feature.size if isinstance(feature.size, (list, tuple)) else [feature.size]
            if any(size is None for size in sizes):
                raise TypeError(f"vocab_size has to be a Tensor or Python int. Found {type(None)}")
            joined[key] = sparse_merge(
                [tensors[index_key] for index_key in index_keys(feature)], tensors[feature.value_key], sizes,
                already_sorted=feature.already_sorted,
            )  # fmt: skip
    kept = {key: value for key, value in tensors.items() if key in features and key not in joined}
    return {**kept, **joined}


@export("io.parse_sequence_example")
def parse_sequence_example(
    serialized: Any,
    context_features: Any = None,
    sequence_features: Any = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    """Parses a batch of SequenceExamples.

    Args:
        serialized: Vector of serialized SequenceExample protos.
        context_features: From keys to FixedLenFeature or VarLenFeature: the features of a whole example.
        sequence_features: From keys to FixedLenSequenceFeature or VarLenFeature: the features of each step.
        example_names: Names of the examples, for error messages.
        name: A name for the operation.

    Returns:
        Three dicts: the context; the sequences, of shape [batch, steps, ...], filled up with zeros to the longest; and
        how many steps of each dense one are real.
    """
    if not (context_features or sequence_features):
        raise ValueError(
            "Both `context_features` and `sequence_features` argument are None, but at least one should have values."
        )
    with name_scope(name, "ParseSequenceExample", [serialized, example_names]):
        return _parse_sequence(serialized, context_features, sequence_features, example_names, name)


@export("parse_single_sequence_example", "io.parse_single_sequence_example")
def parse_single_sequence_example(
    serialized: Any,
    context_features: Any = None,
    sequence_features: Any = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parses one SequenceExample; like `parse_sequence_example`, without a batch dimension and lengths.

    Raises:
        ValueError: If `serialized` is not a scalar, or a feature is incomplete.
    """
    if not (context_features or sequence_features):
        raise ValueError("Both context_features and sequence_features are None, but at least one should have values.")
    with name_scope(name, "ParseSingleSequenceExample", [serialized, example_name]):
        serialized = _assert_scalar(convert_to_tensor(serialized, string, name="serialized"))
        context, lists, _ = _parse_sequence(serialized, context_features, sequence_features, example_name, name)
        return context, lists


def _parse_sequence(
    serialized: Any, context_features: Any, sequence_features: Any, names: Any, name: str | None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    context = ParseSpec(context_features, (VarLenFeature, FixedLenFeature))
    lists = ParseSpec(sequence_features, (VarLenFeature, FixedLenSequenceFeature))
    for key, default in lists.dense_defaults.items():
        if default is not None:
            raise ValueError(f"Value feature_list.dense_defaults[{key}] must be None")
    with name_scope(name, "ParseSequenceExample", [serialized, names]):
        defaults = context.default_tensors()
        serialized = convert_to_tensor(serialized, string, name="serialized")
        outputs = apply(
            "ParseSequenceExampleV2", serialized, [] if names is None else names, context.sparse_keys,
            context.dense_keys, [], lists.sparse_keys, lists.dense_keys, [],
            [key in lists.missing_allowed for key in lists.dense_keys], defaults,
            Ncontext_sparse=len(context.sparse_keys), Nfeature_list_sparse=len(lists.sparse_keys),
            Nfeature_list_dense=len(lists.dense_keys), Tcontext_dense=context.dense_types,
            context_sparse_types=context.sparse_types, context_dense_shapes=context.dense_shapes,
            feature_list_dense_types=lists.dense_types, feature_list_sparse_types=lists.sparse_types,
            feature_list_dense_shapes=lists.dense_shapes, name=name,
        )  # fmt: skip
    parsed_context = _sparse_tensors(
        context.sparse_keys, outputs.context_sparse_indices, outputs.context_sparse_values,
        outputs.context_sparse_shapes,
    )  # fmt: skip
    parsed_context.update(zip(context.dense_keys, outputs.context_dense_values, strict=True))
    parsed_lists = _sparse_tensors(
        lists.sparse_keys, outputs.feature_list_sparse_indices, outputs.feature_list_sparse_values,
        outputs.feature_list_sparse_shapes,
    )  # fmt: skip
    parsed_lists.update(zip(lists.dense_keys, outputs.feature_list_dense_values, strict=True))
    return parsed_context, parsed_lists, dict(zip(lists.dense_keys, outputs.feature_list_dense_lengths, strict=True))
