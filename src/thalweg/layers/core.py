"""The layers that most models have: Dense, Dropout, Flatten; each as a class and as a function."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.layers.branching import choose
from thalweg.layers.functional import export_function
from thalweg.layers.image_arguments import is_channels_first
from thalweg.layers.input_spec import InputSpec
from thalweg.layers.layer import Layer
from thalweg.nn.dropout import dropout as nn_dropout
from thalweg.ops.array.shapes_of_tensors import reshape
from thalweg.ops.array.shapes_of_tensors import shape as shape_of
from thalweg.ops.math.einsum import tensordot
from thalweg.ops.nn.bias import bias_add
from thalweg.state.initializers import Zeros


@export("layers.Dense")
class Dense(Layer):
    """`activation(inputs @ kernel + bias)`, along the last axis of the inputs.

    Example:
        >>> tf.layers.Dense(4, activation=tf.nn.relu)(tf.zeros([2, 3])).shape.as_list()
        [2, 4]
    """

    def __init__(
        self,
        units: Any,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = Zeros(),  # noqa: B008
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Describes the layer.

        Args:
            units: The size of the last axis of the output.
            activation: A function of the result; None leaves it as it is.
            use_bias: Whether a bias is added.
            kernel_initializer: First value of the kernel; that of the variable scope if None.
            bias_initializer: First value of the bias.
            kernel_regularizer: A function of the kernel that gives a loss.
            bias_regularizer: A function of the bias that gives a loss.
            activity_regularizer: A function of the output that gives a loss.
            kernel_constraint: Applied to the kernel after an optimizer changed it.
            bias_constraint: Applied to the bias after an optimizer changed it.
            trainable: Whether optimizers change the variables.
            name: The layer's name.
            **kwargs: `dtype`, `_scope`, `_reuse`.
        """
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        self.units = int(units)
        if self.units <= 0:
            raise ValueError(f"Dense needs a positive number of units, got {units}.")
        self.activation = activation
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.kernel: Any = None
        self.bias: Any = None
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        """Creates kernel and bias."""
        shape = TensorShape(input_shape)
        size = shape.as_list()[-1] if shape.ndims else None
        if size is None:
            raise ValueError("The last dimension of the inputs to `Dense` should be defined. Found `None`.")
        if self.dtype is not None and not (as_dtype(self.dtype).is_floating or as_dtype(self.dtype).is_complex):
            raise TypeError(f"Unable to build `Dense` layer with non-floating point dtype {as_dtype(self.dtype)}.")
        self.input_spec = InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = self.add_weight(
            "kernel", [size, self.units], initializer=self.kernel_initializer, regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint, trainable=True,
        )  # fmt: skip
        if self.use_bias:
            self.bias = self.add_weight(
                "bias", [self.units], initializer=self.bias_initializer, regularizer=self.bias_regularizer,
                constraint=self.bias_constraint, trainable=True,
            )  # fmt: skip
        self.built = True

    def call(self, inputs: Any) -> Any:
        """Multiplies, adds the bias, applies the activation."""
        if inputs.shape.ndims > 2:
            outputs: Tensor = tensordot(inputs, self.kernel, [[inputs.shape.ndims - 1], [0]])
            outputs.set_shape([*inputs.shape.as_list()[:-1], self.units])
        else:
            outputs = apply_one("MatMul", inputs, self.kernel)
        if self.use_bias:
            outputs = bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The input's shape with `units` as the last size."""
        shape = TensorShape(input_shape).with_rank_at_least(2)
        return shape[:-1].concatenate(self.units)


dense = export_function("dense", Dense)


@export("layers.Dropout")
class Dropout(Layer):
    """Sets a random part of the inputs to zero while training."""

    def __init__(
        self, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, name: str | None = None, **kwargs: Any
    ) -> None:
        """Describes the layer; see `tf.nn.dropout`."""
        super().__init__(name=name, **kwargs)
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def call(self, inputs: Any, training: Any = False) -> Any:
        """Applies dropout if `training`, which may be a tensor."""

        def dropped() -> Any:
            return nn_dropout(inputs, noise_shape=self.noise_shape, seed=self.seed, rate=self.rate)

        return choose(training, dropped, lambda: apply_one("Identity", inputs))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the input."""
        return input_shape


@export("layers.dropout")
def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Any:
    """Sets elements to zero with probability `rate` if `training` (a bool or a tensor), and scales the rest.

    Example:
        >>> x = tf.ones([2])
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.layers.dropout(x)))
        [1. 1.]
    """
    return Dropout(rate, noise_shape, seed, name)(inputs, training=training)


@export("layers.Flatten")
class Flatten(Layer):
    """Makes one axis of all axes but the first."""

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        """Takes 'channels_last' (the default) or 'channels_first'; channels come last in the output."""
        super().__init__(**kwargs)
        self._channels_first = is_channels_first(data_format)
        self.data_format = data_format or "channels_last"
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:
        """Reshapes."""
        rank = inputs.shape.ndims
        if self._channels_first and rank is not None and rank > 1:
            inputs = apply_one("Transpose", inputs, [0, *range(2, rank), 1], name="transpose")
        batch, rest = _flat_sizes(inputs.shape)
        if rest is not None:
            get_default_graph()._shift_seeds(6)  # TensorFlow computes the shape in the graph.
            return reshape(inputs, [-1 if batch is None or rest > 0 else batch, rest])
        if batch is not None and batch > 0:
            return reshape(inputs, [batch, -1])
        first = apply_one("StridedSlice", shape_of(inputs), [0], [1], [1], shrink_axis_mask=1, name="strided_slice")
        outputs = reshape(inputs, apply_one("Pack", [first, -1], axis=0, name="Reshape/shape"))
        outputs.set_shape([batch, None])
        return outputs

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The first size, and the product of the other sizes."""
        return TensorShape(list(_flat_sizes(TensorShape(input_shape))))


def _flat_sizes(shape: TensorShape) -> tuple[int | None, int | None]:
    if shape.ndims is None:
        return None, None
    sizes = shape.as_list()
    product: int | None = 1
    for size in sizes[1:]:
        product = None if product is None or size is None else product * size
    return sizes[0], product


@export("layers.flatten")
def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Any:
    """Makes one axis of all axes but the first.

    Example:
        >>> tf.layers.flatten(tf.zeros([2, 3, 4])).shape
        TensorShape([Dimension(2), Dimension(12)])
    """
    return Flatten(name=name, data_format=data_format)(inputs)
