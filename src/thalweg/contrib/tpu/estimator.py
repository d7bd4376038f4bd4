"""tf.contrib.tpu.TPUEstimator: an Estimator that knows the batch sizes, and model functions written for TPUs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from thalweg.contrib.public_names import tf
from thalweg.contrib.tpu.config import RunConfig
from thalweg.estimator.arguments import argument_names
from thalweg.estimator.estimator import Estimator
from thalweg.estimator.model_spec import EstimatorSpec, ModeKeys
from thalweg.graph.definitions.op_registry import export
from thalweg.train.hooks.session_run_hook import SessionRunHook

_RESERVED: Final = ("batch_size", "context")


class _Spec(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metrics: Any
    export_outputs: Any
    scaffold_fn: Any
    host_call: Any
    training_hooks: Any
    evaluation_hooks: Any
    prediction_hooks: Any


@export("contrib.tpu.TPUEstimatorSpec")
class TPUEstimatorSpec(_Spec):
    """What the model function of a TPUEstimator returns.

    Args:
        mode: One of `tf.estimator.ModeKeys`.
        predictions: A tensor, or a dictionary of tensors.
        loss: A scalar.
        train_op: The operation of a training step.
        eval_metrics: A pair: a function that returns metrics by name, and its arguments, a list or a dictionary.
        export_outputs: As in EstimatorSpec.
        scaffold_fn: A function without arguments that returns a Scaffold.
        host_call: A pair of a function and its arguments; what the function returns is run with each training step.
        training_hooks: Hooks for training.
        evaluation_hooks: Hooks for evaluation.
        prediction_hooks: Hooks for prediction.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metrics: Any = None,
        export_outputs: Any = None,
        scaffold_fn: Any = None,
        host_call: Any = None,
        training_hooks: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> TPUEstimatorSpec:
        """Checks the two pairs.

        Raises:
            ValueError: If one of them is no pair of a function and its arguments.
        """
        for name, pair in (("eval_metrics", eval_metrics), ("host_call", host_call)):
            if pair is not None and not (isinstance(pair, (tuple, list)) and len(pair) == 2 and callable(pair[0])):
                raise ValueError(f"{name} must be a pair of a function and its arguments, got {pair!r}.")
        return super().__new__(
            cls, mode, predictions, loss, train_op, eval_metrics, export_outputs, scaffold_fn, host_call,
            tuple(training_hooks or ()), tuple(evaluation_hooks or ()), tuple(prediction_hooks or ()),
        )  # fmt: skip

    def as_estimator_spec(self) -> EstimatorSpec:
        """The same model for other devices than TPUs."""
        metrics = _called(self.eval_metrics) if self.eval_metrics is not None else None
        training_hooks = list(self.training_hooks)
        if self.host_call is not None and self.mode == ModeKeys.TRAIN:
            training_hooks.append(_HostCallHook(_called(self.host_call)))
        return EstimatorSpec(
            mode=self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=metrics,
            export_outputs=self.export_outputs,
            scaffold=self.scaffold_fn() if self.scaffold_fn else None,
            training_hooks=training_hooks,
            evaluation_hooks=self.evaluation_hooks,
            prediction_hooks=self.prediction_hooks,
        )


def _called(pair: Any) -> Any:
    """The result of a function for its tensors, given as a list or by name."""
    function, arguments = pair
    if isinstance(arguments, Mapping):
        return function(**arguments)
    return function(*arguments)


class _HostCallHook(SessionRunHook):
    """Runs the result of a host call with every step, and the summary writers that it uses."""

    def __init__(self, fetches: Any) -> None:
        self._fetches = fetches
        self._begin: Any = None
        self._flush: Any = None

    def begin(self) -> None:
        self._begin = tf.contrib.summary.summary_writer_initializer_op()
        self._flush = tf.contrib.summary.flush()

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._begin)

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._fetches)

    def end(self, session: Any) -> None:
        if self._flush is not None:
            session.run(self._flush)


@export("contrib.tpu.TPUEstimator")
class TPUEstimator(Estimator):
    """An Estimator for programs that were written for TPUs, on the devices that are here.

    The functions for the input and the model get `params["batch_size"]`. There are no TPUs: `use_tpu` must be False.

    Args:
        model_fn: Returns a TPUEstimatorSpec or an EstimatorSpec.
        model_dir: The folder for checkpoints and summaries.
        config: A `tf.contrib.tpu.RunConfig`.
        params: Passed on to `model_fn` and to the functions for the input.
        use_tpu: Must be False.
        train_batch_size: `params["batch_size"]` in training.
        eval_batch_size: The same in evaluation.
        predict_batch_size: The same in prediction.
        batch_axis: Of each input, the dimension that TPUs would share: without effect.
        eval_on_tpu: Without effect.
        export_to_tpu: Without effect.
        export_to_cpu: Without effect: exports are for CPUs.
        warm_start_from: As in Estimator.
        experimental_export_device_assignment: Without effect.
        embedding_config_spec: Not supported.
        export_saved_model_api_version: Without effect.

    Example:
        >>> def model_fn(features, labels, mode, params):
        ...     y = tf.layers.dense(features, 1)
        ...     loss = tf.losses.mean_squared_error(labels, y)
        ...     train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        ...     return tf.contrib.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)
        >>> def input_fn(params):
        ...     return tf.data.Dataset.from_tensors((tf.ones([2]), tf.ones([1]))).repeat().batch(params["batch_size"])
        >>> model = tf.contrib.tpu.TPUEstimator(model_fn, use_tpu=False, train_batch_size=4)
        >>> int(model.train(input_fn, steps=3).get_variable_value("global_step"))
        3
    """

    def __init__(
        self,
        model_fn: Any = None,
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: Any = None,
        experimental_export_device_assignment: bool = False,
        embedding_config_spec: Any = None,
        export_saved_model_api_version: Any = None,
    ) -> None:
        """Checks the arguments.

        Raises:
            ValueError: If `config` is missing parts, `params` has a reserved name, or a batch size is not positive.
            RuntimeError: If a TPU is asked for.
        """
        if use_tpu:
            raise RuntimeError("TPUEstimator: there is no TPU here. Pass use_tpu=False to use the devices that are.")
        if embedding_config_spec is not None:
            raise RuntimeError("TPUEstimator: embedding_config_spec needs a TPU; use tf.nn.embedding_lookup.")
        if config is not None and not isinstance(config, RunConfig):
            raise ValueError(f"`config` must be a tf.contrib.tpu.RunConfig, got {config!r}.")
        reserved = sorted(set(_RESERVED) & set(_named(params)))
        if reserved:
            raise ValueError(f"{reserved} are reserved keys, but params has them: {params}.")
        self._batch_sizes = {
            ModeKeys.TRAIN: train_batch_size,
            ModeKeys.EVAL: eval_batch_size,
            ModeKeys.PREDICT: predict_batch_size,
        }
        for mode, size in self._batch_sizes.items():
            if size is not None and size <= 0:
                raise ValueError(f"The batch size of mode '{mode}' must be positive, got {size}.")
        if model_fn is None:
            raise ValueError("model_fn must be provided to TPUEstimator.")
        self._wants_params = "params" in argument_names(model_fn)
        super().__init__(
            _for_other_devices(model_fn), model_dir, config or RunConfig(), params if self._wants_params else None,
            warm_start_from,
        )  # fmt: skip
        self._params = params if params is not None else {}

    def _params_of(self, mode: str) -> Any:
        params = self.params
        size = self._batch_sizes[mode]
        if size is not None:
            if hasattr(params, "add_hparam"):
                params.add_hparam("batch_size", size)
            else:
                params["batch_size"] = size
        return params

    def _call_input_fn(self, input_fn: Any, mode: str) -> Any:
        if "params" not in argument_names(input_fn):
            raise ValueError(
                f"input_fn ({input_fn}) does not include the argument params, in which TPUEstimator passes batch_size."
            )
        return super()._call_input_fn(input_fn, mode)


def _named(params: Any) -> Any:
    """The names of parameters, given as a dictionary or as HParams."""
    if params is None:
        return ()
    return params if isinstance(params, Mapping) else params.values()


def _for_other_devices(model_fn: Any) -> Any:
    """A model function that returns EstimatorSpecs, from one that may return TPUEstimatorSpecs."""

    @functools.wraps(model_fn)
    def converted(*args: Any, **kwargs: Any) -> Any:
        spec = model_fn(*args, **kwargs)
        return spec.as_estimator_spec() if isinstance(spec, TPUEstimatorSpec) else spec

    return converted
