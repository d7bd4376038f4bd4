"""tf.keras.metrics: metrics with a state, which gather over batches: means, counts, curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.keras import loss_functions as functions
from thalweg.keras.backend_state import get_session
from thalweg.keras.public_names import tf


def _snake(name: str) -> str:
    letters = [f"_{c.lower()}" if c.isupper() and i and not name[i - 1].isupper() else c.lower()
               for i, c in enumerate(name)]  # fmt: skip
    return "".join(letters)


def _unique(name: str) -> str:
    taken = tf.get_default_graph()._attachments.setdefault("keras_metric_names", {})
    taken[name] = taken.get(name, -1) + 1
    return f"{name}_{taken[name]}" if taken[name] else name


@export("keras.metrics.Metric")
class Metric:
    """The base class: `update_state` takes a batch, `result` is the value so far.

    Example:
        >>> mean = tf.keras.metrics.Mean()
        >>> value = mean([1.0, 2.0, 6.0])
        >>> float(tf.keras.backend.get_session().run(value))
        3.0
    """

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        """Takes a name; that of the class, and a number if it is taken, if None."""
        self.name = name or _unique(_snake(type(self).__name__))
        self.dtype = tf.as_dtype(dtype or tf.float32)
        self._variables: list[Any] = []

    def add_weight(self, name: str, shape: Any = (), initializer: Any = None, dtype: Any = None) -> Any:
        """A variable of the state, zero unless there is an initializer."""
        chosen = tf.keras.initializers.get("zeros" if initializer is None else initializer)
        with tf.control_dependencies(None):
            value = chosen(shape, dtype=dtype or self.dtype)
            variable = tf.Variable(value, trainable=False, name=f"{self.name}/{name}", use_resource=True)
        self._variables.append(variable)
        return variable

    @property
    def variables(self) -> list[Any]:
        """The state."""
        return list(self._variables)

    weights = non_trainable_weights = variables

    def reset_states(self) -> None:
        """Begins anew."""
        if self._variables and tf.executing_eagerly():
            for variable in self._variables:
                variable.assign(tf.zeros_like(variable))
        elif self._variables:
            with self._variables[0].graph.as_default():
                get_session().run([variable.initializer for variable in self._variables])

    def reset_state(self) -> None:
        """TensorFlow 2's name of `reset_states`."""
        self.reset_states()

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """Takes a batch."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def result(self) -> Any:
        """The value so far."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Takes a batch; returns the value after it."""
        with tf.control_dependencies([self.update_state(*args, **kwargs)]):
            return tf.identity(self.result())

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"name": self.name, "dtype": self.dtype.name}


def _weighed(values: Any, weights: Any) -> tuple[Any, Any]:
    """Values times weights, and the weights, broadcast from the first dimensions."""
    if weights is None:
        return values, tf.ones_like(values)
    weights = tf.cast(weights, values.dtype)
    missing = values.shape.ndims - weights.shape.ndims
    if missing > 0:
        weights = tf.reshape(weights, tf.concat([tf.shape(weights), [1] * missing], 0))
    weights *= tf.ones_like(values)
    return values * weights, weights


@export("keras.metrics.Sum")
class Sum(Metric):
    """The sum of all values."""

    def __init__(self, name: str | None = "sum", dtype: Any = None) -> None:
        """Begins at zero."""
        super().__init__(name, dtype)
        self.total = self.add_weight("total")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Adds values, each times its weight."""
        weighed, _ = _weighed(tf.cast(tf.convert_to_tensor(values), self.dtype), sample_weight)
        return self.total.assign_add(tf.reduce_sum(weighed), read_value=False)

    def result(self) -> Any:
        """The sum."""
        return tf.identity(self.total)


@export("keras.metrics.Mean")
class Mean(Sum):
    """The mean of all values, weighed."""

    def __init__(self, name: str | None = "mean", dtype: Any = None) -> None:
        """Begins with no values."""
        super().__init__(name, dtype)
        self.count = self.add_weight("count")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Takes values."""
        values = tf.cast(tf.convert_to_tensor(values), self.dtype)
        weighed, weights = _weighed(values, sample_weight)
        return tf.group(
            tf.assign_add(self.total, tf.reduce_sum(weighed)), tf.assign_add(self.count, tf.reduce_sum(weights))
        )

    def result(self) -> Any:
        """The mean; zero before the first value."""
        return tf.div_no_nan(self.total.read_value(), self.count.read_value())


class _MeanOf(Mean):
    """The mean of a function of labels and predictions."""

    def __init__(self, function: Callable[..., Any], name: str, dtype: Any = None, **arguments: Any) -> None:
        super().__init__(name, dtype)
        self._function, self._arguments = function, arguments

    def update_state(  # type: ignore[override]
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        y_true, y_pred = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
        return super().update_state(self._function(y_true, y_pred, **self._arguments), sample_weight)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._arguments}


@export("keras.metrics.MeanMetricWrapper")
class MeanMetricWrapper(_MeanOf):
    """The mean of a function of labels and predictions."""

    def __init__(self, fn: Any, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        """Takes the function and its further arguments."""
        super().__init__(fn, name or fn.__name__, dtype, **kwargs)


def _equal(y_true: Any, y_pred: Any) -> Any:
    return tf.cast(tf.equal(tf.cast(y_true, y_pred.dtype), y_pred), tf.float32)


def _binary(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    return tf.reduce_mean(_equal(y_true, tf.cast(y_pred > threshold, y_pred.dtype)), -1)


def _mean_class(function: Callable[..., Any], name: str, short: str, defaults: dict[str, Any]) -> None:
    """Exports the class of a metric that is the mean of a function; `defaults` are the arguments that it takes."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        order = [*defaults, "name", "dtype"] if "k" in defaults else ["name", "dtype", *defaults]
        given = {**dict(zip(order, args, strict=False)), **kwargs}
        unknown = set(given) - set(order)
        if unknown:
            raise TypeError(f"{name} does not take {', '.join(sorted(unknown))}.")
        arguments = {key: given.get(key, value) for key, value in defaults.items()}
        _MeanOf.__init__(self, function, given.get("name") or short, given.get("dtype"), **arguments)

    members = {"__init__": __init__, "__doc__": f"The mean of `{short}` over all examples.", "__module__": __name__}
    export_value(type(name, (_MeanOf,), members), f"keras.metrics.{name}")


for _function, _class_name, _short, _own in (
    (_equal, "Accuracy", "accuracy", {}),
    (_binary, "BinaryAccuracy", "binary_accuracy", {"threshold": 0.5}),
    (functions.categorical_accuracy, "CategoricalAccuracy", "categorical_accuracy", {}),
    (functions.sparse_categorical_accuracy, "SparseCategoricalAccuracy", "sparse_categorical_accuracy", {}),
    (functions.top_k_categorical_accuracy, "TopKCategoricalAccuracy", "top_k_categorical_accuracy", {"k": 5}),
    (functions.sparse_top_k_categorical_accuracy, "SparseTopKCategoricalAccuracy",
     "sparse_top_k_categorical_accuracy", {"k": 5}),
    (functions.mean_squared_error, "MeanSquaredError", "mean_squared_error", {}),
    (functions.mean_absolute_error, "MeanAbsoluteError", "mean_absolute_error", {}),
    (functions.mean_absolute_percentage_error, "MeanAbsolutePercentageError", "mean_absolute_percentage_error", {}),
    (functions.mean_squared_logarithmic_error, "MeanSquaredLogarithmicError", "mean_squared_logarithmic_error", {}),
    (functions.hinge, "Hinge", "hinge", {}),
    (functions.squared_hinge, "SquaredHinge", "squared_hinge", {}),
    (functions.categorical_hinge, "CategoricalHinge", "categorical_hinge", {}),
    (functions.logcosh, "LogCoshError", "logcosh", {}),
    (functions.poisson, "Poisson", "poisson", {}),
    (functions.kullback_leibler_divergence, "KLDivergence", "kullback_leibler_divergence", {}),
    (functions.binary_crossentropy, "BinaryCrossentropy", "binary_crossentropy",
     {"from_logits": False, "label_smoothing": 0}),
    (functions.categorical_crossentropy, "CategoricalCrossentropy", "categorical_crossentropy",
     {"from_logits": False, "label_smoothing": 0}),
    (functions.sparse_categorical_crossentropy, "SparseCategoricalCrossentropy", "sparse_categorical_crossentropy",
     {"from_logits": False}),
):  # fmt: skip
    _mean_class(_function, _class_name, _short, _own)


@export("keras.metrics.RootMeanSquaredError")
class RootMeanSquaredError(Mean):
    """The root of the mean of squared errors."""

    def __init__(self, name: str | None = "root_mean_squared_error", dtype: Any = None) -> None:
        """Begins with no values."""
        super().__init__(name, dtype)

    def update_state(  # type: ignore[override]
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Takes labels and predictions."""
        y_pred = tf.cast(y_pred, self.dtype)
        return super().update_state(tf.squared_difference(y_pred, tf.cast(y_true, self.dtype)), sample_weight)

    def result(self) -> Any:
        """The root of the mean."""
        return tf.sqrt(super().result())


@export("keras.metrics.MeanIoU")
class MeanIoU(Metric):
    """The mean over classes of intersection over union."""

    def __init__(self, num_classes: int, name: str | None = None, dtype: Any = None) -> None:
        """Takes the number of classes."""
        super().__init__(name, dtype)
        self.num_classes = num_classes
        self.total_cm = self.add_weight("total_confusion_matrix", (num_classes, num_classes))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Takes class numbers."""
        true, predicted = (tf.reshape(tf.cast(each, tf.int64), [-1]) for each in (y_true, y_pred))
        weights = None if sample_weight is None else tf.reshape(tf.cast(sample_weight, self.dtype), [-1])
        found = tf.confusion_matrix(true, predicted, self.num_classes, dtype=self.dtype, weights=weights)
        return self.total_cm.assign_add(found, read_value=False)

    def result(self) -> Any:
        """The mean over the classes that were seen."""
        matrix = self.total_cm.read_value()
        both = tf.diag_part(matrix)
        union = tf.reduce_sum(matrix, 0) + tf.reduce_sum(matrix, 1) - both
        seen = tf.reduce_sum(tf.cast(tf.not_equal(union, 0), self.dtype))
        return tf.div_no_nan(tf.reduce_sum(tf.div_no_nan(both, union)), seen)


class _Confusion(Metric):
    """Counts of true and false positives and negatives at thresholds."""

    _counted: tuple[str, ...] = ()

    def __init__(self, thresholds: Any, name: str | None, dtype: Any) -> None:
        super().__init__(name, dtype)
        many = isinstance(thresholds, (list, tuple, np.ndarray))
        self.thresholds = [float(each) for each in (thresholds if many else [thresholds])]
        self._single = not many
        self._counts = {key: self.add_weight(key, (len(self.thresholds),)) for key in self._counted}

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Takes labels (0 or 1) and predictions in [0, 1]."""
        predicted = tf.cast(tf.convert_to_tensor(y_pred), self.dtype)
        _, weights = _weighed(tf.ones_like(predicted), sample_weight)
        weights = tf.reshape(weights, [1, -1])
        is_true = tf.reshape(tf.cast(y_true, tf.bool), [1, -1])
        is_positive = tf.reshape(predicted, [1, -1]) > tf.constant(self.thresholds, self.dtype)[:, None]
        found = {
            "true_positives": is_true & is_positive, "false_positives": ~is_true & is_positive,
            "true_negatives": ~is_true & ~is_positive, "false_negatives": is_true & ~is_positive,
        }  # fmt: skip
        return tf.group(
            *(tf.assign_add(count, tf.reduce_sum(tf.cast(found[key], self.dtype) * weights, 1))
              for key, count in self._counts.items())
        )  # fmt: skip

    def _shown(self, value: Any) -> Any:
        return value[0] if self._single else value

    def _values(self) -> list[Any]:
        return [self._counts[key].read_value() for key in self._counted]


def _count_class(name: str, *counted: str) -> None:
    def __init__(self: Any, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        _Confusion.__init__(self, 0.5 if thresholds is None else thresholds, name, dtype)

    def result(self: Any) -> Any:
        first, *other = self._values()
        return self._shown(tf.div_no_nan(first, first + other[0]) if other else first)

    doc = f"From counts at thresholds (0.5 if None): {' and '.join(counted)}."
    members = {"__init__": __init__, "result": result, "_counted": counted, "__doc__": doc, "__module__": __name__}
    export_value(type(name, (_Confusion,), members), f"keras.metrics.{name}")


_count_class("TruePositives", "true_positives")
_count_class("FalsePositives", "false_positives")
_count_class("TrueNegatives", "true_negatives")
_count_class("FalseNegatives", "false_negatives")
_count_class("Precision", "true_positives", "false_positives")
_count_class("Recall", "true_positives", "false_negatives")


@export("keras.metrics.AUC")
class AUC(_Confusion):
    """The area under a curve, 'ROC' or 'PR', from counts at many thresholds."""

    _counted = ("true_positives", "false_positives", "true_negatives", "false_negatives")

    def __init__(
        self, num_thresholds: int = 200, curve: str = "ROC", summation_method: str = "interpolation",
        name: str | None = None, dtype: Any = None, thresholds: Any = None,
    ) -> None:  # fmt: skip
        """Takes the number of thresholds, or those between 0 and 1, and how heights of the curve are joined."""
        if curve not in ("ROC", "PR") or summation_method not in ("interpolation", "minoring", "majoring"):
            raise ValueError(f"Unknown curve {curve!r} or summation_method {summation_method!r}.")
        if thresholds is None:
            if num_thresholds <= 1:
                raise ValueError("`num_thresholds` must be > 1.")
            thresholds = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        super().__init__([-1e-7, *sorted(thresholds), 1.0 + 1e-7], name, dtype)
        self._curve, self._method = curve, summation_method

    def result(self) -> Any:
        """The area."""
        tp, fp, tn, fn = self._values()
        if self._curve == "PR" and self._method == "interpolation":
            return _interpolated_pr(tp, fp, fn)
        recall = tf.div_no_nan(tp, tp + fn)
        if self._curve == "ROC":
            x, y = tf.div_no_nan(fp, fp + tn), recall
        else:
            x, y = recall, tf.div_no_nan(tp, tp + fp)
        heights = {"interpolation": (y[:-1] + y[1:]) / 2.0, "minoring": tf.minimum(y[:-1], y[1:]),
                   "majoring": tf.maximum(y[:-1], y[1:])}[self._method]  # fmt: skip
        return tf.reduce_sum((x[:-1] - x[1:]) * heights)


def _interpolated_pr(tp: Any, fp: Any, fn: Any) -> Any:
    """The area under precision and recall where counts, not ratios, are linear between thresholds (Davis, 2006)."""
    positive = tp + fp
    slope = tf.div_no_nan(tp[:-1] - tp[1:], tf.maximum(positive[:-1] - positive[1:], 0.0))
    rest = tp[1:] - slope * positive[1:]
    both = (positive[:-1] > 0) & (positive[1:] > 0)
    ratio = tf.where(both, tf.div_no_nan(positive[:-1], tf.maximum(positive[1:], 0.0)), tf.ones_like(positive[1:]))
    parts = slope * (tp[:-1] - tp[1:] + rest * tf.log(ratio))
    return tf.reduce_sum(tf.div_no_nan(parts, tf.maximum(tp[1:] + fn[1:], 0.0)))
