"""Exporters: what `train_and_evaluate` exports after evaluations: each model, the last one, or the best."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from thalweg.estimator.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("estimator.Exporter")
class Exporter:
    """Exports a model after an evaluation. Derive from it."""

    @property
    def name(self) -> str:
        """The name of the folder in `export`."""
        raise NotImplementedError

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: Any, eval_result: Any, is_the_final_export: bool
    ) -> Any:
        """Exports the model, if this is the time for it; returns the path or None."""
        raise NotImplementedError


class _SavedModelExporter(Exporter):
    def __init__(
        self, name: str, serving_input_receiver_fn: Any, assets_extra: Any = None, as_text: bool = False
    ) -> None:
        if not name:
            raise ValueError('"name" argument is required.')
        self._name = name
        self._receiver_fn = serving_input_receiver_fn
        self._assets_extra, self._as_text = assets_extra, as_text

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self._name

    def _write(self, estimator: Any, export_path: str, checkpoint_path: Any) -> Any:
        return estimator.export_saved_model(
            export_path, self._receiver_fn, self._assets_extra, self._as_text, checkpoint_path
        )


@export("estimator.FinalExporter")
class FinalExporter(_SavedModelExporter):
    """Exports the model once, at the end of the training."""

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: Any, eval_result: Any, is_the_final_export: bool
    ) -> Any:
        """Exports at the end."""
        if not is_the_final_export:
            return None
        tf.logging.info("Performing the final export in the end of training.")
        return self._write(estimator, export_path, checkpoint_path)


def _checked_count(exports_to_keep: int | None) -> int | None:
    if exports_to_keep is not None and exports_to_keep <= 0:
        raise ValueError(f"`exports_to_keep`, if provided, must be a positive number. Got {exports_to_keep}")
    return exports_to_keep


def _remove_old(export_path: str, keep: int | None) -> None:
    """Removes all exports but the newest."""
    if keep is None or not tf.gfile.IsDirectory(export_path):
        return
    exports = sorted((int(entry), entry) for entry in tf.gfile.ListDirectory(export_path) if entry.isdecimal())
    for _, entry in exports[:-keep]:
        with suppress(tf.errors.OpError):
            tf.gfile.DeleteRecursively(os.path.join(export_path, entry))


@export("estimator.LatestExporter")
class LatestExporter(_SavedModelExporter):
    """Exports the model after each evaluation, and keeps the newest exports."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Any,
        assets_extra: Any = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        """Takes the arguments of `Estimator.export_saved_model`, and how many exports to keep."""
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        self._exports_to_keep = _checked_count(exports_to_keep)

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: Any, eval_result: Any, is_the_final_export: bool
    ) -> Any:
        """Exports always."""
        found = self._write(estimator, export_path, checkpoint_path)
        _remove_old(export_path, self._exports_to_keep)
        return found


def loss_smaller(best_eval_result: Any, current_eval_result: Any) -> bool:
    """Whether the current loss is smaller than the best one.

    Raises:
        ValueError: If one of them has no loss.
    """
    for name, result in (("best_eval_result", best_eval_result), ("current_eval_result", current_eval_result)):
        if not result or "loss" not in result:
            raise ValueError(f"{name} cannot be empty or no loss is found in it.")
    return bool(best_eval_result["loss"] > current_eval_result["loss"])


@export("estimator.BestExporter")
class BestExporter(_SavedModelExporter):
    """Exports the model when it is better than all before, also those of an earlier run of the program.

    Args:
        name: The name of the folder in `export`.
        serving_input_receiver_fn: Returns a ServingInputReceiver.
        event_file_pattern: Where the results of earlier evaluations are, beside the model's folder.
        compare_fn: Says of the best and the current result whether the current one is better; by default by the loss.
        assets_extra: Files to add to the exports.
        as_text: Whether to write the text form.
        exports_to_keep: How many exports to keep.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Any = None,
        event_file_pattern: str | None = None,
        compare_fn: Callable[[Any, Any], bool] = loss_smaller,
        assets_extra: Any = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        """Checks the arguments."""
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if compare_fn is None or not callable(compare_fn):
            raise ValueError("`compare_fn` must be a function of the best and the current result.")
        self._compare_fn = compare_fn
        self._pattern = event_file_pattern
        self._exports_to_keep = _checked_count(exports_to_keep)
        self._best: Any = None
        self._knows_history = False

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: Any, eval_result: Any, is_the_final_export: bool
    ) -> Any:
        """Exports if the result is the best."""
        if not self._knows_history and self._pattern:
            self._best = self._best_of_events(os.path.join(estimator.model_dir, self._pattern))
        self._knows_history = True
        if self._best is not None and not self._compare_fn(self._best, eval_result):
            return None
        self._best = eval_result
        found = self._write(estimator, export_path, checkpoint_path)
        _remove_old(export_path, self._exports_to_keep)
        return found

    def _best_of_events(self, pattern: str) -> Any:
        best = None
        for path in tf.gfile.Glob(pattern):
            for event in tf.train.summary_iterator(path):
                result = {
                    value.tag: value.simple_value for value in event.summary.value if value.HasField("simple_value")
                }
                if result and (best is None or self._compare_fn(best, result)):
                    best = result
        return best
