"""Parsing specs of canned models: columns, label and weight together."""

from __future__ import annotations

from typing import Any

from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _with_label(columns: Any, key: str, label: Any, weight_column: Any) -> dict[str, Any]:
    spec = dict(tf.feature_column.make_parse_example_spec(columns))
    if key in spec:
        raise ValueError(f"label should not be used as feature. label_key: {key}, features: {sorted(spec)}")
    spec[key] = label
    if weight_column is not None:
        if isinstance(weight_column, str):
            weight_column = tf.feature_column.numeric_column(weight_column)
        spec.update(weight_column.parse_example_spec)
    return spec


@export("estimator.classifier_parse_example_spec")
def classifier_parse_example_spec(
    feature_columns: Any, label_key: str, label_dtype: Any = None, label_default: Any = None, weight_column: Any = None
) -> dict[str, Any]:
    """The spec for `tf.parse_example` of a classifier's examples: features, label and weight.

    Example:
        >>> spec = tf.estimator.classifier_parse_example_spec([tf.feature_column.numeric_column("a")], "y")
        >>> sorted(spec)
        ['a', 'y']
    """
    dtype = tf.int64 if label_dtype is None else label_dtype
    return _with_label(feature_columns, label_key, tf.FixedLenFeature((1,), dtype, label_default), weight_column)


@export("estimator.regressor_parse_example_spec")
def regressor_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = None,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> dict[str, Any]:
    """The spec for `tf.parse_example` of a regression's examples: features, label and weight."""
    dtype = tf.float32 if label_dtype is None else label_dtype
    label = tf.FixedLenFeature((label_dimension,), dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)
