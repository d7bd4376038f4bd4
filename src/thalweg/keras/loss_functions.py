"""tf.keras.losses and tf.keras.metrics: functions of true and predicted values, and losses as objects."""

from __future__ import annotations

from typing import Any, Final

from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.keras.backend_state import epsilon
from thalweg.keras.named_objects import Registry, export_registry
from thalweg.keras.public_names import tf

losses: Final = Registry("loss function")
metrics: Final = Registry("metric function")


def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of squared differences."""
    return tf.reduce_mean(tf.square(y_pred - _like(y_true, y_pred)), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of absolute differences."""
    return tf.reduce_mean(tf.abs(y_pred - _like(y_true, y_pred)), axis=-1)


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    """The mean difference in percent of the true value."""
    true = _like(y_true, y_pred)
    return 100.0 * tf.reduce_mean(tf.abs((true - y_pred) / tf.maximum(tf.abs(true), epsilon())), axis=-1)


def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Any:
    """The mean of squared differences of log(1 + value)."""
    true = tf.log(tf.maximum(_like(y_true, y_pred), epsilon()) + 1.0)
    return tf.reduce_mean(tf.square(tf.log(tf.maximum(y_pred, epsilon()) + 1.0) - true), axis=-1)


def hinge(y_true: Any, y_pred: Any) -> Any:
    """The mean of max(1 - true * predicted, 0); labels 0 count as -1."""
    return tf.reduce_mean(tf.maximum(1.0 - _signs(y_true, y_pred) * y_pred, 0.0), axis=-1)


def squared_hinge(y_true: Any, y_pred: Any) -> Any:
    """The mean of the squares of `hinge`'s terms."""
    return tf.reduce_mean(tf.square(tf.maximum(1.0 - _signs(y_true, y_pred) * y_pred, 0.0)), axis=-1)


def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    """How far the best wrong class is above the right one, plus one."""
    true = _like(y_true, y_pred)
    return tf.maximum(0.0, tf.reduce_max((1.0 - true) * y_pred, -1) - tf.reduce_sum(true * y_pred, -1) + 1.0)


def logcosh(y_true: Any, y_pred: Any) -> Any:
    """The mean logarithm of the hyperbolic cosine of differences."""
    x = y_pred - _like(y_true, y_pred)
    return tf.reduce_mean(x + tf.nn.softplus(-2.0 * x) - tf.log(2.0), axis=-1)


def huber_loss(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    """Squares of small differences, absolute values of large ones."""
    error = tf.abs(y_pred - _like(y_true, y_pred))
    small = tf.minimum(error, delta)
    return tf.reduce_mean(0.5 * tf.square(small) + delta * (error - small), axis=-1)


def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0) -> Any:
    """The cross entropy of probabilities (or logits) and labels as rows."""
    true = _like(y_true, y_pred)
    if label_smoothing:
        true = true * (1.0 - label_smoothing) + label_smoothing / tf.cast(tf.shape(true)[-1], true.dtype)
    logits = y_pred if from_logits else _logits_of(y_pred, "Softmax")
    if logits is not None:
        return tf.nn.softmax_cross_entropy_with_logits_v2(labels=true, logits=logits)
    shares = y_pred / tf.reduce_sum(y_pred, axis=-1, keepdims=True)
    return -tf.reduce_sum(true * tf.log(tf.clip_by_value(shares, epsilon(), 1.0 - epsilon())), axis=-1)


def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """The cross entropy of probabilities (or logits) and labels as numbers."""
    if axis not in (-1, y_pred.shape.ndims - 1):
        order = [each for each in range(y_pred.shape.ndims) if each != axis % y_pred.shape.ndims]
        y_pred = tf.transpose(y_pred, [*order, axis % y_pred.shape.ndims])
    logits = y_pred if from_logits else _logits_of(y_pred, "Softmax")
    if logits is None:
        logits = tf.log(tf.clip_by_value(y_pred, epsilon(), 1.0 - epsilon()))
    labels = tf.reshape(tf.cast(y_true, tf.int64), tf.shape(logits)[:-1])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def elementwise_binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """The cross entropy of each element."""
    logits = output if from_logits else _logits_of(output, "Sigmoid")
    if logits is not None:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=_like(target, output), logits=logits)
    share = tf.clip_by_value(output, epsilon(), 1.0 - epsilon())
    true = _like(target, output)
    return -(true * tf.log(share + epsilon()) + (1 - true) * tf.log(1 - share + epsilon()))


def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0) -> Any:
    """The mean cross entropy of independent probabilities (or logits)."""
    true = _like(y_true, y_pred)
    if label_smoothing:
        true = true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return tf.reduce_mean(elementwise_binary_crossentropy(true, y_pred, from_logits), axis=-1)


def kullback_leibler_divergence(y_true: Any, y_pred: Any) -> Any:
    """The divergence of predicted from true probabilities."""
    true = tf.clip_by_value(_like(y_true, y_pred), epsilon(), 1.0)
    return tf.reduce_sum(true * tf.log(true / tf.clip_by_value(y_pred, epsilon(), 1.0)), axis=-1)


def poisson(y_true: Any, y_pred: Any) -> Any:
    """The mean of predicted - true * log(predicted)."""
    return tf.reduce_mean(y_pred - _like(y_true, y_pred) * tf.log(y_pred + epsilon()), axis=-1)


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Minus the cosine of the angle between both."""
    true = tf.nn.l2_normalize(_like(y_true, y_pred), axis=axis)
    return -tf.reduce_sum(true * tf.nn.l2_normalize(y_pred, axis=axis), axis=axis)


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    """The share of elements on the right side of the threshold."""
    guess = tf.cast(y_pred > threshold, y_pred.dtype)
    return tf.reduce_mean(tf.cast(tf.equal(_like(y_true, y_pred), guess), tf.float32), axis=-1)


def categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """1 where the largest prediction is that of the label's row."""
    return tf.cast(tf.equal(tf.argmax(y_true, axis=-1), tf.argmax(y_pred, axis=-1)), tf.float32)


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """1 where the largest prediction is that of the label's number."""
    guess = tf.argmax(y_pred, axis=-1)
    labels = tf.reshape(tf.cast(y_true, tf.int64), tf.shape(guess))
    return tf.cast(tf.equal(labels, guess), tf.float32)


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """1 where the label's row is among the k largest predictions."""
    return tf.cast(tf.nn.in_top_k(y_pred, tf.argmax(y_true, axis=-1), k), tf.float32)


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """1 where the label's number is among the k largest predictions."""
    labels = tf.cast(tf.reshape(y_true, [-1]), tf.int32)
    return tf.cast(tf.nn.in_top_k(tf.reshape(y_pred, [-1, y_pred.shape[-1]]), labels, k), tf.float32)


def _like(y_true: Any, y_pred: Any) -> Any:
    return tf.cast(y_true, y_pred.dtype.base_dtype)


def _signs(y_true: Any, y_pred: Any) -> Any:
    true = _like(y_true, y_pred)
    binary = tf.reduce_all(tf.equal(true, 0.0) | tf.equal(true, 1.0))
    return tf.cond(binary, lambda: 2.0 * true - 1.0, lambda: true)


def _logits_of(probabilities: Any, op_type: str) -> Any:
    """What a softmax or sigmoid was computed from: exact where the probabilities are rounded to 0 or 1."""
    operation = getattr(probabilities, "op", None)
    while operation is not None and operation.type == "Identity":
        operation = operation.inputs[0].op
    return operation.inputs[0] if operation is not None and operation.type == op_type else None


_LOSSES: Final[dict[Any, tuple[str, ...]]] = {
    mean_squared_error: ("mse", "MSE"),
    mean_absolute_error: ("mae", "MAE"),
    mean_absolute_percentage_error: ("mape", "MAPE"),
    mean_squared_logarithmic_error: ("msle", "MSLE"),
    hinge: (),
    squared_hinge: (),
    categorical_hinge: (),
    logcosh: (),
    huber_loss: (),
    categorical_crossentropy: (),
    sparse_categorical_crossentropy: (),
    binary_crossentropy: (),
    kullback_leibler_divergence: ("kld", "KLD"),
    poisson: (),
    cosine_similarity: ("cosine_proximity", "cosine"),
}
_METRICS: Final = (
    binary_accuracy, categorical_accuracy, sparse_categorical_accuracy, top_k_categorical_accuracy,
    sparse_top_k_categorical_accuracy,
)  # fmt: skip
for _function, _others in _LOSSES.items():
    for _name in (_function.__name__, *_others):
        losses.add(_name, _function)
        metrics.add(_name, _function)
        export_value(_function, f"keras.losses.{_name}", f"keras.metrics.{_name}")
for _function in _METRICS:
    metrics.add(_function.__name__, _function)
    export_value(_function, f"keras.metrics.{_function.__name__}")


@export("keras.losses.Loss")
class Loss:
    """A loss as an object: a function, its arguments, and how its values become one."""

    def __init__(self, reduction: str = "auto", name: str | None = None) -> None:
        """Takes 'auto' or 'sum_over_batch_size' (the mean), 'sum', or 'none'."""
        if reduction not in ("auto", "none", "sum", "sum_over_batch_size"):
            raise ValueError(f"Invalid Reduction Key {reduction}.")
        self.reduction, self.name = reduction, name

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each example. Overridden by subclasses."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss of a batch."""
        with tf.name_scope(self.name or type(self).__name__):
            each = self.call(tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred))
            if sample_weight is not None:
                each *= tf.cast(sample_weight, each.dtype)
            if self.reduction == "none":
                return each
            return tf.reduce_sum(each) if self.reduction == "sum" else tf.reduce_mean(each)


def _class_of(function: Any, name: str, own: tuple[str, ...]) -> type:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = dict(zip((*own, "reduction", "name"), args, strict=False)) | kwargs
        self._arguments = {key: given.pop(key) for key in own if key in given}
        Loss.__init__(self, **({"name": function.__name__} | given))

    def call(self: Any, y_true: Any, y_pred: Any) -> Any:
        return function(y_true, y_pred, **self._arguments)

    members = {"__init__": __init__, "call": call, "__doc__": function.__doc__, "__module__": __name__}
    made = type(name, (Loss,), members)
    losses.add(name, made)
    export_value(made, f"keras.losses.{name}")
    return made


for _function, _name, _own in (
    (mean_squared_error, "MeanSquaredError", ()),
    (mean_absolute_error, "MeanAbsoluteError", ()),
    (mean_absolute_percentage_error, "MeanAbsolutePercentageError", ()),
    (mean_squared_logarithmic_error, "MeanSquaredLogarithmicError", ()),
    (hinge, "Hinge", ()),
    (squared_hinge, "SquaredHinge", ()),
    (categorical_hinge, "CategoricalHinge", ()),
    (logcosh, "LogCosh", ()),
    (huber_loss, "Huber", ("delta",)),
    (categorical_crossentropy, "CategoricalCrossentropy", ("from_logits", "label_smoothing")),
    (sparse_categorical_crossentropy, "SparseCategoricalCrossentropy", ("from_logits",)),
    (binary_crossentropy, "BinaryCrossentropy", ("from_logits", "label_smoothing")),
    (kullback_leibler_divergence, "KLDivergence", ()),
    (poisson, "Poisson", ()),
    (cosine_similarity, "CosineSimilarity", ("axis",)),
):
    _class_of(_function, _name, _own)
export_registry("keras.losses", losses)
export_registry("keras.metrics", metrics)
