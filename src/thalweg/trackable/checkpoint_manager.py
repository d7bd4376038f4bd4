"""tf.train.CheckpointManager: numbered checkpoints in a folder, of which the latest are kept."""

from __future__ import annotations

import os
import time
from typing import Any

from thalweg.graph.default_graph import executing_eagerly
from thalweg.platform import gfile
from thalweg.trackable.checkpoint import Checkpoint
from thalweg.trackable.object_restore import session_or_default
from thalweg.train.checkpoints.checkpoint_state import (
    get_checkpoint_state,
    remove_checkpoint,
    write_checkpoint_state,
)


class CheckpointManager:
    """Keeps the latest checkpoints of a `tf.train.Checkpoint` in a folder, and deletes older ones.

    Example:
        >>> manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(1.0)), tempfile.mkdtemp(), 2)
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     paths = [manager.save() for _ in range(3)]
        >>> [os.path.basename(path) for path in manager.checkpoints]
        ['ckpt-2', 'ckpt-3']
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: Any,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Any = None,
    ) -> None:
        """Takes over the checkpoints that the folder's `checkpoint` file names.

        Args:
            checkpoint: What to save.
            directory: The folder; made if it does not exist.
            max_to_keep: How many checkpoints to keep; None for all.
            keep_checkpoint_every_n_hours: Besides these, one is kept for good every so many hours.
            checkpoint_name: The start of the file names.
            step_counter: A variable that counts steps, for `checkpoint_interval`.
            checkpoint_interval: How many steps have to pass between two checkpoints.
            init_fn: Called by `restore_or_initialize` if there is no checkpoint.

        Raises:
            ValueError: If `max_to_keep` is not positive, or an interval is given without a counter.
        """
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}.")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is not None.")
        self._checkpoint = checkpoint
        self._directory = os.fsdecode(directory)
        self._max_to_keep = max_to_keep
        self._hours = keep_checkpoint_every_n_hours
        self._name = checkpoint_name
        self._step_counter = step_counter
        self._interval = checkpoint_interval
        self._last_step: int | None = None
        self._init_fn = init_fn
        state = get_checkpoint_state(self._directory)
        now = time.time()
        self._kept: dict[str, float] = {}  # By path, from the oldest; when each was made.
        self._last_preserved = now
        if state is not None:
            times = list(state.all_model_checkpoint_timestamps) or [now] * len(state.all_model_checkpoint_paths)
            self._kept = dict(zip(state.all_model_checkpoint_paths, times, strict=True))
            self._last_preserved = state.last_preserved_timestamp or now

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def directory(self) -> str:
        """The folder."""
        return self._directory

    @property
    def checkpoint_interval(self) -> int | None:
        """How many steps have to pass between two checkpoints."""
        return self._interval

    @property
    def checkpoints(self) -> list[str]:
        """The prefixes of the checkpoints that are kept, from the oldest to the latest."""
        return list(self._kept)

    @property
    def latest_checkpoint(self) -> str | None:
        """The prefix of the latest checkpoint, for `tf.train.Checkpoint.restore`; None without one."""
        return next(reversed(self._kept), None)

    def save(
        self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None, session: Any = None
    ) -> str | None:
        """Writes a checkpoint, and deletes those that are too many.

        Args:
            checkpoint_number: Its number, also as a variable or tensor; counted by the checkpoint if None.
            check_interval: Whether to do nothing before `checkpoint_interval` steps have passed.
            options: Not used.
            session: The session; the default one if None. An addition to TensorFlow.

        Returns:
            The prefix; None if nothing was written.
        """
        session = None if executing_eagerly() else session_or_default(session)
        if self._interval is not None:
            step = _number(self._step_counter, session)
            if check_interval and self._last_step is not None and step < self._last_step + self._interval:
                return None
            self._last_step = step
        gfile.MakeDirs(self._directory)
        if checkpoint_number is None:
            number = self._checkpoint._count(session)
        else:
            is_plain = isinstance(checkpoint_number, int) or hasattr(checkpoint_number, "__index__")
            number = int(checkpoint_number) if is_plain else _number(checkpoint_number, session)
        path = self._checkpoint.write(f"{os.path.join(self._directory, self._name)}-{number}", session)
        self._kept.pop(path, None)
        self._kept[path] = time.time()
        surplus = self._surplus()
        # The list first: it never names a checkpoint that is gone.
        write_checkpoint_state(
            self._directory, path, self.checkpoints, None, save_relative_paths=True,
            timestamps=list(self._kept.values()), last_preserved_timestamp=self._last_preserved,
        )  # fmt: skip
        for old in surplus:
            remove_checkpoint(old)
        return path

    def _surplus(self) -> list[str]:
        """Takes the checkpoints that are too many from the list; those kept for good are not among the returned."""
        found: list[str] = []
        while self._max_to_keep is not None and len(self._kept) > self._max_to_keep:
            path, made = next(iter(self._kept.items()))
            del self._kept[path]
            if self._hours is not None and made - self._last_preserved >= self._hours * 3600:
                self._last_preserved = made
            else:
                found.append(path)
        return found

    def restore_or_initialize(self, session: Any = None) -> str | None:
        """Restores the latest checkpoint, or calls `init_fn` if there is none.

        Args:
            session: The session; the default one if None. An addition to TensorFlow.

        Returns:
            The prefix of the restored checkpoint, or None.
        """
        latest = self.latest_checkpoint
        if latest is not None:
            self._checkpoint.restore(latest).initialize_or_restore(session)
            if self._interval is not None:
                at_once = executing_eagerly()
                self._last_step = _number(self._step_counter, None if at_once else session_or_default(session))
        elif self._init_fn is not None:
            self._init_fn()
        return latest


def _number(value: Any, session: Any) -> int:
    """The value of a variable or tensor, in a session if there is one."""
    return int(value.numpy() if session is None else session.run(value))
