"""tf.contrib.learn: linear models, networks, and both together, for classes and for numbers."""

from __future__ import annotations

import math
from typing import Any

from thalweg.contrib.learn.estimators import Estimator, one_prediction
from thalweg.contrib.learn.specs import ModelFnOps
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value


class _Head:
    """From logits to predictions, loss and metrics."""

    scope = ""

    def __init__(self, outputs: int, weight_column: Any, has_centered_bias: bool) -> None:
        self.outputs, self._weight_column, self._has_centered_bias = outputs, weight_column, has_centered_bias

    def predictions(self, logits: Any) -> dict[str, Any]:
        raise NotImplementedError

    def losses(self, logits: Any, labels: Any) -> Any:
        """The loss of each example."""
        raise NotImplementedError

    def metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        raise NotImplementedError

    def ops(
        self, features: dict[str, Any], labels: Any, mode: str, logits: Any, train: Any, scope: str
    ) -> ModelFnOps:  # fmt: skip
        """The model of logits; `scope` is that of the head's own variable."""
        if self._has_centered_bias:
            with tf.variable_scope(scope):
                bias = tf.Variable(tf.zeros([self.outputs]), trainable=False, name="centered_bias_weight")
            for i in range(self.outputs):
                tf.summary.scalar(f"centered_bias/bias_{i}", bias[i])
            logits = logits + bias
        found = self.predictions(logits)
        if mode == "infer":
            return ModelFnOps(mode, found)
        weights = None
        if self._weight_column is not None:
            weights = tf.reshape(tf.to_float(features[self._weight_column]), [-1])
        labels = labels if labels.shape.ndims != 1 else tf.expand_dims(labels, 1)
        each = self.losses(logits, labels)
        loss = tf.reduce_mean(each if weights is None else each * weights, name="loss")
        if mode == "train":
            update = train(loss)
            if self._has_centered_bias:
                with tf.variable_scope(scope):
                    update = tf.group(update, self._center(bias, labels, weights))
            return ModelFnOps(mode, found, loss, update)
        return ModelFnOps(mode, found, loss, eval_metric_ops=self.metrics(found, labels, weights))

    def _center(self, bias: Any, labels: Any, weights: Any) -> Any:
        """Moves the bias towards the best one of a model that has nothing else."""
        alone = tf.tile(tf.expand_dims(bias, 0), [tf.shape(labels)[0], 1])
        each = self.losses(alone, labels)
        loss = tf.reduce_mean(each if weights is None else each * weights)
        return tf.train.AdagradOptimizer(0.1).minimize(loss, var_list=[bias])


class _BinaryHead(_Head):
    """Two classes: the logistic function of one logit."""

    scope = "binary_logistic_head"

    def predictions(self, logits: Any) -> dict[str, Any]:
        two = tf.concat([tf.zeros_like(logits), logits], 1)
        return {
            "logits": logits, "logistic": tf.sigmoid(logits), "probabilities": tf.nn.softmax(two),
            "classes": tf.argmax(two, 1),
        }  # fmt: skip

    def losses(self, logits: Any, labels: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.to_float(labels), logits=logits)[:, 0]

    def metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        truth, logistic = tf.to_float(labels[:, 0]), predictions["logistic"][:, 0]
        classes = tf.to_float(predictions["classes"])
        mean = tf.metrics.mean(truth, weights)
        positive = logistic > 0.5
        accuracy = tf.metrics.accuracy(truth, classes, weights)
        return {
            "accuracy": accuracy,
            "labels/prediction_mean": tf.metrics.mean(logistic, weights),
            "labels/actual_label_mean": mean,
            "accuracy/baseline_label_mean": mean,
            "auc": tf.metrics.auc(truth, logistic, weights),
            "auc_precision_recall": tf.metrics.auc(truth, logistic, weights, curve="PR"),
            "accuracy/threshold_0.500000_mean": tf.metrics.accuracy(truth, tf.to_float(positive), weights),
            "precision/positive_threshold_0.500000_mean": tf.metrics.precision(truth, positive, weights),
            "recall/positive_threshold_0.500000_mean": tf.metrics.recall(truth, positive, weights),
        }


class _MultiClassHead(_Head):
    """More classes: softmax."""

    scope = "multi_class_head"

    def predictions(self, logits: Any) -> dict[str, Any]:
        return {"logits": logits, "probabilities": tf.nn.softmax(logits), "classes": tf.argmax(logits, 1)}

    def losses(self, logits: Any, labels: Any) -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.to_int64(labels[:, 0]), logits=logits)

    def metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        return {"accuracy": tf.metrics.accuracy(labels[:, 0], predictions["classes"], weights)}


class _RegressionHead(_Head):
    """Numbers: squared error."""

    scope = "regression_head"

    def predictions(self, logits: Any) -> dict[str, Any]:
        return {"scores": tf.squeeze(logits, [1]) if self.outputs == 1 else logits}

    def losses(self, logits: Any, labels: Any) -> Any:
        return tf.reduce_mean(tf.square(logits - tf.to_float(labels)), 1)

    def metrics(self, predictions: dict[str, Any], labels: Any, weights: Any) -> dict[str, Any]:
        return {}


def _class_head(n_classes: int, weight_column: Any, has_centered_bias: bool) -> _Head:
    if n_classes < 2:
        raise ValueError(f"n_classes should be greater than 1. Given: {n_classes}")
    if n_classes == 2:
        return _BinaryHead(1, weight_column, has_centered_bias)
    return _MultiClassHead(n_classes, weight_column, has_centered_bias)


def _minimize(optimizer: Any, clip_norm: float | None, scope: str) -> Any:
    """A function that makes the updates of the variables of a scope."""

    def train(loss: Any) -> Any:
        made = optimizer() if callable(optimizer) else optimizer
        variables = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope)
        pairs = made.compute_gradients(loss, variables)
        if clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], clip_norm)
            pairs = [(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs, strict=True)]
        return made.apply_gradients(pairs)

    return train


def _optimizer(given: Any, default: Any) -> Any:
    if given is None:
        return default
    if isinstance(given, str):
        return tf.contrib.layers.OPTIMIZER_CLS_NAMES[given](learning_rate=0.05)
    return given


class _Part:
    """A half of a model: its columns, its optimizer, its logits."""

    scope = ""

    def __init__(self, columns: Any, optimizer: Any) -> None:
        self.columns = list(columns)
        self.optimizer = optimizer

    def logits(self, features: dict[str, Any], mode: str, outputs: int) -> Any:
        raise NotImplementedError


class _Linear(_Part):
    scope = "linear"

    def __init__(self, columns: Any, optimizer: Any) -> None:
        if not columns:
            raise ValueError("Feature columns must be given for a linear model.")
        rate = min(0.2, 1.0 / math.sqrt(len(list(columns))))
        super().__init__(columns, _optimizer(optimizer, lambda: tf.train.FtrlOptimizer(rate)))

    def logits(self, features: dict[str, Any], mode: str, outputs: int) -> Any:
        found, _, _ = tf.contrib.layers.weighted_sum_from_feature_columns(
            features, self.columns, outputs, scope=self.scope
        )
        return found


class _Network(_Part):
    scope = "dnn"

    def __init__(self, columns: Any, optimizer: Any, hidden_units: Any, activation_fn: Any, dropout: Any) -> None:
        if not columns or not hidden_units:
            raise ValueError("Feature columns and hidden_units must be given for a network.")
        super().__init__(columns, _optimizer(optimizer, lambda: tf.train.AdagradOptimizer(0.05)))
        self._units, self._activation_fn, self._dropout = hidden_units, activation_fn, dropout

    def logits(self, features: dict[str, Any], mode: str, outputs: int) -> Any:
        layers = tf.contrib.layers
        with tf.variable_scope(self.scope):
            net = layers.input_from_feature_columns(features, self.columns, scope="input_from_feature_columns")
            for i, units in enumerate(self._units):
                net = layers.fully_connected(net, units, self._activation_fn, scope=f"hiddenlayer_{i}")
                if self._dropout is not None and mode == "train":
                    net = layers.dropout(net, keep_prob=1.0 - self._dropout)
            return layers.fully_connected(net, outputs, None, scope="logits")


class _Canned(Estimator):
    """A model of one or two parts and a head."""

    _key = "classes"
    _is_combined = False

    def __init__(
        self, head: _Head, parts: list[_Part], model_dir: Any, config: Any, clip_norm: float | None,
        feature_engineering_fn: Any,
    ) -> None:  # fmt: skip
        def model_fn(features: Any, labels: Any, mode: str) -> ModelFnOps:
            named = features if isinstance(features, dict) else {"": features}
            logits = tf.add_n([part.logits(named, mode, head.outputs) for part in parts])

            def train(loss: Any) -> Any:
                updates = [_minimize(part.optimizer, clip_norm, part.scope)(loss) for part in parts]
                with tf.control_dependencies(updates):
                    return tf.assign_add(tf.train.get_global_step(), 1).op

            scope = head.scope if self._is_combined else f"{parts[0].scope}/{head.scope}"
            return head.ops(named, labels, mode, logits, train, scope)

        super().__init__(model_fn, model_dir, config, None, feature_engineering_fn)

    def predict(
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,
        as_iterable: bool = True, iterate_batches: bool = False,
    ) -> Any:  # fmt: skip
        """Without `outputs` the classes, or scores, alone."""
        if outputs:
            return super().predict(x, input_fn, batch_size, outputs, as_iterable, iterate_batches)
        return self._one(self._key, x, input_fn, batch_size, as_iterable)

    def _one(self, key: str, x: Any, input_fn: Any, batch_size: int | None, as_iterable: bool) -> Any:
        rows = super().predict(x, input_fn, batch_size, [key], as_iterable)
        return one_prediction(rows, key, as_iterable)


class _Classifier(_Canned):
    def predict_classes(
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, as_iterable: bool = True
    ) -> Any:
        """The class of each row."""
        return self._one("classes", x, input_fn, batch_size, as_iterable)

    def predict_proba(
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, as_iterable: bool = True
    ) -> Any:
        """The probabilities of all classes, for each row."""
        return self._one("probabilities", x, input_fn, batch_size, as_iterable)


class _Regressor(_Canned):
    _key = "scores"

    def predict_scores(
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, as_iterable: bool = True
    ) -> Any:
        """The number for each row."""
        return self._one("scores", x, input_fn, batch_size, as_iterable)


@export("contrib.learn.LinearClassifier")
class LinearClassifier(_Classifier):
    """A linear model of classes."""

    def __init__(
        self, feature_columns: Any, model_dir: Any = None, n_classes: int = 2, weight_column_name: Any = None,
        optimizer: Any = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
        _joint_weight: bool = False, config: Any = None, feature_engineering_fn: Any = None,
    ) -> None:  # fmt: skip
        """Takes the columns and how to train."""
        head = _class_head(n_classes, weight_column_name, enable_centered_bias)
        parts: list[_Part] = [_Linear(feature_columns, optimizer)]
        super().__init__(head, parts, model_dir, config, gradient_clip_norm, feature_engineering_fn)


@export("contrib.learn.LinearRegressor")
class LinearRegressor(_Regressor):
    """A linear model of numbers."""

    def __init__(
        self, feature_columns: Any, model_dir: Any = None, weight_column_name: Any = None, optimizer: Any = None,
        gradient_clip_norm: float | None = None, enable_centered_bias: bool = False, label_dimension: int = 1,
        _joint_weights: bool = False, config: Any = None, feature_engineering_fn: Any = None,
    ) -> None:  # fmt: skip
        """Takes the columns and how to train."""
        head = _RegressionHead(label_dimension, weight_column_name, enable_centered_bias)
        parts: list[_Part] = [_Linear(feature_columns, optimizer)]
        super().__init__(head, parts, model_dir, config, gradient_clip_norm, feature_engineering_fn)


@export("contrib.learn.DNNClassifier")
class DNNClassifier(_Classifier):
    """A network for classes."""

    def __init__(
        self, hidden_units: Any, feature_columns: Any, model_dir: Any = None, n_classes: int = 2,
        weight_column_name: Any = None, optimizer: Any = None, activation_fn: Any = tf.nn.relu, dropout: Any = None,
        gradient_clip_norm: float | None = None, enable_centered_bias: bool = False, config: Any = None,
        feature_engineering_fn: Any = None,
    ) -> None:  # fmt: skip
        """Takes the widths of the hidden layers, the columns and how to train."""
        head = _class_head(n_classes, weight_column_name, enable_centered_bias)
        parts: list[_Part] = [_Network(feature_columns, optimizer, hidden_units, activation_fn, dropout)]
        super().__init__(head, parts, model_dir, config, gradient_clip_norm, feature_engineering_fn)


@export("contrib.learn.DNNRegressor")
class DNNRegressor(_Regressor):
    """A network for numbers."""

    def __init__(
        self, hidden_units: Any, feature_columns: Any, model_dir: Any = None, weight_column_name: Any = None,
        optimizer: Any = None, activation_fn: Any = tf.nn.relu, dropout: Any = None,
        gradient_clip_norm: float | None = None, enable_centered_bias: bool = False, config: Any = None,
        feature_engineering_fn: Any = None, label_dimension: int = 1,
    ) -> None:  # fmt: skip
        """Takes the widths of the hidden layers, the columns and how to train."""
        head = _RegressionHead(label_dimension, weight_column_name, enable_centered_bias)
        parts: list[_Part] = [_Network(feature_columns, optimizer, hidden_units, activation_fn, dropout)]
        super().__init__(head, parts, model_dir, config, gradient_clip_norm, feature_engineering_fn)


def _both(
    linear_columns: Any, linear_optimizer: Any, dnn_columns: Any, dnn_optimizer: Any, hidden_units: Any,
    activation_fn: Any, dropout: Any,
) -> list[_Part]:  # fmt: skip
    parts: list[_Part] = []
    if dnn_columns:
        parts.append(_Network(dnn_columns, dnn_optimizer, hidden_units, activation_fn, dropout))
    if linear_columns:
        parts.append(_Linear(linear_columns, linear_optimizer))
    if not parts:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    return parts


@export("contrib.learn.DNNLinearCombinedClassifier")
class DNNLinearCombinedClassifier(_Classifier):
    """A linear model and a network together, for classes (wide & deep)."""

    _is_combined = True

    def __init__(
        self, model_dir: Any = None, n_classes: int = 2, weight_column_name: Any = None,
        linear_feature_columns: Any = None, linear_optimizer: Any = None, _joint_linear_weights: bool = False,
        dnn_feature_columns: Any = None, dnn_optimizer: Any = None, dnn_hidden_units: Any = None,
        dnn_activation_fn: Any = tf.nn.relu, dnn_dropout: Any = None, gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False, config: Any = None, feature_engineering_fn: Any = None,
        fix_global_step_increment_bug: bool = True,
    ) -> None:  # fmt: skip
        """Takes the columns of both halves."""
        parts = _both(
            linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer, dnn_hidden_units,
            dnn_activation_fn, dnn_dropout,
        )  # fmt: skip
        head = _class_head(n_classes, weight_column_name, enable_centered_bias)
        super().__init__(head, parts, model_dir, config, gradient_clip_norm, feature_engineering_fn)


@export("contrib.learn.DNNLinearCombinedRegressor")
class DNNLinearCombinedRegressor(_Regressor):
    """A linear model and a network together, for numbers."""

    _is_combined = True

    def __init__(
        self, model_dir: Any = None, weight_column_name: Any = None, linear_feature_columns: Any = None,
        linear_optimizer: Any = None, _joint_linear_weights: bool = False, dnn_feature_columns: Any = None,
        dnn_optimizer: Any = None, dnn_hidden_units: Any = None, dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: Any = None, gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
        label_dimension: int = 1, config: Any = None, feature_engineering_fn: Any = None,
        fix_global_step_increment_bug: bool = True,
    ) -> None:  # fmt: skip
        """Takes the columns of both halves."""
        parts = _both(
            linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer, dnn_hidden_units,
            dnn_activation_fn, dnn_dropout,
        )  # fmt: skip
        head = _RegressionHead(label_dimension, weight_column_name, enable_centered_bias)
        super().__init__(head, parts, model_dir, config, gradient_clip_norm, feature_engineering_fn)


export_value(tf.estimator.experimental.KMeans, "contrib.learn.KMeansClustering")
