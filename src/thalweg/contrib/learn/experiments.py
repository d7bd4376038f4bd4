"""tf.contrib.learn.Experiment: an estimator with its inputs, and learn_runner, which runs one."""

from __future__ import annotations

import inspect
import math
import os
import time
from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_RUNNER = "contrib.learn.learn_runner"


@export("contrib.learn.ExportStrategy")
class ExportStrategy:
    """How to export a model, and under which name."""

    def __init__(self, name: str, export_fn: Any, strip_default_attrs: bool = False) -> None:
        """Takes a function of estimator, folder and checkpoint."""
        self.name, self.export_fn, self.strip_default_attrs = name, export_fn, strip_default_attrs

    def export(self, estimator: Any, export_path: str, checkpoint_path: Any = None, eval_result: Any = None) -> Any:
        """Exports; returns the folder."""
        options = {"checkpoint_path": checkpoint_path, "eval_result": eval_result}
        names = set(inspect.signature(self.export_fn).parameters)
        return self.export_fn(estimator, export_path, **{k: v for k, v in options.items() if k in names})


@export("contrib.learn.make_export_strategy", "contrib.learn.utils.saved_model_export_utils.make_export_strategy")
def make_export_strategy(
    serving_input_fn: Any, default_output_alternative_key: Any = None, assets_extra: Any = None, as_text: bool = False,
    exports_to_keep: int | None = 5, strip_default_attrs: bool = False,
) -> ExportStrategy:  # fmt: skip
    """A strategy that writes SavedModels and keeps the latest ones."""

    def export_fn(estimator: Any, export_dir_base: str, checkpoint_path: Any = None) -> Any:
        folder = estimator.export_savedmodel(
            export_dir_base, serving_input_fn, assets_extra=assets_extra, as_text=as_text,
            checkpoint_path=checkpoint_path,
        )  # fmt: skip
        kept = sorted(name for name in tf.gfile.ListDirectory(export_dir_base) if name.rstrip("/").isdigit())
        for old in kept[:-exports_to_keep] if exports_to_keep else []:
            tf.gfile.DeleteRecursively(os.path.join(export_dir_base, old))
        return folder

    return ExportStrategy("Servo", export_fn, strip_default_attrs)


@export("contrib.learn.Experiment")
class Experiment:
    """An estimator, the inputs of its training and evaluation, and how many steps of each."""

    def __init__(
        self, estimator: Any, train_input_fn: Any, eval_input_fn: Any, eval_metrics: Any = None,
        train_steps: int | None = None, eval_steps: int | None = 100, train_monitors: Any = None,
        eval_hooks: Any = None, local_eval_frequency: int | None = None, eval_delay_secs: int = 120,
        continuous_eval_throttle_secs: int = 60, min_eval_frequency: int | None = None, check_interval_secs: int = 5,
        delay_workers_by_global_step: bool = False, export_strategies: Any = None,
        train_steps_per_iteration: Any = None, checkpoint_and_export: bool = False, saving_listeners: Any = None,
    ) -> None:  # fmt: skip
        """Takes everything; runs nothing."""
        self.estimator = estimator
        self._train_input_fn, self._eval_input_fn = train_input_fn, eval_input_fn
        self._eval_metrics, self._train_steps, self._eval_steps = eval_metrics, train_steps, eval_steps
        self._train_hooks, self._eval_hooks = list(train_monitors or ()), list(eval_hooks or ())
        self._each = train_steps_per_iteration or min_eval_frequency
        self._delays_by_step = delay_workers_by_global_step
        strategies = export_strategies or []
        self._strategies = strategies if isinstance(strategies, (list, tuple)) else [strategies]

    def extend_train_hooks(self, additional_hooks: Any) -> None:
        """More hooks of the training."""
        self._train_hooks.extend(additional_hooks)

    def _fit(self, max_steps: int | None, *more_hooks: Any) -> None:
        hooks = [*self._train_hooks, *more_hooks]
        if hasattr(self.estimator, "fit"):
            self.estimator.fit(input_fn=self._train_input_fn, max_steps=max_steps, monitors=hooks)
        else:
            self.estimator.train(self._train_input_fn, hooks=hooks, max_steps=max_steps)

    def train(self, delay_secs: int | None = None) -> Any:
        """Trains until `train_steps`. The workers of a cluster begin one after another.

        Args:
            delay_secs: How long to wait before. If None: five seconds for each worker before this one, 60 at most; or
                with `delay_workers_by_global_step` for the others' steps, some 5,500 for the second worker.
        """
        task = self.estimator.config.task_id or 0
        hooks = []
        if delay_secs is None and self._delays_by_step:
            hooks.append(tf.train.GlobalStepWaiterHook(int(8000 * math.log(task + 1))))
        elif delay_secs is None:
            delay_secs = min(60, 5 * task)
        time.sleep(delay_secs or 0)
        self._fit(self._train_steps, *hooks)
        return self.estimator

    def evaluate(self, delay_secs: int | None = None, name: str | None = None) -> dict[str, Any]:
        """Evaluates the latest checkpoint."""
        options: dict[str, Any] = {"metrics": self._eval_metrics} if hasattr(self.estimator, "fit") else {}
        found: dict[str, Any] = self.estimator.evaluate(
            input_fn=self._eval_input_fn, steps=self._eval_steps, hooks=self._eval_hooks, name=name, **options
        )
        return found

    def _export(self, result: dict[str, Any]) -> list[Any]:
        base = os.path.join(self.estimator.model_dir, "export")
        return [
            each.export(self.estimator, os.path.join(base, each.name), eval_result=result) for each in self._strategies
        ]

    def train_and_evaluate(self) -> tuple[dict[str, Any], list[Any]]:
        """Trains and evaluates in turn, exports at the end; returns the metrics and the folders of exports."""
        done = 0
        while self._each and self._train_steps and done + self._each < self._train_steps:
            done += self._each
            self._fit(done)
            self.evaluate(name="one_pass")
        self._fit(self._train_steps)
        result = self.evaluate(name="one_pass")
        return result, self._export(result)

    continuous_train_and_eval = train_and_evaluate
    local_run = train_and_evaluate

    def run_std_server(self) -> None:
        """Serves the own task of the cluster, as parameter servers do, without end.

        Raises:
            ValueError: If the RunConfig describes no cluster, or no task of it.
        """
        config = self.estimator.config
        if not config.cluster_spec or config.task_type is None or not config.master:
            raise ValueError(
                "Could not start server; be sure to specify cluster_spec, task_type and master in RunConfig."
            )
        options = {"job_name": config.task_type, "task_index": config.task_id, "config": config.session_config}
        tf.train.Server(config.cluster_spec, protocol=config.protocol, **options).join()

    def test(self) -> tuple[dict[str, Any], list[Any]]:
        """One step of each, to see that the model works."""
        self._fit(1)
        result = self.evaluate(name="one_pass")
        return result, self._export(result)


def _schedule(config: Any) -> str:
    """What the own task does: it trains, evaluates, too, if it is the master, or serves."""
    if not config.cluster_spec:
        return "train_and_evaluate"
    schedules = {"master": "train_and_evaluate", "ps": "run_std_server", "worker": "train", "chief": "train"}
    if config.task_type not in schedules:
        raise ValueError(f"No default schedule for task type: {config.task_type}. Please specify a schedule.")
    return schedules[config.task_type]


@export(f"{_RUNNER}.run")
def run(
    experiment_fn: Any, output_dir: Any = None, schedule: str | None = None, run_config: Any = None, hparams: Any = None
) -> Any:
    """Makes an experiment (of an output folder, or of run_config and hparams) and runs it: by default all of it.

    Raises:
        ValueError: If the experiment has no such schedule.
    """
    if run_config is not None:
        experiment = experiment_fn(run_config=run_config, hparams=hparams)
        schedule = schedule or _schedule(run_config)
    else:
        experiment = experiment_fn(output_dir)
    if not isinstance(experiment, Experiment):
        raise TypeError(f"experiment_fn must return an Experiment, got {experiment!r}.")
    task = getattr(experiment, schedule or "train_and_evaluate", None)
    if not callable(task):
        raise ValueError(f"Schedule references non-existent task {schedule!r}.")
    return task()
