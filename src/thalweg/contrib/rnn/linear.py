"""Linear: a matrix product of several inputs side by side, in the current variable scope."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph import nest
from thalweg.graph.definitions.op_registry import export_value


class Linear:
    """`concat(args) @ kernel + bias`, with variables made when it is created."""

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        """Takes inputs [batch, n] (one or a list), the size of the output, and the first values.

        Raises:
            ValueError: If the inputs are no matrices of known width.
        """
        if args is None or (nest.is_nested(args) and not args):
            raise ValueError("`args` must be specified")
        tensors = list(args) if nest.is_nested(args) else [args]
        self._several = nest.is_nested(args)
        total = 0
        for tensor in tensors:
            if tensor.shape.ndims != 2 or tensor.shape.as_list()[1] is None:
                raise ValueError(f"linear is expecting 2D arguments of known width: {tensor.shape}")
            total += tensor.shape.as_list()[1]
        dtype = tensors[0].dtype
        with tf.variable_scope(tf.get_variable_scope(), auxiliary_name_scope=False):
            self._weights = tf.get_variable("kernel", [total, output_size], dtype, kernel_initializer)
            self._biases = None
            if build_bias:
                initializer = tf.zeros_initializer(dtype) if bias_initializer is None else bias_initializer
                self._biases = tf.get_variable("bias", [output_size], dtype, initializer)

    def __call__(self, args: Any) -> Any:
        """The product."""
        tensors = list(args) if nest.is_nested(args) else [args]
        product = tf.matmul(tensors[0] if len(tensors) == 1 else tf.concat(tensors, 1), self._weights)
        return product if self._biases is None else tf.nn.bias_add(product, self._biases)


def linear(
    args: Any, output_size: int, bias: bool, bias_initializer: Any = None, kernel_initializer: Any = None
) -> Any:
    """Makes a Linear and applies it once."""
    return Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)


export_value(linear, "contrib.rnn._linear")
