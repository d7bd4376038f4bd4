"""Names of `tensorflow.python.ops.control_flow_ops` that are not public."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf


def with_dependencies(dependencies: Any, output_tensor: Any, name: str | None = None) -> Any:
    """A tensor that is there only after the dependencies have run."""
    with tf.name_scope(name, "control_dependency", [*dependencies, output_tensor]) as scope:
        with tf.control_dependencies(dependencies):
            return tf.identity(output_tensor, name=scope)


def switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Sends `data` to the first output if `pred` is false, to the second if it is true."""
    return tf.raw_ops.Switch(data=tf.convert_to_tensor(data, dtype), pred=pred, name=name)


def merge(inputs: Any, name: str | None = None) -> Any:
    """The first of several tensors that is there, and its index."""
    return tf.raw_ops.Merge(inputs=[tf.convert_to_tensor(value) for value in inputs], name=name)
