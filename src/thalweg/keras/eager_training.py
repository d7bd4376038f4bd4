"""Steps of training, testing and prediction of Keras models where ops run at once: functions, compiled like a graph's.

A model is traced once per kind of batch; with `run_eagerly=True` it runs op by op.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from thalweg.keras.loss_functions import Loss, losses
from thalweg.keras.metric_objects import Metric
from thalweg.keras.public_names import tf


class EagerSteps:
    """What one `compile` of a model asks for.

    Attributes:
        names: The names of the values that a step gives.
        states: The metrics that gather over batches themselves, each with the place of its value.
    """

    def __init__(self, model: Any, num_outputs: int, metric_of: Callable[..., Any], name_of: Callable[[Any], str]):
        """Takes the model, how many outputs it has, and how the compiled metrics become functions and names."""
        self._model = model
        self._per_output = model._per_output
        self._metric_of = metric_of
        several = num_outputs > 1
        outputs = model.output_names if several else [""]
        self._with_loss = [each is not None for each in self._per_output(model._loss)]
        parts = [f"{name}_loss" for name, has in zip(outputs, self._with_loss, strict=True) if has] if several else []
        self.names = ["loss", *parts]
        self.states: list[tuple[int, Any]] = []
        for index, metric in model._chosen_metrics():
            if isinstance(metric, Metric):
                self.states.append((len(self.names), metric))
            self.names.append((f"{outputs[index]}_" if several else "") + name_of(metric))
        self._functions: dict[str, Any] = {}

    def function(self, kind: str) -> Any:
        """The step of a kind: 'train', 'test' or 'predict'."""
        if kind not in self._functions:
            step: Callable[..., Any] = getattr(self, f"_{kind}")
            if not self._model._run_eagerly:
                step = tf.function(step, autograph=False)
            self._functions[kind] = step
        return self._functions[kind]

    def _predict(self, x: Any) -> Any:
        return self._model(x, training=False) if self._takes_training() else self._model(x)

    def _takes_training(self) -> bool:
        return "training" in inspect.signature(self._model.call).parameters

    def _outputs(self, x: Any, training: bool) -> list[Any]:
        model = self._model
        found = model(x, training=training) if self._takes_training() else model(x)
        return [found] if isinstance(found, tf.Tensor) else tf.nest.flatten(found)

    def _test(self, x: Any, y: Any, weights: Any) -> list[Any]:
        outputs = self._outputs(x, False)
        return self._values(outputs, y, self._losses(outputs, y, weights))

    def _train(self, x: Any, y: Any, weights: Any) -> list[Any]:
        model = self._model
        with tf.GradientTape() as tape:
            outputs = self._outputs(x, True)
            found = self._losses(outputs, y, weights)
        variables = model.trainable_weights
        model.optimizer.apply_gradients(
            [pair for pair in zip(model.optimizer.clipped(tape.gradient(found[0], variables)), variables, strict=True)
             if pair[0] is not None]
        )  # fmt: skip
        return self._values(outputs, y, found)

    def _losses(self, outputs: list[Any], y: list[Any], weights: Any) -> list[Any]:
        """The sum that is minimized, and the loss of each output."""
        model = self._model
        factors = self._per_output(model._weights_of_losses if model._weights_of_losses is not None else 1.0)
        parts, scaled = [], []
        chosen = self._per_output(model._loss)
        if any(self._with_loss) and len(y) != len(outputs):
            raise ValueError(f"The model has {len(outputs)} outputs, but the data has {len(y)} targets.")
        for index, (loss, factor) in enumerate(zip(chosen, factors, strict=True)):
            if loss is not None:
                parts.append(batch_loss(losses.get(loss), y[index], outputs[index], weights))
                scaled.append(factor * parts[-1])
        added = [tf.cast(each, tf.float32) for each in model.losses]
        if not parts and not added:
            raise ValueError("The model cannot be compiled because it has no loss to optimize.")
        return [tf.add_n([*scaled, *added]), *parts]

    def _values(self, outputs: list[Any], y: list[Any], found: list[Any]) -> list[Any]:
        values = [found[0], *(found[1:] if len(self._with_loss) > 1 else [])]
        for index, metric in self._model._chosen_metrics():
            loss = self._per_output(self._model._loss)[index]
            function = self._metric_of(metric, outputs[index], y[index], loss)
            values.append(tf.reduce_mean(tf.cast(function(y[index], outputs[index]), tf.float32)))
        return values


def batch_loss(function: Any, target: Any, output: Any, weights: Any) -> Any:
    """The loss of a batch: the weighted mean over its examples, or what a loss object makes of it."""
    if isinstance(function, Loss):
        return function(target, output) if function.reduction == "sum" else tf.reduce_mean(
            weighted(function.call(target, output), weights))  # fmt: skip
    return tf.reduce_mean(weighted(function(target, output), weights))


def weighted(each: Any, weights: Any) -> Any:
    """Losses of examples times their weights, which have one dimension."""
    shape = tf.concat([tf.shape(weights), tf.ones([tf.maximum(tf.rank(each) - 1, 0)], tf.int32)], axis=0)
    return each * tf.cast(tf.reshape(weights, shape), each.dtype)
