"""optimize_loss: a training operation from a loss, with clipping, decay, noise and summaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

OPTIMIZER_CLS_NAMES: Final[dict[str, Callable[..., Any]]] = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES: Final = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]
export_value(OPTIMIZER_CLS_NAMES, "contrib.layers.OPTIMIZER_CLS_NAMES")
export_value(OPTIMIZER_SUMMARIES, "contrib.layers.OPTIMIZER_SUMMARIES")


@export("contrib.layers.optimize_loss")
def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Any = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Any = None,
    update_ops: Any = None,
    variables: Any = None,
    name: str | None = None,
    summaries: Any = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Any:
    """An operation that does one training step, and returns the loss.

    Args:
        loss: A scalar.
        global_step: The variable that counts steps, or None.
        learning_rate: A number or a scalar tensor, or None if the optimizer has its own.
        optimizer: A name ('Adam', 'SGD', …), a class, an instance, or a function of the learning rate.
        gradient_noise_scale: The size of noise that is added to the gradients.
        gradient_multipliers: Factors of gradients by variable or name.
        clip_gradients: The largest global norm, or a function of (gradient, variable) pairs.
        learning_rate_decay_fn: A function of learning rate and step.
        update_ops: Operations to run before; those of GraphKeys.UPDATE_OPS if None.
        variables: The variables to change; all trainable ones if None.
        name: The name scope; 'OptimizeLoss' by default.
        summaries: Which summaries to make; 'learning_rate', 'loss', 'global_gradient_norm' if None.
        colocate_gradients_with_ops: Whether gradients are placed where the operations are.
        increment_global_step: Whether the step is counted.

    Returns:
        The loss, after the step.

    Raises:
        ValueError: If an argument is not what it should be.
    """
    loss = tf.convert_to_tensor(loss)
    if loss.shape.ndims not in (0, None):
        raise ValueError(f"loss must be a scalar, got shape {loss.shape}")
    if global_step is None:
        global_step = tf.train.get_global_step()
    with tf.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        updates = set(tf.get_collection(tf.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops)
        if updates:
            with tf.control_dependencies(list(updates)):
                loss = tf.identity(loss)
        wanted = ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else summaries
        for each in wanted:
            if each not in OPTIMIZER_SUMMARIES:
                raise ValueError(f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {each}.")
        rate = _rate(learning_rate, learning_rate_decay_fn, global_step, wanted)
        chosen = _optimizer(optimizer, rate)
        trained = tf.trainable_variables() if variables is None else variables
        pairs = chosen.compute_gradients(loss, trained, colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gradient_noise_scale is not None:
            pairs = _noisy(pairs, gradient_noise_scale)
        if gradient_multipliers is not None:
            if not isinstance(gradient_multipliers, dict) or not gradient_multipliers:
                raise ValueError("Empty gradient multipliers, please provide a non-empty dictionary")
            pairs = _multiplied(pairs, gradient_multipliers)
        if "global_gradient_norm" in wanted or "gradient_norm" in wanted:
            tf.summary.scalar("global_norm/gradient_norm", tf.global_norm([g for g, _ in pairs]))
        if isinstance(clip_gradients, float):
            clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], clip_gradients)
            pairs = list(zip(clipped, [v for _, v in pairs], strict=True))
        elif callable(clip_gradients):
            pairs = clip_gradients(pairs)
        elif clip_gradients is not None:
            raise ValueError(f"Unknown type {type(clip_gradients)} for clip_gradients")
        if "loss" in wanted:
            tf.summary.scalar("loss", loss)
        _summarize(pairs, wanted)
        step = chosen.apply_gradients(pairs, global_step=global_step if increment_global_step else None, name="train")
        with tf.control_dependencies([step]):
            return tf.identity(loss)


def _rate(learning_rate: Any, decay: Any, global_step: Any, wanted: Any) -> Any:
    if learning_rate is None:
        return None
    if isinstance(learning_rate, tf.Tensor) and learning_rate.shape.ndims == 0:
        rate = learning_rate
    elif isinstance(learning_rate, (float, int)):
        if learning_rate < 0.0:
            raise ValueError(f"Invalid learning_rate {learning_rate}.")
        rate = tf.get_variable(
            "learning_rate", [], trainable=False, initializer=tf.constant_initializer(float(learning_rate))
        )
    else:
        raise ValueError(
            f"Learning rate should be 0d Tensor or float. Got {learning_rate} of type {type(learning_rate)}"
        )
    if decay is not None:
        if global_step is None:
            raise ValueError("global_step is required for learning_rate_decay_fn.")
        rate = decay(rate, global_step)
    if "learning_rate" in wanted:
        tf.summary.scalar("learning_rate", rate)
    return rate


def _optimizer(optimizer: Any, rate: Any) -> Any:
    if isinstance(optimizer, str):
        if rate is None:
            raise ValueError(f"Learning rate is None, but should be specified if optimizer is string ({optimizer}).")
        if optimizer not in OPTIMIZER_CLS_NAMES:
            names = ", ".join(OPTIMIZER_CLS_NAMES)
            raise ValueError(f"Optimizer name should be one of [{names}], you provided {optimizer}.")
        return OPTIMIZER_CLS_NAMES[optimizer](learning_rate=rate)
    if isinstance(optimizer, type) and issubclass(optimizer, tf.train.Optimizer):
        if rate is None:
            raise ValueError(f"Learning rate is None, but should be specified if optimizer is class ({optimizer}).")
        make: Callable[..., Any] = optimizer
        return make(learning_rate=rate)
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    if callable(optimizer):
        made = optimizer() if rate is None else optimizer(rate)
        if not isinstance(made, tf.train.Optimizer):
            raise ValueError(f"Unrecognized optimizer: function should return subclass of Optimizer. Got {made}.")
        return made
    raise ValueError(
        f"Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or "
        f"function with one argument. Got {optimizer}."
    )


def _noisy(pairs: Any, scale: float) -> list[Any]:
    noisy = []
    for gradient, variable in pairs:
        if gradient is None:
            noisy.append((None, variable))
            continue
        shape = gradient.dense_shape if isinstance(gradient, tf.IndexedSlices) else tf.shape(gradient)
        noisy.append((gradient + tf.truncated_normal(shape) * scale, variable))
    return noisy


def _multiplied(pairs: Any, multipliers: dict[Any, Any]) -> list[Any]:
    scaled = []
    for gradient, variable in pairs:
        key = variable if variable in multipliers else variable.op.name
        if gradient is not None and key in multipliers:
            factor = tf.cast(multipliers[key], gradient.dtype.base_dtype)
            if isinstance(gradient, tf.IndexedSlices):
                gradient = tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
            else:
                gradient = gradient * factor
        scaled.append((gradient, variable))
    return scaled


def _summarize(pairs: Any, wanted: Any) -> None:
    for gradient, variable in pairs:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        if values is None:
            continue
        name = variable.op.name
        if "gradients" in wanted:
            tf.summary.histogram("gradients/" + name, values)
        if "gradient_norm" in wanted:
            tf.summary.scalar("gradient_norm/" + name, tf.global_norm([values]))


@export("contrib.layers.adaptive_clipping_fn")
def adaptive_clipping_fn(
    std_factor: float = 2.0,
    decay: float = 0.95,
    static_max_norm: float | None = None,
    global_step: Any = None,
    report_summary: bool = False,
    epsilon: float = 1e-8,
    name: str | None = None,
) -> Any:
    """A function of (gradient, variable) pairs that clips outliers to a moving average of the global norm.

    Outliers are norms more than `std_factor` standard deviations of the logarithm above the average, or above
    `static_max_norm`.
    """

    def average(name: str, value: Any) -> Any:
        variable = tf.get_variable(
            name, shape=value.shape, dtype=value.dtype, initializer=tf.zeros_initializer(), trainable=False
        )
        if global_step is None:
            limit: Any = decay
        else:
            count = tf.cast(global_step, tf.float32)
            limit = tf.minimum(decay, count / (count + 1.0))
        return tf.assign(variable, variable * limit + value * (1.0 - limit))

    def clip(pairs: Any) -> Any:
        gradients, variables = zip(*pairs, strict=True)
        norm = tf.global_norm(gradients)
        with tf.variable_scope(name, "AdaptiveMaxNorm", [norm]):
            logs = tf.log(norm + epsilon)
            mean, square = average("mean", logs), average("sq_mean", tf.square(logs))
            bound = tf.exp(mean + tf.sqrt(tf.maximum(epsilon, square - tf.square(mean))) * std_factor)
        if static_max_norm is not None:
            bound = tf.minimum(bound, static_max_norm)
        if report_summary:
            tf.summary.scalar("global_norm/adaptive_max_gradient_norm", bound)
        factor = tf.where(norm < bound, tf.ones_like(norm), tf.exp(mean) / norm)
        return [(None if g is None else g * factor, v) for g, v in zip(gradients, variables, strict=True)]

    return clip
