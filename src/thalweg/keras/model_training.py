"""compile, fit, evaluate and predict of models: steps of a session over batches of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from thalweg.graph import tensor_shape
from thalweg.keras.backend_state import get_session, learning_phase
from thalweg.keras.eager_training import EagerSteps, batch_loss
from thalweg.keras.loss_functions import losses, metrics
from thalweg.keras.metric_objects import Metric
from thalweg.keras.optimizer_classes import optimizer_of
from thalweg.keras.public_names import tf
from thalweg.keras.training_callbacks import CallbackList, History


class Training:
    """The methods of models that train and predict."""

    name: Any
    inputs: Any
    outputs: Any
    output_names: Any

    def _start_training_state(self) -> None:
        self.optimizer: Any = None
        self.history: Any = None
        self.stop_training = False
        self._loss: Any = None
        self._metrics: Any = []
        self._weights_of_losses: Any = None
        self._steps: dict[str, Any] = {}
        self._run_eagerly = False
        self._num_eager_outputs = 1

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, loss_weights: Any = None,
        run_eagerly: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Says how the model is trained.

        Args:
            optimizer: A name, a Keras optimizer, or one of `tf.train`.
            loss: A function or its name; a list or a dict of them where there are several outputs.
            metrics: Further functions or names; 'accuracy' is the one that fits the loss.
            loss_weights: Factors of the losses of several outputs.
            run_eagerly: Whether steps run op by op where ops run at once, instead of as a function.
            **kwargs: Nothing else: an error.
        """
        kwargs = {key: value for key, value in kwargs.items() if value is not None}
        if kwargs:
            raise TypeError(f"compile does not take {', '.join(kwargs)} here.")
        self._run_eagerly = run_eagerly
        self.optimizer = optimizer_of(optimizer)
        chosen = metrics if isinstance(metrics, Mapping) else list(metrics or ())
        self._loss, self._metrics, self._weights_of_losses = loss, chosen, loss_weights
        self._steps = {}

    @property
    def metrics_names(self) -> list[str]:
        """The names of what `evaluate` returns."""
        if self._steps:
            return list(self._steps["names"])
        return ["loss", *(_metric_name(metric) for _, metric in self._chosen_metrics())]

    def _per_output(self, value: Any) -> list[Any]:
        count = len(self.outputs) or self._num_eager_outputs
        if isinstance(value, Mapping):
            return [value.get(name) for name in self.output_names]
        return list(value) if isinstance(value, (list, tuple)) else [value] * count

    def _prepare_call(self, x: list[np.ndarray]) -> None:
        """Subclasses with a `call` of their own learn their inputs from the first data."""
        model: Any = self
        if model._outputs is None:
            made = [tf.keras.layers.Input(batch_shape=(None, *each.shape[1:]), dtype=_kind(each)) for each in x]
            model._inputs = made[0] if len(made) == 1 else made
            model._outputs = model(model._inputs)

    def _prepare_steps(self, y: list[np.ndarray]) -> dict[str, Any]:
        if self._steps:
            return self._steps
        if self.optimizer is None:
            raise RuntimeError("You must compile a model before training or testing: use `model.compile`.")
        model: Any = self
        with model._graph.as_default(), tf.name_scope("training"):
            targets, parts, scaled = [], [], []
            weights = tf.placeholder_with_default(np.ones(1, np.float32), [None], name="sample_weights")
            factors = self._per_output(self._weights_of_losses if self._weights_of_losses is not None else 1.0)
            for output, data, loss, factor in zip(self.outputs, y, self._per_output(self._loss), factors, strict=True):
                target = tf.placeholder(_kind(data), [None] * max(data.ndim, 2), name="target")
                targets.append(target)
                if loss is not None:
                    parts.append(batch_loss(losses.get(loss), target, output, weights))
                    scaled.append(factor * parts[-1])
            if not parts and not model.losses:
                raise ValueError("The model cannot be compiled because it has no loss to optimize.")
            total = tf.add_n([*scaled, *(tf.cast(each, tf.float32) for each in model.losses)])
            names, values = ["loss"], [total]
            if len(self.outputs) > 1:
                names += [f"{name}_loss" for name in self.output_names]
                values += parts
            states = []
            for index, metric in self._chosen_metrics():
                output, target = self.outputs[index], targets[index]
                prefix = f"{self.output_names[index]}_" if len(self.outputs) > 1 else ""
                if isinstance(metric, Metric):
                    states.append((len(values), metric))
                names.append(prefix + _metric_name(metric))
                function = _metric(metric, output, target, self._per_output(self._loss)[index])
                values.append(tf.reduce_mean(tf.cast(function(target, output), tf.float32)))
            self._steps = {"names": names, "values": values, "targets": targets, "weights": weights, "loss": total,
                           "states": states}  # fmt: skip
        return self._steps

    def _chosen_metrics(self) -> list[tuple[int, Any]]:
        """The metrics, each with the number of its output: for every output, or as a dict or a list of lists says."""
        given = self._metrics
        if isinstance(given, Mapping):
            by_output = [given.get(name) for name in self.output_names]
        elif len(self.outputs) > 1 and len(given) == len(self.outputs) and any(isinstance(m, list) for m in given):
            by_output = list(given)
        else:
            return [
                (index, metric) for metric in given for index in range(len(self.outputs) or self._num_eager_outputs)
            ]
        lists = [each if isinstance(each, (list, tuple)) else [] if each is None else [each] for each in by_output]
        return [(index, metric) for index, metrics_of_one in enumerate(lists) for metric in metrics_of_one]

    def _train_op(self) -> Any:
        model: Any = self
        if "train" not in self._steps:
            with model._graph.as_default(), tf.name_scope("training"):
                updates = self.optimizer.get_updates(self._steps["loss"], model.trainable_weights)
                self._steps["train"] = tf.group(*updates, *model.updates)
        return self._steps["train"]

    def _feed(
        self, x: list[np.ndarray], y: list[np.ndarray] | None, training: bool, weights: Any = None
    ) -> dict[Any, Any]:
        model: Any = self
        feed = dict(zip(self.inputs, x, strict=True))
        if y is not None:
            for target, data in zip(self._steps["targets"], y, strict=True):
                feed[target] = data[:, None] if data.ndim == 1 else data
            if weights is not None:
                feed[self._steps["weights"]] = weights
        with model._graph.as_default():
            phase = learning_phase()
        if isinstance(phase, tf.Tensor):
            feed[phase] = training
        return feed

    def _run_batch(self, x: Any, y: Any, training: bool, weights: Any = None) -> list[float]:
        model: Any = self
        xs, ys = _arrays(x), _arrays(y)
        if tf.executing_eagerly():
            return self._run_eager_batch(xs, ys, training, weights)
        self._prepare_call(xs)
        steps = self._prepare_steps(ys)
        fetches = [steps["values"], self._train_op()] if training else [steps["values"]]
        with model._graph.as_default():
            session = get_session()
        return [float(each) for each in session.run(fetches, self._feed(xs, ys, training, weights))[0]]

    def _run_eager_batch(self, x: list[np.ndarray], y: list[np.ndarray], training: bool, weights: Any) -> list[float]:
        inputs, targets = _tensors(x), [_tensor(each[:, None] if each.ndim == 1 else each) for each in y]
        step = self._eager_steps(inputs, training).function("train" if training else "test")
        weights = tf.constant(np.ones(1, np.float32) if weights is None else weights)
        return [float(each) for each in step(inputs, targets, weights)]

    def _eager_steps(self, inputs: Any, training: bool = False) -> EagerSteps:
        """The steps of the model, whose variables and outputs are known once it has been called."""
        model: Any = self
        if training and self.optimizer is None:
            raise RuntimeError("You must compile a model before training or testing: use `model.compile`.")
        if "eager" not in self._steps:
            if not self.outputs:
                found = model(inputs)
                self._num_eager_outputs = 1 if isinstance(found, tf.Tensor) else len(tf.nest.flatten(found))
            steps = EagerSteps(self, self._num_eager_outputs if not self.outputs else len(self.outputs), _metric,
                               _metric_name)  # fmt: skip
            self._steps = {"eager": steps, "names": steps.names, "states": steps.states}
        made: EagerSteps = self._steps["eager"]
        return made

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """One step of training: the loss, or a list of the loss and the metrics."""
        values = self._run_batch(x, y, True, sample_weight)
        return values[0] if len(values) == 1 else values

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """The loss (and the metrics) of one batch."""
        values = self._run_batch(x, y, False, sample_weight)
        return values[0] if len(values) == 1 else values

    def predict_on_batch(self, x: Any) -> Any:
        """The outputs of one batch."""
        model: Any = self
        xs = _arrays(x)
        if tf.executing_eagerly():
            inputs = _tensors(xs)
            outputs = self._eager_steps(inputs).function("predict")(inputs)
            return tf.nest.map_structure(lambda each: each.numpy(), outputs)
        self._prepare_call(xs)
        with model._graph.as_default():
            session = get_session()
        return session.run(model._outputs, self._feed(xs, None, False))

    def fit(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: int = 1,
        callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None, shuffle: bool = True,
        class_weight: Any = None, sample_weight: Any = None, initial_epoch: int = 0, steps_per_epoch: Any = None,
        validation_steps: Any = None, **kwargs: Any,
    ) -> History:  # fmt: skip
        """Trains over arrays, or over what a generator yields.

        Args:
            x: An array, a list of them, a dict by the names of inputs, or a generator of (x, y) batches.
            y: The same for the outputs.
            batch_size: 32 if None.
            epochs: The number of passes.
            verbose: 0 for silence, else a line an epoch.
            callbacks: A list of `tf.keras.callbacks.Callback`.
            validation_split: The share of the last examples that is kept for validation.
            validation_data: (x, y) for validation.
            shuffle: Whether every epoch has another order.
            class_weight: A factor for the examples of each class.
            sample_weight: A factor for each example.
            initial_epoch: The number of the first epoch.
            steps_per_epoch: The number of batches of an epoch of a generator.
            validation_steps: The number of batches of a validation by a generator.
            **kwargs: `workers`, `use_multiprocessing` and the like have no effect.

        Returns:
            An object whose `history` holds the loss and the metrics of each epoch.
        """
        source = None if y is not None or isinstance(x, (np.ndarray, list, dict)) else _endless(x)
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float32)
        if source is None:
            xs, ys = self._named(x), _arrays(y)
            if class_weight is not None:
                classes = ys[0].argmax(-1) if ys[0].ndim > 1 and ys[0].shape[-1] > 1 else ys[0].reshape(-1)
                factors = np.array([class_weight[int(each)] for each in classes], np.float32)
                weights = factors if weights is None else weights * factors
            if validation_split and validation_data is None:
                cut = int(len(xs[0]) * (1.0 - validation_split))
                validation_data = ([each[cut:] for each in xs], [each[cut:] for each in ys])
                xs, ys = [each[:cut] for each in xs], [each[:cut] for each in ys]
                weights = None if weights is None else weights[:cut]
        history = self.history = History()
        self.stop_training = False
        hooks = CallbackList(
            [self.history, *(callbacks or ())], self, {"epochs": epochs, "metrics": self.metrics_names}
        )
        hooks.call("on_train_begin", {})
        for epoch in range(initial_epoch, epochs):
            hooks.call("on_epoch_begin", epoch, {})
            batches = (
                _slices(xs, ys, weights, batch_size or 32, shuffle) if source is None
                else _drawn(x, source, steps_per_epoch)
            )  # fmt: skip
            logs = self._epoch(batches, True, hooks)
            if validation_data is not None:
                found = self._evaluate(validation_data, batch_size or 32, validation_steps)
                logs.update({f"val_{name}": value for name, value in found.items()})
            hooks.call("on_epoch_end", epoch, logs)
            if verbose:
                print(
                    f"Epoch {epoch + 1}/{epochs} - " + " - ".join(f"{key}: {value:.4f}" for key, value in logs.items())
                )
            if self.stop_training:
                break
        hooks.call("on_train_end", {})
        return history

    def fit_generator(self, generator: Any, steps_per_epoch: Any = None, epochs: int = 1, **kwargs: Any) -> History:
        """`fit` over what a generator yields."""
        for key in ("workers", "use_multiprocessing", "max_queue_size"):
            kwargs.pop(key, None)
        return self.fit(generator, steps_per_epoch=steps_per_epoch, epochs=epochs, **kwargs)

    def _epoch(self, batches: Any, training: bool, hooks: Any = None) -> dict[str, float]:
        totals, count, values = np.zeros(0), 0, np.zeros(0)
        for _, metric in self._steps.get("states", ()):
            metric.reset_states()
        for number, (x, y, weights) in enumerate(batches):
            size = len(x[0])
            if hooks is not None:
                hooks.call("on_batch_begin", number, {"batch": number, "size": size})
            values = np.array(self._run_batch(x, y, training, weights))
            totals = size * values if not count else totals + size * values
            count += size
            if hooks is not None:
                hooks.call("on_batch_end", number, {"batch": number, "size": size,
                                                    **dict(zip(self.metrics_names, values, strict=True))})  # fmt: skip
        if not count:
            raise ValueError("There are no examples: the data or the generator is empty.")
        found = totals / count
        for index, _ in self._steps["states"]:
            found[index] = values[index]  # The state has gathered over the batches itself.
        return dict(zip(self.metrics_names, (float(each) for each in found), strict=True))

    def _evaluate(self, data: Any, batch_size: int, steps: Any) -> dict[str, float]:
        if isinstance(data, (tuple, list)):
            weights = None if len(data) < 3 else np.asarray(data[2], np.float32)
            batches = _slices(self._named(data[0]), _arrays(data[1]), weights, batch_size, False)
            return self._epoch(batches, False)
        return self._epoch(_drawn(data, _endless(data), steps), False)

    def evaluate(self, x: Any = None, y: Any = None, batch_size: int | None = None, verbose: int = 1,
                 sample_weight: Any = None, steps: Any = None, **kwargs: Any) -> Any:  # fmt: skip
        """The loss (and the metrics) over arrays or a generator."""
        data = x if y is None else (x, y) if sample_weight is None else (x, y, sample_weight)
        values = list(self._evaluate(data, batch_size or 32, steps).values())
        return values[0] if len(values) == 1 else values

    evaluate_generator = evaluate

    def predict(self, x: Any, batch_size: int | None = None, verbose: int = 0, steps: Any = None, **kwargs: Any) -> Any:
        """The outputs for arrays, as arrays."""
        if not isinstance(x, (np.ndarray, list, tuple, dict)):
            drawn = _drawn(x, _endless(x), steps)
            parts = [self.predict_on_batch(each) for each, _, _ in drawn]
        else:
            xs = self._named(x)
            size = batch_size or 32
            parts = [self.predict_on_batch([each[i : i + size] for each in xs]) for i in range(0, len(xs[0]), size)]
        return tf.nest.map_structure(lambda *each: np.concatenate(each), *parts)

    predict_generator = predict

    def _named(self, x: Any) -> list[np.ndarray]:
        if isinstance(x, Mapping):
            return _arrays([x[tensor.op.name] for tensor in self.inputs])
        return _arrays(x)


def _arrays(values: Any) -> list[np.ndarray]:
    if values is None:
        return []
    if isinstance(values, Mapping):
        values = list(values.values())
    several = isinstance(values, (list, tuple)) and len(values) > 0 and np.ndim(values[0]) > 0
    return [np.asarray(each) for each in values] if several else [np.asarray(values)]


def _kind(array: np.ndarray) -> Any:
    return tf.float32 if array.dtype == np.float64 else tf.as_dtype(array.dtype)


def _slices(xs: Any, ys: Any, weights: Any, size: int, shuffle: bool) -> Iterator[tuple[Any, Any, Any]]:
    count = len(xs[0])
    if any(len(each) != count for each in [*xs, *ys]):
        raise ValueError(f"All arrays should have the same number of examples: {[len(each) for each in [*xs, *ys]]}.")
    # The legacy generator: `np.random.seed` of a program decides the order, as in Keras.
    order = np.random.permutation(count) if shuffle else np.arange(count)  # noqa: NPY002
    for start in range(0, count, size):
        rows = order[start : start + size]
        yield [each[rows] for each in xs], [each[rows] for each in ys], None if weights is None else weights[rows]


def _endless(source: Any) -> Iterator[Any]:
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        while True:
            yield from (source[i] for i in range(len(source)))
            if hasattr(source, "on_epoch_end"):
                source.on_epoch_end()
    yield from source


def _drawn(data: Any, source: Iterator[Any], steps: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The batches of one epoch: a whole pass over a dataset, or so many that a generator yields."""
    if steps is None and isinstance(data, tf.data.Dataset):
        return (_batch(each) for each in data)
    return (_batch(next(source)) for _ in range(_length(data, steps)))


def _length(source: Any, steps: Any) -> int:
    if steps is None and not hasattr(source, "__len__"):
        raise ValueError("`steps_per_epoch=None` is only valid for a generator that has a length.")
    return len(source) if steps is None else int(steps)


def _batch(values: Any) -> tuple[Any, Any, Any]:
    x, y, *weights = values if isinstance(values, tuple) else (values, None)
    return _arrays(x), _arrays(y), np.asarray(weights[0], np.float32) if weights else None


def _tensor(array: np.ndarray) -> Any:
    return tf.constant(array, _kind(array))


def _tensors(arrays: list[np.ndarray]) -> Any:
    """What a model is called with: one tensor, or a list of them."""
    return _tensor(arrays[0]) if len(arrays) == 1 else [_tensor(each) for each in arrays]


def _metric_name(metric: Any) -> str:
    if isinstance(metric, str) and tensor_shape.items_are_integers:
        return metric  # Where TensorFlow 2's behaviour is on, as it was given.
    if metric in ("accuracy", "acc"):
        return "acc"  # As in TensorFlow 1: programs look for it in the history.
    function = metrics.get(metric) if isinstance(metric, str) else metric
    return str(getattr(function, "name", None) or getattr(function, "__name__", "metric"))


def _metric(metric: Any, output: Any, target: Any, loss: Any) -> Any:
    if isinstance(metric, Metric):
        return metric
    if metric not in ("accuracy", "acc"):
        return metrics.get(metric)
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    if output.shape.as_list()[-1] == 1 or name.lower().startswith("binary"):
        return metrics.get("binary_accuracy")
    kind = "sparse_categorical_accuracy" if name.lower().startswith("sparse") else "categorical_accuracy"
    return metrics.get(kind)
