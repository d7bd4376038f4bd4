"""tf.keras.layers: those of `tf.layers` with Keras's arguments, and simple functions as layers."""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.keras import activation_functions
from thalweg.keras.backend_state import floatx, image_data_format, learning_phase
from thalweg.keras.initializer_classes import initializer_of
from thalweg.keras.layer_base import Layer
from thalweg.keras.public_names import tf
from thalweg.keras.regularizers_and_constraints import constraints, regularizer_of


class _Conv1D(Layer, tf.layers.Conv1D):
    """A convolution of sequences; with the padding 'causal' a step sees none that comes later."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", *args: Any,
                 **kwargs: Any) -> None:  # fmt: skip
        """Takes the arguments of `tf.layers.Conv1D`, with names for functions."""
        causal = padding.lower() == "causal"
        if kwargs.get("data_format", "") is None:
            kwargs["data_format"] = "channels_last"
        super().__init__(filters, kernel_size, strides, "valid" if causal else padding, *args, **kwargs)
        self._causal = causal

    def call(self, inputs: Any) -> Any:
        """Convolves."""
        if self._causal:
            before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
            inputs = tf.pad(inputs, [[0, 0], [before, 0], [0, 0]])
        return super().call(inputs)


_Conv1D.__name__ = _Conv1D.__qualname__ = "Conv1D"


def _export_image_layers() -> None:
    """Layers that differ from those of `tf.layers` only in their base, and in the default of `data_format`."""

    def make(name: str, base: type, has_strides: bool) -> type:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            if kwargs.get("data_format", "") is None or (len(args) < 4 and "data_format" not in kwargs):
                kwargs["data_format"] = image_data_format() if not name.endswith("1D") else "channels_last"
            if not has_strides:
                size = args[0] if args else kwargs.pop("pool_size", 2 if name.endswith("1D") else (2,) * int(name[-2]))
                strides = args[1] if len(args) > 1 else kwargs.pop("strides", None)
                args = (size, size if strides is None else strides, *args[2:])
            Layer.__init__(self, *args, **kwargs)

        members = {"__init__": __init__, "__doc__": base.__doc__, "__module__": __name__}
        return type(name, (Layer, base), members)

    for name, others in (
        ("Conv1D", ("Convolution1D",)), ("Conv2D", ("Convolution2D",)), ("Conv3D", ("Convolution3D",)),
        ("SeparableConv1D", ("SeparableConvolution1D",)), ("SeparableConv2D", ("SeparableConvolution2D",)),
        ("Conv2DTranspose", ("Convolution2DTranspose",)), ("Conv3DTranspose", ("Convolution3DTranspose",)),
        ("MaxPooling1D", ("MaxPool1D",)), ("MaxPooling2D", ("MaxPool2D",)), ("MaxPooling3D", ("MaxPool3D",)),
        ("AveragePooling1D", ("AvgPool1D",)), ("AveragePooling2D", ("AvgPool2D",)),
        ("AveragePooling3D", ("AvgPool3D",)),
    ):  # fmt: skip
        made = _Conv1D if name == "Conv1D" else make(name, getattr(tf.layers, name), "Pool" not in name)
        export(*(f"keras.layers.{each}" for each in (name, *others)))(made)


_export_image_layers()


@export("keras.layers.Dense")
class Dense(Layer, tf.layers.Dense):
    """activation(inputs @ kernel + bias)."""

    def __init__(self, units: Any, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of `tf.layers.Dense`, with names for functions."""
        super().__init__(units, *args, **kwargs)
        self.supports_masking = True


@export("keras.layers.Flatten")
class Flatten(Layer, tf.layers.Flatten):
    """All axes but the first as one."""


@export("keras.layers.Dropout")
class Dropout(Layer, tf.layers.Dropout):
    """Sets elements to zero while training."""

    def __init__(self, rate: Any, *args: Any, **kwargs: Any) -> None:
        """Takes the share of zeros, `noise_shape` and `seed`."""
        super().__init__(rate, *args, **kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Drops elements if `training`, by default the learning phase."""
        return tf.layers.Dropout.call(self, inputs, training=phase(training))


@export("keras.layers.SpatialDropout1D")
class SpatialDropout1D(Dropout):
    """Sets whole channels of sequences to zero while training."""

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Drops channels if `training`."""
        sizes = tf.shape(inputs)
        self.noise_shape = tf.stack([sizes[0], 1, sizes[2]])
        return super().call(inputs, training)


@export("keras.layers.SpatialDropout2D")
class SpatialDropout2D(Dropout):
    """Sets whole channels of images to zero while training."""

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Drops channels if `training`."""
        sizes = tf.shape(inputs)
        self.noise_shape = tf.stack([sizes[0], 1, 1, sizes[3]])
        return super().call(inputs, training)


@export("keras.layers.GaussianNoise")
class GaussianNoise(Layer):
    """Adds normal noise while training."""

    def __init__(self, stddev: float, **kwargs: Any) -> None:
        """Takes the deviation of the noise."""
        super().__init__(**kwargs)
        self.stddev, self.supports_masking = stddev, True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Adds noise if `training`."""
        noise = tf.random_normal(tf.shape(inputs), stddev=self.stddev, dtype=inputs.dtype)
        return choose(training, lambda: inputs + noise, lambda: tf.identity(inputs))


@export("keras.layers.GaussianDropout")
class GaussianDropout(Layer):
    """Multiplies with normal noise of mean one while training."""

    def __init__(self, rate: float, **kwargs: Any) -> None:
        """Takes the rate of a dropout of the same variance."""
        super().__init__(**kwargs)
        self.rate, self.supports_masking = rate, True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Multiplies if `training`."""
        deviation = (self.rate / (1.0 - self.rate)) ** 0.5
        noise = tf.random_normal(tf.shape(inputs), mean=1.0, stddev=deviation, dtype=inputs.dtype)
        return choose(training, lambda: inputs * noise, lambda: tf.identity(inputs))


@export("keras.layers.BatchNormalization")
class BatchNormalization(Layer, tf.layers.BatchNormalization):
    """Normalizes by the statistics of a batch while training, and by moving averages otherwise."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of `tf.layers.BatchNormalization`."""
        super().__init__(*args, **kwargs)
        self.supports_masking = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Normalizes."""
        return tf.layers.BatchNormalization.call(self, inputs, training=phase(training))


@export("keras.layers.LayerNormalization")
class LayerNormalization(Layer):
    """Normalizes every example over the given axes."""

    def __init__(
        self, axis: Any = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", **kwargs: Any,
    ) -> None:  # fmt: skip
        """Takes the axes, and whether there are an offset and a factor for each element."""
        super().__init__(**kwargs)
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else [axis]
        self.epsilon, self.center, self.scale, self.supports_masking = epsilon, center, scale, True
        self.beta_initializer = initializer_of(beta_initializer)
        self.gamma_initializer = initializer_of(gamma_initializer)

    def build(self, input_shape: Any) -> None:
        """Creates beta and gamma."""
        rank = input_shape.ndims
        self._axes = [each % rank for each in self.axis]
        shape = [input_shape[each] for each in self._axes]
        self._broad = [int(input_shape[each]) if each in self._axes else 1 for each in range(rank)]
        self.gamma = self.add_weight("gamma", shape, initializer=self.gamma_initializer) if self.scale else None
        self.beta = self.add_weight("beta", shape, initializer=self.beta_initializer) if self.center else None
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """Normalizes."""
        mean, variance = tf.nn.moments(inputs, self._axes, keep_dims=True)
        gamma, beta = (None if each is None else tf.reshape(each, self._broad) for each in (self.gamma, self.beta))
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, self.epsilon)


@export("keras.layers.Activation")
class Activation(Layer):
    """An activation as a layer."""

    def __init__(self, activation: Any, **kwargs: Any) -> None:
        """Takes a function or its name."""
        super().__init__(**kwargs)
        self.activation, self.supports_masking = activation_functions.get(activation), True

    def call(self, inputs: Any) -> Any:
        """Applies it."""
        return self.activation(inputs)


@export("keras.layers.Lambda")
class Lambda(Layer):
    """Any function as a layer."""

    def __init__(self, function: Any, output_shape: Any = None, mask: Any = None, arguments: Any = None,
                 **kwargs: Any) -> None:  # fmt: skip
        """Takes the function of a tensor, and further arguments for it."""
        super().__init__(**kwargs)
        self.function, self.arguments, self._mask = function, dict(arguments or {}), mask

    def call(self, inputs: Any) -> Any:
        """Applies it."""
        return self.function(inputs, **self.arguments)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask that was given."""
        return self._mask(inputs, mask) if callable(self._mask) else self._mask


@export("keras.layers.Reshape")
class Reshape(Layer):
    """Another shape for each example; one size may be -1."""

    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        """Takes the shape without the batch."""
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)

    def call(self, inputs: Any) -> Any:
        """Reshapes."""
        sizes = list(self.target_shape)
        known = inputs.shape[1:].num_elements() if inputs.shape.ndims is not None else None
        if -1 in sizes and known is not None:
            rest = 1
            for size in sizes:
                rest *= 1 if size == -1 else size
            sizes[sizes.index(-1)] = known // rest if rest else 0
        result = tf.reshape(inputs, [tf.shape(inputs)[0], *sizes])
        result.set_shape([inputs.shape[0], *(None if size == -1 else size for size in sizes)])
        return result


@export("keras.layers.Permute")
class Permute(Layer):
    """The axes of each example in another order, counted from 1."""

    def __init__(self, dims: Any, **kwargs: Any) -> None:
        """Takes the order."""
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(f"Invalid permutation `dims` for Permute Layer: {dims}. They are counted from 1.")

    def call(self, inputs: Any) -> Any:
        """Transposes."""
        return tf.transpose(inputs, (0, *self.dims))


@export("keras.layers.RepeatVector")
class RepeatVector(Layer):
    """Each row n times, as a sequence."""

    def __init__(self, n: int, **kwargs: Any) -> None:
        """Takes the length of the sequence."""
        super().__init__(**kwargs)
        self.n = n

    def call(self, inputs: Any) -> Any:
        """Repeats."""
        return tf.tile(tf.expand_dims(inputs, 1), [1, self.n, 1])


@export("keras.layers.ActivityRegularization")
class ActivityRegularization(Layer):
    """Adds a penalty of its input to the losses."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any) -> None:
        """Takes both factors."""
        super().__init__(activity_regularizer=regularizer_of({"class_name": "L1L2", "config": {"l1": l1, "l2": l2}}),
                         **kwargs)  # fmt: skip
        self.l1, self.l2, self.supports_masking = l1, l2, True


@export("keras.layers.Masking")
class Masking(Layer):
    """Masks steps all of whose elements have a value."""

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        """Takes the value."""
        super().__init__(**kwargs)
        self.mask_value, self.supports_masking = mask_value, True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Which steps count."""
        return tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1)

    def call(self, inputs: Any) -> Any:
        """Zeros in masked steps."""
        counts = tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        return inputs * tf.cast(counts, inputs.dtype)


@export("keras.layers.Embedding")
class Embedding(Layer):
    """Rows of a table by number."""

    def __init__(
        self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None, activity_regularizer: Any = None, embeddings_constraint: Any = None,
        mask_zero: bool = False, input_length: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Takes the number of rows, their length, and whether the number 0 masks a step."""
        if "input_shape" not in kwargs and "batch_input_shape" not in kwargs:
            lengths = tuple(input_length) if isinstance(input_length, (list, tuple)) else (input_length,)
            kwargs["input_shape"] = lengths
        super().__init__(activity_regularizer=regularizer_of(activity_regularizer), dtype=kwargs.pop("dtype", floatx()),
                         **kwargs)  # fmt: skip
        self.input_dim, self.output_dim, self.mask_zero, self.input_length = (
            input_dim,
            output_dim,
            mask_zero,
            input_length,
        )
        self.embeddings_initializer = initializer_of(embeddings_initializer)
        self.embeddings_regularizer = regularizer_of(embeddings_regularizer)
        self.embeddings_constraint = constraints.get(embeddings_constraint)

    def build(self, input_shape: Any) -> None:
        """Creates the table."""
        self.embeddings = self.add_weight(
            "embeddings", (self.input_dim, self.output_dim), initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer, constraint=self.embeddings_constraint,
        )  # fmt: skip
        super().build(input_shape)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Which steps are not 0, if that masks."""
        return tf.not_equal(inputs, 0) if self.mask_zero else None

    def call(self, inputs: Any) -> Any:
        """Looks the rows up."""
        numbers = inputs if inputs.dtype in (tf.int32, tf.int64) else tf.cast(inputs, tf.int32)
        return tf.nn.embedding_lookup(self.embeddings, numbers)


def phase(training: Any) -> Any:
    """What a layer's argument `training` means: the learning phase if None."""
    value = learning_phase() if training is None else training
    return bool(value) if isinstance(value, int) else value


def choose(training: Any, yes: Any, no: Any) -> Any:
    """One of two results by `training`, at run time if it is a tensor."""
    value = phase(training)
    return (yes if value else no)() if isinstance(value, bool) else tf.cond(tf.cast(value, tf.bool), yes, no)
