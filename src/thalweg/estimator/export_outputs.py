"""ExportOutputs: what a model returns when it is served, and the signature of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("estimator.export.ExportOutput")
class ExportOutput:
    """The base class: the outputs of one signature."""

    def as_signature_def(self, receiver_tensors: Any) -> Any:
        """The SignatureDef of these outputs for the given inputs."""
        raise NotImplementedError(f"{type(self).__name__} has no signature.")


def _tensor(value: Any, name: str, floating: bool = False) -> Any:
    if not isinstance(value, tf.Tensor):
        raise ValueError(f"{name} must be a Tensor; got {value!r}.")
    if floating and not value.dtype.is_floating:
        raise ValueError(f"{name} must be a float32 Tensor; got {value}.")
    return value


def _single(receiver_tensors: Any, what: str) -> Any:
    if len(receiver_tensors) != 1:
        raise ValueError(f"A signature for {what} has one input; got {sorted(receiver_tensors)}.")
    (examples,) = receiver_tensors.values()
    if examples.dtype != tf.string:
        raise ValueError(f"A signature for {what} takes serialized tf.Examples, strings; got {examples}.")
    return examples


@export("estimator.export.ClassificationOutput")
class ClassificationOutput(ExportOutput):
    """Scores and class names of a classifier, `[batch, classes]` each; at least one of them.

    Example:
        >>> output = tf.estimator.export.ClassificationOutput(scores=tf.constant([[0.5, 0.5]]))
        >>> output.scores.shape.as_list()
        [1, 2]
    """

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        """Checks the tensors.

        Raises:
            ValueError: If both are missing, or one has the wrong type.
        """
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        if scores is not None:
            _tensor(scores, "Classification scores", floating=True)
        if classes is not None and _tensor(classes, "Classification classes").dtype != tf.string:
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}.")
        self.scores, self.classes = scores, classes

    def as_signature_def(self, receiver_tensors: Any) -> Any:
        """The SignatureDef with method tensorflow/serving/classify."""
        examples = _single(receiver_tensors, "classification")
        return tf.saved_model.classification_signature_def(examples, self.classes, self.scores)


@export("estimator.export.RegressionOutput")
class RegressionOutput(ExportOutput):
    """The value of a regression."""

    def __init__(self, value: Any) -> None:
        """Takes a floating-point tensor."""
        self.value = _tensor(value, "Regression output value", floating=True)

    def as_signature_def(self, receiver_tensors: Any) -> Any:
        """The SignatureDef with method tensorflow/serving/regress."""
        return tf.saved_model.regression_signature_def(_single(receiver_tensors, "regression"), self.value)


@export("estimator.export.PredictOutput")
class PredictOutput(ExportOutput):
    """Any outputs, by name.

    Example:
        >>> sorted(tf.estimator.export.PredictOutput(tf.constant(1.0)).outputs)
        ['output']
    """

    def __init__(self, outputs: Any) -> None:
        """Takes a tensor, which is named 'output', or a dictionary."""
        if not isinstance(outputs, Mapping):
            outputs = {"output": outputs}
        for key, value in outputs.items():
            if not isinstance(key, str):
                raise ValueError(f"Prediction output key must be a string; got {key!r}.")
            if not tf.contrib.framework.is_tensor(value):
                raise ValueError(f"Prediction output value must be a Tensor; got {value!r}.")
        self.outputs = dict(outputs)

    def as_signature_def(self, receiver_tensors: Any) -> Any:
        """The SignatureDef with method tensorflow/serving/predict."""
        return tf.saved_model.predict_signature_def(receiver_tensors, self.outputs)


@export("estimator.export.EvalOutput")
class EvalOutput(ExportOutput):
    """Loss, predictions and metrics of an exported evaluation graph."""

    def __init__(self, loss: Any = None, predictions: Any = None, metrics: Any = None) -> None:
        """Takes the parts of an EstimatorSpec."""
        self.outputs: dict[str, Any] = {}
        if loss is not None:
            self.outputs["loss"] = loss
        if predictions is not None:
            parts = predictions if isinstance(predictions, Mapping) else {"output": predictions}
            self.outputs.update({_prefixed("predictions", key): value for key, value in parts.items()})
        for key, (value, update) in dict(metrics or {}).items():
            self.outputs[_prefixed("metrics", key) + "/value"] = value
            self.outputs[_prefixed("metrics", key) + "/update_op"] = _as_tensor(update)

    def as_signature_def(self, receiver_tensors: Any) -> Any:
        """The SignatureDef of supervised evaluation."""
        signature = tf.saved_model.predict_signature_def(receiver_tensors, self.outputs)
        signature.method_name = "tensorflow/supervised/eval"
        return signature


class TrainOutput(EvalOutput):
    """Loss, predictions and metrics of an exported training graph."""

    def as_signature_def(self, receiver_tensors: Any) -> Any:
        """The SignatureDef of supervised training."""
        signature = super().as_signature_def(receiver_tensors)
        signature.method_name = "tensorflow/supervised/training"
        return signature


def _prefixed(prefix: str, key: str) -> str:
    return key if key.startswith(prefix) else f"{prefix}/{key}"


def _as_tensor(update: Any) -> Any:
    if isinstance(update, tf.Operation):
        with tf.control_dependencies([update]):
            return tf.constant([], tf.float32, name="metric_op_wrapper")
    return update


def checked_export_outputs(export_outputs: Any, predictions: Any) -> dict[str, ExportOutput]:
    """The signatures of a model, with one that is the default.

    Raises:
        TypeError: If they are not a dictionary of ExportOutputs.
        ValueError: If there are several and none is the default.
    """
    default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if not export_outputs:
        return {default: PredictOutput(predictions)}
    if not isinstance(export_outputs, Mapping):
        raise TypeError(f"export_outputs must be dict, given: {export_outputs!r}.")
    for key, value in export_outputs.items():
        if not isinstance(value, ExportOutput):
            raise TypeError(f"Values in export_outputs must be ExportOutput objects, given: {value!r} for key: {key}.")
    outputs = dict(export_outputs)
    if len(outputs) == 1 and default not in outputs:
        outputs[default] = next(iter(outputs.values()))
    if default not in outputs:
        raise ValueError(
            f"Multiple export_outputs were provided, but none of them is the default one: name one '{default}'. "
            f"Got: {sorted(outputs)}."
        )
    return outputs
