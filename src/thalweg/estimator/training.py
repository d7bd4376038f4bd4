"""train_and_evaluate: trains and evaluates in turns, in one process or as one task of a cluster."""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

from thalweg.estimator.estimator import Estimator
from thalweg.estimator.exporters import Exporter
from thalweg.estimator.public_names import tf
from thalweg.estimator.run_config import TaskType
from thalweg.graph.definitions.op_registry import export

_MOST_DELAY_SECS = 60
_DELAY_SECS_PER_WORKER = 5


def _checked_hooks(hooks: Any) -> tuple[Any, ...]:
    given: tuple[Any, ...] = tuple(hooks or ())
    for hook in given:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"All hooks must be `SessionRunHook` instances, given: {hook!r}")
    return given


class _Train(NamedTuple):
    input_fn: Any
    max_steps: int | None
    hooks: tuple[Any, ...]
    saving_listeners: tuple[Any, ...]


@export("estimator.TrainSpec")
class TrainSpec(_Train):
    """How to train.

    Args:
        input_fn: The input.
        max_steps: Until which global step; None for as long as there is input.
        hooks: Hooks of all workers.
        saving_listeners: CheckpointSaverListeners.
    """

    __slots__ = ()

    def __new__(
        cls, input_fn: Any, max_steps: int | None = None, hooks: Any = None, saving_listeners: Any = None
    ) -> TrainSpec:
        """Checks the arguments."""
        if not callable(input_fn):
            raise TypeError(f"`input_fn` must be callable, given: {input_fn!r}")
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        return super().__new__(cls, input_fn, max_steps, _checked_hooks(hooks), tuple(saving_listeners or ()))


class _Eval(NamedTuple):
    input_fn: Any
    steps: int | None
    name: str | None
    hooks: tuple[Any, ...]
    exporters: tuple[Any, ...]
    start_delay_secs: float
    throttle_secs: float


@export("estimator.EvalSpec")
class EvalSpec(_Eval):
    """How to evaluate and export.

    Args:
        input_fn: The input.
        steps: The number of batches; None for all.
        name: Distinguishes several evaluations.
        hooks: Hooks of the evaluation.
        exporters: Exporters.
        start_delay_secs: When the evaluator of a cluster begins.
        throttle_secs: The least time between evaluations.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Any,
        steps: int | None = 100,
        name: str | None = None,
        hooks: Any = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        """Checks the arguments."""
        if not callable(input_fn):
            raise TypeError(f"`input_fn` must be callable, given: {input_fn!r}")
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be string, given: {name!r}")
        if start_delay_secs < 0 or throttle_secs < 0:
            raise ValueError(
                f"start_delay_secs and throttle_secs must be at least 0, given: {start_delay_secs}, {throttle_secs}"
            )
        if exporters is None:
            exporters = ()
        elif isinstance(exporters, Exporter):
            exporters = (exporters,)
        names = set()
        for exporter in exporters:
            if not isinstance(exporter, Exporter):
                raise TypeError(f"`exporters` must be Exporters, given: {exporter!r}")
            if exporter.name in names:
                raise ValueError(
                    f"`exporters` must have unique names. Such a name has been found twice: {exporter.name}."
                )
            names.add(exporter.name)
        return super().__new__(
            cls, input_fn, steps, name, _checked_hooks(hooks), tuple(exporters), start_delay_secs, throttle_secs
        )


@export("estimator.train_and_evaluate")
def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any) -> Any:
    """Trains a model, and evaluates and exports it in between.

    In one process, an evaluation follows each checkpoint, but not more often than `throttle_secs` says, and one the
    end. In a cluster (see `tf.estimator.RunConfig`: TF_CONFIG) this process does what its task is for: 'chief' and
    'worker' train, 'ps' serves variables, 'evaluator' waits for checkpoints and evaluates them.

    Args:
        estimator: An Estimator.
        train_spec: A TrainSpec.
        eval_spec: An EvalSpec.

    Returns:
        In one process, the last metrics and the paths of the exports.

    Raises:
        ValueError: If the cluster or the task are not right.
    """
    for name, value, kind in (
        ("estimator", estimator, Estimator), ("train_spec", train_spec, TrainSpec), ("eval_spec", eval_spec, EvalSpec),
    ):  # fmt: skip
        if not isinstance(value, kind):
            raise TypeError(f"`{name}` must be a {kind.__name__}, got {value!r}.")
    return _Executor(estimator, train_spec, eval_spec).run()


class _Evaluator:
    """Evaluates checkpoints that are new, and exports them."""

    def __init__(self, estimator: Any, spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator, self._spec, self._max_steps = estimator, spec, max_steps
        self._last_path: str | None = None
        self._is_final_exported = False
        self.results: tuple[Any, list[Any]] | None = None

    def evaluate_and_export(self, is_end: bool = False) -> bool:
        """Evaluates the latest checkpoint, unless that was done; says whether it was."""
        path = self._estimator.latest_checkpoint()
        if path is None or path == self._last_path:
            return False
        self._last_path = path
        metrics = self._estimator.evaluate(
            self._spec.input_fn, self._spec.steps, self._spec.hooks, path, name=self._spec.name
        )
        self._export(path, metrics, is_end or self.is_done(metrics))
        return True

    def has_lost_checkpoint(self) -> bool:
        """Whether the checkpoint that was evaluated last is not there any more."""
        return self._last_path is not None and not tf.train.checkpoint_exists(self._last_path)

    def is_done(self, metrics: Any) -> bool:
        """Whether the training has made all of its steps."""
        return bool(self._max_steps and metrics and metrics["global_step"] >= self._max_steps)

    def export_last(self) -> None:
        """At the end of a training that stopped early: the final export."""
        if self.results is not None and not self._is_final_exported:
            self._export(self._last_path, self.results[0], True)

    def _export(self, path: Any, metrics: Any, is_final: bool) -> None:
        exports = []
        for exporter in self._spec.exporters:
            folder = os.path.join(self._estimator.model_dir, "export", exporter.name)
            exports.append(exporter.export(self._estimator, folder, path, metrics, is_final))
        self._is_final_exported = self._is_final_exported or is_final
        self.results = (metrics, exports)


class _EvaluationListener(tf.train.CheckpointSaverListener):
    """Evaluates after checkpoints, but not more often than allowed."""

    def __init__(self, evaluator: _Evaluator, throttle_secs: float) -> None:
        self._evaluator, self._throttle_secs = evaluator, throttle_secs
        self._is_first, self._last = True, time.monotonic()

    def after_save(self, session: Any, global_step_value: Any) -> Any:
        """Called after each checkpoint; the first one is not trained yet."""
        if self._is_first:
            self._is_first, self._last = False, time.monotonic()
            return None
        if time.monotonic() - self._last < self._throttle_secs:
            return None
        self._last = time.monotonic()
        self._evaluator.evaluate_and_export()
        self._last = time.monotonic()
        return None

    def end(self, session: Any, global_step_value: Any) -> None:
        """Called at the end of the training."""


class _Executor:
    """Runs one task."""

    def __init__(self, estimator: Any, train_spec: TrainSpec, eval_spec: EvalSpec) -> None:
        self._estimator, self._train, self._eval = estimator, train_spec, eval_spec
        self._config = estimator.config

    def run(self) -> Any:
        config = self._config
        if not config.cluster_spec.jobs and config.task_type != TaskType.EVALUATOR:
            return self._run_local()
        runs = {
            TaskType.CHIEF: self._run_worker, TaskType.MASTER: self._run_master, TaskType.WORKER: self._run_worker,
            TaskType.PS: self._run_ps, TaskType.EVALUATOR: self._run_evaluator,
        }  # fmt: skip
        if config.task_type not in runs:
            raise ValueError(f"Task type {config.task_type} is not supported. Supported task types are {sorted(runs)}.")
        return runs[config.task_type]()

    def _run_local(self) -> Any:
        evaluator = _Evaluator(self._estimator, self._eval, self._train.max_steps)
        listener = _EvaluationListener(evaluator, self._eval.throttle_secs)
        self._train_model([listener])
        evaluator.evaluate_and_export(is_end=True)
        evaluator.export_last()
        return evaluator.results

    def _train_model(self, listeners: list[Any]) -> None:
        self._estimator.train(
            input_fn=self._train.input_fn, max_steps=self._train.max_steps, hooks=list(self._train.hooks),
            saving_listeners=[*self._train.saving_listeners, *listeners],
        )  # fmt: skip

    def _server(self) -> Any:
        config = self._config
        return tf.train.Server(
            config.cluster_spec, job_name=config.task_type, task_index=config.task_id, config=config.session_config,
            protocol=config.protocol,
        )  # fmt: skip

    def _run_worker(self) -> None:
        config = self._config
        server = self._server()
        try:
            if config.task_type == TaskType.WORKER:
                most = config.experimental_max_worker_delay_secs
                most = _MOST_DELAY_SECS if most is None else most
                time.sleep(min(most, (config.task_id + 1) * _DELAY_SECS_PER_WORKER))
            self._train_model([])
        finally:
            if config.task_type == TaskType.WORKER:
                server.stop()

    def _run_master(self) -> None:
        evaluator = _Evaluator(self._estimator, self._eval, self._train.max_steps)
        self._server()
        self._train_model([_EvaluationListener(evaluator, self._eval.throttle_secs)])
        evaluator.evaluate_and_export(is_end=True)

    def _run_ps(self) -> None:
        self._server().join()

    def _run_evaluator(self) -> None:
        evaluator = _Evaluator(self._estimator, self._eval, self._train.max_steps)
        time.sleep(self._eval.start_delay_secs)
        while True:
            begin = time.monotonic()
            try:
                evaluator.evaluate_and_export()
            except (ValueError, tf.errors.OpError) as e:
                # The trainers keep the newest checkpoints only, and may be faster than an evaluation.
                if not evaluator.has_lost_checkpoint():
                    raise
                tf.logging.warning("A checkpoint was removed while it was evaluated; the next one follows: %s", e)
                continue
            if evaluator.results is not None and evaluator.is_done(evaluator.results[0]):
                return
            time.sleep(max(self._eval.throttle_secs - (time.monotonic() - begin), 1.0))
