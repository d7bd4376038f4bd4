"""TPUEstimator and TPUEstimatorSpec: an Estimator whose functions learn the size of a batch from their params."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from thalweg.contrib.public_names import tf
from thalweg.contrib.tpu.config import RunConfig
from thalweg.graph.definitions.op_registry import export

_BATCH_SIZE, _USE_TPU, _CONTEXT = "batch_size", "use_tpu", "context"


class _HostCallHook(tf.train.SessionRunHook):
    """Runs what a model's host_call returned in every step."""

    def __init__(self, tensors: Any) -> None:
        self._tensors = tensors

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._tensors)


class _Spec(NamedTuple):
    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metrics: Any = None
    export_outputs: Any = None
    scaffold_fn: Any = None
    host_call: Any = None
    training_hooks: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None


@export("contrib.tpu.TPUEstimatorSpec")
class TPUEstimatorSpec(_Spec):
    """The ops of a model in one mode; as `tf.estimator.EstimatorSpec`, with functions in place of some ops.

    Args:
        mode: One of `tf.estimator.ModeKeys`.
        predictions: A dictionary of tensors.
        loss: A scalar.
        train_op: The operation of a training step.
        eval_metrics: A function that makes metrics, and its tensors as a list or by name.
        export_outputs: ExportOutputs by the names of signatures.
        scaffold_fn: A function that makes the Scaffold.
        host_call: A function to run in every step, and its tensors as a list or by name.
        training_hooks: Hooks for training.
        evaluation_hooks: Hooks for evaluation.
        prediction_hooks: Hooks for prediction.
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> TPUEstimatorSpec:
        """Checks the two pairs of a function and tensors.

        Raises:
            ValueError: If one is no pair, or its first part cannot be called.
        """
        spec = super().__new__(cls, *args, **kwargs)
        for name in ("eval_metrics", "host_call"):
            pair = getattr(spec, name)
            if pair is not None and not (isinstance(pair, (list, tuple)) and len(pair) == 2 and callable(pair[0])):
                raise ValueError(f"{name} should be a tuple of a function and its tensors, given: {pair!r}.")
        return spec

    def as_estimator_spec(self) -> Any:
        """The same as an EstimatorSpec: the functions are called."""
        hooks = () if self.host_call is None else (_HostCallHook(_call(self.host_call)),)
        return tf.estimator.EstimatorSpec(
            mode=self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=None if self.eval_metrics is None else _call(self.eval_metrics),
            export_outputs=self.export_outputs,
            scaffold=None if self.scaffold_fn is None else self.scaffold_fn(),
            training_hooks=(*(self.training_hooks or ()), *hooks),
            evaluation_hooks=(*(self.evaluation_hooks or ()), *hooks),
            prediction_hooks=(*(self.prediction_hooks or ()), *hooks),
        )


def _call(pair: tuple[Callable[..., Any], Any]) -> Any:
    function, tensors = pair
    return function(**tensors) if isinstance(tensors, Mapping) else function(*tensors)


@export("contrib.tpu.TPUEstimator")
class TPUEstimator(tf.estimator.Estimator):
    """An Estimator that could use TPUs, without them: `use_tpu` must be False.

    Its `input_fn` and `model_fn` find the size of a batch as `params["batch_size"]`, and `params["use_tpu"]`.

    Args:
        model_fn: As for `tf.estimator.Estimator`; it may return a TPUEstimatorSpec.
        model_dir: The folder for checkpoints and summaries.
        config: A `tf.contrib.tpu.RunConfig`.
        params: Passed on to the functions; a dictionary or HParams.
        use_tpu: Must be False.
        train_batch_size: The size of a batch in training.
        eval_batch_size: The size of a batch in evaluation.
        predict_batch_size: The size of a batch in prediction.
        batch_axis: Has no effect without TPUs, as the next three.
        eval_on_tpu: See `batch_axis`.
        export_to_tpu: See `batch_axis`.
        export_to_cpu: See `batch_axis`.
        warm_start_from: A checkpoint to begin with, or WarmStartSettings.
        embedding_config_spec: Must be None: it describes tables on TPUs.
    """

    def __init__(
        self, model_fn: Any = None, model_dir: Any = None, config: Any = None, params: Any = None,
        use_tpu: bool = True, train_batch_size: int | None = None, eval_batch_size: int | None = None,
        predict_batch_size: int | None = None, batch_axis: Any = None, eval_on_tpu: bool = True,
        export_to_tpu: bool = True, export_to_cpu: bool = True, warm_start_from: Any = None,
        embedding_config_spec: Any = None,
    ) -> None:  # fmt: skip
        """Checks the arguments.

        Raises:
            ValueError: If the configuration is of another class, TPUs are asked for, or `params` holds a reserved name.
        """
        if config is None or not isinstance(config, RunConfig):
            raise ValueError("`config` must be provided with type `tpu_config.RunConfig`")
        if use_tpu or embedding_config_spec is not None:
            raise ValueError("Thalweg has no TPUs: make the TPUEstimator with use_tpu=False, without embedding tables.")
        reserved = [key for key in (_BATCH_SIZE, _CONTEXT) if params is not None and key in _names_of(params)]
        if reserved:
            raise ValueError(f"{reserved} are reserved keys but existed in params {params}.")
        modes = tf.estimator.ModeKeys
        self._batch_sizes = {
            modes.TRAIN: train_batch_size, modes.EVAL: eval_batch_size, modes.PREDICT: predict_batch_size,
        }  # fmt: skip
        for mode, size in self._batch_sizes.items():
            if size is not None and size <= 0:
                raise ValueError(f"The batch size of mode '{mode}' must be positive, got {size}.")
        self._mode: str | None = None
        self._is_exporting = False
        super().__init__(model_fn, model_dir, config, params, warm_start_from)

    @property
    def params(self) -> Any:
        """A copy of the parameters; while a mode's graph is built, with the size of its batches."""
        params = copy.deepcopy(self._params)
        if self._mode is None:
            return params
        size = self._batch_sizes[self._mode]
        if size is not None and not self._is_exporting:
            _set(params, _BATCH_SIZE, size)
        _set(params, _USE_TPU, False)
        return params

    def _call_input_fn(self, input_fn: Any, mode: str) -> Any:
        self._mode = mode
        try:
            return super()._call_input_fn(input_fn, mode)
        finally:
            self._mode = None

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any = None) -> Any:
        self._mode = mode
        try:
            return super()._call_model_fn(features, labels, mode, config)
        finally:
            self._mode = None

    def experimental_export_all_saved_models(self, *args: Any, **kwargs: Any) -> bytes:
        """As that of Estimator; the functions find no size of a batch, which the model's users choose."""
        self._is_exporting = True
        try:
            exported: bytes = super().experimental_export_all_saved_models(*args, **kwargs)
            return exported
        finally:
            self._is_exporting = False

    def _as_spec(self, returned: Any) -> Any:
        return returned.as_estimator_spec() if isinstance(returned, TPUEstimatorSpec) else returned


def _names_of(params: Any) -> Any:
    return params.values() if hasattr(params, "set_hparam") else params


def _set(params: Any, name: str, value: Any) -> None:
    if not hasattr(params, "set_hparam"):
        params[name] = value
    elif name in params:
        params.set_hparam(name, value)
    else:
        params.add_hparam(name, value)
