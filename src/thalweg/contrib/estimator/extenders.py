"""Estimators and optimizers that do something more: further metrics, forwarded features, clipped gradients."""

from __future__ import annotations

import inspect
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


class _ClippedOptimizer(tf.train.Optimizer):
    """Another optimizer, whose gradients are clipped together."""

    def __init__(self, optimizer: Any, clip_norm: float) -> None:
        super().__init__(False, "TransformGradients" + type(optimizer).__name__)
        self._optimizer = optimizer
        self._clip_norm = clip_norm

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], self._clip_norm)
        variables = [variable for _, variable in pairs]
        return self._optimizer.apply_gradients(list(zip(clipped, variables, strict=True)), global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot_names(*args, **kwargs)


@export("contrib.estimator.clip_gradients_by_norm")
def clip_gradients_by_norm(optimizer: Any, clip_norm: float) -> Any:
    """An optimizer that clips gradients, all together, to a norm before it applies them."""
    return _ClippedOptimizer(optimizer, clip_norm)


def _changed(estimator: Any, change: Any) -> Any:
    """An estimator whose EstimatorSpecs are changed by a function of features, labels, mode, config and the spec."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        given = dict(features) if isinstance(features, dict) else features
        return change(given, labels, mode, config, estimator.model_fn(features, labels, mode, config))

    return tf.estimator.Estimator(model_fn, estimator.model_dir, estimator.config)


@export("contrib.estimator.add_metrics")
def add_metrics(estimator: Any, metric_fn: Any) -> Any:
    """An estimator with further metrics.

    Args:
        estimator: An Estimator.
        metric_fn: A function of any of `features`, `labels`, `predictions` and `config`; gives a dict of metrics.

    Raises:
        ValueError: If the function takes anything else.
    """
    names = set(inspect.signature(metric_fn).parameters)
    known = {"features", "labels", "predictions", "config"}
    if names - known:
        raise ValueError(f"metric_fn ({metric_fn}) has following not expected args: {sorted(names - known)}")

    def change(features: Any, labels: Any, mode: str, config: Any, spec: Any) -> Any:
        if mode != tf.estimator.ModeKeys.EVAL:
            return spec
        given = {"features": features, "labels": labels, "predictions": spec.predictions, "config": config}
        further = metric_fn(**{name: given[name] for name in names})
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **further})

    return _changed(estimator, change)


@export("contrib.estimator.forward_features")
def forward_features(estimator: Any, keys: Any = None, sparse_default_values: Any = None) -> Any:
    """An estimator whose predictions hold features, too: those named, or all.

    Raises:
        ValueError: If a feature is missing, or is a prediction already.
    """
    wanted = [keys] if isinstance(keys, str) else None if keys is None else list(keys)
    defaults = dict(sparse_default_values or {})

    def change(features: Any, labels: Any, mode: str, config: Any, spec: Any) -> Any:
        if spec.predictions is None:
            return spec
        if not isinstance(spec.predictions, dict):
            raise ValueError(f"Predictions should be a dict to be able to forward features. Given: {spec.predictions}")
        predictions = dict(spec.predictions)
        for key in wanted if wanted is not None else list(features):
            if key not in features:
                raise ValueError(f"keys should be exist in features. Key ({key}) is not in features dict")
            if key in predictions:
                raise ValueError(f"Cannot forward feature key ({key}). Since it does exist in predictions.")
            value = features[key]
            if isinstance(value, tf.SparseTensor):
                if key not in defaults:
                    raise ValueError(f"feature '{key}' is sparse: sparse_default_values must say what fills it")
                value = tf.sparse_tensor_to_dense(value, defaults[key])
            predictions[key] = value
        outputs = {
            name: type(output)({**output.outputs, **{k: v for k, v in predictions.items() if k not in output.outputs}})
            if isinstance(output, tf.estimator.export.PredictOutput) else output
            for name, output in (spec.export_outputs or {}).items()
        }  # fmt: skip
        return spec._replace(predictions=predictions, export_outputs=outputs or spec.export_outputs)

    return _changed(estimator, change)
