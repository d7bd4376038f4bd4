"""tf.contrib.learn: what a model function returns, metrics by prediction, and the settings of a run."""

from __future__ import annotations

import inspect
from collections import namedtuple
from typing import Any, NamedTuple

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value


@export("contrib.learn.PredictionKey")
class PredictionKey:
    """Names of predictions of models that are there already."""

    CLASSES = "classes"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGISTIC = "logistic"
    SCORES = "scores"
    TOP_K = "top_k"
    GENERIC = "output"


@export("contrib.learn.ProblemType")
class ProblemType:
    """Kinds of problems, by which outputs become signatures."""

    UNSPECIFIED = 0
    CLASSIFICATION = 1
    LINEAR_REGRESSION = 2
    LOGISTIC_REGRESSION = 3


@export("contrib.learn.TaskType")
class TaskType:
    """Names of the jobs of a cluster."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"


@export("contrib.learn.NotFittedError")
class NotFittedError(ValueError, AttributeError):
    """A model was used before it was trained."""


@export("contrib.learn.ModelFnOps")
class ModelFnOps(NamedTuple):
    """What a model function returns: predictions, loss, the training op, metrics, outputs."""

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Any = None
    output_alternatives: Any = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None

    def check(self) -> ModelFnOps:
        """Checks that what the mode needs is there.

        Raises:
            ValueError: If predictions, loss or train_op are missing where the mode needs them.
        """
        if self.mode == "train" and self.train_op is None:
            raise ValueError("Missing train_op.")
        if self.mode != "infer" and self.loss is None:
            raise ValueError("Missing loss.")
        if self.mode != "train" and self.predictions is None:
            raise ValueError("Missing predictions.")
        return self


@export("contrib.learn.MetricSpec")
class MetricSpec:
    """A metric and the names of the predictions, labels and weights that it takes."""

    def __init__(
        self, metric_fn: Any, prediction_key: Any = None, label_key: Any = None, weight_key: Any = None
    ) -> None:
        """Takes a function of predictions and labels (in the order of its own parameters), and of weights."""
        self.metric_fn = metric_fn
        self.prediction_key, self.label_key, self.weight_key = prediction_key, label_key, weight_key

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """The metric of a batch: its value and its update."""
        chosen = _entry(predictions, self.prediction_key, "prediction_key")
        truth = _entry(labels, self.label_key, "label_key")
        weights = None if self.weight_key is None else {"weights": inputs[self.weight_key]}
        names = list(inspect.signature(self.metric_fn).parameters)
        if "predictions" in names and "labels" in names:
            return self.metric_fn(predictions=chosen, labels=truth, **(weights or {}))
        if "predictions" in names and "targets" in names:
            return self.metric_fn(predictions=chosen, targets=truth, **(weights or {}))
        return self.metric_fn(chosen, truth, **(weights or {}))


def _entry(given: Any, key: Any, name: str) -> Any:
    if not isinstance(given, dict):
        if key is not None:
            raise ValueError(f"MetricSpec has {name} {key!r}, but there is a single tensor.")
        return given
    if key is None:
        if len(given) != 1:
            raise ValueError(f"MetricSpec without {name} needs a single tensor, got {sorted(given)}.")
        return next(iter(given.values()))
    if key not in given:
        raise KeyError(f"There is no {key!r} among {sorted(given)}.")
    return given[key]


InputFnOps = namedtuple("InputFnOps", ["features", "labels", "default_inputs"])
_UTILS = "contrib.learn.utils.input_fn_utils"
for _space in ("contrib.learn", _UTILS):
    export_value(InputFnOps, f"{_space}.InputFnOps")


@export("contrib.learn.build_parsing_serving_input_fn", f"{_UTILS}.build_parsing_serving_input_fn")
def build_parsing_serving_input_fn(feature_spec: Any, default_batch_size: int | None = None) -> Any:
    """An input function of serialized tf.Examples, for exports."""

    def input_fn() -> Any:
        serialized = tf.placeholder(tf.string, [default_batch_size], "input_example_tensor")
        return InputFnOps(tf.parse_example(serialized, feature_spec), None, {"examples": serialized})

    return input_fn
