"""tf.train.BestSaver: keeps the checkpoints that did best by some measure. Thalweg's own; TensorFlow has none."""

from __future__ import annotations

import math
import os
from typing import Any

from thalweg.graph.definitions.op_registry import export
from thalweg.platform import gfile, logging
from thalweg.platform.file_paths import local_path
from thalweg.train.checkpoints.checkpoint_state import (
    checkpoint_exists,
    remove_checkpoint,
    write_checkpoint_state,
    write_durably,
)
from thalweg.train.checkpoints.saver import Saver


@export("train.BestSaver")
class BestSaver:
    """Saves a checkpoint if it is among the best so far, and deletes the one that it replaces.

    The directory's `best_checkpoint` file names them as `checkpoint` does, so that
    `tf.train.latest_checkpoint(directory, "best_checkpoint")` is the best one; `best_checkpoint.json` has the values.
    A restarted program goes on where it was.

    Example:
        >>> v = tf.Variable(0.0, name="v")
        >>> saver = tf.train.BestSaver(os.path.join(tempfile.mkdtemp(), "model"), max_to_keep=2)
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     for step, accuracy in enumerate([0.1, 0.7, 0.4, 0.6]):
        ...         path = saver.save(sess, accuracy, global_step=step)
        >>> [(os.path.basename(path), value) for path, value in saver.checkpoints]
        [('model-1', 0.7), ('model-3', 0.6)]
    """

    def __init__(
        self,
        save_path: Any,
        max_to_keep: int = 1,
        mode: str = "max",
        saver: Saver | None = None,
        state_filename: str = "best_checkpoint",
        **saver_args: Any,
    ) -> None:
        """Adds the nodes that save to the default graph, unless `saver` has them.

        Args:
            save_path: The prefix of the checkpoints.
            max_to_keep: How many of the best to keep.
            mode: 'max' if larger values are better, 'min' if smaller ones are.
            saver: The Saver; its own list of checkpoints is not used.
            state_filename: The name of the file that names the checkpoints.
            **saver_args: Arguments of a new Saver.

        Raises:
            ValueError: If `max_to_keep` or `mode` is not valid.
        """
        if mode not in ("max", "min"):
            raise ValueError(f"mode must be 'max' or 'min', got {mode!r}.")
        if max_to_keep < 1:
            raise ValueError(f"max_to_keep must be at least 1, got {max_to_keep}.")
        self._save_path = os.fsdecode(save_path)
        self._directory = os.path.dirname(self._save_path)
        self._max_to_keep = max_to_keep
        self._sign = 1 if mode == "max" else -1
        self._state_filename = state_filename
        self.saver = saver or Saver(**{**saver_args, "max_to_keep": None})
        self._checkpoints: list[tuple[str, float]] = self._read_state()

    @property
    def checkpoints(self) -> list[tuple[str, float]]:
        """The (path, value) of those that are kept, the best one first."""
        return list(self._checkpoints)

    @property
    def best_checkpoint(self) -> str | None:
        """The best one, for `Saver.restore`; None if there is none."""
        return self._checkpoints[0][0] if self._checkpoints else None

    def save(self, sess: Any, value: Any, global_step: Any = None, **save_args: Any) -> str | None:
        """Saves the variables if `value` is among the best; of equal values, the earlier one stays.

        Args:
            sess: The session.
            value: The value of the metric. NaN is never among the best.
            global_step: A number for the name, or a variable or tensor with one.
            **save_args: Further arguments of `Saver.save`.

        Returns:
            The checkpoint's path, or None if it was not saved.
        """
        value = float(value)
        worst = self._checkpoints[-1][1] if len(self._checkpoints) >= self._max_to_keep else None
        if math.isnan(value) or (worst is not None and self._sign * value <= self._sign * worst):
            return None
        path = self.saver.save(sess, self._save_path, global_step, write_state=False, **save_args)
        if path is None:
            return None
        kept = [item for item in self._checkpoints if item[0] != path]
        kept.append((path, value))
        kept.sort(key=lambda item: -self._sign * item[1])
        self._checkpoints, dropped = kept[: self._max_to_keep], kept[self._max_to_keep :]
        self._write_state()
        for old, _ in dropped:
            try:
                remove_checkpoint(old, meta_graph_suffix=save_args.get("meta_graph_suffix", "meta"))
            except Exception as e:
                logging.warning("Ignoring: %s", e)
        return path

    def _values_path(self) -> str:
        return os.path.join(self._directory, self._state_filename + ".json")

    def _write_state(self) -> None:
        import json

        values = {os.path.relpath(path, self._directory or "."): value for path, value in self._checkpoints}
        write_durably(local_path(self._values_path()), json.dumps(values, indent=1).encode())
        paths = [path for path, _ in reversed(self._checkpoints)]
        write_checkpoint_state(self._directory, paths[-1], paths, self._state_filename, True)

    def _read_state(self) -> list[tuple[str, float]]:
        """The checkpoints of an earlier run that still exist, with their values, the best one first."""
        import json

        path = self._values_path()
        if not gfile.Exists(path):
            return []
        try:
            with open(local_path(path), encoding="utf-8") as file:
                values = {str(name): float(value) for name, value in json.load(file).items()}
        except (OSError, ValueError, TypeError, AttributeError) as e:
            logging.warning("%s: ignored (%s)", path, e)
            return []
        found = [(os.path.join(self._directory, name), value) for name, value in values.items()]
        found = [item for item in found if checkpoint_exists(item[0])]
        return sorted(found, key=lambda item: -self._sign * item[1])
