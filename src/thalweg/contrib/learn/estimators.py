"""tf.contrib.learn.Estimator: models that are fitted to arrays or input functions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from thalweg.contrib.learn.inputs import input_of
from thalweg.contrib.learn.monitors import hooks_of
from thalweg.contrib.learn.specs import MetricSpec, ModelFnOps, NotFittedError
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value


def _names_of(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


def metric_ops(metrics: Any, features: Any, labels: Any, predictions: Any) -> dict[str, Any]:
    """The metrics that a call of `evaluate` asks for, by name.

    Raises:
        ValueError: If an entry is neither a MetricSpec nor a function.
    """
    found = {}
    for name, metric in (metrics or {}).items():
        if isinstance(metric, MetricSpec):
            made = metric.create_metric_ops(features, labels, predictions)
        elif not callable(metric):
            raise ValueError(f"metrics[{name!r}] is neither a MetricSpec nor a function: {metric!r}")
        elif isinstance(name, tuple):
            name, key = name
            made = metric(predictions[key], labels)
        else:
            made = metric(predictions, labels)
        found[name] = made if isinstance(made, tuple) else _last_of(made)
    return found


def _last_of(value: Any) -> tuple[Any, Any]:
    """A metric without an update: its value in the last batch."""
    value = tf.convert_to_tensor(value)
    kept = tf.Variable(tf.zeros(value.shape, value.dtype), trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    return kept.value(), tf.assign(kept, value)


@export("contrib.learn.BaseEstimator", "contrib.learn.Estimator")
class Estimator:
    """A model as an object with `fit`, `evaluate` and `predict`.

    Args:
        model_fn: A function of features and labels and, as far as it names them, mode, params, config and model_dir. It
            returns ModelFnOps, or predictions, loss and train_op.
        model_dir: The folder of checkpoints and summaries.
        config: A RunConfig.
        params: Passed on to `model_fn`.
        feature_engineering_fn: Takes features and labels of the input, and gives those of the model.

    Example:
        >>> def model_fn(features, labels):
        ...     y = tf.contrib.layers.fully_connected(features, 1, activation_fn=None)
        ...     loss = tf.losses.mean_squared_error(labels, y[:, 0])
        ...     step = tf.contrib.framework.get_global_step()
        ...     return {"y": y}, loss, tf.contrib.layers.optimize_loss(loss, step, 0.1, "SGD")
        >>> x = np.ones([4, 2], np.float32)
        >>> model = tf.contrib.learn.Estimator(model_fn).fit(x, x[:, 0], steps=5)
        >>> int(model.get_variable_value("global_step")), len(list(model.predict(x)))
        (5, 4)
    """

    def __init__(
        self, model_fn: Any = None, model_dir: Any = None, config: Any = None, params: Any = None,
        feature_engineering_fn: Any = None,
    ) -> None:  # fmt: skip
        """Checks the model function.

        Raises:
            ValueError: If it does not take features and labels.
        """
        if model_fn is not None:
            names = _names_of(model_fn)
            if len(names - {"self", "mode", "params", "config", "model_dir"}) < 2:
                raise ValueError(f"model_fn ({model_fn}) must take features and labels.")
            if params is not None and "params" not in names:
                raise ValueError(f"model_fn ({model_fn}) does not take params, but params ({params}) are given.")
        self._model_fn, self._feature_engineering_fn = model_fn, feature_engineering_fn
        self._model_params = params
        self._metrics: Any = None
        self._label_specs: Any = None
        self._core = tf.estimator.Estimator(self._core_model_fn, model_dir, config)

    @property
    def model_dir(self) -> Any:
        """The folder with the checkpoints."""
        return self._core.model_dir

    @property
    def config(self) -> Any:
        """The settings."""
        return self._core.config

    @property
    def params(self) -> Any:
        """The parameters of the model."""
        return self._model_params

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn asks for them."""
        return dict(self._model_params or {})

    def _call_model_fn(self, features: Any, labels: Any, mode: str) -> ModelFnOps:
        if self._feature_engineering_fn is not None:
            features, labels = self._feature_engineering_fn(features, labels)
        available = {"mode": mode, "params": self._model_params, "config": self.config, "model_dir": self.model_dir}
        names = _names_of(self._model_fn)
        returned = self._model_fn(features, labels, **{k: v for k, v in available.items() if k in names})
        if isinstance(returned, ModelFnOps):
            return returned
        if isinstance(returned, tf.estimator.EstimatorSpec):
            return ModelFnOps(mode, returned.predictions, returned.loss, returned.train_op, returned.eval_metric_ops)
        if not isinstance(returned, tuple) or len(returned) != 3:
            raise ValueError("model_fn must return ModelFnOps, or predictions, loss and train_op.")
        return ModelFnOps(mode, *returned)

    def _core_model_fn(self, features: Any, labels: Any, mode: str) -> Any:
        if labels is not None:
            self._label_specs = tf.contrib.framework.nest.map_structure(lambda t: (t.dtype, t.shape), labels)
        elif self._label_specs is not None:
            labels = self._label_placeholders(self._label_specs)
        ops = self._call_model_fn(features, labels, mode).check()
        metrics = dict(ops.eval_metric_ops or {})
        if mode == "eval":
            metrics.update(metric_ops(self._metrics, features, labels, ops.predictions))
        keys = {} if mode == "infer" else {"loss": tf.reduce_mean(ops.loss), "train_op": ops.train_op}
        return tf.estimator.EstimatorSpec(
            mode, ops.predictions, eval_metric_ops=metrics or None, export_outputs=_export_outputs(ops, mode),
            training_hooks=list(ops.training_hooks or ()), training_chief_hooks=list(ops.training_chief_hooks or ()),
            scaffold=ops.scaffold, **keys,
        )  # fmt: skip

    def _label_placeholders(self, specs: Any) -> Any:
        # A model function of this API may use labels in every mode.
        if isinstance(specs, dict):
            return {key: tf.placeholder(*spec) for key, spec in specs.items()}
        return tf.placeholder(*specs)

    def fit(
        self, x: Any = None, y: Any = None, input_fn: Any = None, steps: int | None = None,
        batch_size: int | None = None, monitors: Any = None, max_steps: int | None = None,
    ) -> Estimator:  # fmt: skip
        """Trains, from the latest checkpoint if there is one: `steps` more steps, or until `max_steps`.

        Raises:
            ValueError: If both are given.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        source = input_of(x, y, input_fn, batch_size, shuffle=True, num_epochs=None)
        self._core.train(source, hooks_of(monitors, self), steps, max_steps)
        return self

    def partial_fit(
        self, x: Any = None, y: Any = None, input_fn: Any = None, steps: int | None = 1,
        batch_size: int | None = None, monitors: Any = None,
    ) -> Estimator:  # fmt: skip
        """Trains with one more part of the data."""
        return self.fit(x, y, input_fn, steps, batch_size, monitors)

    def evaluate(
        self, x: Any = None, y: Any = None, input_fn: Any = None, feed_fn: Any = None, batch_size: int | None = None,
        steps: int | None = None, metrics: Any = None, name: str | None = None, checkpoint_path: Any = None,
        hooks: Any = None, log_progress: bool = True,
    ) -> dict[str, Any]:  # fmt: skip
        """Loss and metrics for some input: the model's own, and those of `metrics`."""
        source = input_of(x, y, input_fn, batch_size)
        self._check_trained(checkpoint_path)
        self._metrics = metrics
        try:
            found: dict[str, Any] = self._core.evaluate(source, steps, hooks, checkpoint_path, name)
        finally:
            self._metrics = None
        return found

    def _check_trained(self, checkpoint_path: Any = None) -> None:
        if checkpoint_path is None and self._core.latest_checkpoint() is None:
            raise NotFittedError(f"Couldn't find trained model at {self.model_dir}.")

    def predict(
        self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,
        as_iterable: bool = True, iterate_batches: bool = False,
    ) -> Any:  # fmt: skip
        """Predictions row by row, or (`as_iterable=False`) of all rows at once."""
        source = input_of(x, None, input_fn, batch_size)
        self._check_trained()

        is_constant = False

        def features_alone() -> Any:
            nonlocal is_constant
            given = source()
            types = {op.type for op in tf.get_default_graph().get_operations()}
            queues = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
            is_constant = not queues and not isinstance(given, tf.data.Dataset) and "IteratorGetNext" not in types
            return given[0] if isinstance(given, tuple) and not hasattr(given, "_fields") else given

        def batches() -> Iterator[Any]:
            for batch in self._core.predict(features_alone, outputs, yield_single_examples=False):
                yield batch
                if is_constant:  # It would come again and again.
                    return

        if not as_iterable:
            return _together(batches())
        return batches() if iterate_batches else _single_rows(batches())

    def get_variable_names(self) -> list[str]:
        """The names of all variables in the latest checkpoint."""
        names: list[str] = self._core.get_variable_names()
        return names

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the latest checkpoint."""
        return self._core.get_variable_value(name)

    def export_savedmodel(
        self, export_dir_base: Any, serving_input_fn: Any, default_output_alternative_key: Any = None,
        assets_extra: Any = None, as_text: bool = False, checkpoint_path: Any = None,
        strip_default_attrs: bool = False,
    ) -> Any:  # fmt: skip
        """Writes a SavedModel with a signature for each output; returns its folder."""

        def receiver() -> Any:
            features, _, default_inputs = serving_input_fn()
            export = tf.estimator.export
            kind = export.ServingInputReceiver if isinstance(features, dict) else export.TensorServingInputReceiver
            return kind(features, default_inputs)

        return self._core.export_savedmodel(export_dir_base, receiver, assets_extra, as_text, checkpoint_path)


export_value(Estimator, "contrib.learn.Trainable")
export_value(Estimator, "contrib.learn.Evaluable")


def _export_outputs(ops: ModelFnOps, mode: str) -> Any:
    if mode != "infer" or not isinstance(ops.predictions, dict):
        return None
    outputs = {tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: tf.estimator.export.PredictOutput(ops.predictions)}
    for name, (_, tensors) in (ops.output_alternatives or {}).items():
        if name is not None:
            outputs[name] = tf.estimator.export.PredictOutput(tensors)
    return outputs


def _together(batches: Any) -> Any:
    found = list(batches)
    if not found:
        raise ValueError("There is no input to predict from.")
    if isinstance(found[0], dict):
        return {key: np.concatenate([batch[key] for batch in found]) for key in found[0]}
    return np.concatenate(found)


def _single_rows(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        if isinstance(batch, dict):
            for i in range(len(next(iter(batch.values())))):
                yield {key: value[i] for key, value in batch.items()}
        else:
            yield from batch


@export("contrib.learn.SKCompat")
class SKCompat:
    """An estimator with scikit-learn's functions: arrays in, arrays out."""

    def __init__(self, estimator: Estimator) -> None:
        """Takes the estimator."""
        self._estimator = estimator

    def fit(
        self, x: Any, y: Any, batch_size: int = 128, steps: int | None = None, max_steps: int | None = None,
        monitors: Any = None,
    ) -> SKCompat:  # fmt: skip
        """Trains with arrays."""
        self._estimator.fit(x, y, None, steps, batch_size, monitors, max_steps)
        return self

    def score(
        self, x: Any, y: Any, batch_size: int = 128, steps: int | None = None, metrics: Any = None,
        name: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Loss and metrics for arrays."""
        return self._estimator.evaluate(x, y, batch_size=batch_size, steps=steps, metrics=metrics, name=name)

    def predict(self, x: Any, batch_size: int = 128, outputs: Any = None) -> Any:
        """The predictions of all rows."""
        return self._estimator.predict(x, batch_size=batch_size, outputs=outputs, as_iterable=False)


def one_prediction(rows: Any, key: str, as_iterable: bool) -> Any:
    """One entry of all predictions."""
    return _each(rows, key) if as_iterable else rows[key]


def _each(rows: Any, key: str) -> Iterator[Any]:
    for row in rows:
        yield row[key]
