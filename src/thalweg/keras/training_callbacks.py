"""tf.keras.callbacks: what a program does between the steps and epochs of `fit`."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.definitions.op_registry import export
from thalweg.keras.backend_state import get_session


@export("keras.callbacks.Callback")
class Callback:
    """Methods that `fit` calls. Subclasses override those that they need."""

    model: Any = None
    params: Any = None

    def set_model(self, model: Any) -> None:
        """Takes the model."""
        self.model = model

    def set_params(self, params: Any) -> None:
        """Takes a dict of the arguments of `fit`."""
        self.params = params

    def on_train_begin(self, logs: Any = None) -> None:
        """Before the first epoch."""

    def on_train_end(self, logs: Any = None) -> None:
        """After the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch, with its loss and metrics."""

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch, with its loss and metrics."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch: calls `on_batch_begin`."""
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch: calls `on_batch_end`."""
        self.on_batch_end(batch, logs)


class CallbackList:
    """Callbacks as one."""

    def __init__(self, callbacks: list[Any], model: Any, params: Any) -> None:
        """Takes the callbacks, and what they are told."""
        self._callbacks = callbacks
        for each in callbacks:
            each.set_model(model)
            each.set_params(params)

    def call(self, method: str, *args: Any) -> None:
        """Calls a method of all."""
        for each in self._callbacks:
            batch = method.replace("on_batch", "on_train_batch")
            getattr(each, batch if hasattr(each, batch) else method)(*args)


@export("keras.callbacks.History")
class History(Callback):
    """The loss and the metrics of each epoch."""

    def __init__(self) -> None:
        """Starts empty."""
        self.epoch: list[int] = []
        self.history: dict[str, list[Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Notes them."""
        self.epoch.append(epoch)
        for key, value in (logs or {}).items():
            self.history.setdefault(key, []).append(value)


@export("keras.callbacks.LambdaCallback")
class LambdaCallback(Callback):
    """Functions as a callback."""

    def __init__(self, **functions: Any) -> None:
        """Takes functions by the names of the methods."""
        for name, function in functions.items():
            if not hasattr(Callback, name):
                raise TypeError(f"A callback has no method {name}.")
            if function is not None:
                setattr(self, name, function)


class _Watching(Callback):
    """Compares a value of each epoch with the best one."""

    def __init__(self, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"The mode is 'auto', 'min' or 'max', not {mode!r}.")
        self.monitor = monitor
        rising = mode == "max" or (mode == "auto" and ("acc" in monitor or "auc" in monitor.lower()))
        self._sign, self._delta = (1.0 if rising else -1.0), abs(min_delta)
        self.best: float = -np.inf * self._sign

    def _is_better(self, logs: Any) -> bool | None:
        value = (logs or {}).get(self.monitor)
        if value is None:
            return None
        if self._sign * value - self._delta > self._sign * self.best:
            self.best = value
            return True
        return False


@export("keras.callbacks.EarlyStopping")
class EarlyStopping(_Watching):
    """Stops when a value has not become better for some epochs."""

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0, verbose: int = 0,
                 mode: str = "auto", baseline: Any = None, restore_best_weights: bool = False) -> None:  # fmt: skip
        """Takes the name of the value, how much counts as better, and the number of epochs."""
        super().__init__(monitor, mode, min_delta)
        if baseline is not None:
            self.best = baseline
        self.patience, self.stopped_epoch, self._waited = patience, 0, 0
        self.restore_best_weights = restore_best_weights
        self._weights: Any = None

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Looks at the value."""
        better = self._is_better(logs)
        if better:
            self._waited = 0
            self._weights = self.model.get_weights() if self.restore_best_weights else None
        elif better is not None:
            self._waited += 1
            if self._waited >= self.patience:
                self.stopped_epoch, self.model.stop_training = epoch, True
                if self._weights is not None:
                    self.model.set_weights(self._weights)


@export("keras.callbacks.ModelCheckpoint")
class ModelCheckpoint(_Watching):
    """Saves the variables after epochs, as a checkpoint."""

    def __init__(self, filepath: str, monitor: str = "val_loss", verbose: int = 0, save_best_only: bool = False,
                 save_weights_only: bool = True, mode: str = "auto", save_freq: str = "epoch",
                 period: int = 1) -> None:  # fmt: skip
        """Takes a path with fields such as {epoch:02d} and {val_loss:.2f}."""
        super().__init__(monitor, mode)
        if not save_weights_only:
            raise NotImplementedError("Only variables are saved: save_weights_only=True.")
        self.filepath, self.save_best_only, self.period = filepath, save_best_only, period

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves."""
        if (epoch + 1) % self.period == 0 and (not self.save_best_only or self._is_better(logs)):
            self.model.save_weights(self.filepath.format(epoch=epoch + 1, **(logs or {})))


@export("keras.callbacks.LearningRateScheduler")
class LearningRateScheduler(Callback):
    """Sets the rate of each epoch."""

    def __init__(self, schedule: Any, verbose: int = 0) -> None:
        """Takes a function of the epoch, or of the epoch and the rate."""
        self.schedule = schedule

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Sets it."""
        rate, session = self.model.optimizer.lr, get_session()
        try:
            value = self.schedule(epoch, float(session.run(rate)))
        except TypeError:
            value = self.schedule(epoch)
        rate.load(float(value), session)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Adds the rate to what the history keeps."""
        logs["lr"] = float(get_session().run(self.model.optimizer.lr))


@export("keras.callbacks.ReduceLROnPlateau")
class ReduceLROnPlateau(_Watching):
    """Lowers the rate when a value has not become better for some epochs."""

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0,
                 mode: str = "auto", min_delta: float = 1e-4, cooldown: int = 0,
                 min_lr: float = 0) -> None:  # fmt: skip
        """Takes the name of the value, the factor and the number of epochs."""
        super().__init__(monitor, mode, min_delta)
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau does not support a factor >= 1.0.")
        self.factor, self.patience, self.cooldown, self.min_lr = factor, patience, cooldown, min_lr
        self._waited, self._cooling = 0, 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Looks at the value."""
        better = self._is_better(logs)
        if self._cooling:
            self._cooling -= 1
            self._waited = 0
        if better is None or better:
            self._waited = 0
        elif not self._cooling:
            self._waited += 1
            if self._waited >= self.patience:
                rate, session = self.model.optimizer.lr, get_session()
                rate.load(max(float(session.run(rate)) * self.factor, self.min_lr), session)
                self._cooling, self._waited = self.cooldown, 0
