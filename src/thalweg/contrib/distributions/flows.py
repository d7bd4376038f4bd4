"""Bijectors that networks define: MaskedAutoregressiveFlow and RealNVP, and the networks that they usually have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.contrib.distributions.bijector_classes import Bijector
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_SPACE = "contrib.distributions.bijectors"


def _scaled(x: Any, log_scale: Any) -> Any:
    return x if log_scale is None else x * tf.exp(log_scale)


def _log_det(log_scale: Any, like: Any) -> Any:
    return tf.zeros([], like.dtype) if log_scale is None else tf.reduce_sum(log_scale, -1)


@export(f"{_SPACE}.RealNVP")
class RealNVP(Bijector):
    """Moves and stretches the last elements of vectors by functions of the first ones (Dinh et al., 2016)."""

    def __init__(
        self, num_masked: int, shift_and_log_scale_fn: Callable[..., Any], is_constant_jacobian: bool = False,
        validate_args: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes how many elements stay, and a function of these and of the number of the others.

        Raises:
            ValueError: If `num_masked` is not positive.
        """
        if num_masked <= 0:
            raise ValueError("num_masked must be a positive integer.")
        super().__init__([], is_constant_jacobian, validate_args, None, 1, name=name or "real_nvp")
        self._num_masked = num_masked
        self._function = shift_and_log_scale_fn

    def _parts(self, x: Any, kwargs: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
        size = x.shape.as_list()[-1]
        if size is None or self._num_masked >= size:
            raise ValueError(f"Number of masked units {self._num_masked} must be smaller than the event size {size}.")
        fixed, rest = x[..., : self._num_masked], x[..., self._num_masked :]
        shift, log_scale = self._function(fixed, size - self._num_masked, **kwargs)
        return fixed, rest, shift, log_scale

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        fixed, rest, shift, log_scale = self._parts(x, kwargs)
        moved = _scaled(rest, log_scale)
        return tf.concat([fixed, moved if shift is None else moved + shift], -1)

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        fixed, rest, shift, log_scale = self._parts(y, kwargs)
        rest = rest if shift is None else rest - shift
        return tf.concat([fixed, _scaled(rest, None if log_scale is None else -log_scale)], -1)

    def _forward_log_det_jacobian(self, x: Any, **kwargs: Any) -> Any:
        return _log_det(self._parts(x, kwargs)[3], x)

    def _inverse_log_det_jacobian(self, y: Any, **kwargs: Any) -> Any:
        # The fixed elements, and with them the scale, are the same before and after.
        return -_log_det(self._parts(y, kwargs)[3], y)


@export(f"{_SPACE}.MaskedAutoregressiveFlow")
class MaskedAutoregressiveFlow(Bijector):
    """Moves and stretches each element of vectors by functions of those before it (Papamakarios et al., 2016)."""

    def __init__(
        self, shift_and_log_scale_fn: Callable[..., Any], is_constant_jacobian: bool = False,
        validate_args: bool = False, unroll_loop: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        """Takes a function whose results at an element depend only on the elements before it.

        `forward` takes as many steps as vectors have elements; with `unroll_loop` they are nodes of the graph.
        """
        super().__init__([], is_constant_jacobian, validate_args, None, 1, name=name or "masked_autoregressive_flow")
        self._function = shift_and_log_scale_fn
        self._unroll = unroll_loop

    def _step(self, x: Any, y: Any, kwargs: dict[str, Any]) -> Any:
        shift, log_scale = self._function(y, **kwargs)
        moved = _scaled(x, log_scale)
        return moved if shift is None else moved + shift

    def _forward(self, x: Any, **kwargs: Any) -> Any:
        y = self._step(x, tf.zeros_like(x), kwargs)  # Outside of a loop: it makes the variables.
        size = x.shape.as_list()[-1]
        if self._unroll:
            if size is None:
                raise ValueError("The final dimension of `x` must be known at graph construction time.")
            for _ in range(size - 1):
                y = self._step(x, y, kwargs)
            return y
        count = tf.shape(x)[-1] if size is None else size

        def body(i: Any, y: Any) -> Any:
            return i + 1, self._step(x, y, kwargs)

        return tf.while_loop(lambda i, _: i < count, body, [tf.constant(1), y])[1]

    def _inverse(self, y: Any, **kwargs: Any) -> Any:
        shift, log_scale = self._function(y, **kwargs)
        x = y if shift is None else y - shift
        return _scaled(x, None if log_scale is None else -log_scale)

    def _inverse_log_det_jacobian(self, y: Any, **kwargs: Any) -> Any:
        return -_log_det(self._function(y, **kwargs)[1], y)


def _mask(blocks: int, inputs: int, outputs: int, exclusive: bool) -> Any:
    """Ones where an input block may reach an output block: later ones, and the same unless exclusive."""
    mask = np.zeros((inputs, outputs), np.float32)
    rows, columns = inputs // blocks, outputs // blocks
    for block in range(blocks):
        mask[block * rows : (block + 1) * rows, (block + exclusive) * columns :] = 1
    return mask


@export(f"{_SPACE}.masked_dense")
def masked_dense(
    inputs: Any, units: int, num_blocks: int | None = None, exclusive: bool = False, kernel_initializer: Any = None,
    reuse: Any = None, name: str | None = None, *args: Any, **kwargs: Any,
) -> Any:  # fmt: skip
    """A dense layer whose outputs see only the inputs of earlier blocks, and of their own unless `exclusive`.

    Raises:
        NotImplementedError: If the size of the last axis is unknown.
    """
    depth = inputs.shape.as_list()[-1]
    if depth is None:
        raise NotImplementedError("Rightmost dimension must be known prior to graph execution.")
    mask = _mask(num_blocks or depth, depth, units, exclusive)
    first = kernel_initializer or tf.glorot_normal_initializer()

    def masked(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return mask * first(shape, dtype, partition_info)

    with tf.name_scope(name, "masked_dense", [inputs, units, num_blocks]):
        layer = tf.layers.Dense(
            units, kernel_initializer=masked, kernel_constraint=lambda x: mask * x, name=name,
            dtype=inputs.dtype.base_dtype, _scope=name, _reuse=reuse, **kwargs,
        )  # fmt: skip
        return layer.apply(inputs)


def _clipped(log_scale: Any, least: float, most: float, clip_gradient: bool) -> Any:
    clipped = tf.clip_by_value(log_scale, least, most)
    return clipped if clip_gradient else log_scale + tf.stop_gradient(clipped - log_scale)


@export(f"{_SPACE}.masked_autoregressive_default_template")
def masked_autoregressive_default_template(
    hidden_layers: Any, shift_only: bool = False, activation: Any = tf.nn.relu, log_scale_min_clip: float = -5.0,
    log_scale_max_clip: float = 3.0, log_scale_clip_gradient: bool = False, name: str | None = None, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """The function of a MaskedAutoregressiveFlow: masked dense layers, with variables that calls share.

    Args:
        hidden_layers: The widths of the hidden layers.
        shift_only: Whether nothing is stretched.
        activation: Of the hidden layers.
        log_scale_min_clip: The least logarithm of a scale.
        log_scale_max_clip: The largest.
        log_scale_clip_gradient: Whether clipping stops gradients.
        name: The variable scope.
        *args: Not used.
        **kwargs: For the layers.
    """
    name = name or "masked_autoregressive_default_template"

    def function(x: Any) -> Any:
        depth = x.shape.as_list()[-1]
        shape = tf.shape(x)
        x = x[None] if x.shape.ndims == 1 else x
        for i, units in enumerate(hidden_layers):
            x = masked_dense(x, units, depth, exclusive=i == 0, activation=activation, **kwargs)
        x = masked_dense(x, (1 if shift_only else 2) * depth, depth, activation=None, **kwargs)
        if shift_only:
            return tf.reshape(x, shape), None
        shift, log_scale = tf.unstack(tf.reshape(x, tf.concat([shape, [2]], 0)), 2, -1)
        return shift, _clipped(log_scale, log_scale_min_clip, log_scale_max_clip, log_scale_clip_gradient)

    return tf.make_template(name, function)


@export(f"{_SPACE}.real_nvp_default_template")
def real_nvp_default_template(
    hidden_layers: Any, shift_only: bool = False, activation: Any = tf.nn.relu, name: str | None = None, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """The function of a RealNVP: dense layers, with variables that calls share."""

    def function(x: Any, output_units: int) -> Any:
        shape = tf.shape(x)[:-1]
        is_vector = x.shape.ndims == 1
        x = x[None] if is_vector else x
        for units in hidden_layers:
            x = tf.layers.dense(x, units, activation=activation, **kwargs)
        x = tf.layers.dense(x, (1 if shift_only else 2) * output_units, activation=None, **kwargs)
        x = tf.reshape(x, tf.concat([shape, [-1]], 0))
        if shift_only:
            return x, None
        return x[..., :output_units], x[..., output_units:]

    return tf.make_template(name or "real_nvp_default_template", function)
