"""BatchNormalization: brings each channel to zero mean and unit variance (Ioffe and Szegedy, 2015)."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor_shape import TensorShape
from thalweg.layers.branching import choose, known_choice
from thalweg.layers.functional import export_function
from thalweg.layers.input_spec import InputSpec
from thalweg.layers.layer import Layer
from thalweg.layers.moving_average import momentum_if_training, moving_average_update
from thalweg.layers.renormalization import Renormalization
from thalweg.nn.normalization import batch_normalization as nn_batch_normalization
from thalweg.nn.normalization import fused_batch_norm, moments
from thalweg.ops.array.constants import constant
from thalweg.ops.array.filling import ones_like, zeros_like
from thalweg.ops.array.joining import concat
from thalweg.ops.array.shapes_of_tensors import reshape
from thalweg.ops.array.shapes_of_tensors import shape as shape_of
from thalweg.ops.math.reductions import reduce_mean
from thalweg.state.initializers import Ones, Zeros


@export("layers.BatchNormalization", "layers.BatchNorm")
class BatchNormalization(Layer):
    """Normalizes each channel over the batch while training, and by moving averages otherwise.

    A training step has to run the updates of the moving averages, which join GraphKeys.UPDATE_OPS.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = Zeros(),  # noqa: B008
        gamma_initializer: Any = Ones(),  # noqa: B008
        moving_mean_initializer: Any = Zeros(),  # noqa: B008
        moving_variance_initializer: Any = Ones(),  # noqa: B008
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: Any = None,
        renorm_momentum: float = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Describes the layer.

        Args:
            axis: The axis of the channels, or several axes that are normalized together.
            momentum: How much of the moving averages stays in a step.
            epsilon: Added to the variance.
            center: Whether an offset (beta) is learned.
            scale: Whether a factor (gamma) is learned.
            beta_initializer: First value of beta.
            gamma_initializer: First value of gamma.
            moving_mean_initializer: First value of the moving mean.
            moving_variance_initializer: First value of the moving variance.
            beta_regularizer: A function of beta that gives a loss.
            gamma_regularizer: A function of gamma that gives a loss.
            beta_constraint: Applied to beta after an optimizer changed it.
            gamma_constraint: Applied to gamma after an optimizer changed it.
            renorm: Whether batches are corrected towards the moving averages (Ioffe, 2017).
            renorm_clipping: A dict with 'rmin', 'rmax', 'dmax' for that correction.
            renorm_momentum: How much of the averages for that correction stays in a step.
            fused: Whether one op does it all; where possible, if None.
            trainable: Whether optimizers change beta and gamma.
            virtual_batch_size: The size of sub-batches, each of which is normalized by itself; it must divide that of
                the batch ("ghost" batches, Hoffer et al., 2017).
            adjustment: A function of the dynamic shape of the inputs that gives a factor and an offset for the
                normalized values, before gamma and beta; only while training.
            name: The layer's name.
            **kwargs: `dtype`, `_scope`, `_reuse`.

        Raises:
            ValueError: If arguments contradict each other.
        """
        super().__init__(trainable=trainable, name=name, **kwargs)
        composed = {"renorm": renorm, "virtual_batch_size": virtual_batch_size, "adjustment": adjustment}
        if virtual_batch_size is not None and virtual_batch_size <= 0:
            raise ValueError(f"virtual_batch_size must be positive, got {virtual_batch_size}")
        if virtual_batch_size is not None and adjustment is not None:
            raise ValueError("When using virtual_batch_size, adjustment cannot be specified")
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else [int(axis)]
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = beta_initializer
        self.gamma_initializer = gamma_initializer
        self.moving_mean_initializer = moving_mean_initializer
        self.moving_variance_initializer = moving_variance_initializer
        self.beta_regularizer = beta_regularizer
        self.gamma_regularizer = gamma_regularizer
        self.beta_constraint = beta_constraint
        self.gamma_constraint = gamma_constraint
        self.renorm = renorm
        self.virtual_batch_size = virtual_batch_size
        self.adjustment = adjustment
        self.fused = fused if not any(composed.values()) else False
        self._renormalization = Renormalization(renorm_clipping, renorm_momentum) if renorm else None
        self.gamma: Any = None
        self.beta: Any = None

    def build(self, input_shape: Any) -> None:
        """Creates gamma, beta and the moving averages."""
        shape = TensorShape(input_shape)
        if shape.ndims is None:
            raise ValueError(f"Input has undefined rank: {shape}")
        sizes = shape.as_list()
        for axis in self.axis:
            if not -len(sizes) <= axis < len(sizes):
                raise ValueError(f"Invalid axis: {axis}. Inputs have the shape {shape}.")
        self._axes = sorted(axis % len(sizes) for axis in self.axis)
        if len(set(self._axes)) != len(self.axis):
            raise ValueError(f"Duplicate axis: {self.axis}")
        missing = [axis for axis in self._axes if sizes[axis] is None]
        if missing:
            raise ValueError(
                f"Input has undefined `axis` dimension. Received input with shape {shape}, axis {missing}."
            )
        self.input_spec = InputSpec(ndim=len(sizes), axes={axis: sizes[axis] for axis in self._axes})
        self._choose_fused(sizes)
        self._param_shape = [sizes[i] if i in self._axes else 1 for i in range(len(sizes))]
        if self.virtual_batch_size is not None:
            if 0 in self._axes:
                raise ValueError(f"When using virtual_batch_size, axis cannot include 0, the batch. Got {self.axis}")
            # Dimension 1 of the reshaped inputs is that of the sub-batches.
            self._param_shape.insert(1, 1)
            self._axes = [axis + 1 for axis in self._axes]
        elif len(self._axes) == 1:
            self._param_shape = [sizes[self._axes[0]]]
        self._broadcasts = len(self._param_shape) > 1
        self._add_variables()
        self.built = True

    def _choose_fused(self, sizes: list[int | None]) -> None:
        possible = len(sizes) == 4 and self._axes in ([1], [3])
        # Asked for or not, as in TensorFlow 1.15: where the fused op cannot be used, the composed ones are.
        self.fused = possible if self.fused is None else self.fused and possible
        # The op has no version for doubles.
        if self._dtype is not None and self._dtype.name == "float64":
            self.fused = False

    def _add_variables(self) -> None:
        half = self._dtype is not None and self._dtype.name in ("float16", "bfloat16")
        self._param_dtype = as_dtype("float32") if half else self._dtype or as_dtype("float32")
        if self.scale:
            self.gamma = self.add_weight(
                "gamma", self._param_shape, self._param_dtype, self.gamma_initializer, self.gamma_regularizer, True,
                self.gamma_constraint,
            )  # fmt: skip
        if self.center:
            self.beta = self.add_weight(
                "beta", self._param_shape, self._param_dtype, self.beta_initializer, self.beta_regularizer, True,
                self.beta_constraint,
            )  # fmt: skip
        # The moving averages are never cut into parts, whatever the scope asks for.
        scope: Any = self._scope
        partitioner = scope.partitioner
        scope.set_partitioner(None)
        try:
            self.moving_mean = self.add_weight(
                "moving_mean", self._param_shape, self._param_dtype, self.moving_mean_initializer, trainable=False
            )
            self.moving_variance = self.add_weight(
                "moving_variance", self._param_shape, self._param_dtype, self.moving_variance_initializer,
                trainable=False,
            )  # fmt: skip
            if self._renormalization is not None:
                self._renormalization.add_variables(self)
        finally:
            scope.set_partitioner(partitioner)

    def call(self, inputs: Any, training: Any = False) -> Any:
        """Normalizes by the batch if `training`, which may be a tensor; else by the moving averages."""
        if self.fused:
            return self._call_fused(inputs, training)
        if self.virtual_batch_size is None:
            return self._call_composed(inputs, training)
        shape: Any = shape_of(inputs)
        batches = reshape(inputs, concat([[self.virtual_batch_size, -1], shape[1:]], 0))
        batches.set_shape([self.virtual_batch_size, None, *inputs.shape[1:]])
        output = reshape(self._call_composed(batches, training), concat([[-1], shape[1:]], 0))
        output.set_shape(inputs.shape)
        return output

    def _call_fused(self, inputs: Any, training: Any) -> Any:
        gamma = self.gamma if self.scale else constant(1.0, self._param_dtype, self._param_shape)
        beta = self.beta if self.center else constant(0.0, self._param_dtype, self._param_shape)
        layout = "NCHW" if self._axes == [1] else "NHWC"

        def by_batch() -> Any:
            return tuple(fused_batch_norm(inputs, gamma, beta, epsilon=self.epsilon, data_format=layout))

        def by_averages() -> Any:
            averages = {"mean": self.moving_mean, "variance": self.moving_variance, "is_training": False}
            return tuple(fused_batch_norm(inputs, gamma, beta, epsilon=self.epsilon, data_format=layout, **averages))

        output, mean, variance = choose(training, by_batch, by_averages)
        output.set_shape(inputs.shape)
        self._update_averages(mean, variance, training)
        return output

    def _update_averages(self, mean: Any, variance: Any, training: Any) -> None:
        if known_choice(training) is False:
            return
        momentum = momentum_if_training(self.momentum, training)
        self.add_update(moving_average_update(self.moving_mean, mean, momentum), inputs=True)
        if self._renormalization is not None:
            self.add_update(self._renormalization.update_variance(self, variance, momentum), inputs=True)
        else:
            self.add_update(moving_average_update(self.moving_variance, variance, momentum), inputs=True)

    def _call_composed(self, inputs: Any, training: Any) -> Any:
        kept_axes = self._axes if self.virtual_batch_size is None else [1, *self._axes]
        reduced_axes = [i for i in range(inputs.shape.ndims) if i not in kept_axes]
        values = inputs
        if inputs.dtype.base_dtype is not self._param_dtype:
            values = apply_one("Cast", inputs, DstT=self._param_dtype)
        factor, offset = self._broadcastable(self.gamma, inputs), self._broadcastable(self.beta, inputs)
        if known_choice(training) is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            mean, variance = moments(values, reduced_axes, keep_dims=self._broadcasts)
            batch_mean, batch_variance = mean, variance
            if self.virtual_batch_size is not None:  # The averages move once, by the mean of all sub-batches.
                mean, variance = (reduce_mean(value, 1, keepdims=True) for value in (mean, variance))
            if self.adjustment is not None:
                factor, offset = self._adjusted(factor, offset, inputs, training)
            if self._renormalization is not None:
                factor, offset = self._renormalized(mean, variance, factor, offset, inputs, training)
            self._update_averages(mean, variance, training)
            mean = choose(training, lambda: batch_mean, lambda: self.moving_mean.value())
            variance = choose(training, lambda: batch_variance, lambda: self.moving_variance.value())
        output = nn_batch_normalization(
            values,
            self._broadcastable(mean, inputs),
            self._broadcastable(variance, inputs),
            offset,
            factor,
            self.epsilon,
        )
        if output.dtype is not inputs.dtype.base_dtype:
            output = apply_one("Cast", output, DstT=inputs.dtype.base_dtype)
        output.set_shape(inputs.shape)
        return output

    def _renormalized(
        self, mean: Any, variance: Any, factor: Any, offset: Any, inputs: Any, training: Any
    ) -> tuple[Any, Any]:
        assert self._renormalization is not None
        r, d = self._renormalization.correct(self, mean, variance, training)
        r, d = self._broadcastable(r, inputs), self._broadcastable(d, inputs)
        return _compose_affine(r, d, factor, offset)

    def _adjusted(self, factor: Any, offset: Any, inputs: Any, training: Any) -> tuple[Any, Any]:
        assert self.adjustment is not None
        r, d = self.adjustment(shape_of(inputs))
        return _compose_affine(
            choose(training, lambda: r, lambda: ones_like(r)), choose(training, lambda: d, lambda: zeros_like(d)),
            factor, offset,
        )  # fmt: skip

    def _broadcastable(self, value: Any, inputs: Any) -> Any:
        """A value per channel in a shape that broadcasts to the inputs."""
        rank = inputs.shape.ndims
        if value is None or self._broadcasts or self._axes == [rank - 1]:
            return value
        return reshape(value, [self._param_shape[0] if i in self._axes else 1 for i in range(rank)])

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the input."""
        return input_shape


def _compose_affine(r: Any, d: Any, factor: Any, offset: Any) -> tuple[Any, Any]:
    """The factor and the offset of `factor * (r * x + d) + offset`."""
    shift = d if factor is None else d * factor
    return r if factor is None else r * factor, shift if offset is None else shift + offset


batch_normalization = export_function(
    "batch_normalization", BatchNormalization, call_arguments={"training": False}, before="trainable"
)
