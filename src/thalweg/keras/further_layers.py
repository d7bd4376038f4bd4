"""tf.keras.layers: more dropouts, attention, convolutions with a filter for each place, cuDNN's names."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.keras import activation_functions
from thalweg.keras.backend_state import image_data_format
from thalweg.keras.core_layers import Dropout, choose
from thalweg.keras.initializer_classes import initializer_of
from thalweg.keras.layer_base import Layer
from thalweg.keras.public_names import tf
from thalweg.keras.recurrent_layers import RNN, GRUCell, LSTMCell
from thalweg.keras.regularizers_and_constraints import constraints, regularizer_of


@export("keras.layers.SpatialDropout3D")
class SpatialDropout3D(Dropout):
    """Sets whole channels of volumes to zero while training."""

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Drops channels if `training`."""
        sizes = tf.shape(inputs)
        self.noise_shape = tf.stack([sizes[0], 1, 1, 1, sizes[4]])
        return super().call(inputs, training)


@export("keras.layers.AlphaDropout")
class AlphaDropout(Layer):
    """Sets elements to where selu saturates, and keeps mean and variance, while training."""

    _floor = -1.7580993408473766  # -scale * alpha of selu

    def __init__(self, rate: float, noise_shape: Any = None, seed: Any = None, **kwargs: Any) -> None:
        """Takes the share of elements."""
        super().__init__(**kwargs)
        self.rate, self.noise_shape, self.seed, self.supports_masking = rate, noise_shape, seed, True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Drops elements if `training`."""
        if not 0.0 < self.rate < 1.0:
            return inputs

        def dropped() -> Any:
            shape = tf.shape(inputs) if self.noise_shape is None else self.noise_shape
            kept = tf.cast(tf.random_uniform(shape, seed=self.seed) >= self.rate, inputs.dtype)
            a = ((1 - self.rate) * (1 + self.rate * self._floor**2)) ** -0.5
            return a * (inputs * kept + self._floor * (1 - kept)) - a * self._floor * self.rate

        return choose(training, dropped, lambda: tf.identity(inputs))


class _Local(Layer):
    """A convolution whose filter is another one at each place."""

    rank = 2

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
        activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
        activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Takes the arguments of a convolution; the padding is 'valid'.

        Raises:
            ValueError: For another padding.
        """
        kwargs.pop("implementation", None)
        super().__init__(activity_regularizer=regularizer_of(activity_regularizer), **kwargs)
        if padding.lower() != "valid":
            raise ValueError(f"Invalid border mode for {type(self).__name__} (only 'valid' is supported): {padding}")
        self.filters, self.use_bias, self.padding = filters, use_bias, "valid"
        self.kernel_size, self.strides = (
            (each,) * self.rank if isinstance(each, int) else tuple(each) for each in (kernel_size, strides)
        )
        self.data_format = data_format or (image_data_format() if self.rank > 1 else "channels_last")
        self.activation = activation_functions.get(activation)
        self.kernel_initializer, self.bias_initializer = (
            initializer_of(kernel_initializer),
            initializer_of(bias_initializer),
        )
        self.kernel_regularizer, self.bias_regularizer = (
            regularizer_of(kernel_regularizer),
            regularizer_of(bias_regularizer),
        )
        self.kernel_constraint, self.bias_constraint = (
            constraints.get(kernel_constraint),
            constraints.get(bias_constraint),
        )

    def build(self, input_shape: Any) -> None:
        """Creates a filter, and a bias, for each place."""
        dims = tf.TensorShape(input_shape).as_list()
        space, channels = (dims[2:], dims[1]) if self.data_format == "channels_first" else (dims[1:-1], dims[-1])
        if channels is None or None in space:
            raise ValueError(f"The sizes of the inputs of {type(self).__name__} should be known, got shape {dims}")
        self._space = [(n - k) // s + 1 for n, k, s in zip(space, self.kernel_size, self.strides, strict=True)]
        places, window = 1, int(channels)
        for place, size in zip(self._space, self.kernel_size, strict=True):
            places, window = places * place, window * size
        self.kernel = self.add_weight(
            "kernel", (places, window, self.filters), initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer, constraint=self.kernel_constraint,
        )  # fmt: skip
        self.bias = self.add_weight(
            "bias", (*self._space, self.filters), initializer=self.bias_initializer, regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        ) if self.use_bias else None  # fmt: skip
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """Multiplies the elements of each place with its filter."""
        first = self.data_format == "channels_first"
        x = tf.transpose(inputs, [0, *range(2, self.rank + 2), 1]) if first else inputs
        rows = tf.expand_dims(x, 1) if self.rank == 1 else x
        sizes, steps = ([1] * (2 - self.rank) + list(each) for each in (self.kernel_size, self.strides))
        windows = tf.extract_image_patches(rows, [1, *sizes, 1], [1, *steps, 1], [1, 1, 1, 1], "VALID")
        windows = tf.reshape(windows, [-1, *self.kernel.shape.as_list()[:2]])
        result = tf.transpose(tf.matmul(tf.transpose(windows, [1, 0, 2]), self.kernel), [1, 0, 2])
        result = tf.reshape(result, [-1, *self._space, self.filters])
        result = result if self.bias is None else result + self.bias
        result = tf.transpose(result, [0, self.rank + 1, *range(1, self.rank + 1)]) if first else result
        return self.activation(result)


@export("keras.layers.LocallyConnected1D")
class LocallyConnected1D(_Local):
    """A convolution of sequences with another filter at each step."""

    rank = 1


@export("keras.layers.LocallyConnected2D")
class LocallyConnected2D(_Local):
    """A convolution of images with another filter at each place."""


@export("keras.layers.Attention")
class Attention(Layer):
    """Means of values, weighted by the products of queries and keys."""

    def __init__(self, use_scale: bool = False, causal: bool = False, dropout: float = 0.0, **kwargs: Any) -> None:
        """Takes whether scores have a factor, and whether a query sees only what is not behind it."""
        super().__init__(**kwargs)
        self.use_scale, self.causal, self.dropout, self.supports_masking = use_scale, causal, dropout, True

    def build(self, input_shape: Any) -> None:
        """Creates the factor."""
        self.scale = self.add_weight("scale", (), initializer="ones") if self.use_scale else None
        super().build(input_shape)

    def _scores(self, query: Any, key: Any) -> Any:
        scores = tf.matmul(query, key, transpose_b=True)
        return scores if self.scale is None else scores * self.scale

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        """Takes [query, value] or [query, value, key], and returns a mean for each query."""
        query, value = inputs[0], inputs[1]
        scores = self._scores(query, inputs[2] if len(inputs) > 2 else value)
        masks = list(mask) if isinstance(mask, (list, tuple)) else [None, None]
        counts = [] if masks[1] is None else [tf.expand_dims(masks[1], -2)]
        if self.causal:
            counts.append(tf.cast(tf.matrix_band_part(tf.ones_like(scores), -1, 0), tf.bool))
        for each in counts:
            scores -= 1e9 * (1.0 - tf.cast(each, scores.dtype))
        weights = tf.nn.softmax(scores)
        if self.dropout:
            weights = choose(training, lambda: tf.nn.dropout(weights, rate=self.dropout), lambda: tf.identity(weights))
        result = tf.matmul(weights, value)
        return result if masks[0] is None else result * tf.cast(tf.expand_dims(masks[0], -1), result.dtype)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """That of the queries."""
        return mask[0] if mask else None


@export("keras.layers.AdditiveAttention")
class AdditiveAttention(Attention):
    """Means of values, weighted by sums of tanh(query + key)."""

    def __init__(self, use_scale: bool = True, **kwargs: Any) -> None:
        """Takes whether the sums have factors, and what `Attention` takes."""
        super().__init__(use_scale, **kwargs)

    def build(self, input_shape: Any) -> None:
        """Creates the factors."""
        size = tf.TensorShape(input_shape[0]).as_list()[-1]
        self.scale = self.add_weight("scale", (size,), initializer="glorot_uniform") if self.use_scale else None
        Layer.build(self, input_shape)

    def _scores(self, query: Any, key: Any) -> Any:
        each = tf.tanh(tf.expand_dims(query, -2) + tf.expand_dims(key, -3))
        return tf.reduce_sum(each if self.scale is None else each * self.scale, -1)


class _CuDNNGRUCell(GRUCell):
    """The cell of cuDNN's GRU: the reset gate comes after the product, and there are two biases."""

    default_recurrent_activation = "sigmoid"


class _CuDNNLSTMCell(LSTMCell):
    """The cell of cuDNN's LSTM: two biases, which are added."""

    default_recurrent_activation = "sigmoid"

    def _bias_shape(self) -> tuple[int, ...]:
        return (8 * self.units,)

    def _bias_start(self) -> Any:
        if not self.unit_forget_bias:
            return self.bias_initializer

        def start(shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
            parts = [self.bias_initializer((size * self.units,), dtype=dtype) for size in (5, 2)]
            return tf.concat([parts[0], tf.ones((self.units,), dtype), parts[1]], axis=0)

        return start

    def build(self, input_shape: Any) -> None:
        """Creates the variables."""
        super().build(input_shape)
        self._both, self.bias = self.bias, tf.reduce_sum(tf.reshape(self.bias, [2, -1]), 0)


def _export_cudnn() -> None:
    own = (
        "return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major", "name", "trainable",
        "dtype", "input_shape", "batch_input_shape", "input_dim", "input_length", "weights", "batch_size",
    )  # fmt: skip
    for name, cell, fixed in (("CuDNNGRU", _CuDNNGRUCell, {"reset_after": True}), ("CuDNNLSTM", _CuDNNLSTMCell, {})):

        def __init__(self: Any, units: int, cell: Any = cell, fixed: Any = fixed, **kwargs: Any) -> None:
            rest = {key: kwargs.pop(key) for key in own if key in kwargs}
            RNN.__init__(self, cell(units, **kwargs, **fixed), **rest)

        members = {"__init__": __init__, "__doc__": cell.__doc__, "__module__": __name__}
        export(f"keras.layers.{name}")(type(name, (RNN,), members))


_export_cudnn()
