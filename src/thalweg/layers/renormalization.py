"""Batch renormalization (Ioffe, 2017): corrects the statistics of a batch towards long-term averages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thalweg.graph.apply import apply_one
from thalweg.layers.branching import choose
from thalweg.layers.moving_average import momentum_if_training, moving_average_update

if TYPE_CHECKING:
    from thalweg.layers.normalization import BatchNormalization

_CLIPPING = ("rmax", "rmin", "dmax")


class Renormalization:
    """The averages and the correction of one BatchNormalization layer."""

    def __init__(self, clipping: dict[str, Any] | None, momentum: float) -> None:
        """Takes the bounds of the correction, and how much of the averages stays in a step."""
        self._clipping = clipping or {}
        self._momentum = momentum
        if not all(key in _CLIPPING for key in self._clipping):
            raise ValueError(f"renorm_clipping {clipping} contains keys not in {_CLIPPING}")

    def add_variables(self, layer: BatchNormalization) -> None:
        """Creates the averages of mean and standard deviation."""

        def first_deviation(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
            return apply_one("Sqrt", layer.moving_variance_initializer(shape, dtype=dtype))

        self.moving_deviation = layer.add_weight(
            "moving_stddev", layer._param_shape, layer._param_dtype, first_deviation, trainable=False
        )
        self._mean = layer.add_weight(
            "renorm_mean", layer._param_shape, layer._param_dtype, layer.moving_mean_initializer, trainable=False
        )
        self._deviation = layer.add_weight(
            "renorm_stddev", layer._param_shape, layer._param_dtype, first_deviation, trainable=False
        )

    def correct(self, layer: BatchNormalization, mean: Any, variance: Any, training: Any) -> Any:
        """Factor and offset that correct a normalized batch."""
        deviation = apply_one("Sqrt", variance + layer.epsilon)
        r = deviation / self._deviation.value()
        d = (mean - self._mean.value()) / self._deviation.value()
        rmin, rmax, dmax = (self._clipping.get(key) for key in ("rmin", "rmax", "dmax"))
        if rmin is not None:
            r = apply_one("Maximum", r, rmin)
        if rmax is not None:
            r = apply_one("Minimum", r, rmax)
        if dmax is not None:
            d = apply_one("Minimum", apply_one("Maximum", d, apply_one("Neg", dmax)), dmax)
        r = apply_one("StopGradient", choose(training, lambda: r, lambda: apply_one("OnesLike", r)))
        d = apply_one("StopGradient", choose(training, lambda: d, lambda: apply_one("ZerosLike", d)))
        momentum = momentum_if_training(self._momentum, training)
        layer.add_update(moving_average_update(self._mean, mean, momentum), inputs=True)
        layer.add_update(moving_average_update(self._deviation, deviation, momentum), inputs=True)
        return r, d

    def update_variance(self, layer: BatchNormalization, variance: Any, momentum: Any) -> Any:
        """Moves the average of the standard deviation, and makes the moving variance of it."""
        deviation = moving_average_update(self.moving_deviation, apply_one("Sqrt", variance + layer.epsilon), momentum)
        # Rounding must not make the variance negative.
        return layer.moving_variance.assign(apply_one("Relu", apply_one("Square", deviation) - layer.epsilon))
