"""tf.contrib.learn.monitors: objects that watch training, run as hooks."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

_SPACE = "contrib.learn.monitors"


@export(f"{_SPACE}.BaseMonitor")
class BaseMonitor:
    """Called before and after each step; subclasses say what they want to see."""

    _estimator: Any = None

    def set_estimator(self, estimator: Any) -> None:
        """Takes the estimator that is trained."""
        self._estimator = estimator

    def begin(self, max_steps: int | None = None) -> None:
        """Called before the first step."""

    def end(self, session: Any = None) -> None:
        """Called after the last step."""

    def epoch_begin(self, epoch: int) -> None:
        """Called at the start of an epoch."""

    def epoch_end(self, epoch: int) -> None:
        """Called at the end of an epoch."""

    def step_begin(self, step: int) -> list[Any]:
        """The tensors to fetch in this step."""
        return []

    def step_end(self, step: int, output: dict[str, Any]) -> bool:
        """Takes what was fetched, by name; true ends the training."""
        return False

    def post_step(self, step: int, session: Any) -> None:
        """Called after each step, with the session."""


@export(f"{_SPACE}.EveryN")
class EveryN(BaseMonitor):
    """Called in the first steps, then in every n-th, and in the last. Steps are counted from 1."""

    def __init__(self, every_n_steps: int = 100, first_n_steps: int = 1) -> None:
        """Takes the distance, and how many steps at the beginning count all."""
        self._every_n_steps, self._first_n_steps = every_n_steps, first_n_steps
        self._last_active = self._last_step = 0

    def every_n_step_begin(self, step: int) -> list[Any]:
        """The tensors to fetch in an active step."""
        return []

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool:
        """Takes what was fetched in an active step; true ends the training."""
        return False

    def every_n_post_step(self, step: int, session: Any) -> None:
        """Called after an active step."""

    def _is_active(self, step: int) -> bool:
        return step <= self._first_n_steps or step - self._last_active >= self._every_n_steps

    def step_begin(self, step: int) -> list[Any]:
        """Asks for tensors in active steps."""
        return list(self.every_n_step_begin(step)) if self._is_active(step) else []

    def step_end(self, step: int, output: dict[str, Any]) -> bool:
        """Passes on what active steps fetched."""
        self._last_step = step
        return bool(self.every_n_step_end(step, output)) if self._is_active(step) else False

    def post_step(self, step: int, session: Any) -> None:
        """Notes the active step."""
        if self._is_active(step):
            self.every_n_post_step(step, session)
            self._last_active = step

    def end(self, session: Any = None) -> None:
        """The last step counts, too."""
        if self._last_step != self._last_active:
            self.every_n_post_step(self._last_step, session)


@export(f"{_SPACE}.StopAtStep")
class StopAtStep(BaseMonitor):
    """Ends the training after some steps, or at a step."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        """Takes either.

        Raises:
            ValueError: If both or none are given.
        """
        if (num_steps is None) == (last_step is None):
            raise ValueError("Exactly one of num_steps and last_step must be given.")
        self._num_steps, self._last_step = num_steps, last_step

    def step_end(self, step: int, output: dict[str, Any]) -> bool:
        """True in the last step."""
        if self._last_step is None:
            self._last_step = step + (self._num_steps or 0) - 1
        return step >= self._last_step


@export(f"{_SPACE}.PrintTensor")
class PrintTensor(EveryN):
    """Logs the values of tensors."""

    def __init__(self, tensor_names: Any, every_n: int = 100, first_n: int = 1) -> None:
        """Takes names of tensors, by tag or as a list."""
        super().__init__(every_n, first_n)
        self._names = tensor_names if isinstance(tensor_names, dict) else {name: name for name in tensor_names}

    def every_n_step_begin(self, step: int) -> list[Any]:
        """The tensors."""
        return list(self._names.values())

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool:
        """Logs them."""
        shown = [f"{tag} = {outputs[name]}" for tag, name in self._names.items() if name in outputs]
        tf.logging.info("Step %d: %s", step, ", ".join(shown))
        return False


@export(f"{_SPACE}.CaptureVariable")
class CaptureVariable(EveryN):
    """Keeps the values of a variable by step."""

    def __init__(self, var_name: str, every_n: int = 100, first_n: int = 1) -> None:
        """Takes the name, such as `w:0`."""
        super().__init__(every_n, first_n)
        self._name = var_name
        self.values: dict[int, Any] = {}

    def every_n_step_begin(self, step: int) -> list[Any]:
        """The variable."""
        return [self._name]

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool:
        """Keeps its value."""
        self.values[step] = outputs[self._name]
        return False


@export(f"{_SPACE}.ValidationMonitor")
class ValidationMonitor(EveryN):
    """Evaluates the model while it is trained, when there is a new checkpoint, and may end the training early."""

    def __init__(
        self, x: Any = None, y: Any = None, input_fn: Any = None, batch_size: int | None = None,
        eval_steps: int | None = None, every_n_steps: int = 100, metrics: Any = None, hooks: Any = None,
        early_stopping_rounds: int | None = None, early_stopping_metric: str = "loss",
        early_stopping_metric_minimize: bool = True, name: str | None = None,
        check_interval_secs: float | None = None,
    ) -> None:  # fmt: skip
        """Takes what `evaluate` takes, and when to give up.

        Raises:
            ValueError: If there is no input.
        """
        super().__init__(every_n_steps, first_n_steps=-1)
        if x is None and input_fn is None:
            raise ValueError("Either x or input_fn should be provided.")
        self._given = {"x": x, "y": y, "input_fn": input_fn, "batch_size": batch_size, "steps": eval_steps,
                       "metrics": metrics, "hooks": hooks, "name": name}  # fmt: skip
        self._rounds, self._metric = early_stopping_rounds, early_stopping_metric
        self._minimize = early_stopping_metric_minimize
        self._latest: Any = None
        self.best_step: int | None = None
        self.best_value: Any = None
        self.best_metrics: Any = None
        self.early_stopped = False

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool:
        """Evaluates, if there is a new checkpoint."""
        latest = tf.train.latest_checkpoint(self._estimator.model_dir)
        if latest is None or latest == self._latest:
            return False
        self._latest = latest
        found = self._estimator.evaluate(checkpoint_path=latest, **self._given)
        tf.logging.info("Validation (step %d): %s", step, ", ".join(f"{k} = {v}" for k, v in sorted(found.items())))
        value = found.get(self._metric)
        if value is None:
            if self._rounds is not None:
                raise ValueError(f"The evaluation has no metric {self._metric!r}: {sorted(found)}.")
            return False
        if self.best_value is None or (value < self.best_value if self._minimize else value > self.best_value):
            self.best_value, self.best_step, self.best_metrics = value, step, found
        self.early_stopped = self._rounds is not None and step - (self.best_step or 0) >= self._rounds
        return self.early_stopped


class _MonitorHook(tf.train.SessionRunHook):
    """Runs a monitor as a hook."""

    def __init__(self, monitor: BaseMonitor) -> None:
        self._monitor = monitor
        self._last_step = 0

    def begin(self) -> None:
        self._step = tf.train.get_global_step()
        self._monitor.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._last_step = int(session.run(self._step))

    def before_run(self, run_context: Any) -> Any:
        asked = self._monitor.step_begin(self._last_step + 1) or []
        graph = tf.get_default_graph()
        self._asked = {each if isinstance(each, str) else each.name: each for each in asked}
        tensors = {name: graph.as_graph_element(each) for name, each in self._asked.items()}
        return tf.train.SessionRunArgs([self._step, tensors])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        # The step's number is fetched before or after its increment: count, and follow what was fetched if it is ahead.
        fetched, outputs = run_values.results
        step = max(self._last_step + 1, int(np.asarray(fetched)))
        self._last_step = step
        if self._monitor.step_end(step, outputs):
            run_context.request_stop()
        self._monitor.post_step(step, run_context.session)

    def end(self, session: Any) -> None:
        self._monitor.end(session)


export_value(_MonitorHook, f"{_SPACE}.RunHookAdapterForMonitors")


@export(f"{_SPACE}.replace_monitors_with_hooks")
def hooks_of(monitors_or_hooks: Any, estimator: Any) -> list[Any]:
    """Hooks as they are, and monitors as hooks."""
    found = []
    for each in monitors_or_hooks or []:
        if isinstance(each, BaseMonitor):
            each.set_estimator(estimator)
            each = _MonitorHook(each)
        found.append(each)
    return found


@export(f"{_SPACE}.SummarySaver")
def summary_saver(
    summary_op: Any, save_steps: int = 100, output_dir: Any = None, summary_writer: Any = None, scaffold: Any = None
) -> Any:
    """A hook that writes a summary every so many steps."""
    return tf.train.SummarySaverHook(
        save_steps, output_dir=output_dir, summary_writer=summary_writer, scaffold=scaffold, summary_op=summary_op
    )


@export(f"{_SPACE}.CheckpointSaver")
def checkpoint_saver(
    checkpoint_dir: Any, save_secs: Any = None, save_steps: Any = None, saver: Any = None,
    checkpoint_basename: str = "model.ckpt", scaffold: Any = None,
) -> Any:  # fmt: skip
    """A hook that saves checkpoints."""
    return tf.train.CheckpointSaverHook(checkpoint_dir, save_secs, save_steps, saver, checkpoint_basename, scaffold)


@export(f"{_SPACE}.NanLoss")
def nan_loss(loss_tensor: Any, every_n_steps: int = 100, fail_on_nan_loss: bool = True) -> Any:
    """A hook that ends the training when the loss is not a number."""
    return tf.train.NanTensorHook(loss_tensor, fail_on_nan_loss)


for _space in (_SPACE, "contrib.learn"):
    export_value(tf.train.NanLossDuringTrainingError, f"{_space}.NanLossDuringTrainingError")
