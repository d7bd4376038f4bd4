"""Baselines: models that ignore the features, and learn the average of the labels."""

from __future__ import annotations

from typing import Any

from thalweg.estimator.canned.heads import Head, RegressionHead, classifier_head
from thalweg.estimator.canned.models import check_features, optimizer_of, train_op_fn
from thalweg.estimator.estimator import Estimator
from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export

_SUM = tf.losses.Reduction.SUM


def _rows(features: Any) -> Any:
    """The number of examples in a batch."""
    check_features(features)
    first = features[sorted(features)[0]]
    shape = first.dense_shape if isinstance(first, tf.SparseTensor) else tf.shape(first, out_type=tf.int64)
    return shape[0]


class _Baseline(Estimator):
    """An Estimator of a bias alone."""

    def __init__(self, head: Head, model_dir: Any, optimizer: Any, config: Any) -> None:
        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            with tf.variable_scope("baseline", values=tuple(features.values())):
                bias = tf.get_variable("bias", [head.logits_dimension], initializer=tf.zeros_initializer())
                ones = tf.ones(tf.stack([_rows(features), 1]))
                logits = tf.matmul(ones, tf.expand_dims(bias, 0))
                made = optimizer_of(optimizer, 0.3)
                return head.create_estimator_spec(features, mode, logits, labels, train_op_fn=train_op_fn(made))

        super().__init__(model_fn, model_dir, config)


@export("estimator.BaselineClassifier")
class BaselineClassifier(_Baseline):
    """Predicts the classes as often as they are among the labels.

    Args:
        model_dir: The folder for checkpoints.
        n_classes: The number of classes.
        weight_column: The feature with the weights of examples.
        label_vocabulary: The labels, if they are strings.
        optimizer: As in LinearClassifier.
        config: A RunConfig.
        loss_reduction: How the losses of examples are joined.
    """

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = _SUM,
    ) -> None:
        """See the class."""
        head = classifier_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)


@export("estimator.BaselineRegressor")
class BaselineRegressor(_Baseline):
    """Predicts the mean of the labels; the arguments are those of BaselineClassifier, with `label_dimension`."""

    def __init__(
        self,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = _SUM,
    ) -> None:
        """See BaselineClassifier."""
        super().__init__(RegressionHead(label_dimension, weight_column, loss_reduction), model_dir, optimizer, config)


@export("estimator.BaselineEstimator")
class BaselineEstimator(_Baseline):
    """A bias alone with a head of the caller's."""

    def __init__(self, head: Head, model_dir: Any = None, optimizer: Any = "Ftrl", config: Any = None) -> None:
        """See BaselineClassifier."""
        super().__init__(head, model_dir, optimizer, config)
