"""EstimatorSpec: what a `model_fn` returns, and the modes it is called in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from thalweg.estimator.export_outputs import ExportOutput, PredictOutput, checked_export_outputs
from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("estimator.ModeKeys")
class ModeKeys:
    """The modes of a model.

    Example:
        >>> tf.estimator.ModeKeys.TRAIN
        'train'
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


# The tags of SavedModels by mode.
EXPORT_TAGS = {ModeKeys.TRAIN: ["train"], ModeKeys.EVAL: ["eval"], ModeKeys.PREDICT: ["serve"]}


class _Spec(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    export_outputs: Any
    training_chief_hooks: Any
    training_hooks: Any
    scaffold: Any
    evaluation_hooks: Any
    prediction_hooks: Any


@export("estimator.EstimatorSpec")
class EstimatorSpec(_Spec):
    """The ops of a model in one mode.

    Args:
        mode: One of ModeKeys.
        predictions: A tensor, or a dictionary of tensors; needed to predict.
        loss: A scalar; needed to train and to evaluate.
        train_op: The operation of a training step; needed to train.
        eval_metric_ops: Metrics by name: pairs (value, update op), as `tf.metrics` makes them.
        export_outputs: ExportOutputs by the names of signatures; with several, one is
            `tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY`.
        training_chief_hooks: Hooks for training in the chief.
        training_hooks: Hooks for training in every worker.
        scaffold: A Scaffold: initialization and saver.
        evaluation_hooks: Hooks for evaluation.
        prediction_hooks: Hooks for prediction.

    Example:
        >>> spec = tf.estimator.EstimatorSpec(mode="infer", predictions={"y": tf.constant([1.0])})
        >>> sorted(spec.predictions)
        ['y']
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        export_outputs: Any = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> EstimatorSpec:
        """Checks the arguments.

        Raises:
            ValueError: If something that the mode needs is missing, or of the wrong shape.
            TypeError: If something has the wrong type.
        """
        if mode not in EXPORT_TAGS:
            raise ValueError(f"mode must be one of {sorted(EXPORT_TAGS)}, got {mode!r}.")
        if train_op is None and mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op: an EstimatorSpec for training needs one.")
        loss = _checked_loss(loss, mode)
        predictions = _checked_predictions(predictions, mode)
        metrics = _checked_metrics(eval_metric_ops)
        if export_outputs is not None or mode == ModeKeys.PREDICT:
            export_outputs = checked_export_outputs(export_outputs, predictions)
        if scaffold is not None and not isinstance(scaffold, tf.train.Scaffold):
            raise TypeError(f"scaffold must be tf.train.Scaffold, got {scaffold!r}.")
        hooks = [
            _checked_hooks(name, given)
            for name, given in (
                ("training_chief_hooks", training_chief_hooks),
                ("training_hooks", training_hooks),
                ("evaluation_hooks", evaluation_hooks),
                ("prediction_hooks", prediction_hooks),
            )
        ]
        return super().__new__(
            cls, mode, predictions, loss, train_op, metrics, export_outputs, hooks[0], hooks[1],
            scaffold or tf.train.Scaffold(), hooks[2], hooks[3],
        )  # fmt: skip


def _checked_loss(loss: Any, mode: str) -> Any:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError(f"Missing loss: an EstimatorSpec for mode '{mode}' needs one.")
        return None
    loss = tf.convert_to_tensor(loss)
    if not loss.shape.is_compatible_with([]) and loss.shape.num_elements() != 1:
        raise ValueError(f"Loss must be scalar, given: {loss} of shape {loss.shape}.")
    return loss if loss.shape.ndims == 0 else tf.reshape(loss, [])


def _checked_predictions(predictions: Any, mode: str) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions: an EstimatorSpec for prediction needs them.")
        return {}
    if isinstance(predictions, Mapping):
        return {key: _checked_tensor(value, f"predictions[{key!r}]") for key, value in predictions.items()}
    return _checked_tensor(predictions, "predictions")


def _checked_tensor(value: Any, name: str) -> Any:
    if not tf.contrib.framework.is_tensor(value) and not hasattr(value, "flat_values"):
        raise TypeError(f"{name} must be Tensor, given: {value!r}.")
    return value


def _checked_metrics(metrics: Any) -> dict[str, Any]:
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics!r}.")
    for key, pair in metrics.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(
                f"Values of eval_metric_ops must be (metric_value, update_op) tuples, given: {pair!r} for key: {key}"
            )
    return dict(metrics)


def _checked_hooks(name: str, hooks: Any) -> tuple[Any, ...]:
    given: tuple[Any, ...] = tuple(hooks or ())
    for hook in given:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"All hooks of {name} must be SessionRunHook instances, given: {hook!r}.")
    return given


def default_export_outputs(predictions: Any) -> dict[str, ExportOutput]:
    """The one signature of a model that names none."""
    return {tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(predictions)}
