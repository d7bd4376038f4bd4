"""`tf.estimator.export`: what a served model receives, and functions that make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export

_FEATURE, _LABEL, _EXAMPLE = "feature", "label", "examples"


def _wrapped(value: Any, key: str) -> dict[str, Any]:
    """A dictionary of tensors."""
    parts = dict(value) if isinstance(value, Mapping) else {key: value}
    for name, part in parts.items():
        if not tf.contrib.framework.is_tensor(part):
            raise ValueError(f"{key} {name!r} must be a Tensor or SparseTensor, got {part!r}.")
    return parts


class _Receiver(NamedTuple):
    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any


@export("estimator.export.ServingInputReceiver")
class ServingInputReceiver(_Receiver):
    """Features for the model, and the tensors that a server feeds.

    Args:
        features: A tensor, or a dictionary of them.
        receiver_tensors: The tensors that are fed, by name.
        receiver_tensors_alternatives: Other sets of tensors that can be fed, each with a signature of its own.
    """

    __slots__ = ()

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> ServingInputReceiver:
        """Checks the tensors."""
        if features is not None:
            features = _wrapped(features, _FEATURE)
        made: ServingInputReceiver = _receiver(cls, features, receiver_tensors, receiver_tensors_alternatives)
        return made


@export("estimator.export.TensorServingInputReceiver")
class TensorServingInputReceiver(_Receiver):
    """The same for a model that takes a single tensor as its features."""

    __slots__ = ()

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> TensorServingInputReceiver:
        """Checks the tensors."""
        if isinstance(features, Mapping) or not tf.contrib.framework.is_tensor(features):
            raise ValueError(f"features must be one Tensor, got {features!r}; for several use ServingInputReceiver.")
        made: TensorServingInputReceiver = _receiver(cls, features, receiver_tensors, receiver_tensors_alternatives)
        return made


def _receiver(cls: Any, features: Any, tensors: Any, alternatives: Any) -> Any:
    tensors = _wrapped(tensors, "input") if tensors is not None else {}
    if alternatives is not None:
        if not isinstance(alternatives, Mapping):
            raise ValueError(f"receiver_tensors_alternatives must be a dict, got {alternatives!r}.")
        alternatives = {name: _wrapped(value, "input") for name, value in alternatives.items()}
    return _Receiver.__new__(cls, features, tensors, alternatives)


class SupervisedInputReceiver(NamedTuple):
    """Features and labels for an exported training or evaluation graph, and the tensors that are fed."""

    features: Any
    labels: Any
    receiver_tensors: Any


@export("estimator.export.build_parsing_serving_input_receiver_fn")
def build_parsing_serving_input_receiver_fn(
    feature_spec: Any, default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that makes a receiver of serialized tf.Examples.

    Args:
        feature_spec: What to parse, as for `tf.parse_example`.
        default_batch_size: The number of Examples; None for any number.

    Example:
        >>> receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        ...     {"x": tf.FixedLenFeature([2], tf.float32)})
        >>> receive().features["x"].shape.as_list()
        [None, 2]
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        serialized = tf.placeholder(tf.string, [default_batch_size], name="input_example_tensor")
        features = tf.parse_example(serialized, feature_spec)
        return ServingInputReceiver(features, {_EXAMPLE: serialized})

    return serving_input_receiver_fn


def _placeholder_of(tensor: Any, batch: int | None) -> Any:
    shape = tensor.shape.as_list() if tensor.shape.ndims else []
    if shape:
        shape[0] = batch
    return tf.placeholder(tensor.dtype.base_dtype, shape, name=tensor.op.name.rpartition("/")[2])


@export("estimator.export.build_raw_serving_input_receiver_fn")
def build_raw_serving_input_receiver_fn(
    features: Any, default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that makes a receiver of the features themselves.

    Args:
        features: Tensors by name, of which types and shapes are taken.
        default_batch_size: The size of the first dimension; None for any.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        fed = {name: _placeholder_of(tensor, default_batch_size) for name, tensor in features.items()}
        return ServingInputReceiver(fed, fed)

    return serving_input_receiver_fn


@export("estimator.export.build_raw_supervised_input_receiver_fn")
def build_raw_supervised_input_receiver_fn(
    features: Any, labels: Any, default_batch_size: int | None = None
) -> Callable[[], SupervisedInputReceiver]:
    """A function that makes a receiver of features and labels, to export a graph for training or evaluation.

    Raises:
        ValueError: If a feature and a label have the same name.
    """

    def receiver_fn() -> SupervisedInputReceiver:
        parts: list[Any] = []
        fed: dict[str, Any] = {}
        for given, single in ((features, "input"), (labels, _LABEL)):
            wrapped = _wrapped(given, single)
            made = {name: _placeholder_of(tensor, default_batch_size) for name, tensor in wrapped.items()}
            both = set(made) & set(fed)
            if both:
                raise ValueError(f"Features and labels must have different names; both have {sorted(both)}.")
            fed.update(made)
            parts.append(made if isinstance(given, Mapping) else made[single])
        return SupervisedInputReceiver(parts[0], parts[1], fed)

    return receiver_fn


def signatures(receiver: Any, export_outputs: Any, serving_only: bool) -> dict[str, Any]:
    """The SignatureDefs of a model's outputs for what its receiver takes; those that do not fit are left out."""
    default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    found: dict[str, Any] = {}
    problems: dict[str, str] = {}
    alternatives = getattr(receiver, "receiver_tensors_alternatives", None) or {}
    for prefix, tensors in (("", receiver.receiver_tensors), *alternatives.items()):
        for key, output in export_outputs.items():
            name = key if not prefix else prefix if key == default else f"{prefix}:{key}"
            try:
                found[name] = output.as_signature_def(tensors)
            except ValueError as e:
                problems[name] = str(e)
    for name, problem in problems.items():
        tf.logging.info("The signature '%s' was left out of the export: %s", name, problem)
    if serving_only and default not in found and default in problems:
        # A signature for Examples does not fit other inputs: the outputs can still be predicted.
        tf.logging.warning("The model has no default signature: %s", problems[default])
    return found
