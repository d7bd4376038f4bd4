"""Checks of tensors, and small names of tf.contrib.framework."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.graph.tensor_spec import TensorSpec
from thalweg.platform.deprecation import deprecated

export_value(tf.debugging.assert_scalar, "contrib.framework.assert_scalar")
export_value(tf.debugging.is_numeric_tensor, "contrib.framework.is_numeric_tensor")
export_value(deprecated, "contrib.framework.deprecated")
export_value(TensorSpec, "contrib.framework.TensorSpec")
export_value(tf.CriticalSection, "contrib.framework.CriticalSection") if hasattr(tf, "CriticalSection") else None


@export("contrib.framework.assert_same_float_dtype")
def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """Checks that tensors have one floating-point type, which is returned; float32 if nothing says otherwise.

    Raises:
        ValueError: If they differ, or are no floats.
    """
    expected = None if not dtype else tf.as_dtype(dtype).base_dtype
    for tensor in tensors or ():
        found = tensor.dtype.base_dtype
        if expected is not None and found != expected:
            raise ValueError(f"Tensor {tensor} must be of type {expected.name}, but is of type {found.name}.")
        expected = found
    expected = expected or tf.float32
    if not expected.is_floating:
        raise ValueError(f"Expected floating point type, got {expected.name}.")
    return expected


@export("contrib.framework.assert_or_get_global_step")
def assert_or_get_global_step(graph: Any = None, global_step_tensor: Any = None) -> Any:
    """The given step if it is an integer scalar, or that of the graph, if there is one.

    Raises:
        TypeError: If the given tensor is none.
    """
    if global_step_tensor is None:
        return tf.train.get_global_step(graph)
    tf.train.assert_global_step(global_step_tensor)
    return global_step_tensor


@export("contrib.framework.assert_scalar_int")
def assert_scalar_int(tensor: Any, name: str | None = None) -> Any:
    """Checks that a tensor is an integer scalar.

    Raises:
        ValueError: If not.
    """
    tensor = tf.convert_to_tensor(tensor)
    if not tensor.dtype.base_dtype.is_integer or tensor.shape.ndims not in (0, None):
        raise ValueError(f"Expected an integer scalar for tensor {tensor.name}, got {tensor.dtype} {tensor.shape}")
    return tensor


@export("contrib.framework.reduce_sum_n")
def reduce_sum_n(tensors: Any, name: str | None = None) -> Any:
    """The sum of all elements of all tensors.

    Raises:
        ValueError: If there are none.
    """
    if not tensors:
        raise ValueError("No tensors provided.")
    with tf.name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [tf.reduce_sum(tensor, name=f"{tensor.op.name.replace('/', '_')}_sum") for tensor in tensors]
        return sums[0] if len(sums) == 1 else tf.add_n(sums, name=scope)


@export("contrib.framework.remove_squeezable_dimensions")
def remove_squeezable_dimensions(predictions: Any, labels: Any, name: str | None = None) -> Any:
    """Drops a last axis of size 1 of one of two tensors whose ranks differ by one."""
    with tf.name_scope(name, "remove_squeezable_dimensions", [predictions, labels]):
        predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
        ranks = predictions.shape.ndims, labels.shape.ndims
        if None not in ranks and ranks[0] - ranks[1] == 1 and predictions.shape[-1].is_compatible_with(1):
            predictions = tf.squeeze(predictions, [-1])
        elif None not in ranks and ranks[1] - ranks[0] == 1 and labels.shape[-1].is_compatible_with(1):
            labels = tf.squeeze(labels, [-1])
        return predictions, labels


@export("contrib.framework.with_same_shape")
def with_same_shape(expected_tensor: Any, tensor: Any) -> Any:
    """The tensor, after a check that it has the shape of another one."""
    return with_shape(expected_tensor.shape, tensor)


@export("contrib.framework.with_shape")
def with_shape(expected_shape: Any, tensor: Any) -> Any:
    """The tensor, with a shape that is checked at once where it is known, else by the step.

    Raises:
        ValueError: If it is known to be another one.
    """
    tensor = tf.convert_to_tensor(tensor)
    if isinstance(expected_shape, tf.Tensor):
        with tf.control_dependencies([tf.assert_equal(tf.shape(tensor), tf.cast(expected_shape, tf.int32))]):
            return tf.identity(tensor)
    expected = tf.TensorShape(expected_shape)
    if not tensor.shape.is_compatible_with(expected):
        raise ValueError(f"Wrong shape for {tensor.name}: expected {expected}, got {tensor.shape}.")
    return tf.ensure_shape(tensor, expected)


@export("contrib.framework.get_placeholders")
def get_placeholders(graph: Any) -> list[Any]:
    """The placeholders of a graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


@export("contrib.framework.get_graph_from_inputs")
def get_graph_from_inputs(op_input_list: Any, graph: Any = None) -> Any:
    """The graph of tensors, or the default graph."""
    return graph or next((v.graph for v in op_input_list if hasattr(v, "graph")), tf.get_default_graph())


@export("contrib.framework.smart_cond")
def smart_cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """Calls one of two functions where the choice is known, and builds a `tf.cond` where it is a tensor."""
    known = smart_constant_value(pred)
    if known is None:
        return tf.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if known else false_fn()


@export("contrib.framework.smart_constant_value")
def smart_constant_value(pred: Any) -> bool | None:
    """The value of a predicate if it is known while the graph is built, else None.

    Raises:
        TypeError: If it is neither a bool, 0, 1, nor a tensor.
    """
    if isinstance(pred, (tf.Tensor, tf.Variable)):
        value = tf.get_static_value(pred) if isinstance(pred, tf.Tensor) else None
        return None if value is None else bool(value)
    if pred in (0, 1):
        return bool(pred)
    raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {pred}")


@export("contrib.framework.get_name_scope")
def get_name_scope() -> str:
    """The current name scope of the default graph."""
    return str(tf.get_default_graph().get_name_scope())
